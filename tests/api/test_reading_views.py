"""Reading gives the same answers as DuckDB over all rows, whatever was read before or is looked up by a condition."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import duckdb
import pytest

import viewlet

TABLE = "(k BIGINT, s VARCHAR, d DECIMAL(9,2), day DATE NOT NULL, x BIGINT NOT NULL)"
VIEWS = {
    "groups": "SELECT k, s, SUM(x) AS x, COUNT(*) AS n FROM t GROUP BY k, s",
    "one_key": "SELECT s, MIN(x) AS low, MAX(x) AS high FROM t GROUP BY s",
    "kept": "SELECT k, s, x FROM t WHERE x > 2",
    "joined": "SELECT a.k, b.s, SUM(a.x * b.x) AS x FROM t a JOIN t b ON a.day = b.day GROUP BY a.k, b.s",
    "either": "SELECT k, x FROM t UNION ALL SELECT x AS k, k AS x FROM t",
    "different": "SELECT DISTINCT k, s FROM t",
    "above": "SELECT k, SUM(x) AS x FROM t GROUP BY k HAVING SUM(x) > (SELECT MIN(x) FROM t)",
    "whole": "SELECT SUM(x) AS x, COUNT(*) AS k FROM t",
    "ordered": "SELECT k, x, s FROM t ORDER BY x DESC, k NULLS FIRST",
    "first": "SELECT k, x FROM t ORDER BY k DESC NULLS LAST, x LIMIT 5",
    "decimals": "SELECT d, day, COUNT(*) AS k FROM t GROUP BY d, day",
}
CONDITIONS = {
    "groups": [
        "SELECT * FROM groups WHERE k = 3",
        "SELECT * FROM groups WHERE 3 = k AND s = 'b'",
        "SELECT * FROM groups AS g WHERE g.k IN (1, 2, 99) AND (g.s = 'a')",
        "SELECT * FROM groups WHERE k = 3 OR s = 'a'",
        "SELECT * FROM groups WHERE k = 3 AND k = 4",
        "SELECT * FROM groups WHERE s = 'no such text'",
        "SELECT * FROM groups WHERE k = 99999999999999999999",
        "SELECT * FROM groups WHERE k = NULL",
        "SELECT * FROM groups WHERE NOT k = 3",
        "SELECT * FROM groups WHERE K = 3 AND \"s\" = 'a'",
        "SELECT s AS k, k AS s FROM groups WHERE k = 3",
        "SELECT k FROM groups WHERE k = 2 GROUP BY k HAVING SUM(x) > 0",
        "SELECT (SELECT SUM(x) FROM groups WHERE k = u.k) FROM t u",
        "SELECT u.k, groups.x FROM t u LEFT JOIN groups ON u.k = groups.k WHERE groups.k = 2",
        "SELECT u.k, g.x FROM t u LEFT JOIN groups g ON u.k = g.k AND g.k = 2",
        "SELECT u.x, g.x FROM t u JOIN groups g USING (k) WHERE u.x = 3",
        "SELECT u.x, g.x FROM t u FULL JOIN groups g ON u.k = g.k WHERE g.s = 'a'",
        "WITH groups AS (SELECT 3 AS k) SELECT * FROM groups WHERE k = 3",
        "WITH w AS (SELECT * FROM groups) SELECT * FROM w WHERE k = 3",
        "SELECT * FROM groups WHERE k = (SELECT MIN(k) FROM groups)",
        "SELECT a.k FROM groups a, groups b WHERE a.k = 3 AND a.k = b.k",
        "SELECT y FROM groups AS g (s, k, y, m) WHERE k = 'a'",
        "SELECT x, (SELECT COUNT(*) FROM t WHERE k = 3) FROM groups WHERE k = 3",
        "SELECT * FROM groups WHERE k = 2 UNION ALL SELECT k, s, x, 1 FROM t WHERE k = 3",
        "SELECT DISTINCT ON (k) k FROM groups WHERE s = 'a' ORDER BY k",
        "SELECT k, SUM(x) OVER (ORDER BY k, s) FROM groups WHERE s = 'b' ORDER BY k",
        "SELECT * FROM (SELECT * FROM groups WHERE s = 'a') WHERE k = 1",
    ],
    "one_key": ["SELECT * FROM one_key WHERE s = 'a'", "SELECT * FROM one_key WHERE s IN ('a', 'b')"],
    "kept": ["SELECT * FROM kept WHERE k = 1 AND x = 3", "SELECT * FROM kept WHERE x = 4"],
    "joined": ["SELECT * FROM joined WHERE k = 1", "SELECT * FROM joined WHERE s = 'b' AND k IN (0, 2)"],
    "either": ["SELECT * FROM either WHERE k = 3", "SELECT * FROM either WHERE x = 3 AND k = 2"],
    "different": ["SELECT * FROM different WHERE k = 2 AND s = 'c'"],
    "above": ["SELECT * FROM above WHERE k = 2", "SELECT * FROM above WHERE x = 7"],
    "whole": ["SELECT * FROM whole WHERE x = 3", "SELECT * FROM whole WHERE k = 0"],
    "ordered": ["SELECT * FROM ordered WHERE k = 2 AND s = 'c' ORDER BY x"],
    "first": ["SELECT * FROM first WHERE k = 3"],
    "decimals": ["SELECT * FROM decimals WHERE day = DATE '2026-01-02' AND d = 1.25"],
}


def random_row(random: random.Random) -> tuple[Any, ...]:
    return (
        random.choice([None, 0, 1, 2, 3]),
        random.choice([None, "a", "b", "c", "a\x01b", "ü"]),
        random.choice([None, Decimal("1.25"), Decimal("-3.00")]),
        f"2026-01-0{random.randint(1, 3)}",
        random.randint(-2, 5),
    )


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_reading_under_churn(engine: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "compiled":
        monkeypatch.setattr("viewlet.codegen.engine.READ_BY_CODE_FROM", 3)
    seeded = random.Random(5)
    db, other = viewlet.connect(engine=engine), duckdb.connect()
    for where in (db, other):
        where.execute(f"CREATE {kind if where is db else 'TABLE'} t {TABLE}")
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        other.execute(f"CREATE VIEW {name} AS {query}")
    rows: list[tuple[Any, ...]] = []
    for batch in range(6):
        gone = seeded.sample(rows, len(rows) // 3)
        new = [random_row(seeded) for _ in range(seeded.choice([1, 8]))]
        for row in gone:
            rows.remove(row)
        rows += new
        db.apply(
            {
                "t": [{**as_dict(r), "_multiplicity": 1} for r in new]
                + [{**as_dict(r), "_multiplicity": -1} for r in gone]
            }
        )
        other.execute("DELETE FROM t")
        other.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
        for name, queries in CONDITIONS.items():
            if batch % 2:  # what is looked up must not depend on what has been read
                assert len(db.view(name)) == len(db.view(name).rows())
            for query in queries:
                if kind == "STREAM" and " t " in query:
                    continue
                expected = counted(other.execute(query).fetchall())
                assert counted(listed(db.execute(query))) == expected, query
            whole = counted(other.execute(f"SELECT * FROM {name}").fetchall())
            if name != "first":
                assert counted(db.view(name).rows()) == whole, name
                assert counted(listed(db.view(name).to_arrow())) == whole, name
                assert len(db.view(name)) == len(db.view(name).rows())
            assert db.view(name).rows() == db.view(name).rows()
    db.close()


def as_dict(row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("k", "s", "d", "day", "x"), row, strict=True))


def listed(table: Any) -> list[Any]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def counted(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=repr)


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_what_is_read_stays_as_it_was(engine: str) -> None:
    db = viewlet.connect(engine=engine)
    db.execute("CREATE TABLE t (k BIGINT NOT NULL, x BIGINT NOT NULL)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS x FROM t GROUP BY k")
    db.insert("t", [(1, 2), (2, 3)])
    view = db.view("v")
    first, table = view.rows(), view.to_arrow()
    first.clear()
    assert view.rows() == [(1, 2), (2, 3)]
    assert view.to_arrow() is table
    with pytest.raises(viewlet.DataError):
        db.apply({"t": [{"k": 1, "x": 5, "_multiplicity": 1}, {"k": 9, "x": 9, "_multiplicity": -1}]})
    assert view.rows() == [(1, 2), (2, 3)]
    assert view.to_arrow() is table
    db.insert("t", [(1, 1)])
    assert view.rows() == [(1, 3), (2, 3)]
    assert view.to_arrow().to_pylist() == [{"k": 1, "x": 3}, {"k": 2, "x": 3}]
    assert table.to_pylist() == [{"k": 1, "x": 2}, {"k": 2, "x": 3}]
    db.execute("DROP MATERIALIZED VIEW v")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS x FROM t GROUP BY k")
    assert db.view("v").rows() == [(1, 2), (2, 1)]


def test_a_lookup_does_not_list_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    for engine in ("interpreter", "compiled"):
        db = viewlet.connect(engine=engine)
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT NOT NULL, s VARCHAR, x BIGINT NOT NULL)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, s, SUM(x) AS x FROM t GROUP BY k, s")
        db.insert("t", [(i, i % 50, f"s{i % 3}", i) for i in range(300)])

        def fail(*_: object) -> None:
            raise AssertionError("the whole relation is listed")

        with monkeypatch.context() as patched:
            patched.setattr("viewlet.engine.maintained_view.MaintainedView.arrow", fail)
            patched.setattr("viewlet.tables.store.TableStore.arrow", fail)
            patched.setattr("viewlet.engine.rows.ResultRows.rows", fail)
            found = db.execute("SELECT x FROM v WHERE k = 7 AND s = 's1'").to_pylist()
            assert found == [{"x": sum(i for i in range(300) if i % 50 == 7 and i % 3 == 1)}]
            assert db.execute("SELECT k, x FROM t WHERE id IN (3, 4)").num_rows == 2
            assert db.execute("SELECT s FROM v WHERE k = 7").num_rows == 3
        db.close()
