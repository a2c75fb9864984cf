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
    "SELECT SUM(n) OVER (ORDER BY shop) AS s FROM totals ORDER BY s",
    "SELECT id, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY price DESC, id) AS r, RANK() OVER w AS k, "
    "DENSE_RANK() OVER w AS d, LAG(price, 2, 1.5) OVER (ORDER BY id) AS l, "
    "LEAD(shop) OVER (ORDER BY id) AS m, NTILE(5) OVER (ORDER BY id) AS t, "
    "PERCENT_RANK() OVER w AS p, CUME_DIST() OVER w AS c FROM sales WINDOW w AS (ORDER BY price) ORDER BY id",
    "SELECT id, AVG(price) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS a, "
    "FIRST_VALUE(day) OVER w AS f, LAST_VALUE(price) OVER w AS l, "
    "COUNT(*) FILTER (WHERE price > 3) OVER w AS n, MIN(weight) OVER w AS m "
    "FROM sales WINDOW w AS (PARTITION BY shop ORDER BY id) ORDER BY id",
    "SELECT id, shop FROM sales QUALIFY ROW_NUMBER() OVER (PARTITION BY shop ORDER BY price DESC, id) <= 2 ORDER BY id",
    "SELECT shop, RANK() OVER (ORDER BY SUM(price) DESC) AS r FROM sales GROUP BY shop ORDER BY r",
    "SELECT id % 5 - 2 AS i, (id - 7) % 3 AS j, id % 0 AS k, weight % 1.5 AS w, ABS(price - 7) AS a, "
    "GREATEST(price, id, NULL) AS g, LEAST(shop, 'b') AS l, LENGTH(shop) AS n, NULLIF(id, 3) AS u "
    "FROM sales ORDER BY id",
    "SELECT EXTRACT(MONTH FROM day) AS m, EXTRACT(day FROM day) AS d FROM sales ORDER BY d",
    "SELECT COUNT(*) FILTER (WHERE price > 3), SUM(price) FILTER (WHERE shop IS NULL) FROM sales",
    "SELECT shop, COUNT(*) AS n FROM sales GROUP BY ALL ORDER BY ALL",
    "SELECT CASE WHEN n > 2 THEN -n ELSE COALESCE(total, 0) + 1.5 END AS x FROM totals UNION ALL SELECT 1 ORDER BY x",
)
AT_THE_DRIVER = (
    "SELECT day - DATE '2024-01-01' AS days FROM sales ORDER BY days",
    "SELECT CAST(weight AS INTEGER) AS w FROM sales ORDER BY w",
    "SELECT reverse(shop) AS r, price * price * price * price AS p FROM sales ORDER BY r, p",
    "SELECT SUM(n) OVER (ORDER BY shop ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) AS s FROM totals ORDER BY s",
    "SELECT * FROM totals QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC, shop) = 1",
    "SELECT EXTRACT(dow FROM day) AS d, UPPER(shop) AS u FROM sales ORDER BY d, u",
    "SELECT DISTINCT ON (shop) shop, id FROM sales ORDER BY shop, id DESC",
    "SELECT COUNT(shop) AS c, MAX(id) AS m FROM sales AS s (shop, id, x, y, z)",
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
