"""PARTITION BY: which columns rows are spread by, said in SQL; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import viewlet
from viewlet import SchemaError
from viewlet.connection.facade import Connection
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.spark.run.state.partition import forget

ORDERS = "CREATE TABLE orders (id BIGINT NOT NULL, customer VARCHAR, city VARCHAR, PRIMARY KEY (id))"
ITEMS = "CREATE STREAM items (id BIGINT NOT NULL, price BIGINT)"
REVENUE = "SELECT customer, SUM(price) AS total FROM orders JOIN items USING (id) GROUP BY customer"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparkConnection]:
    with connect_inline(tmp_path, 3, sync=False) as db:
        yield db
    forget()


def locations(db: SparkConnection, view: str) -> dict[str, str]:
    known = db.view(view).stats()["homes"]
    assert isinstance(known, dict)
    return known


def fill(db: Connection) -> list[tuple[object, ...]]:
    db.apply({"orders": [(1, "ada", "Bern"), (2, "bob", None), (3, None, "Rome")], "items": [(1, 5), (2, 7), (3, 1)]})
    db.delete("orders", [(2, "bob", None)])
    return db.view("revenue").rows()


def test_columns_of_a_table(db: SparkConnection, tmp_path: Path) -> None:
    db.execute(f"{ORDERS} PARTITION BY (customer, city); {ITEMS}; CREATE MATERIALIZED VIEW revenue AS {REVENUE}")
    assert "[customer, city]" not in locations(db, "revenue").values()
    kept = db._host.cluster.units["table orders"].distributed.locations
    assert {name: str(location) for name, location in kept.items()} == {
        "kept_orders": "[customer, city]",
        "keys_of_orders": "[id]",
    }
    assert fill(db) == [("ada", 5), (None, 1)]
    assert db.table("orders").rows() == [(1, "ada", "Bern"), (3, None, "Rome")]


def test_a_column_that_a_view_has_as_a_key(db: SparkConnection, tmp_path: Path) -> None:
    db.execute(f"{ORDERS} PARTITION BY (customer); {ITEMS}; CREATE MATERIALIZED VIEW revenue AS {REVENUE}")
    before = locations(db, "revenue")
    assert "[customer]" in before.values()
    assert "partitioned by [customer]" in db.explain("revenue", stage="spark")
    lines = db.execute("EXPLAIN (spark) revenue").column("explain").to_pylist()
    assert "\n".join(lines) == db.view("revenue").explain("SPARK")
    assert db.explain("revenue", stage="spark", format="svg") == db.view("revenue").draw()
    assert fill(db) == [("ada", 5), (None, 1)]
    db.close()
    forget()
    with connect_inline(tmp_path, 3, sync=False) as again:
        assert locations(again, "revenue") == before
        assert again.view("revenue").rows() == [("ada", 5), (None, 1)]
        again.execute(
            "CREATE MATERIALIZED VIEW cities AS SELECT customer, COUNT(city) AS n FROM orders GROUP BY customer"
        )
        assert set(locations(again, "cities").values()) == {"[customer]"}
        assert again.view("cities").rows() == [("ada", 1), (None, 1)]


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a"), ("a", "a"), ("b", "b")])
def test_each_stream_has_its_own_columns(first: str, second: str, db: SparkConnection) -> None:
    """Joined streams have all of these columns in common, so that both could go by those of the first."""
    db.execute(f"""
        CREATE STREAM m1 (a BIGINT NOT NULL, b BIGINT NOT NULL) PARTITION BY ({first});
        CREATE STREAM m2 (a BIGINT NOT NULL, b BIGINT NOT NULL) PARTITION BY ({second});
        CREATE MATERIALIZED VIEW m PARTITION BY (a) AS
        SELECT m1.a, COUNT(*) AS n FROM m1 JOIN m2 ON m1.a = m2.a AND m1.b = m2.b GROUP BY m1.a
    """)
    assert locations(db, "m") == {"m_m1_m2": "[a]", "m_m1": f"[{first}]", "m_m2": f"[{second}]"}
    db.apply({"m1": [(1, 2), (1, 3), (2, 2)], "m2": [(1, 2), (1, 3), (1, 3)]})
    db.apply({"m1": [(2, 7)], "m2": [(2, 7), (2, 2)]})
    assert db.view("m").rows() == [(1, 3), (2, 2)]


def test_columns_of_a_view(db: SparkConnection, tmp_path: Path) -> None:
    declared = f"CREATE MATERIALIZED VIEW revenue (who, total) PARTITION BY (who) AS {REVENUE}"
    db.execute(f"{ORDERS}; {ITEMS}; {declared}; {declared.replace('revenue (', 'again (')}")
    for view in ("revenue", "again"):
        assert locations(db, view)["revenue_orders_items"] == "[customer]"  # what both of them share
        assert db.view(view).stats()["reading"] == "partitions"
    assert fill(db) == [("ada", 5), (None, 1)]
    assert db.view("again").rows() == [("ada", 5), (None, 1)]


def test_what_is_no_key_is_refused(db: SparkConnection) -> None:
    db.execute(f"{ORDERS}; {ITEMS}")
    with pytest.raises(SchemaError, match=r"PARTITION BY total: nothing that is kept for revenue has these columns"):
        db.execute(f"CREATE MATERIALIZED VIEW revenue PARTITION BY (total) AS {REVENUE}")
    assert db.views == ()
    with pytest.raises(SchemaError, match="table 'orders' has no column 'costumer'; did you mean 'customer'"):
        db.partition_by("ORDERS", "costumer")


def test_one_process_has_nothing_to_spread() -> None:
    with viewlet.connect() as db:
        db.execute(f"{ORDERS} PARTITION BY (customer); {ITEMS}")
        db.execute(f"CREATE MATERIALIZED VIEW revenue PARTITION BY (total) AS {REVENUE}")
        assert fill(db) == [("ada", 5), (None, 1)]
