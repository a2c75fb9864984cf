"""Views that read views: on partitions they are made of the tables beneath, with the answers of in-process views."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import viewlet
from viewlet import SchemaError
from viewlet.connection.facade import Connection
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.spark.run.state.partition import forget

TABLES = """
    CREATE TABLE orders (id BIGINT NOT NULL, customer VARCHAR, PRIMARY KEY (id));
    CREATE STREAM items (id BIGINT NOT NULL, price BIGINT);
"""
INNER = """
    CREATE MATERIALIZED VIEW totals AS
    SELECT customer, SUM(price) AS total, COUNT(*) AS n FROM orders JOIN items USING (id) GROUP BY customer;
    CREATE MATERIALIZED VIEW priced AS
    SELECT customer, price, price AS again FROM orders LEFT JOIN items USING (id) ORDER BY id;
    CREATE MATERIALIZED VIEW customers AS SELECT DISTINCT customer FROM orders;
"""
OUTER = {
    "over_a_group": "SELECT n, SUM(total) AS total, COUNT(*) AS groups FROM totals GROUP BY n",
    "with_itself": "SELECT x.customer, y.customer AS other FROM totals x, totals y WHERE x.total < y.total",
    "with_a_table": "SELECT o.id, t.total FROM totals t JOIN orders o ON o.customer = t.customer",
    "in_a_subquery": "SELECT customer FROM customers WHERE customer NOT IN (SELECT customer FROM totals WHERE n > 2)",
    "of_an_outer_join": "SELECT customer, SUM(price + again) AS twice FROM priced GROUP BY customer",
    "outer_joined": "SELECT c.customer, t.n FROM customers c LEFT JOIN totals t ON t.customer = c.customer",
    "extreme": "SELECT MAX(total) AS high FROM totals",
    "limited": "SELECT customer, total FROM totals ORDER BY total DESC LIMIT 1",
    "three_deep": "SELECT COUNT(*) AS n FROM with_a_table WHERE total IS NOT NULL",
}
BATCHES: list[dict[str, list[tuple[object, ...]]]] = [
    {"orders": [(1, "ada", 1), (2, "bob", 1), (3, None, 1)]},
    {"items": [(1, 5, 1), (1, 7, 2), (2, 3, 1), (3, 8, 1)]},
    {"orders": [(2, "bob", -1), (2, "ada", 1), (4, "cyd", 1)], "items": [(1, 7, -1), (4, None, 1)]},
    {"orders": [(3, None, -1), (1, "ada", -1)], "items": [(2, 30, 1), (3, 8, -1)]},
]


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    forget()


def declare(db: Connection) -> None:
    db.execute(TABLES + INNER)
    for name, sql in OUTER.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")


def with_multiplicities(batch: dict[str, list[tuple[object, ...]]]) -> dict[str, object]:
    import pyarrow as pa

    names = {"orders": ["id", "customer", "_multiplicity"], "items": ["id", "price", "_multiplicity"]}
    return {
        table: pa.table(
            {name: list(column) for name, column in zip(names[table], zip(*rows, strict=True), strict=True)}
        )
        for table, rows in batch.items()
    }


@pytest.mark.parametrize("partitions", [1, 3])
def test_as_in_process(partitions: int, tmp_path: Path) -> None:
    """After every batch, with a restart in the middle, and for subscribers."""
    home = viewlet.connect()
    declare(home)
    db = connect_inline(tmp_path, partitions, sync=False)
    declare(db)
    for number, batch in enumerate(BATCHES):
        if number == 2:
            db.close()
            forget()
            db = connect_inline(tmp_path, partitions, sync=False)
        told = subscribed(db), subscribed(home)
        home.apply(with_multiplicities(batch))
        db.apply(with_multiplicities(batch))
        for name in OUTER:
            assert db.view(name).rows() == home.view(name).rows(), name
        assert told[0] == told[1]
    db.close()


def subscribed(db: Connection) -> dict[str, object]:
    told: dict[str, object] = {}
    for name in OUTER:
        db.view(name).subscribe(lambda _, changes, name=name: told.update({name: changes.to_pylist()}))
    return told


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparkConnection]:
    with connect_inline(tmp_path / "state", 2, sync=False) as db:
        db.execute(TABLES + INNER)
        yield db


def test_a_view_that_is_read_stays(db: SparkConnection) -> None:
    db.execute("CREATE MATERIALIZED VIEW outer_view AS SELECT MAX(total) AS high FROM totals")
    assert db.stats()["views"]["outer_view"]["sources"] == ["totals"]  # type: ignore[index]
    with pytest.raises(SchemaError, match="cannot drop view 'totals': view 'outer_view' reads it"):
        db.execute("DROP VIEW totals")
    with pytest.raises(SchemaError, match="cannot replace view 'totals'"):
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT 1 AS total")
    db.execute("DROP VIEW outer_view; DROP VIEW totals")


def test_first_rows_are_no_source(db: SparkConnection) -> None:
    db.execute("CREATE MATERIALIZED VIEW best AS SELECT * FROM totals ORDER BY total LIMIT 2")
    with pytest.raises(SchemaError, match="'best', which shows its first rows only"):
        db.execute("CREATE MATERIALIZED VIEW worst AS SELECT MIN(total) AS low FROM best")
    assert "worst" not in db.views


def test_rows_of_a_stream_are_gone_after_a_restart_too(db: SparkConnection, tmp_path: Path) -> None:
    """What was started is known from the log alone."""
    db.apply({"orders": [(1, "ada")], "items": [(1, 5)]})
    db.close()
    forget()
    with connect_inline(tmp_path / "state", 2, sync=False) as again:
        with pytest.raises(SchemaError, match="stream 'items' has already received rows"):
            again.execute("CREATE MATERIALIZED VIEW late AS SELECT MAX(total) AS high FROM totals")
        again.execute("CREATE MATERIALIZED VIEW counted AS SELECT COUNT(*) AS n FROM customers")
        assert again.view("counted").rows() == [(1,)]
