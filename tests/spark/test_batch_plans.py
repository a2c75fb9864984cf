"""Batches on Spark: statements of tables that did not change are left out, and counts are not taken for doubles."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from viewlet.connection.spark_facade import connect_inline

TABLES = "CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE t (b BIGINT, c BIGINT); CREATE TABLE u (k BIGINT)"
QUERIES = (
    "SELECT (SELECT COUNT(b) + 1 FROM r NATURAL FULL JOIN t) AS n FROM r AS x, u AS y EXCEPT ALL SELECT 3",
    "SELECT x.a, (SELECT MAX(c) FROM t WHERE t.b > (SELECT MIN(b) FROM r)) AS m FROM r AS x LEFT JOIN u ON u.k = x.a",
    "SELECT k, COUNT(*) AS n FROM u WHERE k < (SELECT SUM(c) FROM t JOIN r USING (b)) GROUP BY k",
)


@pytest.mark.parametrize("strategy", ["higher-order", "view-tree", "first-order", "recompute"])
@pytest.mark.parametrize("query", QUERIES)
def test_each_table_may_change_alone(query: str, strategy: str, tmp_path: Path) -> None:
    with connect_inline(tmp_path, 3, sync=False) as db:
        db.execute(f"{TABLES}; CREATE MATERIALIZED VIEW q WITH (strategy = '{strategy}') AS {query}")
        db.apply({"r": [(1, 1), (2, 2)], "t": [(1, 5), (3, 7)], "u": [(1,), (2,)]})
        for number in range(6):
            table, row = (("r", (number, 2)), ("t", (2, number)), ("u", (number,)))[number % 3]
            db.insert(table, [row, row])
            expected = db.execute(query).to_pylist()
            assert Counter(db.view("q").rows()) == Counter(tuple(each.values()) for each in expected), table


def test_counts_of_a_set_operation_do_not_compare_with_an_empty_change(tmp_path: Path) -> None:
    """Temporaries of the triggers of other tables read a view that had changed, and passed for changes themselves."""
    tables = (
        "CREATE TABLE r (a INTEGER, b INTEGER, x DOUBLE); CREATE TABLE t (b INTEGER, c BIGINT, x DOUBLE);"
        "CREATE TABLE u (k INTEGER NOT NULL, a INTEGER)"
    )
    query = (
        "SELECT (SELECT COUNT(b) + 1 FROM r AS q3 NATURAL FULL JOIN t AS q4) AS c0 FROM r AS q1, u AS q2 "
        "EXCEPT ALL SELECT COALESCE(3, 0) AS c0 "
        "EXCEPT ALL SELECT q5.b AS c0 FROM r AS q5 WHERE DATE '2020-02-29' IN (CAST('2021-12-31' AS DATE))"
    )
    with connect_inline(tmp_path, 3, sync=False) as db:
        db.execute(f"{tables}; CREATE MATERIALIZED VIEW q WITH (strategy = 'first-order') AS {query}")
        everything = {"r": [(1, 1, None)], "t": [(0, 1, None), (None, 0, 1.5), (2, -1, 0.0)], "u": [(0, 1), (1, 2)]}
        for batch in (everything, {"r": [(2, -1, 0.5), (2, 1, None)]}, {"t": [(1, 1, None)]}, {"u": [(7, None)]}):
            db.apply(batch)
            expected = db.execute(query).to_pylist()
            assert Counter(db.view("q").rows()) == Counter(tuple(each.values()) for each in expected), batch


def test_counts_beside_sums_of_doubles_stay_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is counted by whether it passes a sum of doubles: the temporary that holds the counts has no doubles.

    They were added to the count of the view as the bits of doubles, where tables are said to be large.
    """
    monkeypatch.setenv("VIEWLET_JIT", "0")
    query = "SELECT id FROM n WHERE x >= (SELECT SUM(x) FROM c WHERE c.g = n.g)"
    tables = "CREATE TABLE n (id BIGINT, g BIGINT, x DOUBLE); CREATE TABLE c (g BIGINT, x DOUBLE)"
    batches: tuple[dict[str, list[tuple[object, ...]]], ...] = (
        {"c": [(1, 0.5), (1, 2.0)], "n": [(1, 1, 0.5), (2, 1, 3.0)]},
        {"c": [(1, -2.5)], "n": [(3, 1, -1.0)]},
        {"c": [(2, 1.5)], "n": [(4, 2, 1.5)]},
    )
    with connect_inline(tmp_path, 3, sync=False, engine="compiled") as db:
        db.execute(tables)
        db.expect_rows({"n": 1e7, "c": 1e7, "n.id": 1e6, "n.x": 1e6, "n.g": 1e6, "c.g": 1e6})
        db.execute(f"CREATE MATERIALIZED VIEW q AS {query}")
        for batch in batches:
            for changes in ({"c": batch["c"]}, {"n": batch["n"]}, batch):
                db.apply(changes)
                expected = db.execute(query).to_pylist()
                assert Counter(db.view("q").rows()) == Counter(tuple(each.values()) for each in expected)
        db.delete("n", batches[0]["n"])
        assert Counter(db.view("q").rows()) == Counter(tuple(row.values()) for row in db.execute(query).to_pylist())


def test_what_a_cast_binds_is_joined_after_it_was_moved(tmp_path: Path) -> None:
    """t.c is cast on its way to l: the rows of l keep the column that the outcome is compared with."""
    tables = "CREATE TABLE s (c BIGINT); CREATE TABLE t (c BIGINT, h SMALLINT); CREATE TABLE l (h SMALLINT, j REAL)"
    query = (
        "SELECT COUNT(*) AS n FROM (SELECT q6.h AS h FROM (s AS q4 RIGHT JOIN t AS q5 USING (c)) AS q6) AS q7 "
        "WHERE q7.h IN (SELECT h FROM t AS q8 NATURAL FULL JOIN l AS q9 WHERE q8.c = q9.j)"
    )
    with connect_inline(tmp_path, 1, sync=False) as db:
        db.execute(f"{tables}; CREATE MATERIALIZED VIEW q WITH (strategy = 'first-order') AS {query}")
        for batch in ({"s": [(0,)], "t": [(2, None), (2, -1), (-1, 2), (3, 2)]}, {"l": [(2, 1.0)]}, {"l": [(2, 3.0)]}):
            db.apply(batch)
            expected = db.execute(query).to_pylist()
            assert [tuple(each.values()) for each in expected] == db.view("q").rows(), batch
