"""Definitions as SQL: DuckDB's answer is what the evaluator says a view contains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import add

import duckdb
import pytest

from tests.conformance.workload import Workload, order_book, warehouse
from tests.oracle.oracle import Oracle
from tests.spark_plan import sql_functions
from tests.spark_plan.sql_database import Ask, Contents, Database, number
from viewlet.algebra.functions import FUNCTIONS
from viewlet.errors import UnsupportedError
from viewlet.sqlgen import scalars
from viewlet.sqlgen.definition import definition_sql, rows_sql
from workloads import finance, tpch
from workloads.query import NamedQuery
from workloads.streams import Batch


def loaded(declarations: Mapping[str, str], batches: Sequence[Batch]) -> tuple[Database, Ask]:
    """The rows in the evaluator and in DuckDB."""
    oracle = Oracle()
    for name, statement in declarations.items():
        oracle.create(name, statement)
    for batch in batches:
        oracle.apply(batch)
    return Database.of(declarations, batches), oracle.rows


@cache
def benchmark(workload: Callable[[], Workload]) -> tuple[Database, Ask]:
    return loaded(workload().declarations, workload().rows)


@cache
def values() -> tuple[Database, Ask]:
    return loaded(sql_functions.TABLES, [sql_functions.BATCH])


def grouped_by(*expressions: str) -> NamedQuery:
    """A query whose view has the values of the expressions for keys."""
    keys = ", ".join(f"{text} AS k{i}" for i, text in enumerate(expressions))
    names = ", ".join(f"k{i}" for i in range(len(expressions)))
    return NamedQuery("result", f"SELECT {names}, COUNT(*) FROM (SELECT {keys} FROM v) AS z GROUP BY {names}")


@pytest.mark.parametrize("query", tpch.QUERIES, ids=lambda query: query.name)
def test_warehouse(query: NamedQuery) -> None:
    database, ask = benchmark(warehouse)
    for view in database.views(query):
        assert database.disagreement(view, ask, "duckdb") is None


def test_rows_add_up_to_the_groups() -> None:
    """What is listed of one table, row by row, is what a view holds once equal keys are added up."""
    database, ask = benchmark(warehouse)
    found = joined = 0
    for view in (view for query in tpch.QUERIES for view in database.views(query)):
        rows = rows_sql(view, database.kept, "duckdb", lambda name: name)
        if rows is None:
            continue
        found, width, total = found + 1, len(view.keys), Contents()
        for row in ask(rows.sql):
            key, added = tuple(row[:width]), tuple(map(number, row[width:]))
            total[key] = tuple(map(add, total.get(key, (0,) * len(added)), added))
        expected = database.contents(view)
        assert {key: numbers for key, numbers in total.items() if any(numbers)} == expected, rows.sql
        assert len(list(ask(rows.sql_of_keys))) == len(list(ask(rows.sql)))
        if rows.is_unique:
            joined += "JOIN" in rows.source
            contents = [(tuple(row[:width]), tuple(map(number, row[width:]))) for row in ask(rows.sql_of_contents)]
            assert len(contents) == len(expected)
            assert dict(contents) == expected, rows.sql_of_contents
    assert found > 20
    assert joined > 5


def test_rows_are_unique_where_primary_keys_say_so() -> None:
    declared = {
        "s": "CREATE TABLE s (k BIGINT, p BIGINT NOT NULL, x BIGINT NOT NULL, PRIMARY KEY (k, p))",
        "t": "CREATE TABLE t (p BIGINT PRIMARY KEY, g BIGINT NOT NULL)",
        "u": "CREATE TABLE u (k BIGINT PRIMARY KEY, x BIGINT NOT NULL)",
    }
    database, _ = loaded(declared, [])
    for sql, is_unique in {
        "SELECT k, p, SUM(x) FROM s GROUP BY k, p": True,
        "SELECT k, SUM(x) FROM s GROUP BY k": False,
        "SELECT k, p, g, SUM(x) FROM s JOIN t USING (p) GROUP BY k, p, g": True,
        "SELECT k, p, SUM(x) FROM s JOIN t USING (p) GROUP BY k, p": True,
        "SELECT p, g, SUM(x) FROM s JOIN t USING (p) GROUP BY p, g": None,
        "SELECT k, t.p, SUM(x) FROM s JOIN t ON s.x = t.g GROUP BY k, t.p": None,
        "SELECT k, SUM(x) FROM u GROUP BY k": False,
    }.items():
        view = database.program(NamedQuery("v", sql), "higher-order").views[0]
        tables = database.kept | {"u": database.tables["u"]}  # a stream, which may have a key twice
        rows = rows_sql(view, tables, "spark", lambda name: name)
        assert (None if rows is None else rows.is_unique) == is_unique, sql


def test_what_is_not_listed_row_by_row() -> None:
    declared = {
        "s": "CREATE TABLE s (k BIGINT NOT NULL, x BIGINT NOT NULL, w DECIMAL(38,0) NOT NULL)",
        "t": "CREATE TABLE t (k BIGINT NOT NULL)",
    }
    database, _ = loaded(declared, [])
    for sql, is_listed in {
        "SELECT k, SUM(x), COUNT(*) FROM s WHERE x > 2 GROUP BY k": True,
        "SELECT k, SUM(x + 1) FROM s GROUP BY k": True,
        "SELECT SUM(x) FROM s": False,
        "SELECT k, SUM(w) FROM s GROUP BY k": False,
        "SELECT k, SUM(x * x) FROM s GROUP BY k": False,
        "SELECT k, SUM(x) FROM s JOIN t USING (k) GROUP BY k": False,
    }.items():
        view = database.program(NamedQuery("v", sql), "higher-order").views[0]
        assert (rows_sql(view, database.tables, "spark", lambda name: name) is not None) == is_listed, sql


@pytest.mark.parametrize("query", finance.QUERIES, ids=lambda query: query.name)
def test_order_book(query: NamedQuery) -> None:
    database, ask = benchmark(order_book)
    for view in database.views(query):
        assert database.disagreement(view, ask, "duckdb") is None


@pytest.mark.parametrize("expression", [text for group in sql_functions.EXPRESSIONS.values() for text in group])
def test_functions(expression: str) -> None:
    database, ask = values()
    for view in database.views(grouped_by(expression), ["higher-order"]):
        assert database.disagreement(view, ask, "duckdb") is None


@pytest.mark.parametrize("sql", sql_functions.AGGREGATES)
def test_aggregates_over_values_of_all_types(sql: str) -> None:
    database, ask = values()
    for view in database.views(NamedQuery("result", sql)):
        assert database.disagreement(view, ask, "duckdb") is None


def test_every_function_of_the_calculus_is_known_in_sql() -> None:
    exact = {"square", "square_error"}  # hosts round their sums, which variances of doubles cannot bear
    assert set(FUNCTIONS) - set(scalars.FUNCTIONS) == exact
    assert not set(scalars.FUNCTIONS) - set(FUNCTIONS)


def test_variances_of_doubles_are_loaded_by_triggers() -> None:
    database, _ = values()
    for view in database.views(NamedQuery("result", "SELECT i, VAR_POP(x) FROM v GROUP BY i")):
        with pytest.raises(UnsupportedError, match="loaded by its triggers"):
            definition_sql(view, database.tables, "spark")


def test_rows_may_come_with_their_multiplicity() -> None:
    batch: Batch = {"r": [((1, 2), 2), ((1, None), 3), ((2, 2), 1)], "s": [((2, 5), 2), ((None, 7), 4)]}
    tables = {name: f"CREATE TABLE {name} (a INTEGER, b INTEGER)" for name in batch}
    database = Database.of(tables, [batch])
    connection = duckdb.connect()
    for name in batch:
        connection.register(name, database.rows(name, with_multiplicity=True))
    query = NamedQuery("result", "SELECT r.a, SUM(s.b), COUNT(*) FROM r JOIN s ON r.b = s.a GROUP BY r.a")
    for view in database.views(query):
        found = database.disagreement(view, lambda sql: connection.execute(sql).fetchall(), "duckdb", "_multiplicity")
        assert found is None


def test_fields_over_the_same_rows_read_their_tables_once() -> None:
    database, _ = benchmark(warehouse)
    (view,) = (view for view in database.views(next(q for q in tpch.QUERIES if q.name == "q01"), ["higher-order"]))
    sql = definition_sql(view, database.tables, source=lambda name: f"lake.{name}")
    assert sql.count("lake.lineitem") == 1
    assert len(view.fields) > 3


def test_relations_wait_for_what_they_can_be_joined_on() -> None:
    """A nested sum that reads suppliers and orders starts from pairs that have a line item, not from all pairs."""
    database, _ = benchmark(warehouse)
    for view in database.views(next(q for q in tpch.QUERIES if q.name == "q21")):
        assert "CROSS JOIN" not in definition_sql(view, database.tables)


def test_what_sql_cannot_say_is_named() -> None:
    database, _ = values()
    (view,) = database.views(grouped_by("CAST(x AS VARCHAR)"), ["higher-order"])
    with pytest.raises(UnsupportedError, match="the text of a DOUBLE"):
        definition_sql(view, database.tables)
