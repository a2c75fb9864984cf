"""Models from maintained cofactors equal scikit-learn's on the materialised join, after every batch."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn import decomposition
from sklearn.linear_model import LinearRegression as SklearnLinear
from sklearn.linear_model import Ridge
from sklearn.metrics import mutual_info_score
from sklearn.preprocessing import PolynomialFeatures

from tests.ml.shop import CATEGORICAL, one_hot, shop_of, stages
from viewlet.ml import PCA, ChowLiuTree, LinearRegression, MutualInformation, PolynomialRegression, RidgeRegression

FEATURES = ("units", "discount", "staff", "size")


@pytest.mark.parametrize("solver", ["closed-form", "gradient"])
@pytest.mark.parametrize("alpha", [0.1, 10.0])
@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_with_one_hot_categories(solver: str, alpha: float, intercept: bool) -> None:
    shop = shop_of()
    model = RidgeRegression("price", alpha=alpha, solver=solver, fit_intercept=intercept, tol=1e-10)
    for frame in stages(shop):
        model = model.fit(shop.maintained) if not hasattr(model, "coef_") else model.refresh()
        matrix, names = one_hot(frame, FEATURES, CATEGORICAL)
        oracle = Ridge(alpha=alpha, fit_intercept=intercept).fit(matrix, frame["price"])
        assert list(model.get_feature_names_out()) == names
        near = {"rel": 1e-6, "abs": 1e-7} if solver == "closed-form" else {"rel": 1e-5, "abs": 1e-6}
        assert model.coef_ == pytest.approx(oracle.coef_, **near)
        assert model.intercept_ == pytest.approx(oracle.intercept_, **near)
        assert model.predict(frame) == pytest.approx(oracle.predict(matrix), rel=1e-6)
        assert model.score() == pytest.approx(oracle.score(matrix, frame["price"]), abs=1e-8)
        assert model.score(frame) == pytest.approx(model.score(), abs=1e-8)


@pytest.mark.parametrize("label", ["price", "units", "staff"])
def test_any_label_and_features_from_the_same_cofactors(label: str) -> None:
    shop = shop_of()
    for frame in stages(shop, seed=3, batches=2):
        for size in (1, 3):
            for features in combinations([name for name in (*FEATURES, "price") if name != label], size):
                model = LinearRegression(label, features).fit(shop.maintained)
                oracle = SklearnLinear().fit(frame[list(features)], frame[label])
                assert model.coef_ == pytest.approx(oracle.coef_, rel=1e-7, abs=1e-9)
                assert model.intercept_ == pytest.approx(oracle.intercept_, rel=1e-7)
                assert model.rank_ == size


def test_without_a_penalty_dependent_columns_get_the_smallest_weights() -> None:
    shop = shop_of()
    for frame in stages(shop, seed=5):
        model = LinearRegression("units").fit(shop.maintained)
        numbers = ("discount", "staff", "size", "price")
        matrix, _ = one_hot(frame, numbers, CATEGORICAL)
        oracle = SklearnLinear().fit(matrix, frame["units"])
        assert model.rank_ == matrix.shape[1] - len(CATEGORICAL) == oracle.rank_
        assert model.coef_ == pytest.approx(oracle.coef_, rel=1e-6, abs=1e-8)
        assert model.predict(frame) == pytest.approx(oracle.predict(matrix), rel=1e-7)


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_polynomials_of_continuous_features(alpha: float) -> None:
    shop = shop_of(categorical=(), degree=4)
    for frame in stages(shop, batches=2):
        features = ["discount", "staff", "size"]
        model = PolynomialRegression("units", features, alpha=alpha).fit(shop.maintained)
        expansion = PolynomialFeatures(2, include_bias=False)
        matrix = expansion.fit_transform(frame[features])
        oracle = (Ridge(alpha) if alpha else SklearnLinear()).fit(matrix, frame["units"])
        assert list(model.get_feature_names_out()) == list(expansion.get_feature_names_out())
        assert model.coef_ == pytest.approx(oracle.coef_, rel=1e-5, abs=1e-8)
        assert model.predict(frame) == pytest.approx(oracle.predict(matrix), rel=1e-6)
        assert model.score() == pytest.approx(oracle.score(matrix, frame["units"]), abs=1e-7)


def test_polynomials_with_categories_predict_as_those_over_one_hot_columns() -> None:
    shop = shop_of(("units", "discount", "price"), CATEGORICAL, degree=4)
    for frame in stages(shop, batches=2):
        model = PolynomialRegression("units", alpha=0.0).fit(shop.maintained)
        matrix, _ = one_hot(frame, ("discount", "price"), CATEGORICAL)
        expanded = PolynomialFeatures(2).fit_transform(matrix)
        oracle = SklearnLinear().fit(expanded, frame["units"])
        assert model.predict(frame) == pytest.approx(oracle.predict(expanded), rel=1e-5, abs=1e-5)
        assert model.score() == pytest.approx(oracle.score(expanded, frame["units"]), abs=1e-7)
        assert "discount city_Rome" in model.get_feature_names_out()
        assert "city_Oslo kind_b" in model.get_feature_names_out()


@pytest.mark.parametrize("wanted", [None, 2, 0.95])
@pytest.mark.parametrize("whiten", [False, True])
def test_principal_components(wanted: Any, whiten: bool) -> None:
    shop = shop_of()
    for frame in stages(shop, seed=7, batches=2):
        names = ["units", "discount", "staff", "size", "price"]
        model = PCA(wanted, names, whiten=whiten).fit(shop.maintained)
        oracle = decomposition.PCA(wanted, whiten=whiten, svd_solver="full").fit(frame[names])
        for attribute in ("components_", "explained_variance_", "explained_variance_ratio_", "mean_"):
            assert getattr(model, attribute) == pytest.approx(getattr(oracle, attribute), rel=1e-6, abs=1e-9)
        assert model.singular_values_ == pytest.approx(oracle.singular_values_, rel=1e-6)
        assert model.noise_variance_ == pytest.approx(oracle.noise_variance_, abs=1e-8)
        assert model.n_components_ == oracle.n_components_
        reduced = oracle.transform(frame[names])
        assert model.transform(frame) == pytest.approx(reduced, rel=1e-5, abs=1e-7)
        assert model.inverse_transform(reduced) == pytest.approx(oracle.inverse_transform(reduced), rel=1e-5, abs=1e-7)
        if not whiten:  # with it, scikit-learn scales the components twice
            assert model.get_covariance() == pytest.approx(oracle.get_covariance(), rel=1e-5, abs=1e-7)


def test_mutual_information_and_the_tree_of_chow_and_liu() -> None:
    networkx = pytest.importorskip("networkx")
    kinds = ("city", "kind", "shop", "discount")
    shop = shop_of(("units",), kinds)
    for frame in stages(shop, seed=9):
        found = MutualInformation().fit(shop.maintained)
        tree = ChowLiuTree(root="kind").fit(shop.maintained)
        graph = networkx.Graph()
        for left, right in combinations(kinds, 2):
            weight = mutual_info_score(frame[left].astype(str), frame[right].astype(str))
            assert found.between(left, right) == pytest.approx(weight, abs=1e-12)
            graph.add_edge(left, right, weight=weight)
        oracle = networkx.maximum_spanning_tree(graph)
        total = sum(weight for *_, weight in oracle.edges(data="weight"))
        assert tree.weights_.sum() == pytest.approx(total)
        assert {frozenset(edge) for edge in tree.edges_} == {frozenset(edge) for edge in oracle.edges}
        assert tree.root_ == "kind"
        assert set(tree.edges_) == set(networkx.bfs_tree(oracle, "kind").edges)
        assert tree.parent("kind") is None
        assert tree.score() == pytest.approx(log_likelihood(frame, tree), rel=1e-9)


def log_likelihood(frame: pd.DataFrame, tree: ChowLiuTree) -> float:
    """The mean over the rows of log P(root) P(child | parent) ..., with probabilities counted from the rows."""
    terms = np.log(frame.groupby(tree.root_)[tree.root_].transform("size") / len(frame))
    for above, below in tree.edges_:
        pairs = frame.groupby([above, below])[above].transform("size")
        terms = terms + np.log(pairs / frame.groupby(above)[above].transform("size"))
    return float(terms.mean())


def test_predictions_take_frames_arrow_mappings_and_arrays() -> None:
    shop = shop_of()
    frame = list(stages(shop, batches=1))[-1]
    model = RidgeRegression("price", ["units", "city"]).fit(shop.maintained)
    expected = model.predict(frame)
    rows = frame[["units", "city"]]
    assert model.predict(pa.Table.from_pandas(frame)) == pytest.approx(expected)
    assert model.predict({name: list(frame[name]) for name in rows}) == pytest.approx(expected)
    assert model.predict(rows.to_numpy()) == pytest.approx(expected)
    assert model.predict(list(rows.itertuples(index=False, name=None))) == pytest.approx(expected)
    assert model.score(rows.to_numpy(), frame["price"]) == pytest.approx(model.score())
    polars = pytest.importorskip("polars")
    assert model.predict(polars.from_pandas(frame)) == pytest.approx(expected)
