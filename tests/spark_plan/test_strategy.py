"""The strategy of a view on Spark: chosen by stages and state where sizes are known, and kept from then on."""

from __future__ import annotations

from pathlib import Path

from viewlet.connection.spark_facade import SparkConnection, connect_inline

TABLES = """
    CREATE STREAM places (place BIGINT NOT NULL PRIMARY KEY, country VARCHAR NOT NULL);
    CREATE STREAM customers (customer BIGINT NOT NULL PRIMARY KEY, place BIGINT NOT NULL);
    CREATE STREAM orders (id BIGINT NOT NULL PRIMARY KEY, customer BIGINT NOT NULL, day DATE NOT NULL);
    CREATE STREAM items (id BIGINT NOT NULL, part BIGINT NOT NULL, price BIGINT NOT NULL);
    CREATE STREAM parts (part BIGINT NOT NULL PRIMARY KEY, name VARCHAR NOT NULL)
"""
ROWS = {"places": 25, "customers": 150_000, "orders": 1_500_000, "items": 6_000_000, "parts": 200_000}
VIEW = """
    CREATE MATERIALIZED VIEW spent AS SELECT country, day, SUM(price) AS spent
    FROM items JOIN parts USING (part) JOIN orders USING (id) JOIN customers USING (customer) JOIN places USING (place)
    WHERE name LIKE '%green%' GROUP BY country, day
"""


def strategy(db: SparkConnection) -> object:
    return db.view("spent").stats()["strategy"]


def opened(folder: Path) -> SparkConnection:
    return connect_inline(folder, 2, sync=False)


def test_less_state_in_as_many_stages_is_chosen_and_kept(tmp_path: Path) -> None:
    with opened(tmp_path / "unknown") as db:
        db.execute(f"{TABLES}; {VIEW}")
        assert strategy(db) == "higher-order"
        unmeasured = len(db.explain("spent", stage="views").splitlines())
    changes = {
        "places": [(1, "de"), (2, "fr")],
        "customers": [(1, 1), (2, 2)],
        "orders": [(1, 1, "2024-01-01"), (2, 2, "2024-01-02")],
        "items": [(1, 1, 5), (2, 1, 7), (2, 2, 100)],
        "parts": [(1, "green bolt"), (2, "nut")],
    }
    with opened(tmp_path / "state") as db:
        db.execute(TABLES)
        db.expect_rows(ROWS)
        db.execute(VIEW)
        assert strategy(db) == "view-tree"
        assert len(db.explain("spent", stage="views").splitlines()) < unmeasured
        db.apply(changes)
        expected = db.view("spent").rows()
        assert [row[::2] for row in expected] == [("de", 5), ("fr", 7)]
    with opened(tmp_path / "state") as db:  # where nothing is expected
        assert (strategy(db), db.view("spent").rows()) == ("view-tree", expected)
        db.checkpoint()
        db.insert("items", [(1, 1, 1)])
    with opened(tmp_path / "state") as db:
        assert (strategy(db), [row[2] for row in db.view("spent").rows()]) == ("view-tree", [6, 7])
        db.repartition(3)
        db.delete("items", [(1, 1, 1)])
        assert (strategy(db), db.view("spent").rows()) == ("view-tree", expected)
