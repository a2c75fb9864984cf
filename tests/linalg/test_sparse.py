"""Inputs that stay sparse while they change, and become arrays when they fill up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.linalg.oracle import relative_error
from viewlet import linalg
from viewlet.linalg import analyses
from viewlet.linalg.backends.sparse_matrix import SparseMatrix, is_sparse

sparse = pytest.importorskip("scipy.sparse")

n, p = linalg.dim("n"), linalg.dim("p")
A = linalg.matrix("A", n, n, dynamic=True)
START = linalg.matrix("start", n, p)
SIZE = 60


def graph(seed: int = 0, size: int = SIZE, share: float = 0.03) -> Any:
    return sparse.random(size, size, share, format="csr", random_state=seed) / 2


@pytest.mark.parametrize("strategy", ["incremental", "hybrid", "reevaluate", "auto"])
def test_sparse_inputs_follow_updates_like_arrays(strategy: str) -> None:
    program = linalg.program(
        C=linalg.matrix_power(A, 6, model="telescoped"),
        states=analyses.power_iteration(A, START, steps=5),
        W=linalg.inv(linalg.identity(n) + A.T),
        K=A.T @ A + A,
    )
    given = {"A": graph(), "start": np.ones((SIZE, 1))}
    run = program.start(**given, strategy=strategy)
    other = program.start(A=given["A"].toarray(), start=given["start"], strategy=strategy)
    rng = np.random.default_rng(1)
    for i in range(8):
        row = np.zeros(SIZE)
        row[rng.integers(0, SIZE, 3)] = 0.3
        for each in (run, other):
            each.set_row("A", i, row)
            each.set("A", 2 * i, 5, 0.25)
            each.add("A", sparse.coo_array(([0.1, -0.1], ([i, i + 1], [7, 9])), shape=(SIZE, SIZE)))
            each.set_column("A", 3 * i, row)
    held = run.array("A")
    assert isinstance(held, SparseMatrix)
    assert is_sparse(held.value)
    assert np.array_equal(run["A"], other["A"])
    for name in program.outputs:
        assert relative_error(run[name], other[name]) < 1e-12, name
    assert run.error("C").relative_bound < 1e-10


def test_a_matrix_that_fills_up_becomes_an_array() -> None:
    run = linalg.program(C=A @ A).start(A=graph(), strategy="incremental")
    before = run["A"].copy()
    u, v = np.random.default_rng(0).standard_normal((2, SIZE, 2))
    run.update("A", u, v)
    assert not is_sparse(run.array("A").value)
    assert relative_error(run["A"], before + u @ v.T) < 1e-15
    assert relative_error(run["C"], (before + u @ v.T) @ (before + u @ v.T)) < 1e-12
    run.set_row("A", 1, np.ones(SIZE))
    run.update("A", u, v)
    assert relative_error(run["C"], run["A"] @ run["A"]) < 1e-12


def test_failed_updates_leave_a_sparse_input_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    from viewlet.linalg.execute import Executor

    run = linalg.program(C=linalg.matrix_power(A, 4)).start(A=graph(), strategy="incremental")
    before = run["A"].copy(), run["C"].copy()
    sweep, calls = Executor._sweep, []

    def fail(self: Executor, *arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        sweep(self, *arguments)

    monkeypatch.setattr(Executor, "_sweep", fail)
    with pytest.raises(KeyboardInterrupt):
        run.set_row("A", 3, np.ones(SIZE))
    monkeypatch.undo()
    assert np.array_equal(run["A"], before[0])
    assert np.allclose(run["C"], before[1], rtol=1e-13, atol=1e-15)


def test_sizes_grow_and_wrong_numbers_are_refused() -> None:
    run = linalg.program(C=A @ A).start(A=graph())
    run.grow("n", SIZE + 2)
    run.set("A", SIZE + 1, 0, 1.0)
    assert run["C"].shape == (SIZE + 2, SIZE + 2)
    assert relative_error(run["C"], run["A"] @ run["A"]) < 1e-14
    with pytest.raises(linalg.MatrixDataError, match="not finite"):
        linalg.program(C=A @ A).start(A=graph() * np.inf)


def test_plans_count_entries_that_are_there() -> None:
    program = linalg.program(states=analyses.power_iteration(A, START, steps=8))
    thin = program.start(A=graph(size=400, share=0.002), start=np.ones((400, 1)))
    full = program.start(A=graph(size=400, share=0.002).toarray(), start=np.ones((400, 1)))
    for run in (thin, full):
        run.set("A", 0, 0, 0.5)
    assert thin._matrices.last is not None
    assert full._matrices.last is not None
    assert thin._matrices.last.seconds < full._matrices.last.seconds
