"""Views over views that aggregate, on partitions: layers of one query where the queries below would be too large."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from bench.declare_queries import FAMILIES
from viewlet.algebra.layered_query import LayeredQuery
from viewlet.algebra.query import Query
from viewlet.algebra.traverse import size
from viewlet.connection.facade import Connection
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.hosts import spark
from viewlet.spark.run.state.partition import forget

TABLES = ("CREATE TABLE t (a BIGINT, b BIGINT, s VARCHAR, x BIGINT)", "CREATE TABLE u (a BIGINT, y BIGINT)")
VIEWS = {
    "v0": "SELECT a, b, s, SUM(x) AS x, COUNT(*) AS n FROM t GROUP BY a, b, s",
    "v1": "SELECT a, b, s, SUM(x) AS x, MAX(n) AS n FROM v0 GROUP BY a, b, s",
    "v2": "SELECT a, b, SUM(x) AS x, MIN(n) AS n FROM v1 WHERE n > 0 GROUP BY a, b",
    "v3": "SELECT a, b, SUM(x) AS x, COUNT(*) AS n FROM v2 GROUP BY a, b",
    "left side": "SELECT a AS k, a AS again, SUM(x) AS x, MAX(n) AS n FROM v3 GROUP BY a",
    "right side": "SELECT b AS k, SUM(n) AS n, AVG(x) AS x FROM v3 GROUP BY b",
    "filtered": 'SELECT k, x FROM "left side" WHERE x IS NOT NULL',
    "both": 'SELECT l.k, l.again, r.n, l.x, f.x AS filtered FROM "left side" l LEFT JOIN "right side" r ON l.k = r.k '
    "LEFT JOIN filtered f ON f.k = r.k",
    "chain": "SELECT v.a, u.y, w.n FROM v3 v FULL JOIN u ON v.a = u.a FULL JOIN v2 w ON w.b = u.y "
    "FULL JOIN v3 z ON z.b = u.a",
    "chain 2": "SELECT v.a, u.y, w.n FROM v2 v FULL JOIN u ON v.a = u.y FULL JOIN v3 w ON w.b = u.y "
    "FULL JOIN v3 z ON z.b = u.a",
    "over chains": 'SELECT c.y, COUNT(*) AS n, SUM(d.n) AS m FROM chain c JOIN "chain 2" d ON c.a = d.a GROUP BY c.y',
    "top": 'SELECT n, COUNT(*) AS c, SUM(x) AS x FROM "both" GROUP BY n ORDER BY n',
}
LAYERED = ("left side", "right side", "filtered", "both", "over chains", "top")


@pytest.fixture(autouse=True)
def _plain_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("VIEWLET_JIT", "0")
    yield
    forget()


class Oracle:
    """The same views in DuckDB, over rows with multiplicities."""

    def __init__(self, views: dict[str, str], seed: int) -> None:
        self.rows: dict[str, list[tuple[object, ...]]] = {"t": [], "u": []}
        self._views = views
        self._rng = random.Random(seed)

    def batch(self, count: int = 8) -> dict[str, tuple[list[tuple[object, ...]], list[tuple[object, ...]]]]:
        """Rows to insert and to delete."""
        rng, small = self._rng, (None, 1, 2, 3)
        made: dict[str, list[tuple[object, ...]]] = {
            "t": [
                (rng.choice(small), rng.choice(small), rng.choice((None, "p", "q")), rng.randint(-3, 9))
                for _ in range(count)
            ],
            "u": [(rng.choice(small), rng.choice(small)) for _ in range(count // 2)],
        }
        found = {}
        for table, rows in made.items():
            gone = rng.sample(self.rows[table], min(len(self.rows[table]), count // 3))
            for row in gone:
                self.rows[table].remove(row)
            self.rows[table] += rows
            found[table] = rows, gone
        return found

    def expected(self) -> dict[str, Counter[Any]]:
        with duckdb.connect() as db:
            for statement in TABLES:
                db.execute(statement)
            for table, rows in self.rows.items():
                if rows:
                    db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
            for name, query in self._views.items():
                db.execute(f'CREATE VIEW "{name}" AS {query}')
            return {name: Counter(db.execute(f'SELECT * FROM "{name}"').fetchall()) for name in self._views}


def declare(db: Connection, views: dict[str, str] = VIEWS) -> None:
    for name, query in views.items():
        db.execute(f'CREATE MATERIALIZED VIEW "{name}" AS {query}')


def play(db: Connection, oracle: Oracle) -> None:
    columns = {"t": ("a", "b", "s", "x"), "u": ("a", "y")}
    types = {"s": pa.string()}
    changes = {}
    for table, (made, gone) in oracle.batch().items():
        rows = [*((*row, 1) for row in made), *((*row, -1) for row in gone)]
        names = (*columns[table], "_multiplicity")
        changes[table] = pa.table(
            {name: pa.array([row[i] for row in rows], types.get(name, pa.int64())) for i, name in enumerate(names)}
        )
    db.apply(changes)


def check(db: Connection, oracle: Oracle) -> None:
    for name, expected in oracle.expected().items():
        assert Counter(db.view(name).rows()) == expected, name


@pytest.mark.parametrize("kernel", ["interpreter", "compiled"])
def test_stacks_agree_with_duckdb(kernel: str, tmp_path: Path) -> None:
    """With a restart in the middle, and views that are filled from rows that are there."""
    oracle, late = Oracle(VIEWS, 7), ("over chains", "top")
    early = {name: query for name, query in VIEWS.items() if name not in late}
    db = connect_inline(tmp_path, 3, sync=False, engine=kernel)
    for statement in TABLES:
        db.execute(statement)
    declare(db, early)
    for _ in range(2):
        play(db, oracle)
    declare(db, {name: VIEWS[name] for name in late})
    check(db, oracle)
    db.close()
    forget()
    db = connect_inline(tmp_path, 3, sync=False, engine=kernel)
    for _ in range(2):
        play(db, oracle)
        check(db, oracle)
    assert all("layer " in db.explain(name, "triggers") for name in LAYERED)
    db.close()


def test_a_view_that_was_written_out_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions knew no layers for views: what they declared has its state in one expression."""
    views = {name: VIEWS[name] for name in ("v0", "v1", "v2", "v3", "left side")}
    oracle = Oracle(views, 11)
    with monkeypatch.context() as earlier:
        earlier.setattr(spark, "choose_form", lambda declared, catalogue: declared)
        db = connect_inline(tmp_path, 2, sync=False)
        for statement in TABLES:
            db.execute(statement)
        declare(db, views)
        play(db, oracle)
        db.close()
    forget()
    db = connect_inline(tmp_path, 2, sync=False)
    play(db, oracle)
    check(db, oracle)
    assert "layer " not in db.explain("left side", "triggers")
    db.close()


