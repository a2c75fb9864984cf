"""Random joins, databases and streams of changes: view trees against DuckDB and against recomputation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.viewtree.ring_oracle import apply, duckdb_join
from viewlet.errors import SchemaError
from viewlet.rings import INTEGER_RING, IntegerRing
from viewlet.rings.cofactor import CofactorRing
from viewlet.rings.relational import RelationalRing
from viewlet.viewtree.factorised import FactorisedResult
from viewlet.viewtree.indicator import with_indicators
from viewlet.viewtree.order import Branch, VariableOrder, chain
from viewlet.viewtree.order_search import find_order
from viewlet.viewtree.product_update import decompose, expand
from viewlet.viewtree.ring_engine import MaintainedTree
from viewlet.viewtree.ring_tree import ViewTree, build_tree

Row = tuple[Any, ...]
Batch = dict[str, list[tuple[Row, int]]]
SOME = settings(max_examples=settings.default.max_examples // 5)
DUCKDB = duckdb.connect()


@dataclass(frozen=True)
class Join:
    schemas: dict[str, str]
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def tables(self) -> dict[str, int]:
        """Stored relations and how many columns they have."""
        return {self.sources.get(name, name): len(schema) for name, schema in self.schemas.items()}

    @property
    def variables(self) -> str:
        return "".join(dict.fromkeys("".join(self.schemas.values())))


JOINS = {
    "figure 2": Join({"R": "AB", "S": "ACE", "T": "CD"}),
    "star": Join({"R": "AB", "S": "AC", "T": "ADE"}),
    "path": Join({"R": "AB", "S": "BC", "T": "CD", "U": "DE"}),
    "one": Join({"R": "ABC"}),
    "apart": Join({"R": "AB", "S": "CD"}),
    "triangle": Join({"R": "AB", "S": "BC", "T": "CA"}),
    "square with a chord": Join({"R": "AB", "S": "BC", "T": "CD", "U": "DA", "K": "AC"}),
    "pairs": Join({"E1": "AB", "E2": "AC"}, {"E1": "E", "E2": "E"}),
    "triangles of one graph": Join({"E1": "AB", "E2": "BC", "E3": "CA"}, {"E1": "E", "E2": "E", "E3": "E"}),
}


def rows(width: int) -> st.SearchStrategy[Row]:
    return st.tuples(*[st.integers(0, 2)] * width)


@st.composite
def streams(draw: st.DrawFn, join: Join) -> list[Batch]:
    """Batches that insert rows, some twice, and delete rows that are there."""
    present: dict[str, Counter[Row]] = {name: Counter() for name in join.tables}
    batches: list[Batch] = []
    for _ in range(draw(st.integers(1, 4))):
        batch: Batch = {}
        for name, width in join.tables.items():
            gone = (
                draw(st.lists(st.sampled_from(sorted(present[name])), unique=True, max_size=4)) if present[name] else []
            )
            new = draw(st.lists(rows(width), max_size=6))
            batch[name] = [(row, -present[name][row]) for row in gone] + [(row, 1) for row in new]
            draw(st.randoms(use_true_random=False)).shuffle(batch[name])
        apply_net(present, batch)
        batches.append(batch)
    return batches


def apply_net(tables: dict[str, Counter[Row]], batch: Batch) -> None:
    """A row deleted and inserted in one batch: only what remains matters."""
    net = {name: Counter[Row]() for name in batch}
    for name, changes in batch.items():
        for row, times in changes:
            net[name][row] += times
    apply(tables, {name: list(changes.items()) for name, changes in net.items()})


def trees(join: Join, free: str = "") -> list[ViewTree]:
    """The same join in several ways."""
    order = find_order(join.schemas, free)
    found = [
        build_tree(order, free, sources=join.sources),
        build_tree(order, free, sources=join.sources, compose=False),
    ]
    return [*found, *map(with_indicators, found)]


@pytest.mark.parametrize("name", JOINS)
@SOME
@given(data=st.data())
def test_factorised_results_are_the_joins_of_duckdb(name: str, data: st.DataObject) -> None:
    join = JOINS[name]
    order = find_order(join.schemas)
    plain = build_tree(order, sources=join.sources)
    for tree in (plain, with_indicators(plain)) if data.draw(st.booleans()) else (plain,):
        result = FactorisedResult(tree, join.variables)
        tables: dict[str, Counter[Row]] = {table: Counter() for table in join.tables}
        for batch in data.draw(streams(join)):
            result.apply(batch)
            apply_net(tables, batch)
            expected = duckdb_join(DUCKDB, join.schemas, tables, join.variables, join.sources)
            listed = list(result.rows())
            assert len(listed) == len(expected)
            assert dict(listed) == expected
            assert result.count == expected.total()
            total = result.aggregate(INTEGER_RING, {"A": lambda x: x + 1, "B": lambda x: x + 2})
            a, b = join.variables.index("A"), join.variables.index("B")
            assert total == sum(times * (row[a] + 1) * (row[b] + 2) for row, times in expected.items())


@pytest.mark.parametrize("name", JOINS)
@SOME
@given(data=st.data())
def test_groups_sums_and_listings_stay_those_of_recomputation(name: str, data: st.DataObject) -> None:
    """Every tree of the join, with free variables, under every ring here, with any relations static."""
    join = JOINS[name]
    free = data.draw(st.sampled_from(["", "A", "AB", join.variables]))
    ring = data.draw(
        st.sampled_from(
            [IntegerRing(frozenset("BC")), RelationalRing(frozenset(join.variables)), CofactorRing(("A", "B"), ("C",))]
        )
    )
    tree = data.draw(st.sampled_from(trees(join, free)))
    first, *batches = data.draw(streams(join))
    tables: dict[str, Counter[Row]] = {table: Counter() for table in join.tables}
    apply_net(tables, first)
    updatable = data.draw(st.sets(st.sampled_from(sorted(join.tables))))
    maintained = MaintainedTree(tree, ring, None, updatable, _over(ring, tables))
    for batch in batches:
        allowed = {table: changes for table, changes in batch.items() if table in updatable}
        apply_net(tables, allowed)
        before = dict(maintained.result.entries)
        copies = {row: ring.own(payload) if hasattr(ring, "own") else payload for row, payload in before.items()}
        change = maintained.apply(allowed)
        recomputed = MaintainedTree(tree, ring, None, updatable, _over(ring, tables))
        assert {node: store.entries for node, store in maintained.stores.items()} == {
            node: store.entries for node, store in recomputed.stores.items()
        }
        for row in {*copies, *change}:
            moved = ring.add(copies.get(row, ring.zero), change.get(row, ring.zero))
            assert moved == maintained.result.entries.get(row, ring.zero)
    if not isinstance(ring, IntegerRing):  # whose sums may be zero over rows that are there
        keys = tree.root.keys or ("A",)
        found = {row[: len(tree.root.keys)] for row in duckdb_join(DUCKDB, join.schemas, tables, keys, join.sources)}
        assert set(maintained.result.entries) == found


def _over(ring: Any, tables: dict[str, Counter[Row]]) -> dict[str, dict[Row, Any]]:
    return {name: {row: _times(ring, n) for row, n in table.items()} for name, table in tables.items()}


def _times(ring: Any, count: int) -> Any:
    found = ring.zero
    for _ in range(count):
        found = ring.add(found, ring.one)
    return found


@pytest.mark.parametrize("name", JOINS)
@SOME
@given(data=st.data())
def test_factorised_updates_do_what_their_rows_do(name: str, data: st.DataObject) -> None:
    join = JOINS[name]
    free = data.draw(st.sampled_from(["", "A", "AB"]))
    ring = data.draw(st.sampled_from([IntegerRing(frozenset("BC")), CofactorRing(("A", "B"), ("C",), exact=True)]))
    tree = data.draw(st.sampled_from(trees(join, free)))
    first, *batches = data.draw(streams(join))
    tables: dict[str, Counter[Row]] = {table: Counter() for table in join.tables}
    apply_net(tables, first)
    by_rows = MaintainedTree(tree, ring, database=_over(ring, tables))
    by_factors = MaintainedTree(tree, ring, database=_over(ring, tables))
    for batch in batches:
        for table, changes in batch.items():
            net = Counter[Row]()
            for row, times in changes:
                net[row] += times
            delta = {row: ring.neg(_times(ring, -n)) if n < 0 else _times(ring, n) for row, n in net.items() if n}
            schema = tuple(tree.order.relations[tree.instances(table)[0]])
            parts = decompose(schema, delta, ring)
            assert expand(parts, schema, ring) == delta
            change = by_rows.update(table, delta)
            assert expand(by_factors.update_products(table, parts), tree.root.keys, ring) == change
            assert {n: s.entries for n, s in by_factors.stores.items()} == {
                n: s.entries for n, s in by_rows.stores.items()
            }


def test_hidden_variables_must_be_below_listed_ones() -> None:
    order = VariableOrder((Branch("A", (Branch("B"), Branch("C"))),), {"R": "AB", "S": "AC"})
    with pytest.raises(SchemaError, match="'A' is not listed but is above 'B'"):
        FactorisedResult(build_tree(order), "BC")
    with pytest.raises(SchemaError, match="'Z' is in no relation"):
        FactorisedResult(build_tree(order), "ABZ")
    with pytest.raises(SchemaError, match="without free ones"):
        FactorisedResult(build_tree(order, "A"), "AB")


def test_relations_are_placed_only_below_their_own_variables() -> None:
    order = VariableOrder((Branch("A", (Branch("B"), Branch("C"))),), {"R": "AB", "S": "AC"})
    with pytest.raises(SchemaError, match="'R' cannot be placed at 'C'"):
        build_tree(order, placed={"R": "C"})
    with pytest.raises(SchemaError, match="free variable 'Q'"):
        build_tree(order, "Q")
    assert build_tree(VariableOrder((chain("A", "B"),), {"R": "AB"}), "AB").root.keys == ("A", "B")
