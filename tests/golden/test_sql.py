"""Small SQL queries followed through every stage: algebra, views, triggers."""

from __future__ import annotations

import pytest

from tests.golden.conftest import Golden
from tests.golden.programs import describe_triggers, describe_views
from viewlet.algebra.checker import check
from viewlet.algebra.printer import show_block
from viewlet.sql import CreateTable, bind_query, parse_statements
from viewlet.triggers.compiler import compile_query

SCHEMA = """
CREATE TABLE orders (id BIGINT NOT NULL, customer BIGINT NOT NULL, placed DATE NOT NULL, PRIMARY KEY (id));
CREATE TABLE items (id BIGINT NOT NULL, price DECIMAL(10,2) NOT NULL, quantity INTEGER);
CREATE TABLE people (customer BIGINT NOT NULL, name VARCHAR, age INTEGER);
"""
TABLES = {each.table.name: each.table for each in parse_statements(SCHEMA, {}) if isinstance(each, CreateTable)}

QUERIES = {
    "grouped join": """
        SELECT customer, SUM(price * quantity) AS spent, COUNT(*) AS lines
        FROM orders JOIN items USING (id) WHERE placed >= DATE '2026-01-01' GROUP BY customer""",
    "distinct": "SELECT DISTINCT customer FROM orders WHERE placed < DATE '2026-01-01'",
    "exists": "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM items i WHERE i.id = o.id AND i.price > 10)",
    "outer join": "SELECT p.name, o.id FROM people p LEFT JOIN orders o ON p.customer = o.customer",
    "correlated average": """
        SELECT i.id, i.price FROM items i
        WHERE i.price > (SELECT AVG(j.price) FROM items j WHERE j.id = i.id)""",
    "minimum and having": "SELECT customer, MIN(placed) AS first FROM orders GROUP BY customer HAVING COUNT(*) > 1",
    "union": "SELECT customer FROM orders UNION ALL SELECT customer FROM people WHERE age > 30",
}


@pytest.mark.parametrize("name", QUERIES)
def test_sql(name: str, golden: Golden) -> None:
    query = bind_query(QUERIES[name], TABLES).query
    check(query.expr, tables=TABLES)
    program = compile_query("v", query, TABLES, "higher-order")
    golden("algebra", show_block(query.expr))
    golden("views", describe_views(program))
    golden("triggers", describe_triggers(program))
