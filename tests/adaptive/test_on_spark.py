"""Adaptive views in shares, on partitions in this process: every triangle is in one of them, whatever the epsilon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from random import Random
from typing import Any

import pytest

import viewlet
from tests.adaptive import test_sql as sql
from tests.adaptive.oracle import Tables
from tests.adaptive.streams import STREAMS, Change
from viewlet.connection.spark_facade import connect_inline
from viewlet.spark.plan.shares import Shares, best_shares
from viewlet.spark.run.state.partition import forget

EPSILONS = (0, 0.25, 0.5, 0.75, 1)
SCHEMA = """
CREATE STREAM r (a BIGINT NOT NULL, b BIGINT NOT NULL);
CREATE STREAM s (b BIGINT NOT NULL, c BIGINT NOT NULL);
CREATE STREAM t (c BIGINT NOT NULL, a BIGINT NOT NULL);
"""
JOIN = "FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a"
QUERIES = {
    "counted": f"SELECT COUNT(*) AS n {JOIN}",
    "grouped": f"SELECT r.a, COUNT(*) AS n {JOIN} GROUP BY r.a",
    "listed": f"SELECT r.a, s.b, t.c {JOIN}",
}


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    forget()


def declare(db: Any, name: str, epsilon: float, sql: str | None = None) -> None:
    options = f"strategy = 'adaptive', epsilon = {epsilon}"
    db.execute(f"CREATE MATERIALIZED VIEW {name} WITH ({options}) AS {sql or QUERIES[name]}")


def feed(db: Any, change: Change) -> None:
    relation, first, second, times = change
    names = (("a", "b"), ("b", "c"), ("c", "a"))[relation]
    row = {names[0]: first, names[1]: second, "_multiplicity": times}
    db.apply({"rst"[relation]: [row]})


def assert_right(db: Any, tables: Tables) -> None:
    assert db.view("counted").rows() == [(tables.count(),)]
    assert dict(db.view("grouped").rows()) == {key[0]: n for key, n in tables.groups((0,)).items()}


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("stream", STREAMS)
def test_after_every_update_it_is_the_product_of_matrices(stream: str, engine: str, tmp_path: Path) -> None:
    number = list(STREAMS).index(stream)
    epsilon = EPSILONS[(number + (engine == "compiled")) % len(EPSILONS)]
    tables = Tables()
    with connect_inline(tmp_path, 8, sync=False, engine=engine) as db:
        db.execute(SCHEMA)
        declare(db, "counted", epsilon)
        declare(db, "grouped", epsilon)
        for change in islice(STREAMS[stream](Random(number), 24), 24):
            tables.apply(change)
            feed(db, change)
            assert_right(db, tables)
        assert db.view("counted").stats()["shares"] == [2, 2, 2]


def test_a_tuple_visits_the_cube_root_of_the_shares_and_a_triangle_is_in_one() -> None:
    edges = [((i, (i + 1) % 3), 1.0) for i in range(3)]
    for partitions, root in ((1, 1), (8, 2), (27, 3), (64, 4)):
        shares = best_shares(partitions, 3, edges)
        assert shares == Shares((root, root, root))
        for a, b, c in product(range(5), repeat=3):
            r, s, t = (set(shares.of((i, (i + 1) % 3), pair)) for i, pair in enumerate(((a, b), (b, c), (c, a))))
            assert len(r) == len(s) == len(t) == root
            assert len(r & s & t) == 1


def test_tables_of_other_sizes_have_other_shares_and_paths_have_two_variables() -> None:
    assert best_shares(8, 3, [((0, 1), 1e6), ((1, 2), 10.0), ((2, 0), 10.0)]).counts == (2, 4, 1)
    assert best_shares(9, 3, [((i, (i + 1) % 3), 1.0) for i in range(3)], fixed=[0]).counts == (1, 3, 3)


def test_the_tuples_of_a_hub_are_spread() -> None:
    """By their other value: no cell has more than its part of them, and all cells of the hub have some."""
    shares = Shares((3, 3, 3))
    held = Counter(cell for leaf in range(3000) for cell in shares.of((0, 1), (7, leaf)))
    assert len(held) == 9
    assert max(held.values()) < 1.2 * 3000 / 3


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_it_survives_the_loss_of_every_process(engine: str, tmp_path: Path) -> None:
    """From the log alone, from a snapshot and what follows, and after a batch that failed; with strings and sums."""
    random = Random(4)
    schema = "CREATE TABLE e (x VARCHAR NOT NULL, y VARCHAR NOT NULL, w BIGINT NOT NULL)"
    cycle = "FROM e p JOIN e q ON p.y = q.x JOIN e o ON q.y = o.x AND o.y = p.x"
    sql = f"SELECT p.x, COUNT(*) AS n, SUM(p.w * q.w) AS s {cycle} GROUP BY p.x"
    twin = viewlet.connect()
    told: list[Any] = []
    held: list[tuple[str, str, int]] = []
    for number in range(8):
        db = connect_inline(tmp_path, 4, sync=False, engine=engine)
        if number == 0:
            for each in (db, twin):
                each.execute(schema)
            twin.execute(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'first-order') AS {sql}")
        if number == 1:  # over rows that are there
            declare(db, "v", 0.5, sql)
        if number >= 1:
            db.view("v").subscribe(lambda epoch, changes: told.append(changes.num_rows))
        new = [(random.choice("abcde"), random.choice("abcde"), random.randrange(3)) for _ in range(6)]
        gone = [held.pop(random.randrange(len(held))) for _ in range(min(3, len(held)))]
        held += new
        for each in (db, twin):
            each.insert("e", new)
            each.delete("e", gone)
        with pytest.raises(viewlet.DataError):
            db.apply({"e": [{"x": "z", "y": "z", "w": 1, "_multiplicity": -1}]})
        if number >= 1:
            assert db.view("v").rows() == twin.view("v").rows()
        if number == 4:
            db.checkpoint()
        (db.close if number % 2 else db._host.cluster.checkpoint.close)()
        forget()
    assert told


def test_explain_shows_the_shares_and_their_parts(tmp_path: Path) -> None:
    with connect_inline(tmp_path, 4, sync=False) as db:
        db.execute(SCHEMA)
        declare(db, "counted", 0.5)
        db.insert("r", [(0, i) for i in range(40)])
        db.insert("s", [(i, 7) for i in range(40)])
        db.insert("t", [(7, 0)])
        assert db.view("counted").rows() == [(40,)]
        shown = db.explain("counted", "spark")
        assert "1 x 2 x 2 shares by A, B, C" in shown
        assert "T(C, A) of t: by C and A, in 2 shares, one for each part of B" in shown
        parts = db.explain("counted", "parts")
        assert parts.count("N = ") == 4
        assert "rebalanced" in parts


def test_numbers_beyond_a_word_are_refused_by_flat_arrays(tmp_path: Path) -> None:
    sql = "SELECT SUM(p.w * q.w) AS s FROM e p JOIN e q ON p.y = q.x JOIN e o ON q.y = o.x AND o.y = p.x"
    with connect_inline(tmp_path, 2, sync=False, engine="compiled") as db:
        db.execute("CREATE STREAM e (x BIGINT NOT NULL, y BIGINT NOT NULL, w BIGINT NOT NULL)")
        declare(db, "v", 0.5, sql)
        with pytest.raises(viewlet.DataError, match="62 bits"):
            db.insert("e", [(1, 1, 5_000_000_000_000_000_000)])
        db.insert("e", [(1, 1, 3)])
        assert db.view("v").rows() == [(9,)]


def test_partitions_are_not_chosen_by_the_user(tmp_path: Path) -> None:
    with connect_inline(tmp_path, 2, sync=False) as db:
        db.execute(SCHEMA)
        with pytest.raises(viewlet.UnsupportedError, match="PARTITION BY for view 'v', which is in shares"):
            db.execute(
                f"CREATE MATERIALIZED VIEW v PARTITION BY (a) WITH (strategy = 'adaptive') AS {QUERIES['grouped']}"
            )


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_other_joins_of_three_tables(engine: str, tmp_path: Path) -> None:
    """Vertices of several columns, stars, products; what needs other payloads or four tables is refused."""
    names = ["stars", "products", "of_each", "of_each_by_vertex", "on_two_columns", "sum_of_sums"]
    twin = sql.reference()
    with connect_inline(tmp_path, 8, sync=False, engine=engine) as db:
        db.execute(sql.SCHEMA.format(kind="STREAM"))
        for name in names:
            sql.declare(db, name)
        with pytest.raises(viewlet.UnsupportedError, match="in shares, with groups by other columns"):
            sql.declare(db, "by_weight")
        with pytest.raises(viewlet.UnsupportedError, match="over four tables on Spark"):
            db.execute(
                "CREATE MATERIALIZED VIEW v WITH (strategy = 'adaptive') AS SELECT COUNT(*) FROM e w, e x, e y, e z "
                "WHERE w.dst = x.src AND x.dst = y.src AND y.dst = z.src"
            )
        for batch in sql.batches(10, 3):
            sql.feed(db, batch)
            sql.feed(twin, batch)
            sql.assert_right(db, twin, names)
