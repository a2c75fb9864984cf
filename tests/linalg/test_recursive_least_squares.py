"""Recursive least squares beside R and Stata.

`data/recursive_least_squares.csv` has, for each quarter of 1959 to 2009, the consumer price index of the United States
and the money supply M1, the coefficients of the regression of the former on the latter over all quarters so far and the
recursive residual by R's `strucchange`, and the residual by Stata's `cusum6`. The numbers are those of the files
`datasets/macrodata/macrodata.csv`, `regression/tests/results/results_rls_R.csv` and `results_rls_stata.csv` that
statsmodels 0.15.0 ships (BSD licence), with the tolerances of its own tests.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewlet import linalg
from viewlet.ml import RecursiveRidge

FIRST = 3
"""The quarters from which the first coefficients are computed."""


@pytest.fixture(scope="module")
def quarters() -> dict[str, Any]:
    file = Path(__file__).parent / "data" / "recursive_least_squares.csv"
    with file.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in rows[0]}


def test_a_program_reproduces_r_and_stata(quarters: dict[str, Any]) -> None:
    x = np.column_stack([np.ones(len(quarters["m1"])), quarters["m1"]])
    y = quarters["cpi"]
    program = linalg.program("input X(m, n), Y(m, p); W := inv(X' * X); beta := W * (X' * Y); output W, beta;")
    run = program.start(X=x[:FIRST], Y=y[:FIRST, None], strategy="incremental", refresh=1e-9)
    coefficients, residuals = [np.array(run["beta"][:, 0])], []
    for row, label in zip(x[FIRST:], y[FIRST:], strict=True):
        missed = label - row @ run["beta"][:, 0]
        residuals.append(missed / np.sqrt(1.0 + row @ run["W"] @ row))
        run.append_row("X", row, Y=[label])
        coefficients.append(np.array(run["beta"][:, 0]))
    assert len(coefficients) == 201
    wanted = np.column_stack([quarters["r_constant"], quarters["r_m1"]])[FIRST - 1 :]
    np.testing.assert_allclose(coefficients, wanted, rtol=1e-7)
    np.testing.assert_allclose(residuals, quarters["r_residual"][FIRST:], rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(residuals, quarters["stata_residual"][FIRST:], rtol=1e-5, atol=1e-5)


def test_the_estimator_reproduces_r(quarters: dict[str, Any]) -> None:
    x, y = quarters["m1"][:, None], quarters["cpi"]
    model = RecursiveRidge(alpha=0.0).fit(x[:FIRST], y[:FIRST])
    found = [(model.intercept_, model.coef_[0])]
    for i in range(FIRST, len(x)):
        model.partial_fit(x[i : i + 1], y[i : i + 1])
        found.append((model.intercept_, model.coef_[0]))
    wanted = np.column_stack([quarters["r_constant"], quarters["r_m1"]])[FIRST - 1 :]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("huge", [1e5, 1e8, -1e9, 1e10])
@pytest.mark.parametrize("forgetting", [1.0, 0.99])
def test_an_outlier_that_is_unlearned_leaves_no_trace(huge: float, forgetting: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 4)) * [1.0, 100.0, 0.01, 3.0]
    y = x @ [1.0, -2.0, 3.0, 4.0] + rng.standard_normal(600)
    model = RecursiveRidge(alpha=0.0, forgetting=forgetting).fit(x, y)
    model.forgetting = 1.0
    before = model.coef_.copy(), model.intercept_
    for column in range(4):
        row = rng.standard_normal((1, 4))
        row[0, column] = huge
        model.partial_fit(row, [huge]).remove(row, [huge])
        np.testing.assert_allclose(model.coef_, before[0], rtol=1e-10)
        np.testing.assert_allclose(model.intercept_, before[1], rtol=1e-9)
    model.partial_fit(x[:40], huge * y[:40])
    model.remove(x[:20], huge * y[:20]).remove(x[20:40], huge * y[20:40])
    np.testing.assert_allclose(model.coef_, before[0], rtol=1e-10)


def test_rows_whose_products_overflow_are_refused() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    model = RecursiveRidge(alpha=0.5).fit(x, y)
    before = model.coef_.copy()
    for change in (model.partial_fit, model.remove):
        with pytest.raises(linalg.MatrixDataError, match="overflow"):
            change([[1e200, 0.0, 0.0]], [1.0])
    assert model.n_samples_seen_ == 20
    np.testing.assert_array_equal(model.partial_fit(x[:0], y[:0]).coef_, before)
    model.remove(x, y)
    np.testing.assert_array_equal(model.coef_, np.zeros(3))
