"""Views with user-defined aggregates hold what plain Python computes from the rows, on every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewlet
from tests.aggregates.examples import ALL, BitXor, Moments
from viewlet.aggregates.aggregate import Layout

SCHEMA = """
    CREATE {kind} r (a BIGINT, b BIGINT, x BIGINT);
    CREATE {kind} s (b BIGINT, c VARCHAR);
    CREATE MATERIALIZED VIEW by_key AS
        SELECT a, bit_mix(x) AS mix, squares(x) AS sq, COUNT(*) AS n, SUM(x) AS total FROM r GROUP BY a;
    CREATE MATERIALIZED VIEW joined AS
        SELECT c, bit_mix(x + 1) AS mix, weighted(x, a) AS w FROM r JOIN s USING (b) GROUP BY c;
    CREATE MATERIALIZED VIEW filtered AS
        SELECT a % 2 AS parity, squares(x) FILTER (WHERE x > 2) AS sq FROM r GROUP BY a % 2
        HAVING bit_mix(x) >= 0 ORDER BY sq DESC NULLS LAST LIMIT 3;
    CREATE MATERIALIZED VIEW everything AS SELECT bit_mix(x) AS mix, squares(x) AS sq, COUNT(*) AS n FROM r
"""
OVER_VIEWS = """;
    CREATE MATERIALIZED VIEW over_view AS SELECT n, bit_mix(mix) AS mix FROM by_key GROUP BY n;
    CREATE MATERIALIZED VIEW plain_over AS SELECT MAX(mix) AS top FROM joined