def test_every_stage_of_a_stack_is_explained(tmp_path: Path) -> None:
    with connect_inline(tmp_path, 2, sync=False) as db:
        for statement in TABLES:
            db.execute(statement)
        declare(db, {name: VIEWS[name] for name in ("v0", "v1", "v2", "v3", "left side")})
        for stage in ("sql", "algebra", "passes", "views", "triggers", "rows", "code", "engine", "spark"):
            assert db.explain("left side", stage)
        told = db.execute('EXPLAIN SELECT k, SUM(x) AS x FROM "left side" GROUP BY k').to_pylist()
        assert "query_v2_v1" in str(told), "a view of the layer v2 over the layer v1"


@pytest.mark.parametrize("family", ["aggregates of views", "views over views"])
def test_a_level_adds_its_own_size(family: str, tmp_path: Path) -> None:
    db = connect_inline(tmp_path, 2, sync=False)
    for statement in FAMILIES[family].statements(8):
        db.execute(statement)
    assert nodes(db, "v7") - nodes(db, "v5") < 2 * 100
    db.close()


def nodes(db: SparkConnection, view: str) -> int:
    host = db._host
    definition = host.over_tables(host.catalogue.views[view].declared).definition
    assert isinstance(definition, LayeredQuery)
    queries: list[Query] = [definition.result, *(layer.query for layer in definition.layers)]
    return sum(size(query.expr) for query in queries)
