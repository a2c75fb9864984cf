"""The same SQL on Spark, where it is meant to run; skipped without pyspark.

VIEWLET_SPARK_SQL=full asks for the views of every benchmark query and of more random ones, which takes some minutes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.conformance.workload import order_book, warehouse
from tests.oracle.grammar import values
from tests.oracle.grammar.choices import RandomChoices
from tests.oracle.scenario import random_scenario
from tests.spark_plan import sql_functions
from tests.spark_plan.sql_database import Ask, Database
from tests.spark_plan.test_sql import grouped_by
from viewlet.errors import InternalError, UnsupportedError, ViewletError
from viewlet.types import Kind, SqlType
from workloads import finance, tpch
from workloads.query import NamedQuery
from workloads.streams import Batch

pytest.importorskip("pyspark")
FULL = os.environ.get("VIEWLET_SPARK_SQL") == "full"
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "America/New_York",  # it has summer time, and nothing may go through it
}
SAMPLE = tuple(query for query in tpch.QUERIES if FULL or query.name in ("q02", "q13", "q17", "q21"))
MOST_VIEWS = None if FULL else 2
RANDOM_QUERIES = 60 if FULL else 6


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    """A session of its own, with settings and names that no other test sees."""
    session = spark.newSession()
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    return session


def loaded(session: Any, declarations: Mapping[str, str], batches: Sequence[Batch]) -> tuple[Database, Ask]:
    """The rows in the evaluator, and in views of Spark of the same names."""
    database = Database.of(declarations, batches)
    for name, table in database.tables.items():
        schema = ", ".join(f"`{column.name}` {_type_name(column.type)}" for column in table.columns)
        rows = [tuple(row.values()) for row in database.rows(name).to_pylist()]
        session.createDataFrame(rows, schema).createOrReplaceTempView(name)
    return database, lambda sql: session.sql(sql).collect()  # type: ignore[no-any-return]


def _type_name(type: SqlType) -> str:
    names = {Kind.VARCHAR: "STRING", Kind.REAL: "FLOAT", Kind.TIMESTAMP: "TIMESTAMP_NTZ"}
    return names.get(type.kind, str(type))


@pytest.fixture(scope="module")
def tpch_database(session: Any) -> tuple[Database, Ask]:
    return loaded(session, tpch.TABLES, warehouse().rows)


@pytest.fixture(scope="module")
def finance_database(spark_with_codegen: Any) -> tuple[Database, Ask]:
    return loaded(spark_with_codegen, finance.TABLES, order_book().rows)


@pytest.fixture(scope="module")
def typed(session: Any) -> tuple[Database, Ask]:
    return loaded(session, sql_functions.TABLES, [sql_functions.BATCH])


@pytest.mark.parametrize("query", SAMPLE, ids=lambda query: query.name)
def test_warehouse(tpch_database: tuple[Database, Ask], query: NamedQuery) -> None:
    database, ask = tpch_database
    for view in database.views(query)[:MOST_VIEWS]:
        assert database.disagreement(view, ask, "spark") is None


@pytest.mark.parametrize("query", finance.QUERIES if FULL else finance.QUERIES[-1:], ids=lambda query: query.name)
def test_order_book(finance_database: tuple[Database, Ask], query: NamedQuery) -> None:
    database, ask = finance_database
    for view in database.views(query)[:MOST_VIEWS]:
        assert database.disagreement(view, ask, "spark") is None


@pytest.mark.parametrize("group", sql_functions.EXPRESSIONS)
def test_functions(typed: tuple[Database, Ask], group: str) -> None:
    database, ask = typed
    (view,) = database.views(grouped_by(*sql_functions.EXPRESSIONS[group]), ["higher-order"])
    assert database.disagreement(view, ask, "spark") is None


@pytest.mark.parametrize("sql", sql_functions.AGGREGATES)
def test_aggregates_over_values_of_all_types(typed: tuple[Database, Ask], sql: str) -> None:
    database, ask = typed
    for view in database.views(NamedQuery("result", sql), ["higher-order"]):
        assert database.disagreement(view, ask, "spark") is None


@pytest.mark.parametrize("seed", range(RANDOM_QUERIES))
def test_random_queries(session: Any, seed: int) -> None:
    scenario = random_scenario(RandomChoices(seed))
    database, ask = loaded(session, values.TABLES, scenario.batches[:1])
    try:
        views = database.views(NamedQuery("result", scenario.sql), ["higher-order"])
        for view in views:
            database.contents(view)
    except InternalError:
        raise
    except ViewletError:
        pytest.skip("the query itself is refused")
    for view in views[:MOST_VIEWS]:
        try:
            found = database.disagreement(view, ask, "spark")
        except UnsupportedError:
            continue
        assert found is None, f"{scenario.script()}\n{found}"