"""
Rows = list[tuple[Any, ...]]


def groups(rows: Rows, key: Callable[[tuple[Any, ...]], Any]) -> dict[Any, Rows]:
    found: dict[Any, Rows] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def values(rows: Rows, of: Callable[[tuple[Any, ...]], Any]) -> list[Any]:
    return [value for row in rows if (value := of(row)) is not None]


def total(numbers: list[int]) -> int | None:
    return sum(numbers) if numbers else None


def expected(r: Rows, s: Rows) -> dict[str, Rows]:
    """What the views hold over these rows."""

    def x(row: tuple[Any, ...]) -> Any:
        return row[2]

    by_key = [
        (a, BitXor.oracle(values(g, x)), Moments.oracle(values(g, x)), len(g), total(values(g, x)))
        for a, g in groups(r, lambda row: row[0]).items()
    ]
    pairs = [(*left, right[1]) for left in r for right in s if left[1] is not None and left[1] == right[0]]
    joined = [
        (
            c,
            BitXor.oracle([v + 1 for v in values(g, x)]),
            sum(row[0] * row[2] for row in g if row[0] is not None and row[2] is not None),
        )
        for c, g in groups(pairs, lambda row: row[3]).items()
    ]
    filtered = [
        (parity, Moments.oracle([v for v in values(g, x) if v > 2]))
        for parity, g in groups(r, lambda row: None if row[0] is None else row[0] % 2).items()
    ]
    filtered.sort(key=lambda row: (row[1] is None, -(row[1] or 0), row[0] is None, row[0] or 0))
    over = [(n, BitXor.oracle([row[1] for row in g])) for n, g in groups(by_key, lambda row: row[3]).items()]
    return {
        "by_key": by_key,
        "joined": joined,
        "filtered": filtered[:3],
        "everything": [(BitXor.oracle(values(r, x)), Moments.oracle(values(r, x)), len(r))],
        "over_view": over,
        "plain_over": [(max((row[1] for row in joined), default=None),)],
    }


def assert_right(db: viewlet.Connection, r: Rows, s: Rows, views: Sequence[str] = ()) -> None:
    """The views, or some of them, hold what they should."""
    wanted = expected(r, s)
    for name, rows in {name: wanted[name] for name in views or wanted}.items():
        found = [tuple(int(v) if type(v).__name__ == "Decimal" else v for v in row) for row in db.view(name).rows()]
        assert sorted(map(repr, found)) == sorted(map(repr, rows)), name


def open_db(engine: str, kind: str, path: Path | None = None) -> viewlet.Connection:
    db = viewlet.connect(path, engine=engine, fsync=False, aggregates=ALL)
    if not db.tables:
        db.execute((SCHEMA + OVER_VIEWS).format(kind=kind))
    return db


def play(db: viewlet.Connection, random: Random, batches: int, r: Rows, s: Rows, views: Sequence[str] = ()) -> None:
    """Random inserts and deletes, the views compared after each batch."""
    for _ in range(batches):
        new_r = [
            (random.choice([None, 1, 2, 3]), random.choice([None, 1, 2]), random.choice([None, *range(6)]))
            for _ in range(random.randrange(6))
        ]
        new_s = [(random.choice([None, 1, 2]), random.choice("uv")) for _ in range(random.randrange(3))]
        old_r = random.sample(r, random.randrange(len(r) + 1)) if random.random() < 0.6 else []
        old_s = random.sample(s, random.randrange(len(s) + 1)) if random.random() < 0.4 else []
        db.apply({"r": signed("abx", new_r, old_r), "s": signed("bc", new_s, old_s)})
        r += new_r
        s += new_s
        for row in old_r:
            r.remove(row)
        for row in old_s:
            s.remove(row)
        assert_right(db, r, s, views)


def signed(columns: str, new: Rows, old: Rows) -> list[dict[str, Any]]:
    names = [*columns, "_multiplicity"]
    return [dict(zip(names, (*row, sign), strict=True)) for sign, rows in ((1, new), (-1, old)) for row in rows]


@pytest.mark.parametrize(("engine", "kind"), [("interpreter", "TABLE"), ("compiled", "STREAM")])
def test_random_changes_are_followed(engine: str, kind: str) -> None:
    db, r, s = open_db(engine, kind), list[Any](), list[Any]()
    assert_right(db, r, s)
    play(db, Random(7), 14, r, s)
    db.apply({"r": signed("abx", [], r), "s": signed("bc", [], s)})
    assert_right(db, [], [])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.one_of(st.none(), st.integers(-9, 9))), max_size=20))
def test_any_sequence_of_inserts_and_deletes(steps: list[tuple[bool, int, int | None]]) -> None:
    db = viewlet.connect(engine="interpreter", aggregates=ALL)
    db.execute("CREATE TABLE t (g BIGINT, x BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, bit_mix(x) AS m, squares(x) AS q FROM t GROUP BY g")
    held: Rows = []
    for inserts, g, x in steps:
        if inserts or (g, x) not in held:
            db.insert("t", [(g, x)])
            held.append((g, x))
        else:
            db.delete("t", [(g, x)])
            held.remove((g, x))
    wanted = [
        (g, BitXor.oracle(values(rows, lambda row: row[1])), Moments.oracle(values(rows, lambda row: row[1])))
        for g, rows in groups(held, lambda row: row[0]).items()
    ]
    assert sorted(db.view("v").rows()) == sorted(wanted)


@pytest.mark.parametrize(("engine", "kind"), [("interpreter", "TABLE"), ("compiled", "STREAM")])
def test_a_directory_continues(tmp_path: Path, engine: str, kind: str) -> None:
    r, s = list[Any](), list[Any]()
    random = Random(3)
    for restart in range(3):
        db = open_db(engine, kind, tmp_path / "db")
        if restart:
            assert_right(db, r, s)
        play(db, random, 4, r, s)
        if restart == 1:
            db.checkpoint()
            play(db, random, 2, r, s)
        db.close()


def test_the_log_alone_is_enough(tmp_path: Path) -> None:
    db, r, s = open_db("interpreter", "TABLE", tmp_path / "db"), list[Any](), list[Any]()
    play(db, Random(5), 4, r, s)
    import shutil

    shutil.copytree(tmp_path / "db", tmp_path / "copy")
    assert_right(open_db("interpreter", "TABLE", tmp_path / "copy"), r, s)


def test_views_declared_over_rows_are_filled() -> None:
    db = viewlet.connect(engine="interpreter", aggregates=ALL)
    tables, views = (SCHEMA + OVER_VIEWS).format(kind="TABLE").split("CREATE MATERIALIZED VIEW", 1)
    db.execute(tables)
    r, s = [(1, 1, 4), (1, 2, None), (None, 1, 5)], [(1, "u"), (2, "v")]
    db.apply({"r": r, "s": s})
    db.execute("CREATE MATERIALIZED VIEW" + views)
    assert_right(db, r, s)


def test_a_busy_view_moves_to_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.engine.chooser.COMPILE_AFTER_ROWS", 20)
    for kind in ("TABLE", "STREAM"):
        db, r, s = open_db("auto", kind), list[Any](), list[Any]()
        play(db, Random(11), 8, r, s)
        db.settle()
        play(db, Random(12), 6, r, s)
        assert db.view("by_key").stats()["engine"] == "compiled"


def test_the_rows_behind_the_states_are_not_kept() -> None:
    for engine in ("interpreter", "compiled"):
        db = viewlet.connect(engine=engine, aggregates=ALL)
        db.execute("CREATE STREAM t (g BIGINT, x BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, bit_mix(x) AS m FROM t GROUP BY g")
        db.insert("t", [(i % 3, i) for i in range(50)])
        stored: Any = db.view("v").stats()["stored"]
        assert stored["states"] == 3
        assert sum(stored.values()) <= 6


def test_rows_are_sorted_by_what_is_not_selected() -> None:
    db = viewlet.connect(aggregates=ALL)
    db.execute("CREATE TABLE t (g BIGINT, x BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT g FROM t GROUP BY g ORDER BY bit_mix(x) DESC LIMIT 2")
    db.insert("t", [(1, 1), (2, 7), (3, 4), (3, 1)])
    assert db.view("v").rows() == [(2,), (3,)]
    db.delete("t", [(2, 7)])
    assert db.view("v").rows() == [(3,), (1,)]


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_groups_are_compared_with_a_subquery(engine: str, kind: str) -> None:
    db = viewlet.connect(engine=engine, aggregates=ALL)
    db.execute(f"CREATE {kind} t (g BIGINT, x BIGINT); CREATE {kind} bounds (low BIGINT)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT g, bit_mix(x) AS m FROM t GROUP BY g "
        "HAVING bit_mix(x) > (SELECT SUM(low) FROM bounds)"
    )
    db.apply({"t": [(1, 5), (2, 9)], "bounds": [(3,)]})
    assert db.view("v").rows() == [(1, 5), (2, 9)]
    db.apply({"t": [(2, 1)], "bounds": [(4,)]})
    assert db.view("v").rows() == [(2, 8)]
    db.delete("bounds", [(4,)])
    assert db.view("v").rows() == [(1, 5), (2, 8)]


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_names_of_the_engine_are_free_for_users(engine: str) -> None:
    db = viewlet.connect(engine=engine, aggregates=ALL)
    db.execute('CREATE TABLE groups ("a; import os" BIGINT, "groups" BIGINT, collected BIGINT)')
    db.execute("CREATE TABLE collected (collected BIGINT)")
    db.execute(
        'CREATE MATERIALIZED VIEW "n; import os" AS SELECT "a; import os" AS "values", bit_mix("groups") AS bit_mix, '
        "COUNT(*) AS groups, SUM(collected) AS collected FROM groups JOIN collected USING (collected) "
        'GROUP BY "a; import os" HAVING squares("groups") > 1'
    )
    db.apply({"groups": [(1, 2, 3), (1, 4, 3), (2, 1, 3)], "collected": [(3,)]})
    assert db.view("n; import os").rows() == [(1, 6, 2, 6)]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 5)])
def test_states_are_packed_into_words(dtype: str, shape: tuple[int, ...]) -> None:
    layout = Layout(np.dtype(dtype), shape)
    states = [np.ones(shape, dtype) if shape else np.dtype(dtype).type(i % 2).item() for i in range(4)]
    words = layout.pack(states)
    assert words.shape == (4, layout.words)
    assert all(np.array_equal(a, b) for a, b in zip(layout.unpack(words), states, strict=True))
    assert layout.unpack(layout.pack([])) == []


def test_changes_are_told_to_subscribers() -> None:
    db = viewlet.connect(aggregates=ALL)
    db.execute("CREATE TABLE t (g BIGINT, x BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, bit_mix(x) AS m FROM t GROUP BY g")
    heard: list[Any] = []
    db.view("v").subscribe(lambda epoch, changes: heard.extend(changes.to_pylist()))
    db.insert("t", [(1, 5), (2, 6)])
    db.delete("t", [(2, 6)])
    db.insert("t", [(1, 0)])
    assert [(row["g"], row["m"], row["_multiplicity"]) for row in heard] == [(1, 5, 1), (2, 6, 1), (2, 6, -1)]


def test_explain_shows_the_queries_and_the_states() -> None:
    db = open_db("interpreter", "TABLE")
    text = db.explain("by_key")
    assert all(part in text for part in ("values:", "groups:", "result:", "squares(BIGINT) BIGINT, state int64[2]"))
    assert "def on_r" in db.explain("by_key", "code")
    assert db.execute("EXPLAIN SELECT bit_mix(x) AS m FROM r").num_rows > 5
