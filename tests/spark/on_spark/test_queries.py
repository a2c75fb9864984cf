"""Ad-hoc queries over large views: Spark SQL gives the answers that DuckDB gives, with the same names and types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet import SqlError
from viewlet.connection import spark_queries

DECLARED = """
    CREATE TABLE sales (id BIGINT NOT NULL PRIMARY KEY, shop VARCHAR, price DECIMAL(9,2), day DATE, weight DOUBLE);
    CREATE MATERIALIZED VIEW totals PARTITION BY (shop) AS
    SELECT shop, SUM(price) AS total, COUNT(*) AS n FROM sales GROUP BY shop;
    CREATE MATERIALIZED VIEW whole AS SELECT COUNT(*) AS "all" FROM sales
"""
IN_SPARK = (
    "SELECT * FROM totals ORDER BY shop",
    "SELECT COUNT(*), MIN(shop), MAX(day), SUM(price), SUM(id), AVG(price) FROM sales WHERE day >= DATE '2024-01-02'",
    "SELECT shop AS s, n / 0, total / n FROM totals WHERE shop LIKE 'a%' OR total IS NULL ORDER BY s DESC",
    "WITH big AS (SELECT shop, price FROM sales WHERE price BETWEEN 2 AND 6.5) "
    "SELECT b.shop, COUNT(DISTINCT price) AS k, t.n FROM big b JOIN totals AS t ON b.shop = t.shop "
    "GROUP BY b.shop, t.n HAVING COUNT(*) > 1 ORDER BY 1 LIMIT 2",
    'SELECT t.*, w."all" FROM totals t, whole w WHERE shop NOT IN (SELECT shop FROM sales WHERE price > 8) ORDER BY n',
    "SELECT shop, total / 3 / 7 AS z FROM totals ORDER BY shop",
    "SELECT CASE WHEN n > 2 THEN -n ELSE COALESCE(total, 0) + 1.5 END AS x FROM totals UNION ALL SELECT 1 ORDER BY x",
)
AT_THE_DRIVER = (
    "SELECT day - DATE '2024-01-01' AS days FROM sales ORDER BY days",
    "SELECT CAST(weight AS INTEGER) AS w FROM sales ORDER BY w",
    "SELECT reverse(shop) AS r, price * price * price * price AS p FROM sales ORDER BY r, p",
    "SELECT SUM(n) OVER (ORDER BY shop) AS s FROM totals ORDER BY s",
)


def test_answers_are_those_of_duckdb(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []

    def asked(sql: str, *given: Any) -> str | None:
        text = translate(sql, *given)
        found.append(sql if text is not None else "")
        return text

    translate = spark_queries.translated
    monkeypatch.setattr(spark_queries, "translated", asked)
    shops = [None, "ab", "a c", "d"]
    rows = [(i, shops[i % 4], None if i % 7 == 0 else i, f"2024-01-0{1 + i % 3}", i / 2) for i in range(24)]
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "state", partitions=2, engine="interpreter") as db:
        db.execute(DECLARED)
        db.insert("sales", rows)
        expected = [db.execute(sql) for sql in (*IN_SPARK, *AT_THE_DRIVER)]
        assert found == []
        monkeypatch.setattr(spark_queries, "LARGE_ROWS", 0)
        for sql, answer in zip((*IN_SPARK, *AT_THE_DRIVER), expected, strict=True):
            assert db.execute(sql).equals(answer), sql
        assert found == [*IN_SPARK, *("" for _ in AT_THE_DRIVER)]
        assert [view.name for view in spark.catalog.listTables() if view.name.startswith("viewlet_")] == []
        with pytest.raises(SqlError, match="column 'shopp' does not exist; did you mean 'shop'"):
            db.execute("SELECT shopp FROM totals")
        with pytest.raises(SqlError, match="reaches outside the database"):
            db.execute(f"SELECT * FROM totals, '{tmp_path}/x.parquet'")
