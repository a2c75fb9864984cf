"""Long chains of outer joins on Spark: one program whose layers tell their changes to those after them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.sql.test_common_tables import QUERIES
from tests.sql.test_deep_subqueries import QUERIES as DEEP
from tests.sql.test_outer_joins import LONG_CHAIN, compare_changes, random_row
from tests.sql.test_outer_joins import TABLES as CHAIN_TABLES
from tests.sql.test_stacked_aggregates import QUERIES as STACKED
from viewlet.algebra.evaluate import State
from viewlet.connection.spark_facade import connect_inline
from viewlet.engine.trigger_programs import ON_SPARK
from viewlet.spark.plan.compile import compile_distributed
from viewlet.spark.plan.simulate import Cluster
from viewlet.sqlgen.definition import definition_sql
from viewlet.triggers.compose import layer_rows
from viewlet.triggers.step import defined_contents
from viewlet.triggers.store import MapStore
from viewlet.triggers.strategy import Limits

TABLES = [f"CREATE TABLE t{i} (k BIGINT, v BIGINT)" for i in range(5)]
CHAIN = "t0 FULL JOIN t1 ON t0.k = t1.k FULL JOIN t2 ON t1.k = t2.k FULL JOIN t3 ON t2.k = t3.k"
QUERY = f"SELECT t0.v AS a, t1.v AS b, t2.v AS c, t3.v AS d FROM {CHAIN}"
VIEW = f"CREATE MATERIALIZED VIEW q AS {QUERY}"
KERNELS = ("interpreter", "compiled")
ALL_COLUMNS = ", ".join(f"t{i}.k AS k{i}, t{i}.v AS v{i}, t{i}.n AS n{i}" for i in range(5))
CHAINS = (
    "t0 FULL JOIN t1 ON t0.k = t1.k FULL JOIN t2 ON t1.k = t2.k FULL JOIN t3 ON t2.n = t3.n "
    "FULL JOIN t4 ON t3.k = t4.k",
    "t0 FULL JOIN t1 ON t0.k = t1.k AND t0.v IS NULL RIGHT JOIN (t2 RIGHT JOIN t3 ON t2.k = t3.k) "
    "ON coalesce(t0.k, 1) = t3.k FULL JOIN t4 ON t2.k IS NOT DISTINCT FROM t4.k",
    "t0 RIGHT JOIN t1 ON coalesce(t0.k, 1) = t1.k FULL JOIN t2 ON t0.k = t2.k AND t0.v < t2.v "
    "FULL JOIN t3 ON t0.n = t3.n INNER JOIN t4 ON t2.k = t4.k AND t4.v > 0",
)
"""Where a condition reads coalesce(t0.k, 1), rows of a layer are not incremented but assigned."""


@pytest.fixture(autouse=True)
def _plain_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_JIT", "0")


def rows_of(seed: int, count: int = 5) -> dict[str, list[tuple[int | None, int]]]:
    rng = random.Random(seed)
    return {f"t{i}": [(rng.choice((None, 1, 2, 3, 4)), rng.randint(0, 9)) for _ in range(count)] for i in range(4)}


def assert_right(db: Any, view: str = "q", query: str = QUERY) -> None:
    expected = db.execute(query).to_pylist()
    assert Counter(db.view(view).rows()) == Counter(tuple(row.values()) for row in expected)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("chain", CHAINS)
def test_chains_agree_with_duckdb(kernel: str, chain: str, tmp_path: Path) -> None:
    with connect_inline(tmp_path, 3, sync=False, engine=kernel) as db:
        compare_changes(db, f"SELECT {ALL_COLUMNS} FROM {chain}", 5, random.Random(chain))
        assert "layer " in db.explain("q", "triggers")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", QUERIES)
def test_common_tables_agree_with_duckdb(kernel: str, name: str, tmp_path: Path) -> None:
    with connect_inline(tmp_path, 3, sync=False, engine=kernel) as db:
        compare_changes(db, QUERIES[name], 4, random.Random(name))
        assert "layer " in db.explain("q", "triggers")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", {**STACKED, **DEEP})
def test_aggregates_of_aggregates_agree_with_duckdb(kernel: str, name: str, tmp_path: Path) -> None:
    with connect_inline(tmp_path, 3, sync=False, engine=kernel) as db:
        compare_changes(db, {**STACKED, **DEEP}[name], 3, random.Random(name))
        assert "layer " in db.explain("q", "triggers")


@pytest.mark.parametrize("strategy", ["higher-order", "view-tree", "first-order", "recompute"])
def test_chains_agree_with_duckdb_under_every_strategy(strategy: str, tmp_path: Path) -> None:
    with connect_inline(tmp_path, 2, sync=False) as db:
        compare_changes(db, LONG_CHAIN, 5, random.Random(strategy), strategy)


@pytest.mark.parametrize("kernel", KERNELS)
def test_layers_survive_and_are_moved(kernel: str, tmp_path: Path) -> None:
    """Over rows that are there, after a snapshot, from the log alone, in other places and on other partitions."""
    with connect_inline(tmp_path, 2, engine=kernel) as db:
        for statement in TABLES:
            db.execute(statement)
        db.apply(rows_of(1))
        db.execute(VIEW)
        assert_right(db)
        db.apply(rows_of(2))
        db.checkpoint()
        db.execute("ALTER MATERIALIZED VIEW q PARTITION BY (a)")
        db.apply(rows_of(3, 2))
    for seed in (4, 5):
        with connect_inline(tmp_path, 2 if seed == 4 else 3, engine=kernel) as db:
            assert_right(db)
            db.delete("t1", db.execute("SELECT * FROM t1 LIMIT 3"))
            db.apply(rows_of(seed, 3))
            assert_right(db)
            if seed == 4:
                db.repartition(3)
                assert_right(db)


def test_subscribers_and_views_over_it_hear_of_its_changes(tmp_path: Path) -> None:
    totals = "SELECT a, COUNT(*) AS n, SUM(d) AS s FROM q GROUP BY a"
    with connect_inline(tmp_path, 2) as db:
        for statement in (*TABLES, VIEW, f"CREATE MATERIALIZED VIEW totals AS {totals}"):
            db.execute(statement)
        told: Counter[tuple[object, ...]] = Counter()

        def note(epoch: int, changes: Any) -> None:
            for *row, count in (tuple(each.values()) for each in changes.to_pylist()):
                told[tuple(row)] += count

        db.view("q").subscribe(note)
        for seed in range(3):
            db.apply(rows_of(seed, 3))
            db.delete("t0", db.execute("SELECT * FROM t0 LIMIT 2"))
        assert_right(db)
        assert_right(db, "totals", totals)
        assert +told == Counter(db.view("q").rows())


def test_layers_over_constants_have_rows_before_the_first_batch(tmp_path: Path) -> None:
    query = (
        "SELECT t.n, t0.v AS a, t1.v AS b, t2.v AS c FROM (VALUES (1), (2), (3)) AS t(n) "
        "FULL JOIN t0 ON t.n = t0.k FULL JOIN t1 ON t.n = t1.k FULL JOIN t2 ON t.n = t2.k"
    )
    with connect_inline(tmp_path, 2) as db:
        for statement in (*TABLES, f"CREATE MATERIALIZED VIEW q AS {query}"):
            db.execute(statement)
        assert "layer " in db.explain("q", "triggers")
        assert_right(db, query=query)
        for seed in range(3):
            db.apply(rows_of(seed, 3))
            assert_right(db, query=query)


def test_it_explains_layers(tmp_path: Path) -> None:
    with connect_inline(tmp_path, 2) as db:
        for statement in (*TABLES, VIEW):
            db.execute(statement)
        assert "layer joined1:" in db.explain("q", "triggers")
        assert "joined1(" in db.explain("q", "views")
        assert "stage 1" in db.explain("q", "spark")
        assert "joined1" in db.explain("q")


def test_simulated_workers_agree(tmp_path: Path) -> None:
    """A plan that read a change of a layer where it is not would go wrong on workers that see only their own rows."""
    with connect_inline(tmp_path, 2) as db:
        for statement in (*TABLES, VIEW):
            db.execute(statement)
        unit = db._session._database.host._views["q"].unit  # type: ignore[union-attr]
        rows = dict.fromkeys((f"t{i}" for i in range(4)), 1e6)
        cluster = Cluster(compile_distributed(unit.program, unit.sources, rows), 3)
        for seed in range(6):
            batch = {name: dict(Counter(new)) for name, new in rows_of(seed).items()}
            db.apply(rows_of(seed))
            cluster.apply(batch)
        assert Counter(cluster.result()) == Counter(db.view("q").rows())


@pytest.mark.parametrize("chain", CHAINS)
def test_definitions_over_layers_as_sql(chain: str, tmp_path: Path) -> None:
    """What an initial load asks the host for: DuckDB gives the contents that the definitions have."""
    rng = random.Random(chain)
    with connect_inline(tmp_path, 2, sync=False) as db, duckdb.connect() as duck:
        for statement in CHAIN_TABLES:
            db.execute(statement)
            duck.execute(statement)
        db.execute(f"CREATE MATERIALIZED VIEW q AS SELECT {ALL_COLUMNS} FROM {chain}")
        unit = db._session._database.host._views["q"].unit  # type: ignore[union-attr]
        tables = {}
        for name in unit.sources:
            rows = [random_row(rng) for _ in range(6)]
            tables[name] = MapStore.of_rows(Counter(rows))
            duck.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
        state = State({**tables, **layer_rows(unit.program.layers, tables)})
        for view in unit.program.views:
            sql = definition_sql(view, unit.sources, "duckdb", layers=unit.program.layers)
            found = {row[: len(view.keys)]: row[len(view.keys) :] for row in duck.execute(sql).fetchall()}
            assert found == defined_contents(view, state), view.name


def test_layers_continue_by_the_strategy_that_all_of_them_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one part is too large for programs over views, all of them are planned over tables."""
    for strategy in ("higher-order", "view-tree"):
        monkeypatch.setitem(ON_SPARK, strategy, Limits(9, 40_000))
    streams = [statement.replace("TABLE", "STREAM") for statement in TABLES]
    query = f"SELECT t4.v AS e, COUNT(*) AS n FROM {CHAIN} JOIN t4 ON t4.k = t0.k GROUP BY t4.v"
    with connect_inline(tmp_path, 2) as db:
        for statement in (*streams, f"CREATE MATERIALIZED VIEW q AS {query}"):
            db.execute(statement)
        db.apply({**rows_of(1), "t4": [(1, 5), (2, 6)]})
        assert db.view("q").stats()["strategy"] == "first-order"
        before = Counter(db.view("q").rows())
    with connect_inline(tmp_path, 2) as db:
        assert Counter(db.view("q").rows()) == before
        db.apply(rows_of(2))
