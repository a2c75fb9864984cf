"""Programs that run: after any updates every view equals NumPy's evaluation, and a refused update changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.linalg.oracle import relative_error, value
from viewlet import linalg
from viewlet.linalg.execute import Executor
from viewlet.linalg.expression import Expression, Identity, Zero

n, m, p = linalg.dim("n"), linalg.dim("m"), linalg.dim("p")
A = linalg.matrix("A", n, n, dynamic=True)
B = linalg.matrix("B", n, p, dynamic=True)
S = linalg.matrix("S", n, n)
SIZES = {"n": 7, "p": 2}
STRATEGIES = ["incremental", "hybrid", "reevaluate", "auto"]


def arrays(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    rows, columns = SIZES["n"], SIZES["p"]
    return {
        "A": rng.standard_normal((rows, rows)) / 6,
        "B": rng.standard_normal((rows, columns)),
        "S": rng.standard_normal((rows, rows)) / 6,
    }


def change(run: linalg.Run, inputs: dict[str, Any], rng: np.random.Generator) -> None:
    """One random update, of the run and of the arrays that the oracle evaluates."""
    name = "A" if rng.random() < 0.6 else "B"
    rows, columns = inputs[name].shape
    row, column = int(rng.integers(rows)), int(rng.integers(columns))
    scale = 1 / 6 if name == "A" else 1.0
    kind = rng.integers(6)
    if kind == 0:
        u, v = rng.standard_normal((rows, 2)) * 0.1, rng.standard_normal((columns, 2)) * scale
        run.update(name, u, v)
        inputs[name] = inputs[name] + u @ v.T
    elif kind == 1:
        new = rng.standard_normal(columns) * scale
        run.set_row(name, row, new)
        inputs[name][row] = new
    elif kind == 2:
        new = rng.standard_normal(rows) * scale
        run.set_column(name, column, new)
        inputs[name][:, column] = new
    elif kind == 3:
        run.set(name, row, column, 0.25)
        inputs[name][row, column] = 0.25
    elif kind == 4:
        added = np.zeros((rows, columns))
        added[row] = scale * 0.1
        added[(row + 1) % rows, column] = 0.1
        run.add(name, added)
        inputs[name] += added
    else:
        u, v = rng.standard_normal(7) * 0.1, rng.standard_normal(7) * 0.1
        w, x = rng.standard_normal(7), rng.standard_normal(2)
        run.apply({"A": (u, v), "B": [(w, x), (-0.5 * w, x)]})
        inputs["A"] = inputs["A"] + np.outer(u, v)
        inputs["B"] = inputs["B"] + 0.5 * np.outer(w, x)


@st.composite
def square(draw: st.DrawFn, depth: int = 3) -> Expression:
    """A random expression of shape n × n whose numbers stay small."""
    if depth == 0:
        return draw(st.sampled_from([A, A.T, S, B @ B.T * 0.1, linalg.identity(n)]))
    part = square(depth - 1)
    kind = draw(st.integers(0, 8))
    if kind <= 2:
        return draw(part) @ draw(part)
    if kind == 3:
        return draw(part) + 0.5 * draw(part)
    if kind == 4:
        return draw(part).T - draw(part)
    if kind == 5:
        return linalg.inv(6.0 * linalg.identity(n) + 0.02 * draw(part))
    if kind == 6:
        steps = draw(st.integers(2, 6))
        model = draw(st.sampled_from(["auto", "linear", "exponential", "telescoped", "skip-2"]))
        return linalg.matrix_power(0.2 * draw(part), steps, model=model)
    if kind == 7:
        return linalg.power_sum(0.2 * draw(part), draw(st.integers(2, 5)))
    wide = linalg.hstack([draw(part), B])
    return wide @ linalg.vstack([draw(part), B.T]) * 0.3


@st.composite
def programs(draw: st.DrawFn) -> linalg.Program:
    outputs = {"C": draw(square())}
    kind = draw(st.integers(0, 2))
    if kind == 1:
        outputs["D"] = draw(square(2)) @ B
    if kind == 2:
        model = draw(st.sampled_from(["auto", "linear", "exponential", "skip-2"]))
        outputs["D"] = linalg.iterate(0.3 * draw(square(1)), B, B, steps=draw(st.integers(2, 5)), model=model)
    kept = {name: node for name, node in outputs.items() if not isinstance(node, Identity | Zero)}
    return linalg.program(**kept, E=A @ B)


@settings(max_examples=60)
@given(programs(), st.sampled_from(STRATEGIES), st.integers(0, 1000))
def test_random_programs_follow_numpy(program: linalg.Program, strategy: str, seed: int) -> None:
    inputs = arrays(seed)
    names = {each.name for each in program.inputs}
    run = program.start(**{name: inputs[name] for name in names}, strategy=strategy)
    rng = np.random.default_rng(seed)
    for _ in range(6):
        change(run, inputs, rng)
    for name, node in program.outputs.items():
        wanted = value(node, inputs, SIZES)
        assert np.linalg.norm(run[name] - wanted) <= 1e-9 * max(1.0, np.linalg.norm(wanted))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_thousand_mixed_updates(strategy: str) -> None:
    program = linalg.program(
        C=linalg.matrix_power(A, 8),
        W=linalg.inv(3.0 * linalg.identity(n) + A @ S),
        T=linalg.iterate(A, B, B, steps=8),
        G=linalg.power_sum(A, 8) @ B,
    )
    inputs = arrays(3)
    run = program.start(**inputs, strategy=strategy)
    rng = np.random.default_rng(4)
    for _ in range(1000 if strategy == "incremental" else 100):
        change(run, inputs, rng)
    for name, node in program.outputs.items():
        assert relative_error(run[name], value(node, inputs, SIZES)) < 1e-8


def test_strategies_treat_views_differently() -> None:
    program = linalg.program(T=linalg.iterate(A, B, B, steps=8, model="linear"))
    treated = {}
    for strategy in STRATEGIES:
        run = program.start(A=arrays(0)["A"], B=arrays(0)["B"], strategy=strategy)
        run.set_row("A", 1, np.ones(7) / 9)
        treated[strategy] = run.explain()
    assert "D_T8" not in treated["incremental"]
    assert "U_T" in treated["incremental"]
    assert "D_T := " in treated["hybrid"]
    assert "U_T" not in treated["reevaluate"]
    assert "T := " in treated["reevaluate"]


# -- rows that come and go -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_are_added_and_removed(strategy: str) -> None:
    program = linalg.program("input X(m, n), Y(m, p); beta := inv(X' * X) * X' * Y; fit := X * beta; output beta, fit;")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 3)), rng.standard_normal((20, 2))
    run = program.start(X=x, Y=y, strategy=strategy)
    for _ in range(25):
        row, right = rng.standard_normal(3), rng.standard_normal(2)
        run.append_row("X", row, Y=right)
        x, y = np.vstack([x, row]), np.vstack([y, right])
        gone = int(rng.integers(len(x)))
        run.delete_row("Y", gone)
        x, y = np.delete(x, gone, 0), np.delete(y, gone, 0)
        wanted = np.linalg.lstsq(x, y)[0]
        assert np.allclose(run["beta"], wanted)
        assert np.allclose(run["fit"], x @ wanted)
    assert np.array_equal(run["X"], x)
    assert np.allclose(run["Y"], y)


def test_a_dimension_that_an_identity_has_grows_by_evaluation() -> None:
    program = linalg.program("input X(m, n); H := inv(I(m) + X * X');")
    x = np.random.default_rng(0).standard_normal((4, 2))
    run = program.start(X=x)
    run.append_row("X", [1.0, 2.0])
    x = np.vstack([x, [1.0, 2.0]])
    assert np.allclose(run["H"], np.linalg.inv(np.eye(5) + x @ x.T))


def test_dimensions_of_square_matrices_grow_and_shrink() -> None:
    run = linalg.program(C=linalg.matrix_power(A, 4, model="exponential")).start(A=np.eye(4), strategy="incremental")
    run.grow("n", 6)
    run.set_row("A", 5, [0.0, 1.0, 2.0, 3.0, 0.0, 5.0])
    with pytest.raises(linalg.MatrixDataError, match="row 5 of A is not zero"):
        run.shrink("n", [5])
    with pytest.raises(linalg.MatrixDataError, match="n has 6 places, and no place 6"):
        run.shrink("n", [6])
    run.set_column("A", 1, np.zeros(6))
    run.shrink("n", [4, 1])
    wanted = np.diag([1.0, 1.0, 1.0, 5.0])
    wanted[3, :3] = [0.0, 2.0, 3.0]
    assert np.array_equal(run["A"], wanted)
    assert np.allclose(run["C"], np.linalg.matrix_power(wanted, 4))
    assert run.statistics.recomputed == 1
    inverse = linalg.program(W=linalg.inv(A)).start(A=np.eye(2))
    with pytest.raises(linalg.MatrixDataError, match="singular"):
        inverse.grow("n", 3)
    assert np.array_equal(inverse["W"], np.eye(2))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_row_that_cannot_be_added_leaves_no_trace(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = linalg.program("input X(m, n); Z := X' * X; H := X * Z; output H;").start(X=np.eye(3), strategy=strategy)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Executor, "run", fail)
    with pytest.raises(KeyboardInterrupt):
        run.append_row("X", [1.0, 2.0, 3.0])
    monkeypatch.undo()
    assert np.array_equal(run["X"], np.eye(3))
    assert np.allclose(run["H"], np.eye(3))
    run.append_row("X", [1.0, 2.0, 3.0])
    assert run["H"].shape == (4, 3)


def test_rows_of_other_inputs_have_to_come_along() -> None:
    run = linalg.program("input X(m, n), Y(m, p); C := X' * Y;").start(X=np.eye(3), Y=np.ones((3, 1)))
    with pytest.raises(linalg.ProgramError, match="Y has as many rows as X"):
        run.append_row("X", [1, 2, 3])
    power = linalg.program(C=A @ A).start(A=np.eye(3))
    with pytest.raises(linalg.ProgramError, match="cannot be added alone"):
        power.append_row("A", [1, 2, 3])


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: run.update("A", [1.0, np.nan, 0], [1, 1, 1]), "u of A has nan at"),
        (lambda run: run.update("A", [1, 2], [1, 1, 1]), "u of A has 2 rows where 3 are expected"),
        (lambda run: run.update("A", np.ones((3, 2)), [1, 1, 1]), "v of A has 1 columns where 2"),
        (lambda run: run.set("A", 3, 0, 1.0), "A has 3 rows, and no row 3"),
        (lambda run: run.set("A", 0, 0, np.inf), "only finite numbers"),
        (lambda run: run.set_row("A", 0, [1, 2]), "has 2 rows where 3"),
        (lambda run: run.apply({"A": ([1, 0, 0], [1, 0, 0]), "S": np.eye(3)}), "input 'S' is static"),
        (lambda run: run.apply({"A": ([1, 0, 0],)}), r"a pair \(u, v\)"),
        (lambda run: run.add("A", np.eye(2)), "has 2 rows where 3 are expected"),
        (lambda run: run.update("C", [1, 1, 1], [1, 1, 1]), "'C' is not an input"),
        (lambda run: run["Z"], "no matrix 'Z', only A, C"),
        (lambda run: run.update("A", ["x"] * 3, [1, 1, 1]), "real numbers"),
    ],
)
def test_a_refused_update_changes_nothing(call: Any, message: str) -> None:
    run = linalg.program(C=A @ A + S).start(A=np.eye(3), S=np.ones((3, 3)))
    before = run["A"].copy(), run["C"].copy()
    with pytest.raises((linalg.MatrixDataError, linalg.ProgramError), match=message):
        call(run)
    assert np.array_equal(run["A"], before[0])
    assert np.array_equal(run["C"], before[1])


@pytest.mark.parametrize("rank", [1, 2])
def test_an_update_that_fails_half_way_is_undone(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = arrays(0)
    run = linalg.program(C=linalg.matrix_power(A, 4)).start(A=inputs["A"], strategy="incremental")
    before = run["A"].copy(), run["C"].copy()
    sweep, calls = Executor._sweep, []

    def fail(self: Executor, *arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        sweep(self, *arguments)

    monkeypatch.setattr(Executor, "_sweep", fail)
    factor = np.eye(7)[:, :1] if rank == 1 else np.ones((7, rank))
    with pytest.raises(KeyboardInterrupt):
        run.update("A", factor, np.ones((7, rank)))
    monkeypatch.undo()
    assert np.array_equal(run["A"], before[0])
    assert np.allclose(run["C"], before[1], rtol=1e-14, atol=0)
    run.set_row("A", 2, np.ones(7))
    assert relative_error(run["C"], np.linalg.matrix_power(np.array(run["A"]), 4)) < 1e-14


def test_inputs_are_copied_and_results_read_only() -> None:
    given = np.eye(3)
    run = linalg.program(C=A @ A).start(A=given)
    run.set("A", 0, 1, 5.0)
    assert given[0, 1] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        run["C"][0, 0] = 1.0
    own = linalg.program(C=A @ A).start(A=given, copy=False)
    own.set("A", 0, 1, 5.0)
    assert given[0, 1] == 5.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a matrix for input 'A'"),
        ({"A": np.eye(2), "Q": np.eye(2)}, "no input 'Q'"),
        ({"A": np.ones((2, 3))}, "A has 3 columns for dimension n, but A has 2 rows"),
        ({"A": np.array([[np.inf]])}, "only finite numbers"),
        ({"A": np.eye(2) * 1j}, "real numbers"),
        ({"A": np.eye(2), "strategy": "fast"}, "'fast' is not one of"),
        ({"A": np.eye(2), "dtype": np.int32}, "float64 or float32"),
        ({"A": np.eye(2), "backend": "abacus"}, "'abacus' is not one of"),
    ],
)
def test_a_start_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((linalg.ProgramError, linalg.MatrixDataError), match=message):
        linalg.program(C=A @ A).start(**options)


def test_a_singular_start_is_refused() -> None:
    with pytest.raises(linalg.MatrixDataError, match="the matrix is singular"):
        linalg.program(W=linalg.inv(A)).start(A=np.zeros((3, 3)))


def test_an_ill_conditioned_update_is_evaluated_again_with_a_warning() -> None:
    run = linalg.program(W=linalg.inv(A)).start(A=np.eye(3), strategy="incremental")
    with pytest.warns(linalg.LinAlgWarning, match="close to singular"):
        run.set("A", 0, 0, 1e-13)
    assert relative_error(run["W"], np.diag([1e13, 1.0, 1.0])) < 1e-15
    with pytest.warns(linalg.LinAlgWarning), pytest.raises(linalg.MatrixDataError, match="singular"):
        run.set("A", 0, 0, 0.0)
    assert run["A"][0, 0] == 1e-13
    assert run["W"][0, 0] == pytest.approx(1e13)


def test_float32_stays_float32() -> None:
    run = linalg.program(C=linalg.matrix_power(A, 4)).start(A=np.eye(5, dtype=np.float32))
    run.set_row("A", 1, np.ones(5))
    assert run["C"].dtype == np.float32
    assert relative_error(run["C"], np.linalg.matrix_power(run["A"].astype(float), 4)) < 1e-5


def test_sparse_changes_become_the_fewer_of_rows_and_columns() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    run = linalg.program(C=A @ A).start(A=np.eye(6), strategy="incremental")
    change = sparse.coo_array((np.ones(4), ([0, 2, 4, 5], [1, 1, 1, 1])), shape=(6, 6))
    run.add("A", change)
    wanted = np.eye(6) + change.toarray()
    assert np.allclose(run["C"], wanted @ wanted)
    assert "rank" not in run.explain()
    run.add("A", sparse.csr_array((6, 6)))
    assert run.statistics.updates == 1


def test_a_batch_is_compressed_to_its_rank() -> None:
    run = linalg.program(C=A @ A).start(A=np.eye(6), strategy="incremental")
    u = np.ones((6, 1)) @ np.ones((1, 5))
    run.update("A", u, np.arange(30.0).reshape(6, 5))
    ((_, rank),) = next(iter(run._matrices.plans))
    assert rank == 1
    wanted = np.eye(6) + u @ np.arange(30.0).reshape(6, 5).T
    assert np.allclose(run["C"], wanted @ wanted)
