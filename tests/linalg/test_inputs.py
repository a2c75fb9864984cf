"""Inputs are exactly what was asked for, whatever their sizes, names and magnitudes, and whatever memory is shared."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.linalg.oracle import value
from viewlet import linalg
from viewlet.errors import ViewletError

STRATEGIES = ["incremental", "hybrid", "reevaluate", "auto"]


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "text",
    [
        "input x(n, 1); y := x';",
        "input x(n, 1); y := x'; z := y * x; output y, z;",
        "input x(n, 1); y := x'; z := y'; output z;",
        "input x(n, 1), A(n, n); xt := x'; q := xt * A * x;",
        "input x(1, n); y := x'; z := x * y; output y, z;",
        "input x(1, 1); y := x'; z := y * x + y; output y, z;",
        "input A(n, n); B := A'; C := B * A; output B, C;",
        "input A(n, n); W := inv(A); V := W'; output W, V;",
        "input X(m, n); V := inv(X' * X)';",
        "input S(n, n) definite; V := inv(S)';",
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_view_shares_no_memory_with_what_it_reads(text: str, strategy: str, sparse: bool) -> None:
    program = linalg.program(text)
    rng, sizes = np.random.default_rng(0), {"n": 5, "m": 9}
    inputs: dict[str, Any] = {}
    for each in program.inputs:
        rows, columns = each.rows.whole(sizes), each.columns.whole(sizes)
        array = rng.standard_normal((rows, columns))
        inputs[each.name] = array.T @ array + np.eye(columns) if each.definite else array
    given = inputs
    if sparse:
        scipy = pytest.importorskip("scipy.sparse")
        given = {name: scipy.csr_array(array) for name, array in inputs.items()}
    run = program.start(**given, strategy=strategy)
    for step in range(4):
        for each in program.inputs:
            now = inputs[each.name].copy()
            if each.definite:
                x = rng.standard_normal((len(now), 1))
                run.update(each.name, x, x)
                now += x @ x.T
            elif step % 2:
                u, v = rng.standard_normal((len(now), 1)), rng.standard_normal((now.shape[1], 1))
                run.update(each.name, u, v)
                now += u @ v.T
            else:
                now[-1] = rng.standard_normal(now.shape[1])
                run.set_row(each.name, -1, now[-1])
            inputs[each.name] = now
        for name, now in inputs.items():
            assert np.allclose(run[name], now, rtol=1e-14, atol=1e-14)
        for name, node in program.outputs.items():
            assert np.allclose(run[name], value(node, inputs, sizes), rtol=1e-9, atol=1e-9)


def test_factors_and_rows_may_be_slices_of_the_run() -> None:
    rng = np.random.default_rng(1)
    run = linalg.program("input A(n, n); B := A * A; C := B * A';").start(A=rng.standard_normal((4, 4)))
    now = np.array(run["A"])
    run.update("A", run["A"][:, 1], run["A"][2])
    now = now + np.outer(now[:, 1], now[2])
    run.set_row("A", 2, run["A"][:, 0])
    now[2] = now[:, 0].copy()
    run.set_column("A", 3, run["A"][1])
    now[:, 3] = now[1].copy()
    run.add("A", run["A"])
    now = 2 * now
    assert np.allclose(run["A"], now, rtol=1e-14)
    assert np.allclose(run["C"], now @ now @ now.T, rtol=1e-12)


def test_an_array_that_is_given_twice_is_two_inputs() -> None:
    given = np.eye(3)
    run = linalg.program("input A(n, n); static B(n, n); C := A * B;").start(A=given, B=given, copy=False)
    run.set("A", 0, 1, 5.0)
    assert np.array_equal(run["B"], np.eye(3))
    assert np.array_equal(run["C"], run["A"])


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("prefix", ["u", "v", "U", "V", "D", "Z"])
def test_no_name_of_a_program_is_that_of_a_factor(prefix: str, strategy: str) -> None:
    rng = np.random.default_rng(2)
    for target in ("A", "B", "W", "M", "T"):
        for columns in (1, 2, 3):
            other = f"{prefix}_{target}"
            program = linalg.program(
                f"input A(n, n); static {other}(n, {columns}); B := A * A; W := inv(B + 9 * I(n)); M := B * B; "
                f"T := W * {other}; {other}_2 := M * T; output T, {other}_2;"
            )
            a, fixed = rng.standard_normal((6, 6)) / 4, rng.standard_normal((6, columns))
            run = program.start(A=a, **{other: fixed}, strategy=strategy)
            u, v = rng.standard_normal((2, 6)) / 4
            run.update("A", u, v)
            inputs = {"A": a + np.outer(u, v), other: fixed}
            assert np.array_equal(run[other], fixed)
            for name, node in program.outputs.items():
                assert np.allclose(run[name], value(node, inputs, {"n": 6}), rtol=1e-9), (other, name)


# -- magnitudes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("sides", [(1, 1), (1, 7), (7, 1), (3, 2), (40, 40), (40, 3)])
def test_a_batch_of_any_rank_adds_all_its_parts(sides: tuple[int, int], kind: Any) -> None:
    """Each entry is off by the rounding of its own terms at most, however large others are."""
    rows, columns = sides
    rng = np.random.default_rng(rows * columns)
    most = 90 if kind is np.float64 else 8
    for rank in range(1, 21):
        start = rng.standard_normal(sides)
        u, v = rng.standard_normal((rows, rank)), rng.standard_normal((columns, rank))
        if rank % 3:  # rows of their own sizes
            u *= rng.random(u.shape) < 0.3
            u *= 10.0 ** rng.integers(-most, most, (rows, 1))
            v *= 10.0 ** rng.integers(-most, most, (columns, 1))
        if rank % 4 == 0:  # columns that occur twice
            u, v = u[:, rng.integers(0, 2, rank)], v
        if rank % 5 == 0:
            u, v = u, v[:, rng.integers(0, 3, rank) % v.shape[1]]
        start, u, v = (array.astype(kind) for array in (start, u, v))
        for batch in ((u, v), list(zip(u.T, v.T, strict=True))):
            run = linalg.program("input A(m, n); C := 2 * A;").start(A=start, strategy="incremental")
            run.apply({"A": batch})
            exact = start.astype(np.longdouble) + u.astype(np.longdouble) @ v.astype(np.longdouble).T
            terms = np.abs(start).astype(np.longdouble) + np.abs(u).astype(np.longdouble) @ np.abs(v).T
            room = (rank + 2) * np.finfo(kind).eps * terms + np.finfo(kind).tiny
            assert (np.abs(run["A"] - exact) <= room).all(), rank
            assert (np.abs(run["C"] - 2 * exact) <= 2 * room).all(), rank


@pytest.mark.parametrize("sparse", [False, True])
def test_entries_are_set_exactly(sparse: bool) -> None:
    start: Any = np.full((3, 4), 1e20)
    if sparse:
        start = pytest.importorskip("scipy.sparse").csr_array((300, 400))
    run = linalg.program("input A(m, n), B(m, n); C := 2 * A + B; S := A * A'; output C, S;").start(A=start, B=start)
    values = [1.0, -1e-200, 0.0, 1e100, 0.1]
    changes = {name: linalg.Entries([0, 1, 2, -1, 0], [0, 0, 1, 3, 0], values) for name in "AB"}
    run.apply(changes)
    for name in "AB":
        now = run[name]
        assert (now[0, 0], now[1, 0], now[2, 1], now[-1, 3]) == (0.1, -1e-200, 0.0, 1e100)
    with pytest.raises(linalg.MatrixDataError, match="no row 300"):
        run.apply({"A": linalg.Entries([300], [0], [1.0])})
    with pytest.raises(linalg.MatrixDataError, match="only finite numbers"):
        run.apply({"A": linalg.Entries([0, 1], [0, 0], [1.0, np.nan])})
    assert run["A"][0, 0] == 0.1


# -- what is no number, or no change -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(
    "value",
    [
        np.ma.masked_array(np.ones((3, 3)), mask=np.eye(3)),
        np.full((3, 3), np.longdouble("1e4000")),
        np.full((3, 3), np.inf),
        [[10**400] * 3] * 3,
        [[None] * 3] * 3,
        np.eye(3) * 1j,
    ],
    ids=["masked", "too large", "infinite", "too large a whole number", "none", "complex"],
)
def test_what_is_no_finite_number_is_refused_by_name_and_without_a_warning(value: Any, kind: Any) -> None:
    program = linalg.program("input A(n, n); C := A * A;")
    run = program.start(A=np.eye(3, dtype=kind))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for use in (
            lambda: program.start(A=value, dtype=kind),
            lambda: run.add("A", value),
            lambda: run.update("A", value, np.eye(3)),
            lambda: run.set_row("A", 0, value[0]),
            lambda: run.set_column("A", 0, value[0]),
            lambda: run.set("A", 0, 0, value[0][0]),
        ):
            with pytest.raises(linalg.MatrixDataError, match=r"^(the .* of |u of )?A "):
                use()
    assert np.array_equal(run["C"], np.eye(3))


def test_a_number_that_float32_does_not_have_is_refused() -> None:
    run = linalg.program("input A(n, n); C := 2 * A;").start(A=np.eye(2, dtype=np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(linalg.MatrixDataError, match="finite"):
            run.set("A", 0, 0, 1e39)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda p, r: r.scale("A", 10**400), "multiplied by a finite number"),
        (lambda p, r: r.scale("A", np.float64(np.nan)), "multiplied by a finite number"),
        (lambda p, r: r.apply("A"), "takes {input: change}"),
        (lambda p, r: r.apply({"A": linalg.Entries([0], [0, 1], [1.0])}), "1 rows, 2 columns and 1 values"),
        (lambda p, r: r.apply({"A": linalg.Entries([0, 1], [0, 1], [1.0])}), "2 rows, 2 columns and 1 values"),
        (lambda p, r: p.start(A=np.eye(2), backend=3), "backend is a name"),
        (lambda p, r: p.start(A=np.eye(2), bounds="no"), "bounds is True or False"),
        (lambda p, r: p.start(A=np.eye(2), cholesky="no"), "cholesky is True or False"),
    ],
)
def test_other_arguments_are_refused_by_name(use: Any, message: str) -> None:
    program = linalg.program("input A(n, n); C := A * A;")
    run = program.start(A=np.eye(2))
    with pytest.raises(ViewletError, match=message):
        use(program, run)
    assert np.array_equal(run["A"], np.eye(2))


@pytest.mark.parametrize("factor", [2, np.float32(2), np.int64(2), Fraction(2)])
def test_an_input_is_multiplied_by_numbers_of_any_type(factor: Any) -> None:
    run = linalg.program("input A(n, n); C := A * A;").start(A=np.eye(2))
    run.scale("A", factor)
    assert np.array_equal(run["C"], 4 * np.eye(2))
