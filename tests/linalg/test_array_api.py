"""The back end on the array API standard, on NumPy and, where it is installed, on the strict implementation."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
import pytest

from tests.linalg.oracle import relative_error
from viewlet import linalg

NAMESPACES = [name for name in ("numpy", "array_api_strict") if importlib.util.find_spec(name)]

n, m, p = linalg.dim("n"), linalg.dim("m"), linalg.dim("p")
A = linalg.matrix("A", n, n, dynamic=True)
X, Y = linalg.matrix("X", m, n, dynamic=True), linalg.matrix("Y", m, p, dynamic=True)


@pytest.mark.parametrize("name", NAMESPACES)
@pytest.mark.parametrize("strategy", ["incremental", "auto"])
def test_programs_agree_with_numpy(name: str, strategy: str) -> None:
    namespace: Any = importlib.import_module(name)
    program = linalg.program(
        C=linalg.matrix_power(A, 8, model="exponential"),
        T=linalg.matrix_power(A, 5, model="telescoped"),
        W=linalg.inv(A.T @ A + linalg.identity(n)),
        beta=linalg.solve(X.T @ X, X.T @ Y),
    )
    rng = np.random.default_rng(0)
    host = {
        "A": rng.standard_normal((12, 12)) / 4,
        "X": rng.standard_normal((40, 12)),
        "Y": rng.standard_normal((40, 2)),
    }
    run = program.start(**host, backend=linalg.ArrayApiBackend(namespace), strategy=strategy)
    for i in range(6):
        row, column = rng.standard_normal((2, 12)) / 4
        u, v = rng.standard_normal((2, 12, 5)) / 9
        run.set_row("A", i, row)
        run.set_column("A", i, column)
        run.update("A", u, v)
        run.add("X", np.eye(40)[:, [i, i + 9]] @ rng.standard_normal((2, 12)))
        run.set("Y", i, 1, 0.5)
    run.append_row("X", np.ones(12), Y=[1.0, 2.0])
    run.delete_row("X", 4)
    a, x, y = (np.array(run[each]) for each in ("A", "X", "Y"))
    wanted = {
        "C": np.linalg.matrix_power(a, 8),
        "T": np.linalg.matrix_power(a, 5),
        "W": np.linalg.inv(a.T @ a + np.eye(12)),
        "beta": np.linalg.lstsq(x, y)[0],
    }
    for each, exact in wanted.items():
        assert relative_error(run[each], exact) < 1e-10, each
    assert run["A"][5, 5] == column[5] + (u @ v.T)[5, 5]


def test_failed_updates_and_singular_matrices() -> None:
    run = linalg.program(W=linalg.inv(A)).start(A=np.eye(3), backend=linalg.ArrayApiBackend(np), strategy="incremental")
    with pytest.warns(linalg.LinAlgWarning), pytest.raises(linalg.MatrixDataError, match="singular"):
        run.add("A", -np.eye(3))
    assert np.array_equal(run["A"], np.eye(3))
    assert np.array_equal(run["W"], np.eye(3))
