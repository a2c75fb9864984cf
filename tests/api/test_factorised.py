"""FACTORIZED views: DuckDB's join as a multiset after every batch, read row by row, counted and summed unread."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pytest

import viewlet
from tests.api.ring_oracle import Twin, multiset

SCHEMA = """
CREATE TABLE houses (area BIGINT, house VARCHAR, price DECIMAL(9,2));
CREATE TABLE shops (area BIGINT, shop VARCHAR, size INTEGER);
CREATE STREAM stops (area BIGINT, stop BIGINT, share DOUBLE);
"""
STAR = "houses NATURAL JOIN shops NATURAL JOIN stops"
ROWS = {
    "houses": lambda r: (r.choice([None, 1, 2, 3]), r.choice("abc"), Decimal(r.randrange(500)) / 100),
    "shops": lambda r: (r.randrange(1, 4), r.choice([None, "x", "y"]), r.choice([None, 1, 2])),
    "stops": lambda r: (r.randrange(1, 4), r.randrange(3), r.choice([0.25, 0.1, None])),
}


@pytest.fixture(params=["interpreter", "compiled"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def churned(engine: str, select: str, seed: int = 0, batches: int = 6, size: int = 8) -> Iterator[Twin]:
    twin = Twin(SCHEMA, engine)
    twin.db.execute(f"CREATE MATERIALIZED VIEW j AS SELECT FACTORIZED {select}")
    for _ in twin.churn(Random(seed), ROWS, batches, size):
        yield twin


@pytest.mark.parametrize(
    "select",
    [
        f"* FROM {STAR}",
        f"* FROM {STAR} WHERE price > 1 AND size IS NOT NULL",
        f"area, house, shop FROM {STAR}",
        f"house FROM {STAR}",
        f"house, price * 2 AS double_price, size + 1 AS more FROM {STAR}",
        "h.area AS a, s.area AS b, shop FROM houses h JOIN shops s ON h.area = s.area",
        "* FROM houses, (SELECT size FROM shops WHERE shop = 'x') s",
        "a.house, b.house AS other FROM houses a JOIN houses b USING (area, price)",
        "* FROM stops",
    ],
)
def test_rows_are_those_of_the_join(engine: str, select: str) -> None:
    for twin in churned(engine, select):
        view, expected = twin.db.view("j"), multiset(twin.ask(f"SELECT {select}"))
        assert multiset(view.rows()) == expected
        assert view.count() == len(view) == expected.total() == view.stats()["rows"]
        assert (
            multiset(map(tuple, twin.db.execute("SELECT * FROM j").to_pandas().itertuples(index=False))) or not expected
        )


@pytest.mark.parametrize("seed", range(2))
def test_sums_need_not_read_the_rows(engine: str, seed: int) -> None:
    for twin in churned(engine, f"* FROM {STAR}", seed):
        view = twin.db.view("j")
        ask = "count(*), count(size), sum(size), sum(price), sum(price * size), sum(share), avg(size), sum(size * size)"
        count, sized, sizes, prices, both, shares, mean, squares = twin.ask(f"SELECT {ask} FROM {STAR}")[0]
        assert (view.aggregate("count"), view.aggregate("count", "size")) == (count, sized)
        assert (view.aggregate("sum", "size"), view.aggregate("SUM", "price")) == (sizes, prices)
        assert (view.aggregate("sum", "price", "size"), view.aggregate("sum", "size", "size")) == (both, squares)
        assert view.aggregate("sum", "share") == (None if shares is None else pytest.approx(shares))
        assert view.aggregate("avg", "size") == (None if mean is None else pytest.approx(mean))


def test_rows_come_before_all_are_known(engine: str) -> None:
    db = viewlet.connect(engine=engine)
    db.execute(
        "CREATE TABLE r (k BIGINT, a BIGINT); CREATE TABLE s (k BIGINT, b BIGINT); CREATE TABLE t (k BIGINT, c BIGINT)"
    )
    db.execute("CREATE MATERIALIZED VIEW j AS SELECT FACTORIZED * FROM r NATURAL JOIN s NATURAL JOIN t")
    db.apply({name: [(1, i) for i in range(1000)] for name in "rst"})
    view = db.view("j")
    assert len(view) == 10**9
    rows = view.rows()
    assert [next(rows) for _ in range(300)][-1][0] == 1
    assert view.aggregate("sum", "a", "b") == sum(range(1000)) ** 2 * 1000
    assert sum(view.stats()["stored"].values()) <= 3010  # type: ignore[union-attr]
    assert "1000000000 rows" in repr(view)
    assert db.execute("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_a_batch_in_between_ends_the_reading(engine: str) -> None:
    db = viewlet.connect(engine=engine)
    db.execute("CREATE TABLE r (k BIGINT); CREATE TABLE other (k BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW j AS SELECT FACTORIZED * FROM r")
    db.insert("r", [(i,) for i in range(1000)])
    rows = db.view("j").rows()
    next(rows)
    db.insert("other", [(1,)])
    assert len([next(rows) for _ in range(400)]) == 400
    db.insert("r", [(-1,)])
    with pytest.raises(viewlet.ViewletError, match="'j' has changed while its rows were read"):
        list(rows)
    db.execute("DROP VIEW j")
    with pytest.raises(viewlet.SchemaError, match="there is no view 'j'"):
        next(db.view("j").rows())


def test_factorized_may_still_be_a_column() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (factorized BIGINT, b BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW plain AS SELECT factorized, b FROM t")
    db.execute("CREATE MATERIALIZED VIEW same AS SELECT factorized AS f FROM t")
    db.execute("CREATE MATERIALIZED VIEW j AS SELECT FACTORISED factorized, b FROM t")
    db.insert("t", [(1, 2)])
    assert (db.view("plain").rows(), db.view("same").rows(), list(db.view("j").rows())) == ([(1, 2)], [(1,)], [(1, 2)])


@pytest.mark.parametrize(
    ("select", "error", "message"),
    [
        (f"house, COUNT(*) FROM {STAR} GROUP BY house", viewlet.UnsupportedError, "GROUP BY with FACTORIZED"),
        (f"SUM(size) FROM {STAR}", viewlet.UnsupportedError, "an aggregate with FACTORIZED.*aggregate"),
        (f"* FROM {STAR} LIMIT 3", viewlet.UnsupportedError, "LIMIT with FACTORIZED"),
        ("* FROM houses LEFT JOIN shops USING (area)", viewlet.UnsupportedError, "outer join"),
        ("* FROM houses h, shops s WHERE h.area < s.area", viewlet.UnsupportedError, "condition area < area"),
        ("house + 1 FROM houses", viewlet.SqlError, "house \\+ 1"),
        ("hose FROM houses", viewlet.SqlError, "column 'hose' does not exist; did you mean 'house'"),
        ("house, shop AS house FROM houses NATURAL JOIN shops", viewlet.SqlError, "two columns are called 'house'"),
    ],
)
def test_what_makes_no_sense_is_refused(select: str, error: type[Exception], message: str) -> None:
    db = viewlet.connect()
    db.execute(SCHEMA)
    with pytest.raises(error, match=message):
        db.execute(f"CREATE MATERIALIZED VIEW j AS SELECT FACTORIZED {select}")
    assert db.views == ()


def test_what_pieces_cannot_tell_is_refused() -> None:
    db = viewlet.connect()
    db.execute(SCHEMA)
    db.execute(f"CREATE MATERIALIZED VIEW j AS SELECT FACTORIZED * FROM {STAR}")
    view: Any = db.view("j")
    with pytest.raises(viewlet.UnsupportedError, match="following the changes of a FACTORIZED view"):
        view.subscribe(print)
    with pytest.raises(viewlet.UnsupportedError, match=r"aggregate\('max'\)"):
        view.aggregate("max", "size")
    with pytest.raises(viewlet.SchemaError, match="no column 'siz'; did you mean 'size'"):
        view.aggregate("sum", "siz")
    with pytest.raises(viewlet.SchemaError, match="the column is a VARCHAR, not a number"):
        view.aggregate("sum", "house")
    with pytest.raises(viewlet.SchemaError, match="needs a column"):
        view.aggregate("sum")
    with pytest.raises(viewlet.SchemaError, match="'j' is not a COFACTOR view"):
        view.cofactor()
    with pytest.raises(viewlet.UnsupportedError, match="FACTORIZED outside a view"):
        db.execute("SELECT FACTORIZED * FROM houses")
    assert view.stats()["subscribers"] == 0


def test_a_listed_variable_below_one_that_is_not_needs_another_order() -> None:
    db = viewlet.connect()
    db.execute(SCHEMA)
    with pytest.raises(viewlet.SchemaError, match="'area' is not listed but is above 'house'"):
        db.execute(
            "CREATE MATERIALIZED VIEW j WITH (variable_order = 'area(house, shop)') AS "
            "SELECT FACTORIZED house, shop FROM houses NATURAL JOIN shops"
        )
    assert db.views == ()
