"""Wrong inputs: each raises the right class of error, names the fragment, and leaves everything as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import viewlet
from viewlet import Connection, DataError, SchemaError, SqlError, UnsupportedError, ViewletError

Action = Callable[[Connection], Any]


def sql(text: str) -> Action:
    return lambda db: db.execute(text)


def view(select: str) -> Action:
    return lambda db: db.execute(f"CREATE MATERIALIZED VIEW wrong AS {select}")


def insert(table: str, rows: object) -> Action:
    return lambda db: db.insert(table, rows)


def delete(table: str, rows: object) -> Action:
    return lambda db: db.delete(table, rows)


def apply(**batch: object) -> Action:
    return lambda db: db.apply(batch)


ORDER = {"orderkey": 9, "custkey": 7, "orderdate": "2026-01-02", "total": 1}
ADA = {"custkey": 7, "name": "Ada"}

CASES: dict[str, tuple[Action, type[ViewletError], str]] = {
    # -- syntax
    "misspelt SELECT": (view("SELEC custkey FROM orders"), SqlError, "SELEC"),
    "missing expression": (view("SELECT custkey, FROM WHERE orders"), SqlError, "WHERE"),
    "open parenthesis": (view("SELECT (custkey FROM orders"), SqlError, "custkey"),
    "open string": (view("SELECT custkey FROM orders WHERE orderdate = '2026"), SqlError, "'2026"),
    "not SQL": (sql("hello world"), SqlError, "hello"),
    "table without columns": (sql("CREATE TABLE t"), SqlError, "t"),
    "ad-hoc syntax": (sql("SELECT FROM WHERE"), SqlError, "WHERE"),
    # -- names
    "unknown table in a view": (view("SELECT 1 AS a FROM ordres"), ViewletError, "ordres"),
    "unknown column": (view("SELECT custkye FROM orders"), SqlError, "custkye"),
    "unknown column in WHERE": (view("SELECT custkey FROM orders WHERE prize > 1"), SqlError, "prize"),
    "unknown qualifier": (view("SELECT o.custkey FROM orders"), SqlError, "o.custkey"),
    "ambiguous column": (view("SELECT custkey FROM orders, customer"), SqlError, "custkey"),
    "column outside GROUP BY": (view("SELECT custkey, total FROM orders GROUP BY custkey"), SqlError, "total"),
    "aggregate in WHERE": (view("SELECT custkey FROM orders WHERE SUM(total) > 1"), SqlError, "SUM(total)"),
    "unknown function": (view("SELECT frobnicate(total) AS x FROM orders"), SqlError, "frobnicate"),
    "unknown table in an ad-hoc query": (sql("SELECT * FROM ordres"), SqlError, "ordres"),
    "unknown column in an ad-hoc query": (sql("SELECT custkye FROM orders"), SqlError, "custkye"),
    "insert into an unknown table": (insert("ordres", [(1,)]), SchemaError, "did you mean 'orders'"),
    "insert into a view": (insert("spend", [(1, 1, 1)]), SchemaError, "'spend' is a view"),
    "read an unknown view": (lambda db: db.view("spent"), SchemaError, "did you mean 'spend'"),
    "read a table as a view": (lambda db: db.view("orders"), SchemaError, "'orders' is a table"),
    "table declared twice": (sql("CREATE TABLE orders (a BIGINT)"), SchemaError, "orders"),
    "view named like a table": (
        sql("CREATE MATERIALIZED VIEW orders AS SELECT custkey FROM customer"),
        SchemaError,
        "orders",
    ),
    "view declared twice": (
        sql("CREATE MATERIALIZED VIEW spend AS SELECT custkey FROM customer"),
        SchemaError,
        "spend",
    ),
    "column declared twice": (sql("CREATE TABLE t (a BIGINT, A BIGINT)"), ViewletError, "a"),
    "primary key of no column": (sql("CREATE TABLE t (a BIGINT, PRIMARY KEY (b))"), ViewletError, "b"),
    "drop what is not there": (sql("DROP TABLE nowhere"), SchemaError, "nowhere"),
    "drop a table in use": (sql("DROP TABLE orders"), SchemaError, "'spend'"),
    "drop a view in use": (sql("DROP VIEW spend"), SchemaError, "'rich'"),
    "replace a view in use": (
        sql("CREATE OR REPLACE MATERIALIZED VIEW spend AS SELECT 1 AS a FROM orders"),
        SchemaError,
        "'rich'",
    ),
    "explain what is not there": (lambda db: db.explain("spent"), SchemaError, "spent"),
    "explain an unknown stage": (lambda db: db.explain("spend", stage="magic"), SqlError, "magic"),
    "unknown strategy": (
        sql("CREATE MATERIALIZED VIEW wrong WITH (strategy = 'magic') AS SELECT custkey FROM orders"),
        SqlError,
        "magic",
    ),
    # -- types
    "unknown type": (sql("CREATE TABLE t (a GEOMETRY)"), SqlError, "GEOMETRY"),
    "sum of strings": (view("SELECT SUM(name) AS s FROM customer"), SqlError, "name"),
    "string plus number": (view("SELECT name + 1 AS s FROM customer"), SqlError, "name"),
    "number compared with a word": (view("SELECT custkey FROM orders WHERE total > 'abc'"), SqlError, "abc"),
    "bad date literal": (
        view("SELECT custkey FROM orders WHERE orderdate < DATE '2026-13-01'"),
        SqlError,
        "2026-13-01",
    ),
    "set operation of different widths": (
        view("SELECT custkey FROM orders UNION SELECT custkey, name FROM customer"),
        SqlError,
        "UNION",
    ),
    "text for an integer": (
        insert("orders", [("one", 7, None, None)]),
        DataError,
        "orders.orderkey (BIGINT), row 1: 'one'",
    ),
    "boolean for an integer": (insert("orders", [(True, 7, None, None)]), DataError, "True"),
    "fraction for an integer": (insert("orders", pd.DataFrame({"orderkey": [1.5]})), DataError, "1.5"),
    "number for a string": (insert("customer", [(9, 9)]), DataError, "customer.name (VARCHAR), row 1: 9"),
    "impossible date": (insert("orders", [ORDER | {"orderdate": "2026-02-30"}]), DataError, "'2026-02-30'"),
    "time for a date": (
        insert("orders", [ORDER | {"orderdate": pd.Timestamp("2026-01-01 12:00")}]),
        DataError,
        "time of day",
    ),
    # -- values
    "integer overflow": (insert("orders", [(2**63, 7, None, None)]), DataError, "9223372036854775808"),
    "decimal overflow": (insert("orders", [ORDER | {"total": 10**13}]), DataError, "10000000000000"),
    "too many decimals": (insert("orders", [ORDER | {"total": "1.005"}]), DataError, "'1.005'"),
    "inexact float": (insert("orders", [ORDER | {"total": 0.1 + 0.2}]), DataError, "0.30000000000000004"),
    "NaN": (insert("measure", [(1, float("nan"))]), DataError, "nan"),
    "infinity": (insert("measure", pa.table({"k": [1], "x": [float("inf")]})), DataError, "inf"),
    "check": (insert("measure", [(-1, 0.5)]), DataError, "-1 is refused: CHECK (k >= 0)"),
    "sum overflow": (insert("measure", [(2**63 - 1, 0), (1, 0)]), DataError, "BIGINT"),
    "NULL key": (insert("orders", [(None, 7, None, None)]), DataError, "orders.orderkey (BIGINT), row 1: NULL"),
    "NULL in NOT NULL": (
        insert("customer", [(9, "Cyd"), (10, None)]),
        DataError,
        "customer.name (VARCHAR), row 2: NULL",
    ),
    "missing key": (insert("orders", [{"custkey": 7}]), DataError, "orders.orderkey is missing"),
    "duplicate key": (insert("orders", [ORDER | {"orderkey": 1}]), DataError, "orderkey=1"),
    "duplicate key within the batch": (insert("orders", [ORDER, ORDER | {"total": 2}]), DataError, "orderkey=9"),
    "the same row twice": (insert("customer", [(9, "Cyd"), (9, "Cyd")]), DataError, "duplicate key (custkey)"),
    "absent delete": (delete("customer", [(7, "Adam")]), DataError, "name='Adam'"),
    "delete twice": (delete("customer", [(7, "Ada"), (7, "Ada")]), DataError, "name='Ada'"),
    "one bad table spoils the batch": (
        apply(orders=[ORDER], customer=[ADA | {"_multiplicity": -2}]),
        DataError,
        "'Ada'",
    ),
    # -- shape of the data
    "one tuple": (insert("customer", (9, "Cyd")), DataError, "[(9, 'Cyd')]"),
    "one dict": (insert("customer", ADA), DataError, "list of rows"),
    "a string": (insert("customer", "Cyd"), DataError, "'Cyd'"),
    "too few values": (insert("customer", [(9, "Cyd"), (10,)]), DataError, "row 2: (10,)"),
    "misspelt column": (insert("customer", [{"custkey": 9, "nam": "Cyd"}]), DataError, "did you mean 'name'"),
    "extra column": (insert("customer", pd.DataFrame({"custkey": [9], "name": ["C"], "age": [3]})), DataError, "'age'"),
    "both change columns": (
        apply(customer=[ADA | {"_multiplicity": 1, "_change_type": "insert"}]),
        DataError,
        "_change_type",
    ),
    "unknown change type": (apply(customer=[ADA | {"_change_type": "upset"}]), DataError, "'upset'"),
    "fractional multiplicity": (apply(customer=[ADA | {"_multiplicity": 0.5}]), DataError, "0.5"),
    "change column in insert": (insert("customer", [ADA | {"_multiplicity": 1}]), DataError, "apply()"),
    "apply to a list": (lambda db: db.apply([ADA]), DataError, "list"),  # type: ignore[arg-type]
    "a table named by a number": (lambda db: db.insert(7, [ADA]), SchemaError, "7"),  # type: ignore[arg-type]
    "SQL that is no text": (lambda db: db.execute(None), SqlError, "NoneType"),  # type: ignore[arg-type]
    # -- kinds of tables
    "static table in use": (insert("nation", [(2, "Ghana")]), SchemaError, "'nation'"),
    "view after the first batch of a stream": (view("SELECT k FROM clicks"), SchemaError, "'clicks'"),
    "reading a stream": (sql("SELECT * FROM clicks"), SchemaError, "'clicks'"),
    # -- valid SQL that is not maintained
    "window function": (
        view("SELECT SUM(total) OVER (PARTITION BY custkey) AS s FROM orders"),
        UnsupportedError,
        "OVER",
    ),
    "recursive query": (
        view("WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) SELECT a FROM r"),
        UnsupportedError,
        "RECURSIVE",
    ),
    "volatile function": (view("SELECT random() AS r FROM orders"), SqlError, "random"),
    "grouping sets": (
        view("SELECT custkey, COUNT(*) AS n FROM orders GROUP BY ROLLUP (custkey)"),
        UnsupportedError,
        "ROLLUP",
    ),
    "statement of another kind": (sql("ALTER TABLE orders SET SCHEMA x"), SqlError, "ALTER"),
    "median": (view("SELECT MEDIAN(total) AS m FROM orders"), SqlError, "MEDIAN"),
}


@pytest.fixture
def shop(db: Connection) -> Connection:
    db.execute(
        """
        CREATE MATERIALIZED VIEW rich AS SELECT custkey FROM spend WHERE total > 10;
        CREATE TABLE measure (k BIGINT CHECK (k >= 0), x DOUBLE);
        CREATE MATERIALIZED VIEW measured AS SELECT SUM(k) AS k, SUM(x) AS x FROM measure;
        CREATE STATIC TABLE nation (k BIGINT, name VARCHAR);
        CREATE STREAM clicks (k BIGINT, n BIGINT);
        INSERT INTO nation VALUES (1, 'France');
        CREATE MATERIALIZED VIEW clicked AS SELECT name, SUM(n) AS n FROM clicks JOIN nation USING (k) GROUP BY name;
        """
    )
    db.insert("clicks", [(1, 5)])
    return db


def state(db: Connection) -> dict[str, object]:
    kept = [name for name in db.tables if name != "clicks"]
    rows: dict[str, object] = {name: db.table(name).rows() for name in kept}
    return rows | {name: db.view(name).rows() for name in db.views} | {"stats": db.stats(), "tables": db.tables}


@pytest.mark.parametrize("case", CASES)
def test_wrong_input(shop: Connection, case: str) -> None:
    action, error, fragment = CASES[case]
    before = state(shop)
    with pytest.raises(error) as caught:
        action(shop)
    assert fragment.lower() in str(caught.value).lower()
    assert not isinstance(caught.value, viewlet.InternalError)
    assert state(shop) == before
    shop.insert("orders", [ORDER])
    shop.delete("orders", [ORDER])


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 45


ODD = [5, 1.5, float("nan"), 10**400, b"x", [], {"t": None}, object(), True]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_arguments_of_other_types_are_refused_by_errors_of_ours(value: Any) -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
    calls: list[Callable[[], object]] = [
        lambda: db.explain("v", value),
        lambda: db.view("v").explain(value),
        lambda: db.explain("SELECT a FROM t", value),
        lambda: db.stream_view("w", initialize=value),
        lambda: db.stream_view("w", initialize="SELECT a FROM t[i]", length=str(value)),  # type: ignore[arg-type]
        lambda: db.stream_views(value),
        lambda: db.stream_views({"w": value}),
        lambda: viewlet.connect(value),
    ]
    if not isinstance(value, dict | list):
        calls.append(lambda: viewlet.connect(aggregates=value))
    if not isinstance(value, int | float) or value != value or value > 1e9:
        calls.append(lambda: db.settle(value))
    for call in calls:
        with pytest.raises(viewlet.ViewletError):
            call()


def test_a_path_of_no_file_system_is_refused() -> None:
    with pytest.raises(viewlet.StateError, match="file names have no such characters"):
        viewlet.connect("\ud800")
