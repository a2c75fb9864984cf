"""A few rows go only to the views that they may change, however many views there are; every view stays right."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from viewlet.triggers.guards import Guard

TABLES = """CREATE TABLE t (k INTEGER, g VARCHAR, x BIGINT, d DATE); CREATE TABLE u (k INTEGER, g VARCHAR, y DOUBLE)"""
GUARDED: dict[str, Guard | None] = {
    "SELECT x, SUM(k) AS s FROM t WHERE g = 'a' AND x > 1 GROUP BY x": Guard(1, frozenset("a")),
    "SELECT COUNT(*) AS n, AVG(x) AS m FROM t WHERE k IN (1, 2)": Guard(0, frozenset((1, 2))),
    "SELECT * FROM t WHERE x = 2 OR x = 3 AND g = 'b'": Guard(2, frozenset((2, 3))),
    "SELECT DISTINCT x FROM t WHERE 'c' = g": Guard(1, frozenset("c")),
    "SELECT MIN(x) AS lo FROM t WHERE d = DATE '2026-01-02'": Guard(3, frozenset((20455,))),
    "SELECT COUNT(DISTINCT x) AS n FROM t WHERE g = 'b' AND k IN (1, 2, 3)": Guard(1, frozenset("b")),
    "SELECT x FROM t WHERE k = 1 ORDER BY x LIMIT 2": Guard(0, frozenset((1,))),
    "SELECT t.x, u.y FROM t JOIN u ON t.k = u.k AND t.g = 'a'": Guard(1, frozenset("a")),
    "SELECT x, SUM(x) AS s FROM t WHERE g = 'a' GROUP BY x HAVING COUNT(*) > 1": Guard(1, frozenset("a")),
    "SELECT SUM(a.x * b.x) AS s FROM t a JOIN t b ON a.k = b.k WHERE a.g = 'a' AND b.g = 'a'": Guard(1, frozenset("a")),
    "SELECT x FROM t WHERE g = 'a' UNION ALL SELECT x FROM t WHERE g = 'c'": Guard(1, frozenset("ac")),
    "SELECT x FROM t WHERE g = 'a' AND g = 'b'": Guard(1, frozenset()),
    "SELECT u.y, t.x FROM u LEFT JOIN t ON t.k = u.k AND t.g = 'b'": Guard(1, frozenset("b")),
    # any row counts
    "SELECT COUNT(*) AS n FROM t": None,
    "SELECT x FROM t WHERE g = 'a' OR x = 3": None,
    "SELECT x FROM t WHERE g <> 'a'": None,
    "SELECT x FROM t WHERE g IS NOT DISTINCT FROM NULL": None,
    "SELECT SUM(a.x * b.x) AS s FROM t a JOIN t b ON a.k = b.k WHERE a.g = 'a'": None,
    "SELECT x FROM t WHERE g = 'a' UNION ALL SELECT x FROM t WHERE k = 1": None,
    "SELECT x FROM t WHERE x > (SELECT AVG(x) FROM t) AND g = 'a'": None,
}


def opened(engine: str, place: Path | None = None) -> Any:
    return viewlet.connect(place, engine=engine)


def test_what_a_row_needs_to_concern_a_view() -> None:
    db = opened("interpreter")
    db.execute(TABLES)
    for number, query in enumerate(GUARDED):
        db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
    views = db._session.database().views
    found = {query: views[f"v{number}"].maintainer.guard("t") for number, query in enumerate(GUARDED)}
    assert found == GUARDED


@pytest.mark.parametrize("engine", ["interpreter", "compiled", "auto"])
def test_random_rows_under_many_views(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.engine.chooser.COMPILE_AFTER_ROWS", 60)
    chance = random.Random(engine)
    queries = list(GUARDED)
    db, oracle = opened(engine, tmp_path / "db"), duckdb.connect()
    for each in (db, oracle):
        each.execute(TABLES)
    for number, query in enumerate(queries):
        db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
    db.execute("CREATE MATERIALIZED VIEW over AS SELECT x, COUNT(*) AS n FROM v2 GROUP BY x")
    queries.append(f"SELECT x, COUNT(*) AS n FROM ({queries[2]}) GROUP BY x")
    names = [*(f"v{number}" for number in range(len(GUARDED))), "over"]
    told: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in names}

    def listen(name: str) -> None:
        def hear(epoch: int, changes: Any) -> None:
            for row in changes.to_pylist():
                weight = row.pop("_multiplicity")
                told[name][tuple(row.values())] += weight

        told[name] = Counter(db.view(name).rows())
        db.view(name).subscribe(hear)

    for name in names:
        listen(name)
    held: dict[str, list[tuple[Any, ...]]] = {"t": [], "u": []}
    for step in range(90):
        name = chance.choice("ttu")
        if held[name] and chance.random() < 0.3:
            row = held[name].pop(chance.randrange(len(held[name])))
            db.delete(name, [row])
        else:
            first = (chance.choice([None, 1, 2, 3, 4]), chance.choice([None, "a", "b", "c", "d"]))
            day = chance.choice([None, "2026-01-01", "2026-01-02"])
            row = (*first, chance.choice([None, 1, 2, 3]), day) if name == "t" else (*first, chance.choice([None, 0.5]))
            held[name].append(row)
            db.insert(name, [row])
        if step % 30 == 29:
            for table, rows in held.items():
                oracle.execute(f"DELETE FROM {table}")
                if rows:
                    oracle.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
            for view, query in zip(names, queries, strict=True):
                expected = Counter(oracle.execute(query).fetchall())
                assert Counter(db.view(view).rows()) == expected, query
                assert +told[view] == expected, query
            if step == 59:
                db.close()
                db = opened(engine, tmp_path / "db")
                for view in names:
                    listen(view)


def test_a_row_touches_no_other_view() -> None:
    db = opened("interpreter")
    db.execute("CREATE TABLE t (k INTEGER, x BIGINT)")
    for number in range(20):
        db.execute(f"CREATE MATERIALIZED VIEW v{number} AS SELECT SUM(x) AS s FROM t WHERE k = {number}")
    for number in (3, 3, 7, None, 99):
        db.insert("t", [(number, 1)])
    db.insert("t", [(number, 1) for number in range(3, 5)])
    batches = [db.view(f"v{number}").stats()["batches"] for number in range(20)]
    assert batches == [3 if number == 3 else int(number in (4, 7)) for number in range(20)]
    db.insert("t", [(number % 20, 1) for number in range(200)])  # many rows are not looked at one by one
    assert [db.view(f"v{number}").rows() for number in (0, 3)] == [[(10,)], [(13,)]]
    db.execute("DROP VIEW v3")
    db.insert("t", [(3, 1)])
    db.execute("CREATE MATERIALIZED VIEW v3 AS SELECT COUNT(*) AS n FROM t WHERE k = 3")
    db.delete("t", [(3, 1)])
    assert db.view("v3").rows() == [(13,)]
