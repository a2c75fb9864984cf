"""Tables that keep their rows, and views declared over rows that are already there; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from viewlet import DataError, SchemaError
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.spark.run.state.partition import forget

TABLES = """
    CREATE TABLE orders (id BIGINT NOT NULL, customer VARCHAR NOT NULL, PRIMARY KEY (id));
    CREATE TABLE items (id BIGINT NOT NULL, price DECIMAL(9,2));
    CREATE STATIC TABLE cities (customer VARCHAR NOT NULL, city VARCHAR NOT NULL);
"""
REVENUE = """
    CREATE MATERIALIZED VIEW revenue AS
    SELECT city, SUM(price) AS total FROM orders JOIN items USING (id) JOIN cities USING (customer) GROUP BY city
"""


@pytest.fixture(params=[1, 3])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SparkConnection]:
    with connect_inline(tmp_path / "state", request.param, sync=False) as db:
        db.execute(TABLES)
        db.apply({"cities": [("ada", "Bern"), ("bob", "Rome")]})
        db.apply({"orders": [(1, "ada"), (2, "bob")], "items": [(1, 5), (1, 5), (2, 7)]})
        yield db
    forget()


def test_rows_can_be_read(db: SparkConnection) -> None:
    assert db.table("orders").rows() == [(1, "ada"), (2, "bob")]
    assert db.table("items").rows() == [(1, Decimal("5.00")), (1, Decimal("5.00")), (2, Decimal("7.00"))]
    assert db.table("items").stats() == {"kind": "TABLE", "rows": 3}
    rows = "SELECT rows FROM information_schema.tables JOIN duckdb_tables() USING (table_name) ORDER BY table_name"
    assert db.execute(rows)["rows"].to_pylist() == db.execute("SHOW TABLES")["rows"].to_pylist() == [2, 3, 2]
    db.execute("DELETE FROM items WHERE price = 7")
    assert len(db.table("items")) == 2


def test_wrong_changes_are_refused(db: SparkConnection) -> None:
    epoch = db.epoch
    with pytest.raises(DataError, match=r"cannot delete \(id=2, price=Decimal\('5.00'\)\) from items"):
        db.delete("items", [(2, 5)])
    with pytest.raises(DataError, match=r"duplicate key \(id\) in orders: \(2\)"):
        db.insert("orders", [(2, "cyd")])
    with pytest.raises(DataError, match="duplicate key"):
        db.apply({"orders": [(3, "cyd"), (3, "dan")], "items": [(3, 1)]})
    assert db.epoch == epoch
    assert len(db.table("items")) == 3
    db.update("orders", [(2, "bob")], [(2, "cyd")])
    assert db.table("orders").rows() == [(1, "ada"), (2, "cyd")]


def test_a_view_is_filled_from_rows_that_are_there(db: SparkConnection, tmp_path: Path) -> None:
    partitions = int(str(db.stats()["partitions"]))
    db.execute(REVENUE)
    assert "db.stats()['batches']" in db.explain("revenue", "analyze")
    assert db.view("revenue").rows() == [("Bern", Decimal("10.00")), ("Rome", Decimal("7.00"))]
    with pytest.raises(SchemaError, match="STATIC"):
        db.insert("cities", [("cyd", "Oslo")])
    db.insert("items", [(2, 1)])
    db.close()
    forget()
    with connect_inline(tmp_path / "state", partitions) as again:
        assert again.view("revenue").rows() == [("Bern", Decimal("10.00")), ("Rome", Decimal("8.00"))]
        again.execute("CREATE MATERIALIZED VIEW counted AS SELECT COUNT(*) AS n FROM items")
        again.execute("DROP VIEW revenue; DROP TABLE cities")
        again.delete("items", [(1, 5)])
        assert again.view("counted").rows() == [(3,)]


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_a_view_takes_the_name_of_one_that_is_gone(engine: str, tmp_path: Path) -> None:
    """What snapshots have of the old one is not taken for the beginning of the new one, now or after a restart."""
    again = REVENUE.replace("CREATE", "CREATE OR REPLACE").replace("SUM(price)", "COUNT(*)")
    expected = [("Bern", Decimal("10.00")), ("Rome", Decimal("7.00"))]
    with connect_inline(tmp_path / "state", 2, sync=False, engine=engine) as db:
        db.execute(TABLES)
        db.apply({"cities": [("ada", "Bern"), ("bob", "Rome")], "orders": [(1, "ada"), (2, "bob")]})
        db.apply({"items": [(1, 5), (1, 5), (2, 7)]})
        for _ in range(3):
            db.execute(REVENUE)
            assert db.view("revenue").rows() == expected
            db.execute("DROP VIEW revenue")
        db.execute(REVENUE)
        db.execute(again)
        assert db.view("revenue").rows() == [("Bern", 2), ("Rome", 1)]
    forget()
    with connect_inline(tmp_path / "state", 2, sync=False, engine=engine) as db:
        db.insert("items", [(2, 1)])
        assert db.view("revenue").rows() == [("Bern", 2), ("Rome", 2)]
    forget()
