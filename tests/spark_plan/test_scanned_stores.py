"""Changes and arriving temporaries that are only added up: they have no index, and the same key may come many times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.conformance.workload import MEASURED, VALUES, warehouse
from tests.spark_plan.distributing import program_of
from viewlet.changes import MULTIPLICITY
from viewlet.codegen.node import CompiledNode, Contents
from viewlet.connection.spark_facade import connect_inline
from viewlet.errors import ViewletError
from viewlet.runtime.flat import FlatStore, Layout
from viewlet.runtime.probe import SIZE
from viewlet.spark.plan.compile import compile_distributed
from viewlet.spark.run.units.unit import ProgramUnit
from workloads import tpch
from workloads.query import NamedQuery


def scanned(query: NamedQuery) -> tuple[set[str], set[str]]:
    """The stores for one batch of the generated code of a query that are only scanned, and the others."""
    tables, _ = warehouse().stream
    program, sources = program_of(query, tables)
    unit = ProgramUnit(program.name, compile_distributed(program, sources, {**MEASURED, **VALUES}), sources)
    module = unit.code(generated=True).module
    assert module is not None
    passing = [layout for layout in module.generated.layouts if layout.transient and not layout.scratch]
    return {each.name for each in passing if each.scanned}, {each.name for each in passing if not each.scanned}


def test_appended_rows_are_all_there_and_go_together() -> None:
    store = FlatStore(Layout("change", 1, ("count",), ("count",), transient=True, scanned=True))
    rows = np.array([[7, 1], [7, 2], [8, -1]], np.int64)
    for _ in range(3):
        for _ in range(40):
            store.append(rows)
        assert len(store) == 120
        assert np.array_equal(store.packed(), np.tile(rows, (40, 1)))
        store.clear()
        assert store.is_empty
        assert not len(store.packed())
        assert not store.live.any()
    assert store.meta[SIZE] == 0
    assert len(store.index) < 16, "an index would have grown with the rows"


def test_equal_keys_from_many_places_add_up(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    with connect_inline(tmp_path / "state", 3, sync=False, engine="compiled") as db:
        db.execute("""
            CREATE STREAM s (k BIGINT, x BIGINT NOT NULL);
            CREATE MATERIALIZED VIEW v PARTITION BY (k) AS SELECT k, SUM(x) AS t, COUNT(*) AS n FROM s GROUP BY k
        """)
        total: dict[int | None, list[int]] = {}
        for _ in range(3):
            k, x = generator.integers(0, 9, 400), generator.integers(-5, 5, 400)
            times = generator.choice([-1, 0, 1, 2], 400)
            keys = [None if key == 0 else int(key) for key in k]
            db.apply({"s": pa.table({"k": pa.array(keys), "x": x, MULTIPLICITY: times})})
            for key, value, weight in zip(keys, x.tolist(), times.tolist(), strict=True):
                sums = total.setdefault(key, [0, 0])
                sums[0] += value * weight
                sums[1] += weight
            shown = {row[0]: [row[1], row[2]] for row in db.view("v").rows()}
            assert shown == {key: sums for key, sums in total.items() if sums[1]}


def test_what_is_joined_looked_up_or_totalled_has_an_index() -> None:
    named = {query.name: query for query in tpch.QUERIES}
    only_added, others = scanned(named["q01"])
    assert {"Δlineitem", "spread/change_of_lineitem_gathered"} <= only_added
    assert "spread/change_of_lineitem" in others, "it is computed, by key"
    only_added, others = scanned(named["q03"])
    assert {"Δlineitem", "Δorders"} <= only_added
    assert {"spread/change_of_lineitem_here", "spread/change_of_orders_here"} <= others, "each row is joined"
    only_added, others = scanned(named["q13"])
    assert "Δorders" in others, "orders are counted before the counts are"


def test_rows_of_a_join_that_stay_apart_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arriving rows are put behind each other, with and without keys that repeat, and taken back when a batch fails."""
    arrived: list[bool] = []
    arrive = CompiledNode.arrive

    def noted(node: CompiledNode, store: str, parts: Sequence[Contents]) -> None:
        arrive(node, store, parts)
        arrived.append(node.stores[store].is_unindexed)

    monkeypatch.setattr(CompiledNode, "arrive", noted)
    monkeypatch.setattr("viewlet.codegen.node.APART_FROM", 2)
    generator = np.random.default_rng(5)
    with connect_inline(tmp_path / "state", 2, sync=False, engine="compiled") as db:
        db.execute("""
            CREATE STREAM a (k BIGINT, g BIGINT NOT NULL);
            CREATE STREAM b (k BIGINT, x BIGINT NOT NULL);
            CREATE MATERIALIZED VIEW v PARTITION BY (g) AS SELECT g, SUM(x) AS t, COUNT(*) AS n
            FROM a JOIN b USING (k) GROUP BY g
        """)
        db.changes("v")
        rows: dict[str, list[tuple[int, int, int]]] = {"a": [], "b": []}
        for turn in range(6):
            monkeypatch.setattr("viewlet.codegen.node.APART_SHARE", 0.0 if turn % 2 else 0.75)
            batch = {}
            for name in rows:
                keys, others = generator.permutation(60)[:50], generator.integers(0, 9, 50)
                times = generator.choice([-1, 1, 2], 50)
                data = {"k": np.repeat(keys, 2), "g" if name == "a" else "x": np.repeat(others, 2)}
                batch[name] = pa.table({**data, MULTIPLICITY: np.repeat(times, 2)})
                listed = zip(keys.tolist(), others.tolist(), times.tolist(), strict=True)
                rows[name] += [row for row in listed for _ in range(2)]
            if turn == 3:
                spoilt = {**batch, "b": pa.table({"k": [1], "x": [2**63 - 1], MULTIPLICITY: [2**62]})}
                with pytest.raises(ViewletError):
                    db.apply(spoilt)
            db.apply(batch)
            found: dict[int, list[int]] = {}
            for k, g, times in rows["a"]:
                for other, x, more in rows["b"]:
                    if k == other:
                        sums = found.setdefault(g, [0, 0])
                        sums[0] += times * more * x
                        sums[1] += times * more
            assert {row[0]: [row[1], row[2]] for row in db.view("v").rows()} == {
                key: sums for key, sums in found.items() if sums[1]
            }
    assert any(arrived)
    assert not all(arrived), "the view's own change is brought together"
