"""Models over views declared in SQL: the same answers as scikit-learn on the join that DuckDB makes."""

from __future__ import annotations

from random import Random

import duckdb
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression as SklearnLinear
from sklearn.linear_model import Ridge
from sklearn.preprocessing import PolynomialFeatures

import viewlet
from tests.ml.shop import RELATIONS, database, one_hot
from viewlet.ml import ChowLiuTree, PerGroup, PolynomialRegression, RidgeRegression

JOIN = "FROM sales NATURAL JOIN shops NATURAL JOIN items"
TABLES = """
    CREATE TABLE sales (shop INT, item INT, units DOUBLE, discount DOUBLE);
    CREATE TABLE shops (shop INT, city VARCHAR, staff INT, size DOUBLE);
    CREATE TABLE items (item INT, kind VARCHAR, price DOUBLE);
"""


def test_models_follow_the_tables() -> None:
    db = viewlet.connect()
    db.execute(TABLES)
    db.execute(f"CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(units, staff, price, CATEGORICAL(city)) {JOIN}")
    db.execute(f"CREATE MATERIALIZED VIEW p AS SELECT COFACTOR(units, staff, price, degree => 4) {JOIN}")
    db.execute(f"CREATE MATERIALIZED VIEW g AS SELECT city, COFACTOR(units, price) {JOIN} GROUP BY city")
    db.execute(f"CREATE MATERIALIZED VIEW c AS SELECT COFACTOR(CATEGORICAL(city), CATEGORICAL(kind)) {JOIN}")
    data = {name: list(rows) for name, rows in database(4).items()}
    db.apply(data)
    ridge = RidgeRegression("price", alpha=0.5).fit(db.view("m"))
    curve = PolynomialRegression("price").fit(db.view("p"))
    cities = PerGroup(RidgeRegression("price"), by="city").fit(db.view("g"))
    assert ChowLiuTree().fit(db.view("c")).edges_ == (("city", "kind"),)
    random = Random(2)
    for _ in range(3):
        gone = [data["sales"].pop(random.randrange(len(data["sales"]))) for _ in range(25)]
        db.delete("sales", gone)
        frame = joined(data)
        matrix, _ = one_hot(frame, ("units", "staff"), ("city",))
        oracle = Ridge(0.5).fit(matrix, frame["price"])
        assert ridge.refresh().coef_ == pytest.approx(oracle.coef_, rel=1e-6)
        assert ridge.predict(frame) == pytest.approx(oracle.predict(matrix))
        expanded = PolynomialFeatures(2, include_bias=False).fit_transform(frame[["units", "staff"]])
        assert curve.refresh().predict(frame) == pytest.approx(
            SklearnLinear().fit(expanded, frame["price"]).predict(expanded), rel=1e-6
        )
        cities.refresh()
        for city, rows in frame.groupby("city"):
            assert cities[city].coef_ == pytest.approx(Ridge().fit(rows[["units"]], rows["price"]).coef_, rel=1e-6)


def test_a_group_that_did_not_change_is_not_solved_again() -> None:
    db = viewlet.connect()
    db.execute(TABLES)
    db.execute(f"CREATE MATERIALIZED VIEW g AS SELECT city, COFACTOR(units, price) {JOIN} GROUP BY city")
    db.apply(database(4))
    cities = PerGroup(RidgeRegression("price")).fit(db.view("g"))
    shop, city, *_ = database(4)["shops"][0]
    db.insert("sales", [(shop, 3, 1.5, 0.1)])
    assert cities.refresh().refreshed_ == (city,)


def joined(data: dict[str, list[tuple]]) -> pd.DataFrame:
    con = duckdb.connect()
    for name, rows in data.items():
        con.register(name, pd.DataFrame(rows, columns=list(RELATIONS[name])))
    return con.execute(f"SELECT * {JOIN}").df()
