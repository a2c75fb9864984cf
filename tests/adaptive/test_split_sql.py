"""Adaptive views over four tables from SQL: they are what DuckDB says after every batch, in a directory too."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import viewlet
from tests.adaptive.test_sql import SCHEMA, feed, reference
from tests.durable.scripts import abandon

EDGES = "FROM e w, e x, e y, e z WHERE w.dst = x.src AND x.dst = y.src AND y.dst = z.src"
QUERIES = {
    "paths": f"SELECT COUNT(*) AS n {EDGES}",
    "cycles": f"SELECT COUNT(*) AS n {EDGES} AND z.dst = w.src",
    "mixed_cycle": "SELECT SUM(r.w * t.w + s.w) AS n, COUNT(r.w) AS k FROM r, e, t, s WHERE r.b = s.b AND s.c = t.c "
    "AND t.a = e.dst AND e.src = r.a AND r.w > 0",
    "mixed_path": "SELECT SUM(s.w) FILTER (WHERE r.w > 1) AS n FROM r, s, t, e WHERE e.dst = t.a AND t.c = s.c "
    "AND s.b = r.b AND t.w < 2",
    "loomis_whitney": "SELECT COUNT(*) AS n, SUM(y.b) AS total FROM r x, r y, r z, r u WHERE x.b = y.a AND x.w = y.b "
    "AND y.b = z.a AND y.w = z.b AND z.b = u.a AND z.w = u.b AND x.a = z.w AND x.b = u.w",
}


def dense_batches(count: int) -> list[dict[str, Counter[tuple[Any, ...]]]]:
    """Rows over few values, so that tables join; some go again."""
    random, held = Random(9), dict[str, list[tuple[Any, ...]]](r=[], s=[], t=[], e=[])
    found = []
    for _ in range(count):
        batch: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in held}
        for name, rows in held.items():
            for _ in range(7):
                a, b, c = (random.randrange(3) for _ in range(3))
                row = {"r": (a, b, c, 1), "s": (a, "xyz"[b], c), "t": ("xyz"[a], b, c), "e": (a, b)}[name]
                is_gone = rows and random.random() < 0.3
                batch[name][rows.pop() if is_gone else row] += -1 if is_gone else 1
                if not is_gone:
                    rows.insert(random.randrange(len(rows) + 1), row)
        found.append(batch)
    return found


@pytest.mark.parametrize(("kind", "options"), [("TABLE", ""), ("STREAM", ", epsilon = 0.2")])
def test_joins_of_four_tables_in_a_directory(kind: str, options: str, tmp_path: Path) -> None:
    twin, seen = reference(), set[object]()
    with viewlet.connect(tmp_path, fsync=False) as db:
        db.execute(SCHEMA.format(kind=kind))
        for name, sql in QUERIES.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = 'adaptive'{options}) AS {sql}")
    for number, batch in enumerate(dense_batches(5)):
        db = viewlet.connect(tmp_path, fsync=False)
        stored = {name: db.view(name).stats()["stored"] for name in QUERIES}
        with pytest.raises(viewlet.DataError):
            db.apply({"e": [(1, 2), (2, 3)] * 9, "r": [(1, 1, 1, 1)] * 9, "t": [("x", None, 3)]})
        assert stored == {name: db.view(name).stats()["stored"] for name in QUERIES}
        feed(db, batch)
        feed(twin, batch)
        for name, sql in QUERIES.items():
            rows = db.view(name).rows()
            assert rows == [tuple(row.values()) for row in twin.execute(sql).to_pylist()], name
            seen.update((name, value) for value in rows[0] if value)
        (db.close if number % 2 else lambda db=db: abandon(db))()  # type: ignore[misc]
    assert {name for name, _ in seen} == QUERIES.keys()  # type: ignore[misc]


def test_explain_shows_the_join_its_parts_and_the_rebalancing() -> None:
    db = reference()
    for name in ("cycles", "loomis_whitney"):
        db.execute(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = 'adaptive') AS {QUERIES[name]}")
    db.insert("e", [(0, i) for i in range(40)] + [(i, 0) for i in range(1, 40)])
    text = db.explain("cycles")
    assert text.startswith("view cycles (adaptive)")
    assert "cycle of four tables, heavy from N^0.667 tuples on" in text
    assert "PR(a, c) = R(a, light b) * S(light b, c)" in text
    assert "VR(a, b, c) = S(b, c, d, heavy) * T(c, d, a, light)" in db.explain("loomis_whitney")
    assert "#a: 1" in db.explain("cycles", "parts")


def test_options_and_engines_are_refused_clearly() -> None:
    with pytest.raises(viewlet.SqlError, match="a join of four tables takes one number as epsilon"):
        reference().execute(
            f"CREATE MATERIALIZED VIEW v WITH (strategy = 'adaptive', epsilon = 'auto') AS {QUERIES['paths']}"
        )
    with pytest.raises(viewlet.UnsupportedError, match="an adaptive view over four tables in the compiled engine"):
        reference("compiled").execute(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'adaptive') AS {QUERIES['paths']}")
