"""What is taken back leaves no trace, and what is refused leaves everything as it was."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import viewlet
from tests.linalg.oracle import relative_error, value
from viewlet import linalg

STRATEGIES = ["incremental", "hybrid", "reevaluate", "auto"]
SIZES = {"n": 6, "m": 20, "p": 2}
OLS = "input X(m, n), Y(m, p); beta := inv(X' * X) * X' * Y;"


def started(text: str, strategy: str, sizes: dict[str, int], **options: Any) -> tuple[linalg.Run, dict[str, Any]]:
    program = linalg.program(text)
    rng = np.random.default_rng(0)
    inputs = {
        each.name: rng.standard_normal((each.rows.whole(sizes), each.columns.whole(sizes))) for each in program.inputs
    }
    return program.start(**inputs, strategy=strategy, **options), inputs


def assert_right(run: linalg.Run, inputs: dict[str, Any], sizes: dict[str, int], most: float = 1e-10) -> None:
    for name, node in run.program.outputs.items():
        assert relative_error(run[name], value(node, inputs, sizes)) < most, name
    for name, array in inputs.items():
        assert np.array_equal(run[name], array), name


# -- huge numbers that come and go -------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("sides", [SIZES, {"n": 66, "m": 80, "p": 1}])
@pytest.mark.parametrize(
    "text",
    [
        "input A(n, n); C := A^4;",
        'input A(n, n); C := power(A, 4, "telescoped");',
        "input A(n, n); S := power_sum(A, 5);",
        "input A(n, n), B(n, p); T := iterate(A, B, B, 4); D := A * B - 2 * A' * B; output T, D;",
        "input A(n, n); W := inv(A + 20 * I(n)); C := W * A; output W, C;",
        OLS,
        "input X(m, n), Y(m, p); Z := X' * X; beta := inv(Z + 0.5 * I(n)) * X' * Y; output Z, beta;",
        "input X(m, n); H := X * inv(X' * X) * X';",
    ],
)
def test_a_huge_number_that_is_taken_back_leaves_no_trace(text: str, sides: dict[str, int], strategy: str) -> None:
    run, inputs = started(text, strategy, sides)
    name = run.program.inputs[0].name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", linalg.LinAlgWarning)
        for huge in (1e5, -1e8, 1e20, 1e100, 1e200, 1.7e308) if sides is SIZES else (1e9, 1e200):
            for places in ([(1, 2)], [(0, 1), (1, 0)]):
                for row, column in places:
                    with suppress(linalg.MatrixDataError):  # it overflows, or makes an inverse singular
                        run.set(name, row, column, huge)
                for row, column in places:
                    run.set(name, row, column, inputs[name][row, column])
                assert_right(run, inputs, sides)
            with suppress(linalg.MatrixDataError):
                run.set_row(name, 2, np.full(inputs[name].shape[1], huge))
            run.set_row(name, 2, inputs[name][2])
            assert_right(run, inputs, sides)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_small_number_after_a_huge_one_is_there(strategy: str) -> None:
    """Also where others stay huge, so that the view as a whole has not become smaller."""
    start = np.full((40, 70), 1e20)
    run = linalg.program("input A(m, n); C := 2 * A; D := A'; output C, D;").start(A=start, strategy=strategy)
    run.set("A", 3, 4, 1.0)
    assert run["C"][3, 4] == 2.0
    run.set_row("A", 5, np.ones(70))
    run.set_column("A", 6, np.full(40, 1e-9))
    run.apply({"A": linalg.Entries([7, 7], [8, 9], [0.5, 1e19])})
    now = np.array(run["A"])
    assert (now[3, 4], now[5, 5], now[9, 6], now[7, 8]) == (1.0, 1.0, 1e-9, 0.5)
    assert np.array_equal(run["C"], 2 * now)
    assert np.array_equal(run["D"], now.T)


def test_a_small_number_after_a_huge_one_is_in_the_view_of_a_database() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE e (i BIGINT NOT NULL, j BIGINT NOT NULL, x DOUBLE)")
    db.program("doubled", linalg.program("input A(n, n); C := 2 * A;"), A="e")
    db.insert("e", [(0, 0, 1e20), (1, 1, 3.0), (2, 2, 1e20)])
    db.execute("UPDATE e SET x = 1.0 WHERE i = 0")
    assert sorted(db.view("doubled").rows()) == [(0, 0, 2.0), (1, 1, 6.0), (2, 2, 2e20)]
    db.insert("e", [(0, 0, 1e20)])
    db.delete("e", [(0, 0, 1e20)])
    assert sorted(db.view("doubled").rows()) == [(0, 0, 2.0), (1, 1, 6.0), (2, 2, 2e20)]


def test_usual_updates_are_followed() -> None:
    """A guard that evaluates everything at every update would be right, and useless."""
    rng = np.random.default_rng(3)
    for text in ("input A(n, n); C := A^4;", OLS, "input A(n, n); W := inv(A + 9 * I(n));"):
        run, inputs = started(text, "incremental", {"n": 80, "m": 300, "p": 1})
        name = run.program.inputs[0].name
        for step in range(60):
            inputs[name][step] = rng.standard_normal(80) * 10.0 ** rng.uniform(-1, 1)
            run.set_row(name, step, inputs[name][step])
        assert run.statistics.recomputed == 1, text


@pytest.mark.parametrize("size", [9, 70])
def test_changes_that_cancel_in_themselves_are_followed(size: int) -> None:
    """A - A' of a symmetric A is zero, and its changes are not: evaluating it at every update would not help."""
    rng = np.random.default_rng(4)
    half = rng.standard_normal((size, size))
    run = linalg.program("input A(n, n); D := A - A'; C := A * A; E := D * C; output D, C, E;").start(
        A=half + half.T, strategy="incremental"
    )
    for _ in range(40):
        x = rng.standard_normal((size, 1))
        run.update("A", x, x)
    assert run.statistics.recomputed < 8
    assert np.abs(run["D"]).max() < 1e-12
    run.set("A", 0, 1, 1e20)
    run.refresh()
    run.set("A", 0, 1, float(run["A"][1, 0]) + 1.0)
    now = np.array(run["A"])
    assert np.abs(run["D"] - (now - now.T)).max() < 1e-12
    assert relative_error(run["C"], now @ now) < 1e-13


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("cholesky", [True, False])
def test_a_refused_update_never_makes_a_run_unreadable(strategy: str, cholesky: bool) -> None:
    """Rows that are nearly dependent and of very different lengths: X'X has no factor that can be computed."""
    refused = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        count = int(rng.integers(2, 6))
        try:
            run = linalg.program("input X(m, n); W := inv(X' * X);").start(
                X=rng.standard_normal((count + 3, count)), strategy=strategy, cholesky=cholesky
            )
        except linalg.MatrixDataError:
            continue
        for _ in range(8):
            before, inverse = np.array(run["X"]), np.array(run["W"])
            row = rng.standard_normal(count) * 10.0 ** rng.uniform(-6, 7)
            if rng.integers(2):
                row = before[int(rng.integers(count))] * (1 + 1e-9)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", linalg.LinAlgWarning)
                try:
                    run.set_row("X", int(rng.integers(count + 3)), row)
                except linalg.MatrixDataError:
                    refused += 1
                    assert np.array_equal(run["X"], before)
                    assert relative_error(run["W"], inverse) < 1e-12
                    run.error("W")
    assert refused or not cholesky


