"""Declaring, changing and reading through a connection."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import viewlet
from viewlet import (
    Connection,
    DataError,
    MissingExtraError,
    SchemaError,
    SqlError,
    StateError,
    ViewletError,
)

SPEND = [(7, Decimal("15.00"), 2), (8, Decimal("1.00"), 1)]


def test_the_public_names_are_found_lazily() -> None:
    for name in viewlet.__all__:
        assert getattr(viewlet, name) is not None
    assert set(viewlet.__all__) <= set(dir(viewlet))
    with pytest.raises(AttributeError, match="nothing_here"):
        viewlet.nothing_here  # noqa: B018


def test_a_view_follows_its_table(db: Connection) -> None:
    assert db.view("spend").rows() == SPEND
    db.delete("orders", [(1, 7, date(2026, 1, 2), Decimal("10.50"))])
    assert db.view("spend").rows() == [(7, Decimal("4.50"), 1), (8, Decimal("1.00"), 1)]
    db.update("orders", [(3, 8, "2026-01-03", 1)], [(3, 7, "2026-01-03", 2)])
    assert db.view("spend").rows() == [(7, Decimal("6.50"), 2)]


def test_one_batch_over_several_tables(db: Connection) -> None:
    db.execute("CREATE MATERIALIZED VIEW named AS SELECT name, total FROM orders JOIN customer USING (custkey)")
    epoch = db.apply(
        {
            "customer": [{"custkey": 9, "name": "Cyd", "_multiplicity": 1}],
            "orders": pd.DataFrame(
                {
                    "orderkey": [4, 3, 3],
                    "custkey": [9, 8, 9],
                    "orderdate": ["2026-01-04", "2026-01-03", "2026-01-03"],
                    "total": ["2.00", "1.00", "1.00"],
                    "_change_type": ["insert", "update_preimage", "update_postimage"],
                }
            ),
        }
    )
    assert epoch == 3
    assert db.view("named").rows() == [
        ("Ada", Decimal("4.50")),
        ("Ada", Decimal("10.50")),
        ("Cyd", Decimal("1.00")),
        ("Cyd", Decimal("2.00")),
    ]


def test_only_the_sum_of_a_batch_counts(db: Connection) -> None:
    row = {"orderkey": 9, "custkey": 9, "total": 1}
    assert db.apply({"orders": [row | {"_multiplicity": -1}, row | {"_multiplicity": 1}]}) == 2
    assert db.apply({}) == 2
    assert db.insert("orders", []) == 2
    assert db.epoch == 2
    assert db.view("spend").rows() == SPEND


def test_views_declared_late_start_from_the_rows_already_there(db: Connection) -> None:
    db.execute("CREATE MATERIALIZED VIEW days AS SELECT orderdate, COUNT(*) AS n FROM orders GROUP BY orderdate")
    assert db.view("days").rows() == [(date(2026, 1, 2), 1), (date(2026, 1, 3), 2)]
    db.insert("orders", [(4, 7, None, None)])
    assert db.view("days").rows()[-1] == (None, 1)


def test_rows_come_out_in_every_shape(db: Connection) -> None:
    view = db.view("spend")
    arrow = view.to_arrow()
    assert arrow.schema.types == [pa.int64(), pa.decimal128(38, 2), pa.int64()]
    assert [tuple(row.values()) for row in arrow.to_pylist()] == SPEND
    assert view.to_pandas()["total"].tolist() == [Decimal("15.00"), Decimal("1.00")]
    assert isinstance(view.to_polars(), pl.DataFrame)
    assert view.to_polars().rows() == SPEND
    assert view.columns == ("custkey", "total", "n")
    assert str(view.schema[1].type) == "DECIMAL(38,2)"
    assert len(view) == 2
    assert view.stats()["rows"] == 2


def test_tables_are_read_like_views(db: Connection) -> None:
    assert db.table("customer").rows() == [(7, "Ada"), (8, "Bob")]
    assert db.table("orders").to_arrow().num_rows == 3
    assert db.tables == ("orders", "customer")
    assert db.views == ("spend",)
    stats: Any = db.stats()
    assert stats["epoch"] == 2
    assert stats["tables"]["orders"]["rows"] == 3
    assert stats["views"]["spend"]["rows"] == 2


def test_what_is_read_can_be_inserted_again(db: Connection) -> None:
    for data in (db.table("orders").to_arrow(), db.table("orders").to_pandas(), db.table("orders").to_polars()):
        db.delete("orders", data)
        assert db.view("spend").rows() == []
        db.insert("orders", data)
        assert db.view("spend").rows() == SPEND


def test_names_are_found_in_any_case(db: Connection) -> None:
    assert db.view("Spend").rows() == SPEND
    db.insert("ORDERS", [{"OrderKey": 4, "CustKey": 8, "Total": 1}])
    assert db.view("SPEND").rows()[-1] == (8, Decimal("2.00"), 2)


def test_order_limit_and_offset_are_those_of_the_view(db: Connection) -> None:
    db.execute("CREATE MATERIALIZED VIEW top AS SELECT orderkey FROM orders ORDER BY total DESC LIMIT 2")
    db.execute("CREATE MATERIALIZED VIEW rest AS SELECT total FROM orders ORDER BY total DESC LIMIT 5 OFFSET 1")
    assert db.view("top").rows() == [(1,), (2,)]
    assert db.view("top").columns == ("orderkey",)
    assert db.view("rest").rows() == [(Decimal("4.50"),), (Decimal("1.00"),)]
    db.insert("orders", [(4, 7, None, None), (5, 7, None, 99)])
    assert db.view("top").to_arrow().to_pydict() == {"orderkey": [5, 1]}
    assert len(db.view("rest")) == 4


def test_ties_fall_by_the_remaining_columns(db: Connection) -> None:
    db.execute("CREATE MATERIALIZED VIEW tied AS SELECT name, n FROM customer JOIN spend USING (custkey) ORDER BY n")
    db.insert("customer", [(9, "Abe")])
    db.insert("orders", [(4, 9, None, 1)])
    assert db.view("tied").rows() == [("Abe", 1), ("Bob", 1), ("Ada", 2)]


def test_duplicates_are_kept() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    db.apply({"t": [{"a": 1, "_multiplicity": 3}, {"a": None, "_multiplicity": 1}]})
    assert db.view("v").rows() == [(1,), (1,), (1,), (None,)]
    db.delete("t", [(1,)])
    assert db.table("t").rows() == [(1,), (1,), (None,)]
    with pytest.raises(DataError, match="it is there 2 times"):
        db.apply({"t": [{"a": 1, "_multiplicity": -3}]})


def test_ad_hoc_queries_see_tables_and_views(db: Connection) -> None:
    answer = db.execute("SELECT name, total FROM spend JOIN customer USING (custkey) WHERE total > 1 ORDER BY 1")
    assert answer.to_pydict() == {"name": ["Ada"], "total": [Decimal("15.00")]}
    assert db.execute("WITH big AS (SELECT * FROM Orders) SELECT COUNT(*) AS n FROM big").to_pydict() == {"n": [3]}
    assert db.execute("SELECT 1 / 0 AS x, 1 % 0 AS y").to_pydict() == {"x": [None], "y": [None]}


def test_ad_hoc_queries_do_not_see_variables_of_the_program(db: Connection) -> None:
    secret = pa.table({"a": [1]})
    with pytest.raises(SqlError, match="secret"):
        db.execute("SELECT * FROM secret")
    assert secret.num_rows == 1


def test_sql_changes_rows(db: Connection) -> None:
    db.execute("INSERT INTO orders VALUES (4, 8, DATE '2026-01-04', 2.25)")
    db.execute("INSERT INTO orders (orderkey, custkey) SELECT orderkey + 10, custkey FROM orders WHERE custkey = 7")
    assert db.view("spend").rows() == [(7, Decimal("15.00"), 4), (8, Decimal("3.25"), 2)]
    db.execute("UPDATE orders SET total = total + 1, custkey = 8 WHERE orderkey = 1")
    assert db.view("spend").rows() == [(7, Decimal("4.50"), 3), (8, Decimal("14.75"), 3)]
    db.execute("DELETE FROM orders WHERE custkey = 7")
    assert db.view("spend").rows() == [(8, Decimal("14.75"), 3)]
    assert db.epoch == 6


def test_a_script_answers_with_its_last_statement(empty: Connection) -> None:
    answer = empty.execute(
        "INSERT INTO customer VALUES (1, 'a;b'); -- a comment; with a semicolon\nSELECT * FROM customer;"
    )
    assert answer.to_pydict() == {"custkey": [1], "name": ["a;b"]}
    assert empty.execute("") is None


def test_drop(db: Connection) -> None:
    db.execute("CREATE MATERIALIZED VIEW rich AS SELECT custkey FROM spend WHERE total > 10")
    for statement, user in (("DROP TABLE orders", "spend"), ("DROP VIEW spend", "rich")):
        with pytest.raises(SchemaError, match=user):
            db.execute(statement)
    spend = db.view("spend")
    db.execute("DROP VIEW rich; DROP MATERIALIZED VIEW spend; DROP TABLE orders; DROP TABLE IF EXISTS orders")
    assert (db.tables, db.views) == (("customer",), ())
    with pytest.raises(SchemaError, match="spend"):
        spend.rows()
    with pytest.raises(SchemaError, match="orders"):
        db.execute("DROP TABLE orders")


def test_create_or_replace_and_if_not_exists(db: Connection) -> None:
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW spend AS SELECT custkey FROM orders")
    assert db.view("spend").rows() == [(7,), (7,), (8,)]
    db.execute("CREATE MATERIALIZED VIEW IF NOT EXISTS spend AS SELECT orderkey FROM orders")
    db.execute("CREATE TABLE IF NOT EXISTS orders (x BIGINT)")
    assert db.view("spend").columns == ("custkey",)
    db.insert("orders", [(4, 9, None, None)])
    assert db.view("spend").rows()[-1] == (9,)


@pytest.mark.parametrize("strategy", ["auto", "recompute", "first-order", "higher-order", "view-tree"])
def test_strategies(db: Connection, strategy: str) -> None:
    db.execute(
        f"CREATE MATERIALIZED VIEW v WITH (strategy = '{strategy}') AS "
        "SELECT name, SUM(total) AS t FROM orders JOIN customer USING (custkey) GROUP BY name"
    )
    db.delete("customer", [(8, "Bob")])
    db.insert("orders", [(4, 7, None, "0.01")])
    assert db.view("v").rows() == [("Ada", Decimal("15.01"))]
    if strategy != "auto":
        assert strategy in db.explain("v")


def test_explain_shows_every_stage(db: Connection) -> None:
    for stage in ("sql", "algebra", "passes", "views", "triggers"):
        text = db.explain("spend", stage=stage)
        assert text.strip()
        assert db.view("spend").explain(stage) == text
    assert "orders" in db.explain("spend")
    lines = db.execute("EXPLAIN spend")
    assert lines.num_columns == 1
    assert lines.num_rows > 3
    with pytest.raises(SqlError, match="algebra"):
        db.explain("spend", stage="algebr")


def test_handles_print_nicely(db: Connection) -> None:
    db.execute("CREATE TABLE t (a BIGINT, b VARCHAR)")
    db.insert("t", [(n, "<b>") for n in range(11)] + [(None, None)])
    text, page = repr(db.table("t")), db.table("t")._repr_html_()
    assert text.splitlines()[0] == "StoredTable t (12 rows)"
    assert text.splitlines()[-1] == "..."
    assert "&lt;b&gt;" in page
    assert "first 10 shown" in page
    assert repr(db.view("spend")).splitlines()[-1].split() == ["8", "1.00", "1"]
    assert "spend" in repr(db)


def test_a_closed_connection_says_so(db: Connection) -> None:
    view = db.view("spend")
    with db:
        pass
    db.close()
    for action in (lambda: db.epoch, lambda: db.execute("SELECT 1"), lambda: db.insert("orders", []), view.rows):
        with pytest.raises(ViewletError, match="closed"):
            action()
    assert "closed" in repr(db)


def test_what_is_no_spark_session_is_refused() -> None:
    with pytest.raises((StateError, MissingExtraError), match=r"(?i)spark"):
        viewlet.connect(spark=object())
