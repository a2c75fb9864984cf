"""Refreshing: from any source, warm, per group, at a cost that does not know the rows; and what is refused."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone as sklearn_clone
from sklearn.linear_model import Ridge

from tests.ml.shop import shop_of, stages
from viewlet.errors import DataError, SchemaError
from viewlet.ml import (
    PCA,
    ChowLiuTree,
    ConvergenceWarning,
    LinearRegression,
    MutualInformation,
    NotFittedError,
    ParameterError,
    PerGroup,
    PolynomialRegression,
    RidgeRegression,
)
from viewlet.rings.cofactor import CofactorRing
from viewlet.rings.cofactor_table import CofactorTable, cofactor_table
from viewlet.viewtree.ring_tree import build_tree


class Handle:
    """As a view of COFACTOR(...) would be: it counts how often it is asked."""

    def __init__(self, table: Any) -> None:
        self.table, self.reads = table, 0

    def cofactor(self) -> Any:
        self.reads += 1
        return self.table


def table_of_rows(names: tuple[Any, ...], rows: list[list[float]]) -> CofactorTable:
    matrix = np.array(rows, dtype=float).reshape(len(rows), len(names))
    return CofactorTable(names, len(rows), matrix.sum(axis=0), matrix.T @ matrix)


LINE = table_of_rows(("x", "y"), [[0, 1], [1, 3], [2, 5]])


def test_a_refresh_reads_one_table_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = Handle(LINE)
    model = LinearRegression("y").fit(handle)
    assert (model.coef_[0], model.intercept_) == pytest.approx((2, 1))
    handle.table = table_of_rows(("x", "y"), [[0, 0], [1, 5]])
    model.refresh()
    assert (model.coef_[0], model.intercept_) == pytest.approx((5, 0))
    assert handle.reads == 2


def test_the_work_of_a_refresh_does_not_depend_on_the_rows() -> None:
    """The same cofactors with the counts of ten million rows: the same steps to the same weights."""
    rng = np.random.default_rng(3)
    small = table_of_rows(("a", "b", "y"), rng.normal(size=(50, 3)).tolist())
    large = CofactorTable(small.variables, small.count * 200_000, small.sums * 200_000, small.matrix * 200_000)
    models = [LinearRegression("y", solver="gradient").fit(table) for table in (small, large)]
    assert models[0].n_iter_ == models[1].n_iter_
    assert models[0].coef_ == pytest.approx(models[1].coef_)


def test_gradient_descent_starts_where_it_was() -> None:
    shop = shop_of()
    warm = RidgeRegression("units", solver="gradient")
    cold = RidgeRegression("units", solver="gradient", warm_start=False)
    list(stages(shop, batches=1))
    steps = []
    for row in [None, *list(shop.tables["sales"])[:8]]:
        if row is not None:
            shop.apply({"sales": [(row, -1)]})
        warm.fit(shop.maintained)
        cold.fit(shop.maintained)
        assert warm.coef_ == pytest.approx(cold.coef_, rel=1e-4, abs=1e-5)
        steps.append((warm.n_iter_, cold.n_iter_))
    assert steps[0][0] == steps[0][1]
    warm.refresh()
    assert warm.n_iter_ == 0, "nothing has changed"
    assert sum(few for few, _ in steps[1:]) < sum(many for _, many in steps[1:])


def test_too_few_steps_are_said() -> None:
    shop = shop_of()
    list(stages(shop, batches=1))
    with pytest.warns(ConvergenceWarning, match="not there after 2 steps"):
        RidgeRegression("units", solver="gradient", max_iter=2).fit(shop.maintained)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RidgeRegression("units", solver="gradient").fit(shop.maintained)


def test_a_score_is_of_the_rows_at_the_time_of_the_fit_and_of_other_views() -> None:
    shop, other = shop_of(), shop_of()
    first = next(iter(stages(shop, seed=1)))
    second = next(iter(stages(other, seed=2)))
    model = RidgeRegression("units").fit(shop.maintained)
    before = model.score()
    shop.maintained.apply({"sales": [((0, 0, 1000.0, 0.5), 1)]})
    assert model.score() == before == pytest.approx(model.score(first))
    assert model.score(other.maintained) == pytest.approx(model.score(second))
    table = cofactor_table(other.maintained.ring, other.maintained.payload)
    assert model.score(table) == pytest.approx(model.score(second))


def test_models_per_group_solve_only_what_changed() -> None:
    shop = shop_of(("units", "discount", "price"), ("kind",), free=("city",))
    models = PerGroup(RidgeRegression("units", ["discount", "price"], alpha=0.5), by="city")
    frames = stages(shop)
    frame = next(frames)
    models.fit(shop.maintained)
    assert len(models) == 3
    check_groups(models, frame)
    models.refresh()
    assert models.refreshed_ == ()
    untouched = models["Oslo"]
    row = next(iter(shop.tables["sales"]))
    city = next(place for place in shop.tables["shops"] if place[0] == row[0])[1]
    shop.apply({"sales": [(row, -1)]})
    models.refresh()
    assert models.refreshed_ == (city,)
    assert (models["Oslo"] is untouched) == (city != "Oslo")
    check_groups(models, shop.frame())
    for frame in frames:
        models.refresh()
        check_groups(models, frame)


def check_groups(models: PerGroup, frame: Any) -> None:
    for city, rows in frame.groupby("city"):
        oracle = Ridge(0.5).fit(rows[["discount", "price"]], rows["units"])
        assert models[city].coef_ == pytest.approx(oracle.coef_, rel=1e-6)
        assert models.predict(rows) == pytest.approx(oracle.predict(rows[["discount", "price"]]))
        assert models.predict(rows[["discount", "price"]].to_numpy(), rows["city"]) == pytest.approx(
            models.predict(rows)
        )
    assert models.predict(frame) == pytest.approx(models.predict(frame, list(frame["city"])))


def test_groups_come_and_go_and_those_without_enough_rows_say_so() -> None:
    many, one = table_of_rows(("x", "y"), [[0, 1], [1, 2], [3, 3]]), table_of_rows(("x", "y"), [[1, 1]])
    handle = Handle({"a": many, "b": one})
    models = PerGroup(PCA(1)).fit(handle)
    assert list(models.models_) == ["a"]
    with pytest.raises(DataError, match="needs at least 2 rows, and the view has 1 row"):
        models["b"]
    handle.table = {"b": many, "c": one}
    models.refresh()
    assert (list(models.models_), list(models.failed_)) == (["b"], ["c"])
    with pytest.raises(SchemaError, match="no group 'a'"):
        models["a"]


def test_parameters_follow_the_conventions() -> None:
    model = RidgeRegression("y", ["x"], alpha=3.0, solver="gradient")
    assert model.get_params()["alpha"] == 3.0
    copied = sklearn_clone(model)
    assert copied is not model
    assert copied.get_params() == model.get_params()
    assert model.set_params(alpha=4.0).alpha == 4.0
    assert repr(LinearRegression("y")).startswith("LinearRegression(label='y', features=None, fit_intercept=True")
    nested = PerGroup(model)
    assert nested.set_params(estimator__alpha=5.0).get_params()["estimator__alpha"] == 5.0
    with pytest.raises(ParameterError, match="no parameter 'beta'"):
        model.set_params(beta=1)
    fitted = LinearRegression("y").fit(LINE)
    assert (fitted.n_features_in_, list(fitted.feature_names_in_)) == (1, ["x"])


@pytest.mark.parametrize(
    "call",
    [
        lambda: RidgeRegression("y").predict([[1.0]]),
        lambda: RidgeRegression("y").score(),
        lambda: RidgeRegression("y").refresh(),
        lambda: PCA().transform([[1.0]]),
        lambda: ChowLiuTree().parent("c"),
        lambda: MutualInformation().between("c", "d"),
        lambda: PerGroup(PCA())["a"],
    ],
)
def test_what_is_not_fitted_says_so(call: Any) -> None:
    with pytest.raises(NotFittedError, match="call fit with a view first"):
        call()


MIXED = table_of_rows(("x", "y", ("c", "a"), ("c", "b")), [[0, 1, 1, 0], [1, 3, 0, 1], [2, 5, 0, 1]])
EMPTY = table_of_rows(("x", "y"), [])
BROKEN = CofactorTable(("x", "y"), 2, np.array([np.nan, 1]), np.array([[np.nan, np.nan], [np.nan, 1]]))


@pytest.mark.parametrize(
    ("model", "source", "error", "message"),
    [
        (LinearRegression("y"), EMPTY, DataError, "at least 1 row, and the view has no rows"),
        (PCA(), table_of_rows(("x", "y"), [[1, 2]]), DataError, "at least 2 rows, and the view has 1 row"),
        (LinearRegression("z"), LINE, SchemaError, "label 'z' is not a variable"),
        (LinearRegression("c"), MIXED, SchemaError, "label 'c' is categorical"),
        (LinearRegression("y", ["x", "y"]), LINE, SchemaError, "the label 'y' is among the features"),
        (LinearRegression("y", ["w"]), LINE, SchemaError, "'w' is not a variable"),
        (LinearRegression("y", ["x", "x"]), LINE, ParameterError, "'x' is given twice"),
        (LinearRegression("y", "x"), LINE, ParameterError, "features are a list"),
        (LinearRegression("y"), BROKEN, DataError, "the sums of 'x' are not finite"),
        (RidgeRegression("y", alpha=-1.0), LINE, ParameterError, "alpha is a penalty"),
        (RidgeRegression("y", solver="magic"), LINE, ParameterError, "solver is 'closed-form' or 'gradient'"),
        (RidgeRegression("y", handle_unknown="guess"), LINE, ParameterError, "handle_unknown is"),
        (RidgeRegression("y", tol=0.0), LINE, ParameterError, "tol is above 0"),
        (PolynomialRegression("y"), LINE, SchemaError, "keep the cofactors with degree 4"),
        (PolynomialRegression("y", degree=3), LINE, ParameterError, "between 1 and 2"),
        (PCA(3), LINE, ParameterError, "number up to 2"),
        (MutualInformation(["x"]), MIXED, SchemaError, "'x' is continuous"),
        (MutualInformation(), LINE, SchemaError, "no categorical variable"),
        (ChowLiuTree(root="d"), MIXED, SchemaError, "root 'd' is not among"),
        (PerGroup(PCA()), LINE, SchemaError, "not by group"),
        (LinearRegression("y"), {"a": LINE}, SchemaError, "wrap the model, PerGroup"),
        (LinearRegression("y"), [[1, 2]], SchemaError, "a list has none"),
    ],
)
def test_what_cannot_be_learned_is_refused(model: Any, source: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        model.fit(source)
    assert not hasattr(model, "_fitted_from")


def test_an_error_leaves_the_model_as_it_was() -> None:
    handle = Handle(LINE)
    model = LinearRegression("y").fit(handle)
    handle.table = BROKEN
    with pytest.raises(DataError):
        model.refresh()
    assert model.predict({"x": [10]}) == pytest.approx([21])
    handle.table = LINE
    assert model.refresh().score() == pytest.approx(1)


def test_degrees_and_rings_that_do_not_suffice() -> None:
    shop = shop_of(degree=1)
    list(stages(shop, batches=1))
    with pytest.raises(SchemaError, match="degree 1 has sums only"):
        LinearRegression("units").fit(shop.maintained)
    from viewlet.rings import INTEGER_RING
    from viewlet.viewtree.ring_engine import MaintainedTree

    counting = MaintainedTree(build_tree(shop.maintained.tree.order), INTEGER_RING)
    with pytest.raises(SchemaError, match="payloads of this tree"):
        LinearRegression("units").fit(counting)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ({"x": [1.0, float("nan")], "c": ["a", "a"]}, DataError, "a NaN or an infinity in row 1"),
        ({"x": [None], "c": ["a"]}, DataError, "column 'x' has a NULL"),
        ({"x": ["many"], "c": ["a"]}, DataError, "no numbers"),
        ({"x": [1.0], "c": ["z"]}, DataError, "'z' is not a category of 'c'"),
        ({"x": [1.0, 2.0], "c": ["a"]}, DataError, "different lengths"),
        ({"c": ["a"]}, SchemaError, "no column 'x'"),
        ([[1.0]], DataError, "rows of 2 values"),
    ],
)
def test_data_that_cannot_be_predicted_for(data: Any, error: type[Exception], message: str) -> None:
    model = RidgeRegression("y").fit(MIXED)
    with pytest.raises(error, match=message):
        model.predict(data)


def test_unknown_categories_can_be_ignored() -> None:
    model = RidgeRegression("y", handle_unknown="ignore").fit(MIXED)
    (found,) = model.predict({"x": [1.0], "c": ["z"]})
    assert found == pytest.approx(model.coef_[0] + model.intercept_)
    unseen = table_of_rows(("x", "y", ("c", "z")), [[1, 1, 1], [2, 4, 1]])
    assert np.isfinite(model.score(unseen))
    with pytest.raises(DataError, match="never seen 'c_z'"):
        RidgeRegression("y").fit(MIXED).score(unseen)


def test_a_constant_feature_has_no_weight_and_a_constant_label_is_met() -> None:
    table = table_of_rows(("x", "k", "y"), [[0.1, 0.7, 1], [0.2, 0.7, 2], [0.4, 0.7, 4]])
    model = LinearRegression("y").fit(table)
    assert model.coef_ == pytest.approx([10, 0])
    assert model.rank_ == 1
    assert LinearRegression("k", ["x"]).fit(table).score() == 1.0


def test_what_remains_after_all_rows_are_gone_is_no_model() -> None:
    shop = shop_of()
    frame = next(iter(stages(shop)))
    model = LinearRegression("units").fit(shop.maintained)
    before = model.predict(frame)
    tables = {name: Counter(rows) for name, rows in shop.tables.items()}
    shop.apply({name: [(row, -times) for row, times in rows.items()] for name, rows in tables.items()})
    with pytest.raises(DataError, match="no rows"):
        model.refresh()
    assert model.predict(frame) == pytest.approx(before)


def test_exact_rings_are_read_as_well() -> None:
    ring = CofactorRing(("x", "y"), exact=True)
    element = ring.add(ring.lift(("x", "y"))((0, 1)), ring.lift(("x", "y"))((1, 3)))
    assert LinearRegression("y").fit(cofactor_table(ring, element)).coef_ == pytest.approx([2])
