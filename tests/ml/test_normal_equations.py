"""Least squares from sums and products, on matrices made to be awkward: constants, copies, very different units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression as SklearnLinear
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from viewlet.ml import LinearRegression, RidgeRegression
from viewlet.rings.cofactor_table import CofactorTable

KINDS = ("plain", "constant", "copy", "sum", "large", "small", "shifted")


def matrix_of(seed: int, rows: int, kinds: list[str]) -> np.ndarray:
    random = np.random.default_rng(seed)
    columns = [random.normal(size=rows)]
    for kind in kinds:
        fresh = random.normal(size=rows)
        columns.append(
            {
                "plain": fresh, "constant": np.full(rows, 3.0), "copy": columns[0] * 2, "sum": columns[0] + columns[-1],
                "large": fresh * 1e5, "small": fresh * 1e-4, "shifted": fresh + 100,
            }[kind]
        )  # fmt: skip
    return np.column_stack([*columns, random.normal(size=rows) + 2 * columns[-1]])


def table_of(matrix: np.ndarray) -> CofactorTable:
    names = (*(f"x{i}" for i in range(matrix.shape[1] - 1)), "y")
    return CofactorTable(names, len(matrix), matrix.sum(axis=0), matrix.T @ matrix)


@given(st.integers(0, 10_000), st.integers(20, 60), st.lists(st.sampled_from(KINDS), max_size=5))
def test_without_a_penalty_predictions_and_ranks_are_those_of_scikit_learn(
    seed: int, rows: int, kinds: list[str]
) -> None:
    matrix = matrix_of(seed, rows, kinds)
    features, label = matrix[:, :-1], matrix[:, -1]
    model = LinearRegression("y").fit(table_of(matrix))
    scaled = StandardScaler().fit_transform(features)  # scikit-learn drops a column that is tiny next to another
    expected = SklearnLinear().fit(scaled, label).predict(scaled)
    scale = float(np.abs(label).max())
    assert model.predict(features) == pytest.approx(expected, rel=1e-6, abs=1e-6 * scale)
    centred = features - features.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    varying = centred[:, lengths > 1e-9] / lengths[lengths > 1e-9]
    assert model.rank_ == np.linalg.matrix_rank(varying, tol=1e-7)


@given(st.integers(0, 10_000), st.integers(2, 40), st.lists(st.sampled_from(KINDS), max_size=5))
def test_with_a_penalty_predictions_are_those_of_scikit_learn(seed: int, rows: int, kinds: list[str]) -> None:
    matrix = matrix_of(seed, rows, kinds)
    features, label = matrix[:, :-1], matrix[:, -1]
    model = RidgeRegression("y", alpha=0.3).fit(table_of(matrix))
    expected = Ridge(0.3, solver="svd").fit(features, label).predict(features)
    assert model.predict(features) == pytest.approx(expected, rel=1e-6, abs=1e-6 * float(np.abs(label).max()))
    assert 0 <= model.score() <= 1


def test_both_solvers_agree_and_descent_never_looks_at_units() -> None:
    matrix = matrix_of(5, 50, ["large", "small", "plain"])
    closed = RidgeRegression("y", alpha=0.1).fit(table_of(matrix))
    descent = RidgeRegression("y", alpha=0.1, solver="gradient", tol=1e-12).fit(table_of(matrix))
    assert descent.coef_ == pytest.approx(closed.coef_, rel=1e-6)
    assert descent.n_iter_ is not None
    assert descent.n_iter_ < 200
