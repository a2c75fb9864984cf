"""Range plans against the interpreter: inequality joins, running sums, extremes, groups, under inserts and deletes.

Values are drawn from few, so that ties, empty ranges and groups that come and go are frequent; once with nothing
negative to add up, where running sums are monotone, and once with, where they are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

import viewlet
from viewlet.changes import RowChange
from viewlet.codegen import engine
from viewlet.codegen.engine import CompiledEngine
from viewlet.errors import DataError
from viewlet.runtime import ordered_index
from viewlet.sql import bind_query, parse_statements
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.plan import plan_query
from viewlet.triggers.store import MapStore
from viewlet.types import Row, Table
from workloads import finance

RUNNING = (
    "SELECT {what} FROM bids o WHERE {left} (SELECT SUM(i.volume) FROM bids i WHERE i.price {op} o.price{also}){by}"
)
LARGEST = "SELECT {key}, s FROM (SELECT {key}, SUM(volume) AS s FROM bids GROUP BY {key}) g"

QUERIES = {
    **{query.name: query.sql for query in finance.QUERIES},
    "extremes by group": "SELECT broker_id, MAX(price) AS high, MIN(volume) AS low FROM bids GROUP BY broker_id",
    "extremes of all": "SELECT MAX(price) AS high, MIN(price) AS low FROM bids",
    "rows of the extreme": "SELECT id, price FROM bids WHERE price = (SELECT MAX(price) FROM bids)",
    "groups of the largest sum": f"{LARGEST} WHERE s = (SELECT MAX(s) FROM ({LARGEST}) h)".format(key="price"),
    "groups above a share": "SELECT price, SUM(volume) AS s FROM bids GROUP BY price "
    "HAVING SUM(volume) > (SELECT SUM(volume) * 0.02 FROM bids)",
    "running >": RUNNING.format(what="SUM(o.price) AS v", left="3000 >", op=">", also="", by=""),
    "running >=": RUNNING.format(
        what="o.broker_id, SUM(o.price) AS v", left="900 >=", op=">=", also="", by=" GROUP BY o.broker_id"
    ),
    "running <": RUNNING.format(
        what="o.broker_id, COUNT(*) AS v", left="900 >=", op="<", also="", by=" GROUP BY o.broker_id"
    ),
    "running <=": RUNNING.format(what="SUM(o.price) AS v", left="900 <", op="<=", also="", by=""),
    "running within groups": RUNNING.format(
        what="o.broker_id, SUM(o.volume) AS v",
        left="300 >=",
        op=">=",
        also=" AND i.broker_id = o.broker_id",
        by=" GROUP BY o.broker_id",
    ),
    **{
        f"count {op}": f"SELECT o.broker_id, COUNT(*) AS c, SUM(o.volume) AS v FROM bids o "
        f"WHERE {left} (SELECT COUNT(*) FROM bids i WHERE i.price {op} o.price) GROUP BY o.broker_id"
        for op, left in ((">", "6 >"), (">=", "9 >="), ("<", "5 >"), ("<=", "3 <"))
    },
    **{
        f"sum or 0, {op}": f"SELECT COUNT(*) AS c, SUM(o.price) AS p FROM bids o "
        f"WHERE {left} (SELECT COALESCE(SUM(i.volume), 0) FROM bids i WHERE i.price {op} o.price{also})"
        for op, left, also in (
            (">", "200 >", " AND i.broker_id = o.broker_id"),
            (">=", "500 <", ""),
            ("<", "400 >", ""),
            ("<=", "90 >=", " AND i.broker_id = o.broker_id"),
        )
    },
    "two running sums": "SELECT SUM(o.price) AS v FROM bids o WHERE "
    "(SELECT COALESCE(SUM(i.volume), 0) FROM bids i WHERE i.price > o.price) < 900 AND "
    "(SELECT COUNT(*) FROM bids i WHERE i.price > o.price) < 30 AND o.price < 150",
    "other tables": "SELECT COUNT(*) AS c, SUM(o.volume) AS v FROM bids o "
    "WHERE 12 > (SELECT COUNT(*) FROM asks i WHERE i.price < o.price)",
    "either": "SELECT COUNT(*) AS c, SUM(a.volume) AS s FROM bids b, asks a "
    "WHERE a.price > b.price + 20 OR b.volume > 50",
    "band join": "SELECT COUNT(*) AS c, SUM(a.volume * b.price) AS s FROM bids b, asks a "
    "WHERE a.price < b.price + 5 AND a.price >= b.price - 7",
    "doubles": "SELECT SUM(CAST(a.volume AS DOUBLE) * b.price) AS s FROM bids b, asks a WHERE a.price < b.price",
    "rows of an inequality": "SELECT b.id, a.id AS other, COUNT(*) AS c FROM bids b, asks a "
    "WHERE a.price > b.price + 150 GROUP BY b.id, a.id",
}


@pytest.fixture(autouse=True)
def whatever_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "READ_BY_CODE_FROM", 0)
    monkeypatch.setattr(ordered_index, "SHORT", 2)


def tables(nullable: bool = False) -> dict[str, Table]:
    found: dict[str, Table] = {}
    for ddl in finance.TABLES.values():
        for statement in parse_statements(ddl.replace(" NOT NULL", "") if nullable else ddl, found):
            found[statement.table.name] = statement.table  # type: ignore[union-attr]
    return found


def changes(random: Random, lowest: int, batches: int, nullable: bool = False) -> Iterator[tuple[str, dict[Row, int]]]:
    """Some rows come and some go."""
    here: dict[str, list[Row]] = {"bids": [], "asks": []}
    for i in range(batches):
        name = ("bids", "asks")[i % 2]
        change: dict[Row, int] = {}
        for _ in range(random.choice((1, 1, 5, 20))):
            if here[name] and random.random() < 0.45:
                row, sign = here[name].pop(random.randrange(len(here[name]))), -1
            else:
                row, sign = _row(random, lowest, nullable), 1
                here[name].append(row)
            change[row] = change.get(row, 0) + sign
        yield name, {row: count for row, count in change.items() if count}


def _row(random: Random, lowest: int, nullable: bool) -> Row:
    ranges = ((0, 1000), (0, 40), (0, 4), (lowest, 60), (-30, 200))
    return tuple(None if nullable and random.random() < 0.15 else random.randrange(low, high) for low, high in ranges)


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("lowest", [0, -9])
@pytest.mark.parametrize("name", QUERIES)
def test_ranges_agree_with_scans(name: str, lowest: int, nullable: bool) -> None:
    random = Random(f"{name} {lowest}")
    known = tables(nullable)
    program = plan_query("q", bind_query(QUERIES[name], known).query, known, "higher-order")
    reference = Interpreter(program, {table: MapStore() for table in known})
    reference.load()
    fast = CompiledEngine(program, known)
    for table, change in changes(random, lowest, 80, nullable):
        reference.apply(table, RowChange(change))
        fast.apply(table, RowChange(change))
        reference.finish()
        assert rounded(fast.result()) == rounded(reference.result())


def rounded(rows: dict[Row, int]) -> dict[Row, int]:
    return {
        tuple(float(f"{value:.12g}") if isinstance(value, float) else value for value in row): count
        for row, count in rows.items()
    }


@pytest.mark.parametrize("name", ["axf", "mst", "psp", "vwap", "groups of the largest sum", "running within groups"])
@pytest.mark.parametrize("nullable", [False, True])
def test_an_index_is_used(name: str, nullable: bool) -> None:
    known = tables(nullable)
    fast = CompiledEngine(plan_query("q", bind_query(QUERIES[name], known).query, known, "higher-order"), known)
    for table, change in changes(Random(1), 0, 40):
        fast.apply(table, RowChange(change))
    fast.result()
    kept = [bool(spec[ordered_index.KEPT]) for store in fast.stores.values() for spec in store.spec]
    assert kept
    assert all(kept)


@pytest.mark.parametrize("name", ["mst", "vwap", "running >", "running <", "count <=", "count >="])
def test_columns_that_may_be_null_have_the_same_plan(name: str) -> None:
    """One descent finds where a running sum crosses a bound, whether prices may be NULL or not."""
    searches = []
    for nullable in (False, True):
        db = viewlet.connect(engine="compiled")
        for ddl in finance.TABLES.values():
            db.execute(ddl.replace(" NOT NULL", "") if nullable else ddl)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {QUERIES[name]}")
        searches.append(db.explain("v", stage="code").count(", NEGATIVES] == 0"))
    assert searches[0] == searches[1] > 0


def test_views_are_fresh_after_every_row() -> None:
    known = tables()
    program = plan_query("q", bind_query(QUERIES["mst"], known).query, known, "higher-order")
    by_row, at_once = CompiledEngine(program, known), CompiledEngine(program, known)
    for table, change in changes(Random(2), 0, 40):
        by_row.apply(table, RowChange(change), each_row=True)
        for row, count in change.items():
            at_once.apply(table, RowChange({row: count}))
        assert by_row.result() == at_once.result()


@pytest.mark.parametrize(("number", "fits"), [(-3, True), (10**9, True), (4 * 10**9, False)])
def test_products_of_three_sums_are_exact_or_refused(number: int, fits: bool) -> None:
    """Each sum fits a word, small or negative; their product fits 38 digits, or must not be wrapped."""
    known: dict[str, Table] = {}
    for name in "rst":
        for statement in parse_statements(f"CREATE TABLE {name} (k BIGINT NOT NULL, v BIGINT NOT NULL)", known):
            known[statement.table.name] = statement.table  # type: ignore[union-attr]
    sql = "SELECT r.k, SUM(r.v * s.v * t.v) AS p FROM r, s, t WHERE r.k = s.k AND s.k = t.k GROUP BY r.k"
    program = plan_query("q", bind_query(sql, known).query, known, "higher-order")
    fast = CompiledEngine(program, known)
    fast.apply("r", RowChange({(1, number): 1000}))
    fast.apply("s", RowChange({(1, number): 1000}))
    if fits:
        fast.apply("t", RowChange({(1, number): 1000}))
        view = next(view for view in program.views if len(view.keys) == 1 and len(view.fields) > 1)
        total = next(n for _, numbers in fast.stores[view.name].items() for n in numbers if abs(n) > 10**9)
        assert total == number**3 * 10**9
        return
    with pytest.raises(DataError, match="overflows"):
        fast.apply("t", RowChange({(1, number * 1000): 10**6}))