def test_a_view_without_a_value_leaves_the_inputs_usable() -> None:
    run = linalg.program("input A(n, n); W := inv(A); C := A * A; output W, C;").start(A=np.eye(3))
    run._matrices._stale.update(each.target for each in run._matrices.statements.views)  # as after an interruption
    run._matrices.stored[run.program.inputs[0]][0, 0] = 0.0
    assert run["A"][0, 0] == 0.0
    assert run["C"][1, 1] == 1.0
    with pytest.raises(linalg.MatrixDataError, match="singular"):
        run["W"]
    with pytest.raises(linalg.MatrixDataError, match="singular"):
        run.set("A", 1, 1, 2.0)
    run.set("A", 0, 0, 0.5)
    assert np.array_equal(run["W"], np.diag([2.0, 1.0, 1.0]))


def test_rows_come_and_go_although_a_view_of_all_rows_is_evaluated() -> None:
    """A row of zeros would make X X' singular."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 6))
    run = linalg.program("input X(m, n); H := inv(X * X');").start(X=x)
    for _ in range(3):
        row = rng.standard_normal(6)
        run.append_row("X", row)
        x = np.vstack([x, row])
        assert relative_error(run["H"], np.linalg.inv(x @ x.T)) < 1e-12
    before = np.array(run["H"])
    with pytest.raises(linalg.MatrixDataError, match="singular"):
        run.append_row("X", x[0])
    assert np.array_equal(run["X"], x)
    assert relative_error(run["H"], before) < 1e-15
    run.delete_row("X", 1)
    x = np.delete(x, 1, 0)
    assert relative_error(run["H"], np.linalg.inv(x @ x.T)) < 1e-12
    ols, inputs = started(OLS, "incremental", {"n": 3, "m": 3, "p": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", linalg.LinAlgWarning)
        with pytest.raises(linalg.MatrixDataError, match="singular"):
            ols.delete_row("X", 1)
    assert_right(ols, inputs, {"n": 3, "m": 3, "p": 1}, 1e-9)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_numbers_that_inputs_are_multiplied_by(kind: Any) -> None:
    rng = np.random.default_rng(0)
    now: Any = rng.standard_normal((5, 5)).astype(kind).astype(float)
    run = linalg.program("input A(n, n); C := A * A * A';").start(A=now.astype(kind), strategy="incremental")
    for step in range(400):
        if np.abs(now).max() > 1e6:
            factor = 1e-4 / np.abs(now).max()
        elif np.abs(now).max() < 1e-6:
            factor = 1e4 / np.abs(now).max()
        else:
            factor = 10.0 ** rng.uniform(-3, 3)
        run.scale("A", factor)
        now = now * factor
        u, v = rng.standard_normal((2, 5)).astype(kind) * kind(np.abs(now).max() ** 0.5)
        run.update("A", u, v)
        now = now + np.outer(u.astype(float), v)
        if step % 20 == 19:
            assert relative_error(run["A"], now) < 60 * np.finfo(kind).eps
            assert relative_error(run["C"], now @ now @ now.T) < 300 * np.finfo(kind).eps


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("steps", [1, 3, 40])
def test_a_product_that_overflows_is_refused(kind: Any, steps: int) -> None:
    """At the number that does it, not when the matrix is read."""
    most = float(np.finfo(kind).max) ** 0.34
    run = linalg.program("input A(n, n); C := A * A * A';").start(A=np.eye(3, dtype=kind))
    total = 1.0
    for _ in range(steps - 1):
        run.scale("A", most ** (1 / steps))
        total *= most ** (1 / steps)
    with pytest.raises(linalg.MatrixDataError, match="overflow"):
        run.scale("A", most ** (1 / steps))
    assert np.allclose(run["A"], total * np.eye(3))
    assert np.allclose(run["C"], total**3 * np.eye(3))
    run.scale("A", 1 / total)
    assert np.allclose(run["C"], np.eye(3), rtol=1e-4)


def test_threads_take_turns() -> None:
    rng = np.random.default_rng(0)
    start = rng.standard_normal((60, 60)) / 9
    run = linalg.program("input A(n, n); C := A^4; W := inv(A + 9 * I(n)); output C, W;").start(
        A=start, strategy="incremental"
    )
    changes = [rng.standard_normal((2, 60)) / 40 for _ in range(80)]

    def work(change: Any) -> None:
        run.update("A", change[0], change[1])
        run["C"]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, changes))
    now = start + sum(np.outer(u, v) for u, v in changes)
    assert relative_error(run["A"], now) < 1e-13
    assert relative_error(run["C"], np.linalg.matrix_power(now, 4)) < 1e-11
    assert relative_error(run["W"], np.linalg.inv(now + 9 * np.eye(60))) < 1e-11
