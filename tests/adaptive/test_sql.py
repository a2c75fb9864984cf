"""Adaptive views from SQL: what is recognised, and that it is what DuckDB says after every batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import viewlet
from tests.durable.scripts import abandon
from viewlet.engine import chooser

SCHEMA = """
CREATE {kind} r (a BIGINT, b BIGINT NOT NULL, w BIGINT, d DECIMAL(9,2));
CREATE {kind} s (b BIGINT NOT NULL, c VARCHAR NOT NULL, w BIGINT NOT NULL);
CREATE {kind} t (c VARCHAR NOT NULL, a BIGINT NOT NULL, w INTEGER NOT NULL);
CREATE {kind} e (src BIGINT NOT NULL, dst BIGINT NOT NULL);
"""
JOIN = "FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a"
CYCLE = "FROM e x JOIN e y ON x.dst = y.src JOIN e z ON y.dst = z.src AND z.dst = x.src"
UNDIRECTED = "FROM e x, e y, e z WHERE x.dst = y.src AND y.dst = z.dst AND x.src = z.src"
QUERIES = {
    "counted": f"SELECT COUNT(*) AS n {JOIN}",
    "summed": f"SELECT SUM(r.w * s.w * t.w) AS n, SUM(r.d * s.w) AS d, COUNT(r.w) AS k {JOIN}",
    "grouped": f"SELECT r.a, COUNT(*) AS n, SUM(s.w) AS total, AVG(r.w) AS m {JOIN} GROUP BY r.a HAVING COUNT(*) > 1",
    "by_two": f"SELECT s.c, r.b, SUM(2 * r.w * t.w) AS n {JOIN} AND r.w > 1 GROUP BY s.c, r.b",
    "sum_of_sums": f"SELECT SUM(r.w - s.w) AS n, SUM((r.w + 2 * t.w) * s.w) AS m, AVG(s.w + r.w) AS k {JOIN}",
    "by_weight": f"SELECT r.w, s.c, s.w AS v, COUNT(*) AS n, SUM(r.w * t.w) AS m {JOIN} GROUP BY r.w, s.c, s.w",
    "listed_with_weights": f"SELECT t.w, r.a, r.w AS v {JOIN}",
    "filtered": f"SELECT t.c, SUM(s.w) FILTER (WHERE r.w > 2) AS n, 1 + COUNT(*) {JOIN} AND t.a < s.b GROUP BY t.c",
    "listed": f"SELECT r.a, s.b, t.c {JOIN}",
    "distinct_ends": f"SELECT DISTINCT t.c, t.a {JOIN}",
    "first_three": f"SELECT r.a, COUNT(*) AS n {JOIN} GROUP BY r.a ORDER BY n DESC, r.a LIMIT 3",
    "cycles": f"SELECT COUNT(*) AS n {CYCLE}",
    "cycles_of_each": f"SELECT x.src, COUNT(*) AS n {CYCLE} GROUP BY x.src",
    "ordered": f"SELECT COUNT(*) AS n {UNDIRECTED} AND x.src < x.dst AND y.src < z.dst",
    "paths": "SELECT COUNT(*) AS n FROM e x, e y, e z WHERE x.dst = y.src AND y.dst = z.src",
    "paths_by_joint": "SELECT t.a, COUNT(*) AS n, SUM(r.w * t.w) AS total FROM s, r, t WHERE s.b = r.b AND t.a = r.a "
    "GROUP BY t.a",
    "named_once": "SELECT COUNT(*) AS n FROM r JOIN s USING (b) JOIN t USING (c, a)",
    "stars": "SELECT x.src, COUNT(*) AS n FROM e x, e y, e z WHERE x.src = y.src AND y.src = z.dst GROUP BY x.src",
    "products": "SELECT COUNT(*) AS n FROM e x, e y, e z WHERE x.src = y.dst",
    "of_each": f"SELECT r.w, COUNT(*) AS n, SUM(s.w) AS total {JOIN} AND r.w = s.w AND s.w = t.w GROUP BY r.w",
    "of_each_by_vertex": f"SELECT t.w, s.c, COUNT(*) AS n {JOIN} AND r.w = s.w AND s.w = t.w GROUP BY t.w, s.c",
    "paths_of_each": "SELECT r.w, COUNT(*) AS n FROM r, s, t WHERE r.b = s.b AND t.a = r.a AND r.w = s.w AND s.w = t.w "
    "GROUP BY r.w",
    "on_two_columns": "SELECT r.b, s.w, COUNT(*) AS n FROM r, s, t WHERE r.b = s.b AND r.w = s.w AND s.c = t.c "
    "GROUP BY r.b, s.w",
}

OTHER_GROUPS = ("of_each", "by_weight", "listed_with_weights")
"""They stay on the interpreter."""


def names_for(engine: str) -> list[str]:
    return [name for name in QUERIES if engine != "compiled" or name not in OTHER_GROUPS]


def rows_of(table: str, random: Random) -> tuple[Any, ...]:
    def vertex() -> int:
        return int(random.paretovariate(0.8)) % 7

    match table:
        case "r":
            return (
                random.choice((None, vertex(), vertex())),
                vertex(),
                random.choice((None, 1, 2, 3)),
                random.randrange(9),
            )
        case "s":
            return vertex(), "xyz"[vertex() % 3], random.randrange(-2, 4)
        case "t":
            return "xyz"[vertex() % 3], vertex(), random.randrange(3)
        case _:
            return vertex(), vertex()


def batches(seed: int, count: int) -> list[dict[str, Counter[tuple[Any, ...]]]]:
    """Rows with multiplicities: inserts of several, and deletes of what is there."""
    random, present = Random(seed), {table: list[tuple[Any, ...]]() for table in "rste"}
    found = []
    for _ in range(count):
        batch: dict[str, Counter[tuple[Any, ...]]] = {}
        for table, rows in present.items():
            changes = batch[table] = Counter()
            for _ in range(random.randrange(7)):
                if rows and random.random() < 0.4:
                    changes[rows.pop(random.randrange(len(rows)))] -= 1
                else:
                    rows.append(rows_of(table, random))
                    changes[rows[-1]] += 1
        found.append(batch)
    return found


def feed(db: Any, batch: dict[str, Counter[tuple[Any, ...]]]) -> None:
    names = {table: db.table(table).columns for table in batch}
    db.apply(
        {
            table: [{**dict(zip(names[table], row, strict=True)), "_multiplicity": n} for row, n in rows.items() if n]
            for table, rows in batch.items()
        }
    )


def reference(engine: str = "auto") -> viewlet.Connection:
    db = viewlet.connect(engine=engine)
    db.execute(SCHEMA.format(kind="TABLE"))
    return db


def declare(db: Any, name: str, options: str = "strategy = 'adaptive'") -> None:
    db.execute(f"CREATE MATERIALIZED VIEW {name} WITH ({options}) AS {QUERIES[name]}")


def assert_right(db: Any, twin: viewlet.Connection, names: Any = QUERIES) -> None:
    for name in names:
        expected = [tuple(row.values()) for row in twin.execute(QUERIES[name]).to_pylist()]
        assert sorted(db.view(name).rows(), key=repr) == sorted(expected, key=repr), name


@pytest.mark.parametrize(
    ("engine", "kind", "epsilon"),
    [
        ("interpreter", "TABLE", "0.5"),
        ("compiled", "STREAM", "0"),
        ("compiled", "TABLE", "0.5"),
        ("interpreter", "STREAM", "'0.25, 0, 1'"),
        ("compiled", "STREAM", "0.5, space = 'any'"),
    ],
)
def test_every_query_is_what_duckdb_says_after_every_batch(engine: str, kind: str, epsilon: str) -> None:
    db, twin = viewlet.connect(engine=engine), reference()
    db.execute(SCHEMA.format(kind=kind))
    for name in names_for(engine):
        declare(db, name, f"strategy = 'adaptive', epsilon = {epsilon}")
    for batch in batches(3, 7):
        feed(db, batch)
        feed(twin, batch)
        assert_right(db, twin, names_for(engine))


def test_a_view_declared_over_rows_and_one_that_reads_a_view() -> None:
    db, twin = reference(), reference()
    first, *others = batches(4, 4)
    for each in (db, twin):
        feed(each, first)
    for name in QUERIES:
        declare(db, name)
    db.execute("CREATE MATERIALIZED VIEW busy AS SELECT COUNT(*) AS n FROM cycles_of_each WHERE n > 2")
    assert_right(db, twin)
    for batch in others:
        feed(db, batch)
        feed(twin, batch)
        assert_right(db, twin)
        expected = twin.execute(f"SELECT COUNT(*) AS n FROM ({QUERIES['cycles_of_each']}) WHERE n > 2").to_pylist()
        assert db.view("busy").rows() == [(expected[0]["n"],)]
    db.execute("DROP VIEW busy")
    db.execute("DROP VIEW cycles")
    declare(db, "cycles", "strategy = 'adaptive', epsilon = 0.75")
    assert_right(db, twin)


@pytest.mark.parametrize(("engine", "kind"), [("auto", "TABLE"), ("compiled", "STREAM")])
def test_it_continues_from_a_directory_with_its_thresholds_and_parts(engine: str, kind: str, tmp_path: Path) -> None:
    twin = reference()
    with viewlet.connect(tmp_path, engine=engine, fsync=False) as db:
        db.execute(SCHEMA.format(kind=kind))
        for number, name in enumerate(names_for(engine)):
            declare(db, name, f"strategy = 'adaptive', space = '{'linear' if number % 2 else 'any'}'")
    parts: dict[str, Any] = {}
    for number, batch in enumerate(batches(5, 4)):
        db = viewlet.connect(tmp_path, engine=engine, fsync=False)
        shown = {name: db.view(name).stats()["thresholds"] for name in names_for(engine)}
        assert shown == parts or not parts
        feed(db, batch)
        feed(twin, batch)
        assert_right(db, twin, names_for(engine))
        parts = {name: db.view(name).stats()["thresholds"] for name in names_for(engine)}
        (db.close if number % 2 else lambda db=db: abandon(db))()  # type: ignore[misc]


def test_subscribers_hear_of_triangles_that_come_and_go() -> None:
    db, held = viewlet.connect(), Counter[Any]()
    db.execute(SCHEMA.format(kind="STREAM"))
    declare(db, "listed")

    def hear(epoch: int, changes: Any) -> None:
        for row in changes.to_pylist():
            times = row.pop("_multiplicity")
            held[tuple(row.values())] += times

    db.view("listed").subscribe(hear)
    for batch in batches(6, 12):
        feed(db, batch)
        assert Counter(db.view("listed").rows()) == +held
    assert held


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_a_batch_that_fails_leaves_everything_as_it_was(engine: str) -> None:
    db, twin = reference(engine), reference()
    for name in names_for(engine):
        declare(db, name)
    for batch in batches(7, 4):
        feed(db, batch)
        feed(twin, batch)
        before = {name: db.view(name).stats() for name in names_for(engine)}
        with pytest.raises(viewlet.DataError):
            db.apply({"e": [(1, 2), (2, 3), (3, 1)], "r": [(1, 1, 1, 1)] * 40, "t": [("x", None, 3)]})
        with pytest.raises(viewlet.DataError):
            db.delete("e", [(0, 0)] * 50)
        assert_right(db, twin, names_for(engine))
        for name, stats in before.items():
            assert stats["stored"] == db.view(name).stats()["stored"]
            assert stats["thresholds"] == db.view(name).stats()["thresholds"]


def test_loops_and_duplicate_edges_count_as_the_join_says() -> None:
    """A loop is three edges of a cycle at once; an edge twice makes each of its triangles twice."""
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE"))
    declare(db, "cycles")
    declare(db, "ordered")
    db.insert("e", [(1, 1)])
    assert db.view("cycles").rows() == [(1,)]
    db.insert("e", [(1, 1)])
    assert db.view("cycles").rows() == [(8,)]
    db.insert("e", [(1, 2), (2, 3), (1, 3), (2, 3)])
    assert db.view("ordered").rows() == [(2,)]
    assert db.view("cycles").rows() == [(8,)]


def test_explain_shows_the_triangle_its_parts_and_the_rebalancing() -> None:
    db = reference()
    declare(db, "ordered", "strategy = 'adaptive', epsilon = 0.25")
    db.insert("e", [(i, j) for i in range(9) for j in range(i)])
    text = db.explain("ordered")
    assert text.startswith("view ordered (adaptive)")
    assert "R(A, B) = e: A = src, B = dst where src < dst" in text
    assert "light below N^0.25 tuples for a value of A" in text
    parts = db.explain("ordered", "parts")
    assert all(part in parts for part in ("N = ", "heavy, ", "rebalanced: 1 times all"))
    assert db.view("ordered").stats()["strategy"] == "adaptive"
    declare(db, "cycles")
    assert "sparse where A is light and there are fewer than N^0.5 tuples for a value of B" in db.explain("cycles")
    assert "sparse tuples, threshold 14.7, of second values 14.7" in db.explain("cycles", "parts")


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT COUNT(*) AS n FROM r JOIN s USING (b)", "its join has 2 tables, not three"),
        (
            "SELECT w.src, COUNT(*) FROM e w, e x, e y, e z WHERE w.dst = x.src AND x.dst = y.src AND y.dst = z.src "
            "GROUP BY w.src",
            "neither grouped nor listed",
        ),
        ("SELECT COUNT(*) AS n FROM e v, e w, e x, e y, e z", "its join has 5 tables, not three"),
        (
            "SELECT COUNT(*) AS n FROM e w, e x, e y, e z WHERE w.dst = x.src AND w.dst = y.src AND w.dst = z.src",
            "4 tables, and is neither a path, a cycle nor a Loomis-Whitney join",
        ),
        (f"SELECT r.w, COUNT(*) AS n {JOIN} AND r.w = s.w GROUP BY r.w", "but not by its column 'b'"),
        (f"SELECT MAX(r.w) AS n {JOIN}", "not a sum or a count"),
        (f"SELECT COUNT(DISTINCT r.w) AS n {JOIN}", "not a sum or a count"),
        (f"SELECT SUM(GREATEST(r.w, s.w)) AS n {JOIN}", "takes columns of several tables"),
        (f"SELECT COUNT(*) AS n {JOIN} AND r.w < s.w", "takes columns of several tables"),
        (f"SELECT COUNT(*) AS n {JOIN} AND r.a + s.b < 3 * r.w + s.w", "takes columns of several tables"),
        (f"SELECT r.a + 1 AS k, COUNT(*) AS n {JOIN} GROUP BY r.a + 1", "computed inside the join"),
        (f"SELECT SUM(CAST(r.w AS DOUBLE)) AS n {JOIN}", "a DOUBLE: cast it to a DECIMAL"),
        ("SELECT COUNT(*) AS n FROM e x LEFT JOIN e y ON x.dst = y.src", "not three|something else than tables"),
        (f"SELECT COUNT(*) AS n {JOIN} AND r.w > (SELECT COUNT(*) FROM e)", "several tables|something else|subquery"),
        ("SELECT src FROM e", "its join has 1 table, not three"),
    ],
)
def test_other_queries_are_refused_by_their_reason(sql: str, reason: str) -> None:
    db = reference()
    with pytest.raises(viewlet.UnsupportedError, match=reason) as raised:
        db.execute(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'adaptive') AS {sql}")
    assert "leave the strategy out" in str(raised.value)
    db.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")


@pytest.mark.parametrize("epsilon", ["2", "-0.5", "'a'", "'0.5, 0.5'"])
def test_epsilon_is_checked(epsilon: str) -> None:
    with pytest.raises(viewlet.SqlError, match="epsilon is a number from 0 to 1"):
        declare(reference(), "cycles", f"strategy = 'adaptive', epsilon = {epsilon}")


@pytest.mark.parametrize("steps", ["0", "-1", "'few'"])
def test_steps_of_rebalancing_are_checked(steps: str) -> None:
    with pytest.raises(viewlet.SqlError, match="rebalance_steps is a number of steps"):
        declare(reference(), "cycles", f"strategy = 'adaptive', rebalance_steps = {steps}")


def test_rebalancing_is_bounded_and_told() -> None:
    db = reference("compiled")
    declare(db, "cycles", "strategy = 'adaptive', rebalance_steps = 2")
    declare(db, "listed", "strategy = 'adaptive'")
    for leaf in range(40):
        db.insert("e", [(0, leaf), (leaf, 0)])
    rebalancing: Any = db.view("cycles").stats()["rebalancing"]
    assert 0 < rebalancing["longest"] <= 6 < rebalancing["steps"]
    text = f"at most {rebalancing['longest']} at a time, the last ones after 79 updates"
    assert text in db.explain("cycles", "parts")
    expected = reference()
    expected.insert("e", [pair for leaf in range(40) for pair in ((0, leaf), (leaf, 0))])
    assert_right(db, expected, ["cycles"])


def test_space_is_linear_or_any() -> None:
    with pytest.raises(viewlet.SqlError, match="space is 'linear' or 'any', not small"):
        declare(reference(), "cycles", "strategy = 'adaptive', space = 'small'")


@pytest.mark.parametrize("option", ["epsilon = 0.5", "space = 'linear'", "rebalance_steps = 9"])
def test_its_options_belong_to_the_strategy(option: str) -> None:
    with pytest.raises(viewlet.UnsupportedError, match="strategy = 'adaptive'"):
        declare(reference(), "cycles", option)


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_a_sum_that_overflows_its_type_is_an_error(engine: str) -> None:
    db = reference(engine)
    declare(db, "summed")
    db.insert("s", [(1, "x", 2**40)])
    db.insert("t", [("x", 1, 2**30)])
    with pytest.raises(viewlet.DataError, match="overflows"):
        db.insert("r", [(1, 1, 2**40, 1)])
    assert db.view("summed").rows() == [(None, None, 0)]


def test_a_busy_view_moves_to_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chooser, "COMPILE_AFTER_ROWS", 3)
    db, twin = viewlet.connect(), reference()
    db.execute(SCHEMA.format(kind="STREAM"))
    names = [name for name in QUERIES if name not in (*OTHER_GROUPS, "summed")]
    for name in names:
        declare(db, name)
    for batch in batches(8, 6):
        feed(db, batch)
        feed(twin, batch)
        assert_right(db, twin, names)
        for view in db._session.database().views.values():
            if (task := view.choice.compilation) is not None:
                task.wait(60)
    assert {db.view(name).stats()["engine"] for name in names} == {"compiled"}


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("still", ["r", "st"])
def test_static_tables_beside_others(still: str, engine: str) -> None:
    """They are loaded before the view is declared, and their tuples are in parts like all others."""
    columns = {"r": ("a", "b"), "s": ("b", "c"), "t": ("c", "a")}
    random, twin, db = Random(6), viewlet.connect(), viewlet.connect(engine=engine)
    rows = {name: [(random.randrange(6), random.randrange(6)) for _ in range(25)] for name in "rst"}
    for each in (db, twin):
        for name, (first, second) in columns.items():
            kind = "STATIC TABLE" if name in still else "TABLE"
            each.execute(f"CREATE {kind} {name} ({first} BIGINT NOT NULL, {second} BIGINT NOT NULL)")
        for name in still:
            each.insert(name, rows[name])
    sql = f"SELECT r.a, COUNT(*) AS n {JOIN} GROUP BY r.a"
    db.execute(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'adaptive') AS {sql}")
    twin.execute(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'first-order') AS {sql}")
    for sign in (1, -1):
        for begin in range(0, 25, 5):
            for name in sorted({"r", "s", "t"} - set(still)):
                for each in (db, twin):
                    (each.insert if sign > 0 else each.delete)(name, rows[name][begin : begin + 5])
                assert db.view("v").rows() == twin.view("v").rows()


@pytest.mark.parametrize("name", OTHER_GROUPS)
def test_groups_that_the_kernel_has_not_are_refused_there(name: str) -> None:
    with pytest.raises(viewlet.UnsupportedError, match="in the compiled engine is not supported: it is grouped by"):
        declare(reference("compiled"), name)
