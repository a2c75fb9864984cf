"""The tables and views of the demonstration, as a user would write them.

The queries are plain SQL that DuckDB understands too, so that the check at the end runs the very same text. Each
ordering ends in a key: with ties, two right answers to LIMIT could differ.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA = {
    "nation": "CREATE STATIC TABLE nation (n_nationkey BIGINT PRIMARY KEY, n_name VARCHAR)",
    "customer": """CREATE TABLE customer (
        c_custkey BIGINT PRIMARY KEY, c_name VARCHAR, c_nationkey BIGINT, c_acctbal DECIMAL(15,2),
        c_mktsegment VARCHAR)""",
    "orders": """CREATE TABLE orders (
        o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT, o_totalprice DECIMAL(15,2), o_orderdate DATE)""",
    "lineitem": """CREATE TABLE lineitem (
        l_orderkey BIGINT, l_linenumber INTEGER, l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2),
        l_discount DECIMAL(15,2), l_returnflag VARCHAR, l_linestatus VARCHAR, l_shipdate DATE,
        PRIMARY KEY (l_orderkey, l_linenumber))""",
}
"""Table -> its declaration. Tables of TPC-H, with the columns that the views read."""


@dataclass(frozen=True, slots=True)
class DemoView:
    name: str
    title: str
    query: str


VIEWS = (
    DemoView(
        "pricing_summary",
        "Pricing summary: an aggregate",
        """
        SELECT l_returnflag AS flag, l_linestatus AS line, COUNT(*) AS items,
               SUM(l_extendedprice * (1 - l_discount)) AS revenue, AVG(l_discount) AS discount
        FROM lineitem
        WHERE l_shipdate <= DATE '1998-09-02'
        GROUP BY l_returnflag, l_linestatus
        ORDER BY flag, line
        """,
    ),
    DemoView(
        "revenue_by_nation",
        "Revenue by nation: a join",
        """
        SELECT n_name AS nation, SUM(l_extendedprice * (1 - l_discount)) AS revenue, COUNT(*) AS items
        FROM nation
        JOIN customer ON c_nationkey = n_nationkey
        JOIN orders ON o_custkey = c_custkey
        JOIN lineitem ON l_orderkey = o_orderkey
        GROUP BY n_name
        ORDER BY revenue DESC, nation
        """,
    ),
    DemoView(
        "top_customers",
        "Top five customers: ORDER BY ... LIMIT",
        """
        SELECT c_name AS customer, SUM(o_totalprice) AS spent, COUNT(*) AS orders
        FROM customer JOIN orders ON o_custkey = c_custkey
        GROUP BY c_custkey, c_name
        ORDER BY spent DESC, customer
        LIMIT 5
        """,
    ),
    DemoView(
        "large_orders",
        "Large orders: a nested aggregate",
        """
        SELECT o_orderkey AS order_key, o_orderdate AS day, o_totalprice AS price
        FROM orders
        WHERE (SELECT SUM(l_quantity) FROM lineitem WHERE l_orderkey = o_orderkey) > 250
        ORDER BY price DESC, order_key
        """,
    ),
    DemoView(
        "idle_customers",
        "Customers without orders: NOT EXISTS",
        """
        SELECT c_mktsegment AS segment, COUNT(*) AS customers, SUM(c_acctbal) AS balance
        FROM customer
        WHERE NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)
        GROUP BY c_mktsegment
        ORDER BY segment
        """,
    ),
)
