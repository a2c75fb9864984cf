"""Texts and sizes that nobody means: every one is refused by name, at once, and no side is too small."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import viewlet
from viewlet import linalg
from viewlet.errors import ViewletError
from viewlet.linalg import maintained

STRATEGIES = ["incremental", "hybrid", "reevaluate", "auto"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input A(n, n); C := 1e999999999 * A;", "too large for a double"),
        ("input A(n, n); C := A * 1e-999999999;", "too small for a double"),
        ("input A(n, n); C := 9" + "9" * 5000 + " * A;", "too large for a double"),
        ("input A(n, n); C := 2 ^ 999999999 * A;", "too large for a double"),
        ("input A(n, n); C := 10^400 * A;", "too large for a double"),
        ("input A(n, n); C := (1e308 * 10 - 1e308 * 10) * A;", "not a matrix of finite numbers"),
        ("input A(n, n); C := A ^ 999999999;", "steps from 0 to 256"),
        ("input A(n, n); C := A ^ 9" + "9" * 5000 + ";", "larger than 2147483647"),
        ("input A(n, n); C := power(A, 1e308 * 10);", "a whole number"),
        ("input A(n, 9" + "9" * 5000 + "); C := A * A';", "larger than 2147483647"),
        ("input A(n, 99999999999); C := A * A';", "larger than 2147483647"),
        ("input A(n, 99999999999m); C := A * A';", "larger than 2147483647"),
        ("input A(n, n); C := A * I(99999999999);", "larger than 2147483647"),
        ("input A(n, ²); C := A;", "identifier"),
        ("input A(n, n); C := A^²;", "a power is a whole number"),
        ("input A(n, n); C := " + "(" * 5000 + "A" + ")" * 5000 + ";", "nested too deeply"),
        ("input A(n, n); C := " + "-" * 5000 + "A;", "nested too deeply"),
        ("x\0y", "has no meaning here"),
    ],
)
def test_a_text_is_refused_where_it_is_wrong(text: str, message: str) -> None:
    with pytest.raises(linalg.NotationError, match=message):
        linalg.program(text)


def test_long_and_deep_expressions() -> None:
    n, m = linalg.dim("n"), linalg.dim("m")
    a, b = linalg.matrix("A", n, n, dynamic=True), linalg.matrix("B", m, m)
    chain = linalg.program("input A(n, n); C := A" + " * A" * 1500 + ";")
    for use in (str, lambda program: program.explain(), lambda program: program.start(A=np.eye(2))):
        with pytest.raises(linalg.ProgramError, match="nested too deeply: give parts of it names"):
            use(chain)
    total = linalg.program("input A(n, n); C := A" + " + A * A" * 1500 + ";").start(A=np.eye(2))
    assert np.array_equal(total["C"], 1501 * np.eye(2))
    power: Any = a
    for _ in range(100):
        power = power @ power
    with pytest.raises(linalg.ShapeError, match=r"cannot add \(a long expression\) \(n × n\) and B \(m × m\)"):
        power + b
    for wrong in (-1, 2**31, 10**5000):
        with pytest.raises(linalg.ShapeError, match="a side of a matrix has from 0 to 2147483647 places"):
            linalg.matrix("A", wrong, n)
        with pytest.raises(linalg.ShapeError, match="a side of a matrix"):
            linalg.identity(wrong)


def test_a_matrix_that_no_machine_has_room_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    wide = sparse.csr_array((3, 2_000_000_000))
    with pytest.raises(linalg.MatrixDataError, match="C is 2,000,000,000 × 2,000,000,000"):
        linalg.program("input A(n, m); C := A' * A;").start(A=wide)
    monkeypatch.setattr(maintained, "physical_memory", lambda: 1000.0)
    with pytest.raises(linalg.MatrixDataError, match="C is 10 × 10"):
        linalg.program("input A(n, 1); C := A * A';").start(A=np.ones((10, 1)))
    run = linalg.program("input A(n, n); C := A * A;").start(A=np.ones((3, 3)))
    with pytest.raises(linalg.MatrixDataError, match="10,000 × 10,000"):
        run.grow("n", 10_000)
    assert np.array_equal(run["C"], np.full((3, 3), 3.0))


def test_sizes_in_a_database() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE e (i BIGINT NOT NULL, j BIGINT NOT NULL, x DOUBLE)")
    with pytest.raises(viewlet.SqlError, match="a side of 1000000000 places is too large"):
        db.program("wide", linalg.program("input A(n, 1000000000); C := A * A';"), A="e")
    db.program("gram", linalg.program("input A(n, 100000); C := A' * A;"), A="e")
    with pytest.raises(viewlet.DataError, match="100,000 × 100,000"):
        db.insert("e", [(0, 0, 1.0)])
    assert db.table("e").rows() == []


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("cholesky", [True, False])
def test_no_side_is_too_small(strategy: str, cholesky: bool) -> None:
    """Whatever is asked of matrices without rows or columns: an answer, or an error of this library."""
    texts = [
        "input X(m, n), Y(m, p); beta := inv(X' * X) * X' * Y;",
        "input X(m, n), Y(m, p); beta := inv(X' * X + 0.5 * I(n)) * X' * Y;",
        "input X(m, n), Y(m, p); B := [X, Y] * [X, Y]'; T := power_sum(B, 3); output B, T;",
    ]
    answers = 0
    for text, (m, n, p) in itertools.product(texts, itertools.product((0, 2), (0, 1, 2), (0, 1))):
        try:
            run = linalg.program(text).start(X=np.ones((m, n)), Y=np.ones((m, p)), strategy=strategy, cholesky=cholesky)
        except linalg.MatrixDataError:
            assert np.linalg.matrix_rank(np.ones((m, n))) < n
            continue
        ones = {"X": np.ones((2, n)), "Y": np.ones((2, p))}
        asked = [
            lambda run, ones: run.append_row("X", ones["X"][0], Y=ones["Y"][0]),
            lambda run, ones: run.update("X", np.ones(len(run["X"])), np.ones(run["X"].shape[1])),
            lambda run, ones: run.update("Y", np.ones((len(run["Y"]), 0)), np.ones((run["Y"].shape[1], 0))),
            lambda run, ones: run.apply({"X": np.zeros(run["X"].shape), "Y": linalg.Entries([], [], [])}),
            lambda run, ones: run.set("X", 0, 0, 3.0),
            lambda run, ones: run.set_row("Y", 0, 2 * ones["Y"][0]),
            lambda run, ones: run.scale("X", 2.0),
            lambda run, ones: run.refresh(),
            lambda run, ones: run.delete_row("X", 0),
            lambda run, ones: run.grow("p", run["Y"].shape[1] + 1),
            lambda run, ones: run.shrink("n", []),
        ]
        for ask in asked:
            try:
                ask(run, ones)
                answers += 1
            except ViewletError:
                pass
            for name in run.names:
                if name not in ("W", "F", "M"):
                    assert np.isfinite(run[name]).all()
                    assert run.error(name).estimate >= 0
        assert "updates" in run.explain()
    assert answers > 100


def test_blocks_grow_where_their_parts_do() -> None:
    """[X, Y] has the new columns of X in its middle."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
    run = linalg.program("input X(m, n), Y(m, p); B := [X, Y]; G := B' * B; output B, G;").start(X=x, Y=y)
    run.grow("n", 4)
    run.set_row("X", 1, [1.0, 2.0, 3.0, 4.0])
    run.append_row("X", np.ones(4), Y=np.zeros(2))
    x, y = np.vstack([np.pad(x, ((0, 0), (0, 2))), np.ones(4)]), np.vstack([y, np.zeros(2)])
    x[1] = [1, 2, 3, 4]
    assert np.array_equal(run["B"], np.hstack([x, y]))
    assert np.allclose(run["G"], np.hstack([x, y]).T @ np.hstack([x, y]))
    run.set_column("Y", 0, np.zeros(4))
    run.shrink("p", [0])
    assert np.array_equal(run["B"], np.hstack([x, y[:, 1:]]))
    double = linalg.program("input A(2n, n); C := A' * A;").start(A=np.ones((4, 2)))
    with pytest.raises(linalg.ProgramError, match="A has 2n places"):
        double.grow("n", 3)
    assert double["C"].shape == (2, 2)
