"""Runs in a process of its own, with Numba: the compiled kernel beside NumPy, and programs on the compiled back end."""

from __future__ import annotations

import tracemalloc
from itertools import product

import numpy as np

from tests.linalg.oracle import relative_error
from viewlet import linalg
from viewlet.linalg.backends.compiled_backend import CompiledBackend

RANKS = ((1, 1, 1), (2, 3, 5), (8, 8, 8), (0, 7, 4), (3, 0, 0), (0, 0, 16), (70, 2, 2))
SHAPES = ((1, 1), (7, 9), (65, 513), (300, 257), (2, 2000))


def kernels() -> None:
    """Every shape and combination of ranks, in both types: the products use the old matrix."""
    rng = np.random.default_rng(0)
    for kind, (rows, columns), (a, b, r) in product((np.float64, np.float32), SHAPES, RANKS):
        matrix, x, y, u, v = (
            rng.standard_normal(shape).astype(kind)
            for shape in ((rows, columns), (columns, a), (rows, b), (rows, r), (columns, r))
        )
        old = matrix.copy()
        update = (u, v) if r else None
        ahead, behind = CompiledBackend(kind).sweep(matrix, update, x if a else None, y if b else None)
        tolerance = 1e-12 if kind is np.float64 else 1e-4
        found = [(matrix, old + u @ v.T), (ahead, old @ x) if a else None, (behind, old.T @ y) if b else None]
        for pair in found:
            if pair is not None:
                assert np.allclose(*pair, rtol=tolerance, atol=tolerance * 40), (kind, rows, columns, a, b, r)


def threads() -> None:
    """A matrix that is divided among threads gives the same numbers every time."""
    rng = np.random.default_rng(1)
    matrix, x = rng.standard_normal((700, 600)), rng.standard_normal((600, 3))
    y = rng.standard_normal((700, 3))
    backend = CompiledBackend(np.float64)
    outcomes = []
    for _ in range(3):
        own = matrix.copy()
        outcomes.append((*backend.sweep(own, (y, x), x, y), own))
    for outcome in outcomes[1:]:
        assert all(np.array_equal(*pair) for pair in zip(outcome, outcomes[0], strict=True))


def programs() -> None:
    """Powers, an inverse and an iteration after mixed updates, also with deferred ones."""
    n, p = linalg.dim("n"), linalg.dim("p")
    a, b = linalg.matrix("A", n, n, dynamic=True), linalg.matrix("B", n, p, dynamic=True)
    program = linalg.program(
        C=linalg.matrix_power(a, 16, model="exponential"),
        W=linalg.inv(2 * linalg.identity(n) - a),
        T=linalg.iterate(a, b, b, steps=6),
    )
    for kind, defer in ((np.float64, 0), (np.float64, 24), (np.float32, 0)):
        rng = np.random.default_rng(2)
        given = {"A": rng.standard_normal((90, 90)).astype(kind) / 12, "B": rng.standard_normal((90, 2)).astype(kind)}
        run = program.start(**given, strategy="incremental", defer=defer)
        for i in range(20):
            run.set_row("A", i, rng.standard_normal(90) / 12)
            run.set_column("A", i, rng.standard_normal(90) / 12)
            run.update("B", rng.standard_normal((90, 2)), rng.standard_normal((2, 2)))
            run.add("A", np.outer(np.eye(90)[i], rng.standard_normal(90)) / 90)
        now, right = np.array(run["A"], float), np.array(run["B"], float)
        wanted = right
        for _ in range(6):
            wanted = now @ wanted + right
        limit = 1e-11 if kind is np.float64 else 2e-3
        assert relative_error(run["C"], np.linalg.matrix_power(now, 16)) < limit
        assert relative_error(run["W"], np.linalg.inv(2 * np.eye(90) - now)) < limit
        assert relative_error(run["T"], wanted) < limit
        assert "compiled" in run.explain()


def temporaries() -> None:
    """Updates of rows and entries make no array of the size of the matrices, dense ones keep the input to undo them."""
    n, size = linalg.dim("n"), 900
    a = linalg.matrix("A", n, n, dynamic=True)
    program = linalg.program(
        C=linalg.matrix_power(a, 16, model="exponential"), W=linalg.inv(2 * linalg.identity(n) - a)
    )
    run = program.start(A=np.random.default_rng(3).standard_normal((size, size)) / 40, strategy="incremental")
    factor = np.ones((size, 1)) / size
    updates = [
        lambda: run.set_row("A", 1, factor),
        lambda: run.set("A", 5, 5, 0.0),
        lambda: run.update("A", factor, factor),
    ]
    for update, most in zip(updates, (0.5, 0.5, 1.5), strict=True):
        update()
        tracemalloc.start()
        update()
        assert tracemalloc.get_traced_memory()[1] < most * size * size * 8
        tracemalloc.stop()


if __name__ == "__main__":
    kernels()
    temporaries()
    threads()
    programs()
    print("passed")
