"""What loads read, and in which order they join it."""

from __future__ import annotations

import re

import duckdb
import pytest

from tests.spark_plan.sql_database import Database
from viewlet.sqlgen.columns import columns_read
from viewlet.sqlgen.definition import definition_sql
from viewlet.triggers.program import ViewDefinition
from workloads import finance, tpch
from workloads.query import NamedQuery

WAREHOUSE = Database.of(tpch.TABLES, [])
ORDER_BOOK = Database.of(finance.TABLES, [])


def database_of(query: NamedQuery) -> Database:
    return ORDER_BOOK if query in finance.QUERIES else WAREHOUSE


def tables_in_order(view: ViewDefinition) -> list[str]:
    sql = definition_sql(view, WAREHOUSE.tables)
    return re.findall(r"(?:FROM|JOIN) `(\w+)`", sql)


def the_view(sql: str) -> ViewDefinition:
    (view, *_) = WAREHOUSE.views(NamedQuery("r", sql), ["higher-order"])
    return view


def test_rows_that_share_a_country_are_not_paired_before_they_have_to_be() -> None:
    view = the_view(
        """SELECT SUM(l_quantity) FROM customer, supplier, orders, lineitem
        WHERE c_nationkey = s_nationkey AND c_custkey = o_custkey
        AND o_orderkey = l_orderkey AND l_suppkey = s_suppkey"""
    )
    assert tables_in_order(view) == ["customer", "orders", "lineitem", "supplier"]


def test_a_key_that_was_unique_is_no_longer_after_rows_were_multiplied() -> None:
    """Suppliers and customers join on the key of a nation each, but there is one row per nation for the first only."""
    view = the_view(
        """SELECT n_name, COUNT(*) FROM nation, supplier, customer, orders, lineitem
        WHERE n_nationkey = s_nationkey AND n_nationkey = c_nationkey AND c_custkey = o_custkey
        AND o_orderkey = l_orderkey AND l_suppkey = s_suppkey GROUP BY n_name"""
    )
    assert tables_in_order(view) == ["nation", "supplier", "lineitem", "orders", "customer"]


@pytest.mark.parametrize("query", [*tpch.QUERIES, *finance.QUERIES], ids=lambda query: query.name)
def test_definitions_read_no_other_columns(query: NamedQuery) -> None:
    """DuckDB finds all names in tables that have nothing but what is said to be read."""
    database = database_of(query)
    for view in database.views(query, ["higher-order"]):
        with duckdb.connect() as connection:
            for name, read in columns_read([view], database.tables).items():
                kept = [column for column in database.tables[name].columns if column.name in read]
                declared = ", ".join(f'"{column.name}" {column.type}' for column in kept) or "unread INTEGER"
                connection.execute(f'CREATE TABLE "{name}" ({declared})')
            connection.execute("EXPLAIN " + definition_sql(view, database.tables, "duckdb"))


def test_columns_that_nobody_asks_for_are_not_read() -> None:
    query = next(query for query in tpch.QUERIES if query.name == "q06")
    views = WAREHOUSE.views(query, ["higher-order"])
    expected = {"l_shipdate", "l_discount", "l_quantity", "l_extendedprice"}
    assert columns_read(views, WAREHOUSE.tables) == {"lineitem": expected}
