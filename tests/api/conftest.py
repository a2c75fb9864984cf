"""A small shop that most tests of the API share."""

from __future__ import annotations

import pytest

import viewlet

SCHEMA = """
CREATE TABLE orders (orderkey BIGINT PRIMARY KEY, custkey BIGINT, orderdate DATE, total DECIMAL(15,2));
CREATE TABLE customer (custkey BIGINT PRIMARY KEY, name VARCHAR NOT NULL);
CREATE MATERIALIZED VIEW spend AS SELECT custkey, SUM(total) AS total, COUNT(*) AS n FROM orders GROUP BY custkey;
"""
ORDERS = [(1, 7, "2026-01-02", "10.50"), (2, 7, "2026-01-03", "4.50"), (3, 8, "2026-01-03", "1.00")]
CUSTOMERS = [(7, "Ada"), (8, "Bob")]


@pytest.fixture
def empty() -> viewlet.Connection:
    db = viewlet.connect()
    db.execute(SCHEMA)
    return db


@pytest.fixture
def db(empty: viewlet.Connection) -> viewlet.Connection:
    empty.insert("orders", ORDERS)
    empty.insert("customer", CUSTOMERS)
    return empty
