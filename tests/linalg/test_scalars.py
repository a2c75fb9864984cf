"""Inputs that are multiplied by numbers, and counts modulo a prime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.linalg.oracle import relative_error
from viewlet import linalg
from viewlet.linalg import analyses
from viewlet.linalg.scalars import degrees

n, m = linalg.dim("n"), linalg.dim("m")
A = linalg.matrix("A", n, n, dynamic=True)


def test_forgetting_touches_no_matrix_until_one_is_read() -> None:
    program = linalg.program(C=linalg.matrix_power(A, 4, model="exponential"), W=linalg.inv(A @ A.T), K=2 * A.T @ A)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((10, 10)) + 4 * np.eye(10)
    run = program.start(A=a, strategy="incremental")
    for _ in range(30):
        u, v = rng.standard_normal((2, 10, 1)) / 5
        held = run._matrices.stored[A]
        run.scale("A", 0.9)
        assert run._matrices.stored[A] is held
        run.update("A", u, v)
        a = 0.9 * a + u @ v.T
    run.scale("A", -2.0)
    a = -2.0 * a
    assert relative_error(run["A"], a) < 1e-13
    assert relative_error(run["C"], np.linalg.matrix_power(a, 4)) < 1e-11
    assert relative_error(run["W"], np.linalg.inv(a @ a.T)) < 1e-9
    assert relative_error(run["K"], 2 * a.T @ a) < 1e-12
    run.set_row("A", 1, np.arange(10.0))
    run.scale("A", 3.0)
    run.set("A", 2, 2, 7.0)
    assert run["A"][2, 2] == 7.0
    assert np.array_equal(run["A"][1], 3 * np.arange(10.0))
    assert run.error("C").relative_bound < 1e-9


def test_recursive_least_squares_as_a_program() -> None:
    program = linalg.program("input X(m, n), Y(m, p); beta := inv(X' * X) * X' * Y;")
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((50, 3)), rng.standard_normal((50, 1))
    run = program.start(X=x[:10], Y=y[:10], strategy="incremental")
    for i in range(10, 50):
        run.scale("X", 0.95**0.5)
        run.scale("Y", 0.95**0.5)
        run.append_row("X", x[i], Y=y[i])
    weights = np.concatenate([np.full(10, 0.95**40), 0.95 ** np.arange(39, -1, -1)])[:, None] ** 0.5
    assert relative_error(run["beta"], np.linalg.lstsq(weights * x, weights * y)[0]) < 1e-11


def test_views_without_a_degree_are_evaluated() -> None:
    program = linalg.program(C=A @ A + A, W=linalg.inv(A + 5 * linalg.identity(n)))
    run = program.start(A=np.eye(4))
    assert degrees(run._matrices.statements, A) is None
    run.scale("A", 0.5)
    assert np.allclose(run["C"], 0.75 * np.eye(4))
    assert np.allclose(run["W"], np.eye(4) / 5.5)
    with pytest.raises(linalg.MatrixDataError, match="singular"):
        run.scale("A", -10.0)
    assert np.allclose(run["A"], 0.5 * np.eye(4))
    assert np.allclose(run["W"], np.eye(4) / 5.5)
    for wrong in (0.0, np.inf, "2"):
        with pytest.raises(linalg.ProgramError, match="not zero"):
            run.scale("A", wrong)  # type: ignore[arg-type]


def test_numbers_that_get_too_small_are_multiplied_in() -> None:
    run = linalg.program(C=linalg.matrix_power(A, 8)).start(A=np.eye(3) * 1e3, strategy="incremental")
    for _ in range(60):
        run.scale("A", 0.1)
        run.scale("A", 10.0)
    for _ in range(6):
        run.scale("A", 1e-3)
        run.update("A", np.full(3, 1e-3), np.ones(3))
    assert all(1e-8 < abs(scalar) < 1e8 for scalar in run._matrices.scalars.values())
    assert relative_error(run["C"], np.linalg.matrix_power(np.array(run["A"]), 8)) < 1e-11


@pytest.mark.parametrize("modulus", [linalg.ModularBackend().modulus, 67_108_859, 7])
def test_path_counts_are_exact_modulo_a_number(modulus: int) -> None:
    """Counts far beyond 2^53, beside Python's integers."""
    rng = np.random.default_rng(0)
    edges = (rng.random((25, 25)) < 0.4).astype(float)
    program = linalg.program(paths=analyses.path_counts(A, steps=40), C=linalg.matrix_power(A, 16))
    run = program.start(A=edges, backend=linalg.ModularBackend(modulus), strategy="incremental")
    for i in range(25):
        row, column = rng.integers(0, 25, 2)
        edges[row, column] = 1 - edges[row, column]
        run.set("A", int(row), int(column), edges[row, column])
        if i % 5 == 0:
            u, v = rng.integers(-2, 3, (2, 25, 5)).astype(float)
            run.update("A", u, v)
            edges = edges + u @ v.T
    assert np.array_equal(run["paths"], _counts(edges, 40, modulus))
    assert np.array_equal(run["A"], np.mod(edges, modulus))
    assert run.error("paths").bound == 0.0
    run.scale("A", 2)
    assert np.array_equal(run["paths"], _counts(2 * edges, 40, modulus))


def _counts(edges: Any, steps: int, modulus: int) -> Any:
    exact = edges.astype(int).astype(object)
    total = power = np.eye(len(edges), dtype=int).astype(object)
    for _ in range(steps):
        power = power @ exact
        total = total + power
    return np.mod(total, modulus).astype(float)


def test_what_is_not_whole_is_refused_modulo_a_number() -> None:
    with pytest.raises(linalg.MatrixDataError, match="not whole"):
        linalg.program(C=A @ A).start(A=np.eye(2) / 2, backend=linalg.ModularBackend())
    with pytest.raises(linalg.ProgramError, match="no inverses"):
        linalg.program(W=linalg.inv(A)).start(A=np.eye(2), backend=linalg.ModularBackend())
    with pytest.raises(linalg.MatrixDataError, match="not a whole number"):
        linalg.program(C=0.5 * A).start(A=np.eye(2), backend=linalg.ModularBackend())
    run = linalg.program(C=A @ A).start(A=np.eye(2), backend=linalg.ModularBackend(5))
    with pytest.raises(linalg.MatrixDataError, match="not whole"):
        run.set("A", 0, 0, 0.5)
    assert np.array_equal(run["C"], np.eye(2))
    with pytest.raises(linalg.ProgramError, match="a modulus is"):
        linalg.ModularBackend(1)
