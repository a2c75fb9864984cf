"""Compiled view trees against the reference engine after every batch, and what becomes of changes that fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.viewtree.ring_oracle import apply, natural_join
from tests.viewtree.test_ring_random import JOINS, Row, apply_net, streams, trees
from tests.viewtree.test_ring_workloads import HOUSING, KEYS, RETAILER, check
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.rings.compiled_tree import CompiledTree
from viewlet.codegen.rings.compiler import compile_tree
from viewlet.codegen.rings.factorised import CompiledResult
from viewlet.errors import DataError, SchemaError
from viewlet.rings import INTEGER_RING, DecimalRing, FloatRing, IntegerRing, ProductRing
from viewlet.rings.cofactor import Cofactor, CofactorRing
from viewlet.rings.relational import Listing, RelationalRing
from viewlet.rings.ring import times
from viewlet.rings.vector import VectorRing
from viewlet.types import BIGINT, DATE, DOUBLE, VARCHAR, SqlType, decimal
from viewlet.viewtree.factorised import FactorisedResult
from viewlet.viewtree.indicator import with_indicators
from viewlet.viewtree.order import Branch, VariableOrder, chain
from viewlet.viewtree.order_search import find_order
from viewlet.viewtree.product_update import expand, product_update
from viewlet.viewtree.ring_engine import MaintainedTree
from viewlet.viewtree.ring_tree import ViewTree, build_tree
from workloads import housing, retailer
from workloads.streams import Database, mixed_batches

SOME = settings(max_examples=settings.default.max_examples // 6)
FEW = settings(max_examples=settings.default.max_examples // 10)
RINGS: dict[str, Any] = {
    "count": INTEGER_RING,
    "integers": IntegerRing(frozenset("BC")),
    "decimals": DecimalRing(frozenset("AB")),
    "doubles": FloatRing(frozenset("BC")),
    "a vector": VectorRing(((), ("A",), ("B", "C"))),
    "a record": ProductRing((IntegerRing(frozenset("A")), FloatRing(frozenset("AB")), INTEGER_RING)),
    "sums": CofactorRing(("A", "B"), degree=1),
    "cofactors": CofactorRing(("C", "A", "B")),
    "cofactors by category": CofactorRing(("A", "B"), ("C",)),
    "categories only": CofactorRing((), ("A", "B", "C")),
    "sums by category": CofactorRing(("B",), ("A",), degree=1),
    "cubes": CofactorRing(("C", "A"), ("B",), degree=3),
    "fourth powers": CofactorRing(("A", "C", "B"), degree=4),
    "rows": RelationalRing(frozenset("AC")),
    "all rows": RelationalRing(frozenset("ABCDE")),
}


def integers(tree: ViewTree) -> dict[str, SqlType]:
    return dict.fromkeys(tree.order.variables, BIGINT)


def close(found: Any, expected: Any) -> bool:
    if isinstance(expected, Listing):
        return bool(found == expected)
    if not isinstance(expected, Cofactor):
        return bool(np.allclose(np.array(found, float), np.array(expected, float), rtol=1e-9, atol=1e-12))
    own, other = found.entries(), expected.entries()
    return found.variables == expected.variables and all(
        abs(own.get(at, 0.0) - other.get(at, 0.0)) <= 1e-9 * max(1.0, abs(other.get(at, 0.0))) for at in {*own, *other}
    )


def assert_agreement(compiled: CompiledTree, reference: MaintainedTree[Any]) -> None:
    for node, store in reference.stores.items():
        found = compiled.view(node)
        assert found.keys() == store.entries.keys(), node
        assert all(close(found[row], payload) for row, payload in store.entries.items()), node


@pytest.mark.parametrize("ring", RINGS)
@SOME
@given(data=st.data())
def test_compiled_trees_hold_what_reference_trees_hold(ring: str, data: st.DataObject) -> None:
    """Every join as several trees, with free variables, indicators, repeated and static relations."""
    join, payloads = data.draw(st.sampled_from(list(JOINS.values()))), RINGS[ring]
    free = data.draw(st.sampled_from(["", "A", "AB", join.variables]))
    tree = data.draw(st.sampled_from(trees(join, free)))
    first, *batches = data.draw(streams(join))
    tables: dict[str, Counter[Row]] = {table: Counter() for table in join.tables}
    apply_net(tables, first)
    updatable = data.draw(st.sampled_from([None, {min(join.tables)}]))
    start = {table: dict(rows) for table, rows in tables.items()}
    payload = {table: {row: times(payloads, n) for row, n in rows.items()} for table, rows in start.items()}
    reference = MaintainedTree(tree, payloads, None, updatable, payload)
    compiled = compile_tree(tree, payloads, integers(tree), updatable, start)
    assert_agreement(compiled, reference)
    for batch in batches:
        allowed = {table: changes for table, changes in batch.items() if updatable is None or table in updatable}
        apply_net(tables, allowed)
        reference.apply(allowed)
        compiled.apply(allowed)
        assert_agreement(compiled, reference)
    if updatable is None:
        compiled.apply({table: [(row, -n) for row, n in rows.items()] for table, rows in tables.items()})
        assert not compiled.entries()
        assert not any(compiled.sizes().values())


@st.composite
def products(draw: st.DrawFn, schema: str) -> list[tuple[tuple[str, ...], dict[Row, int]]]:
    """A product: the variables of a relation in some groups, and rows over each; a factor may be empty."""
    groups: dict[int, list[str]] = {}
    for name in draw(st.permutations(schema)):
        groups.setdefault(draw(st.integers(0, len(schema) - 1)), []).append(name)
    return [
        (
            tuple(names),
            draw(st.dictionaries(st.tuples(*[st.integers(0, 2)] * len(names)), st.integers(1, 2), max_size=3)),
        )
        for names in groups.values()
    ]


@pytest.mark.parametrize("ring", RINGS)
@FEW
@given(data=st.data())
def test_products_mean_their_rows(ring: str, data: st.DataObject) -> None:
    """Products of all shapes, mixed with rows, on trees with free variables, repeated and static relations."""
    join, payloads = data.draw(st.sampled_from(list(JOINS.values()))), RINGS[ring]
    free = data.draw(st.sampled_from(["", "A", "AB", join.variables]))
    tree = data.draw(st.sampled_from(trees(join, free)))
    updatable = data.draw(st.sampled_from([None, {min(join.tables)}]))
    start: dict[str, Counter[Row]] = {table: Counter() for table in join.tables}
    apply_net(start, data.draw(streams(join))[0])
    payload = {table: {row: times(payloads, n) for row, n in rows.items()} for table, rows in start.items()}
    reference = MaintainedTree(tree, payloads, None, updatable, payload)
    compiled = compile_tree(tree, payloads, integers(tree), updatable, start)
    for _ in range(2):
        relation = data.draw(st.sampled_from(compiled.changing))
        if not compiled.takes_products(relation):
            return
        schema = join.schemas[tree.instances(relation)[0]]
        union = data.draw(st.lists(products(schema), min_size=1, max_size=2))
        rows = expand([product_update(*factors) for factors in union], tuple(schema), INTEGER_RING)
        reference.apply({relation: rows.items()})
        compiled.apply_products(relation, union)
        assert_agreement(compiled, reference)
        gone = [[(names, {row: -n for row, n in first.items()}), *rest] for (names, first), *rest in union]
        reference.apply({relation: [(row, -n) for row, n in rows.items()]})
        compiled.apply_products(relation, gone)
        assert_agreement(compiled, reference)
        reference.apply({relation: rows.items()})
        compiled.apply({relation: rows.items()})


def test_a_large_product_is_not_multiplied_out() -> None:
    """A change of a hundred million pairs, of which nothing is stored."""
    order = VariableOrder((chain("i", "j", "k"),), {"A": ("i", "j"), "B": ("j", "k"), "C": ("k",)})
    compiled = compile_tree(build_tree(order), INTEGER_RING, dict.fromkeys("ijk", BIGINT), {"B"},
                            {"A": {(1, j): 1 for j in range(5)}, "C": {(k,): 2 for k in range(5)}})  # fmt: skip
    many = {(x,): 1 for x in range(10_000)}
    compiled.apply_products("B", [[(("j",), many), (("k",), many)]])
    assert compiled.payload == 5 * 2 * 5
    with pytest.raises(SchemaError, match="each of j, k once"):
        compiled.apply_products("B", [[(("j",), many)]])
    with pytest.raises(SchemaError, match="no variable 'x'"):
        compiled.apply_products("B", [[(("j",), many), (("x",), many)]])
    with pytest.raises(DataError, match="'k'"):
        compiled.apply_products("B", [[(("j",), many), (("k",), {("x",): 1})]])
    with pytest.raises(DataError, match="overflow"):
        compiled.apply_products("B", [[(("j",), {(1,): 2**40}), (("k",), {(1,): 2**40})]])
    assert compiled.payload == 5 * 2 * 5


@pytest.mark.parametrize(
    ("order", "data", "categorical"),
    [
        (HOUSING, housing.housing_database(3, 2, postcodes=12, skew=0.8), ("typeeducation", "nbbedrooms")),
        (RETAILER, retailer.retailer_database(5, 0.002, skew=0.5), ("category", "rgn_cd")),
        (RETAILER, retailer.retailer_database(6, 0.002), ()),
    ],
    ids=["housing categorical", "retailer categorical", "retailer"],
)
def test_compiled_cofactors_equal_those_of_numpy_on_the_join(
    order: VariableOrder, data: Database, categorical: tuple[str, ...]
) -> None:
    names = tuple(name for name in order.variables if name not in categorical)
    ring, tree = CofactorRing(names, categorical), build_tree(order)
    types = {name: BIGINT if name in (*categorical, *tree.root.variables) else DOUBLE for name in order.variables}
    compiled = compile_tree(tree, ring, types)
    first, batches = mixed_batches(data, KEYS, batch_size=40, batches=6, seed=7)
    tables: dict[str, Counter[Row]] = {name: Counter() for name in data}
    for batch in [first, *batches]:
        apply(tables, batch)
        compiled.apply(batch)
        columns, rows = natural_join(order.relations, tables)
        check(ring, compiled.payload or ring.zero, columns, rows)
    compiled.apply({name: [(row, -n) for row, n in table.items()] for name, table in tables.items()})
    assert not any(compiled.sizes().values())


STAR = VariableOrder(
    (Branch("k", (chain("x"), chain("y"), chain("c"))),), {"R": ("k", "x"), "S": ("k", "y"), "T": ("k", "c")}
)
TYPES = {"k": VARCHAR, "x": DOUBLE, "y": decimal(9, 2), "c": VARCHAR}


def star(ring: Any, free: str = "", types: dict[str, SqlType] = TYPES) -> CompiledTree:
    return compile_tree(build_tree(STAR, free), ring, types)


def test_strings_decimals_and_doubles() -> None:
    """A cofactor sees a DECIMAL as the number it stands for, a sum of decimals is exact."""
    rows = {
        "R": [(("a", 0.5), 1), (("b", 2.0), 1)],
        "S": [(("a", 125), 2)],
        "T": [(("a", "red"), 1), (("a", "blue"), 1)],
    }
    ring = CofactorRing(("x", "y"), ("c",))
    compiled = star(ring)
    compiled.apply(rows)
    payload = compiled.payload
    assert payload.count == 4
    assert ring.moment(payload, ("x", "y")) == 4 * 0.5 * 1.25
    assert ring.moment(payload, ("y",), {"c": "red"}) == 2 * 1.25
    exact = star(DecimalRing(frozenset("y")), "kc")
    exact.apply(rows)
    assert exact.entries() == {("a", "red"): Decimal("2.50"), ("a", "blue"): Decimal("2.50")}
    doubles = star(FloatRing(frozenset("xy")), "xk")
    doubles.apply(rows)
    assert doubles.entries() == {("a", 0.5): 4 * 1.25}


def test_arrow_tables() -> None:
    compiled = star(ProductRing((INTEGER_RING, FloatRing(frozenset("xy")))), "c")
    amounts = pa.array([Decimal("1.25"), Decimal("-3.50")], pa.decimal128(12, 2))
    compiled.apply_arrow("S", pa.table({"y": amounts, "k": ["a", "a"]}))
    compiled.apply_arrow("R", pa.table({"k": ["a", "b"], "x": [2, 3]}))
    compiled.apply_arrow("T", pa.table({"k": ["a", "a"], "c": ["red", "blue"]}), [1, 2])
    assert compiled.entries() == {("red",): (2, -4.5), ("blue",): (4, -9.0)}
    with pytest.raises(DataError, match="NULL"):
        compiled.apply_arrow("R", pa.table({"k": ["a", None], "x": [2, 3]}))
    with pytest.raises(DataError, match="'x'"):
        compiled.apply_arrow("R", pa.table({"k": ["a"], "x": ["many"]}))
    with pytest.raises(DataError, match="columns"):
        compiled.apply_arrow("R", pa.table({"k": ["a"]}))


def test_dates_of_arrow_tables_are_days() -> None:
    tree = build_tree(VariableOrder((chain("d", "x"),), {"R": ("d", "x")}), "d")
    compiled = compile_tree(tree, IntegerRing(frozenset("x")), {"d": DATE, "x": BIGINT})
    compiled.apply_arrow("R", pa.table({"d": pa.array([19_000, 19_001], pa.date32()), "x": [5, 7]}))
    assert compiled.entries() == {(19_000,): 5, (19_001,): 7}


def wrong_type(compiled: CompiledTree) -> None:
    compiled.apply({"R": [(("a", 1.0), 1)], "S": [(("a", "much"), 1)]})


def wrong_width(compiled: CompiledTree) -> None:
    compiled.apply({"R": [(("a", 1.0), 1)], "S": [(("a",), 1)]})


def not_a_number(compiled: CompiledTree) -> None:
    compiled.apply({"S": [(("a", 100), 1)], "R": [(("a", 1.0), 1), (("a", float("nan")), 1)]})


def infinite(compiled: CompiledTree) -> None:
    code = compiled.dictionary.encode(["a"])
    compiled.apply_columns("R", [code, np.array([np.inf])], np.ones(1, np.int64))


def too_many(compiled: CompiledTree) -> None:
    compiled.apply({"R": [(("a", 1.0), 1)], "S": [(("a", 100), 2**40)], "T": [(("a", "red"), 2**40)]})


def too_many_in_all(compiled: CompiledTree) -> None:
    compiled.apply({"S": [(("b", 100), 1)], "R": [(("b", 1.0), 2**60)], "T": [(("b", "red"), 2**60)]})


def integers_for_doubles(compiled: CompiledTree) -> None:
    code = compiled.dictionary.encode(["a"])
    compiled.apply_columns("R", [code, np.ones(1, np.int64)], np.ones(1, np.int64))


def columns_of_different_lengths(compiled: CompiledTree) -> None:
    compiled.apply_columns("R", [compiled.dictionary.encode(["a"]), np.ones(2)], np.ones(1, np.int64))


@pytest.mark.parametrize(
    "change",
    [
        wrong_type, wrong_width, not_a_number, infinite, too_many, too_many_in_all, integers_for_doubles,
        columns_of_different_lengths,
    ],
)  # fmt: skip
def test_a_change_that_fails_changes_nothing(change: Callable[[CompiledTree], None]) -> None:
    compiled = star(CofactorRing(("x", "y"), ("c",)), "k")
    compiled.apply({"R": [(("a", 0.1), 1), (("b", 0.7), 1)], "S": [(("a", 25), 1)], "T": [(("a", "blue"), 1)]})
    before, sizes = contents(compiled), compiled.sizes()
    with pytest.raises(DataError):
        change(compiled)
    assert contents(compiled) == before
    assert compiled.sizes() == sizes
    compiled.apply({"R": [(("a", 0.1), -1)]})
    assert not compiled.entries()


def contents(compiled: CompiledTree) -> dict[str, set[bytes]]:
    """All rows of all stores, to the last bit."""
    return {
        variant.name: {row.tobytes() for row in compiled.stores[variant.name].packed()}
        for variant in compiled.plan.stored
    }


def test_counts_may_be_large_but_not_too_large() -> None:
    compiled = star(INTEGER_RING)
    compiled.apply({"R": [(("a", 1.0), 2**60)]})
    with pytest.raises(DataError, match="overflow"):
        compiled.apply({"R": [(("a", 1.0), 2**60), (("a", 2.0), 2**60)]})
    compiled.apply({"R": [(("a", 1.0), -(2**60))]})
    compiled.apply({"R": [(("a", 1.0), 2**60)]})  # as large as before, and counted again
    compiled.apply({"S": [(("a", 1), 1)], "T": [(("a", "c"), 1)]})
    assert compiled.payload == 2**60


def test_several_changes_can_be_taken_back() -> None:
    compiled = star(CofactorRing(("x", "y"), ("c",)), "k")
    compiled.apply({"R": [(("a", 0.1), 1)], "S": [(("a", 25), 1)], "T": [(("a", "blue"), 1)]})
    before = contents(compiled)
    compiled.begin()
    compiled.apply({"R": [(("a", 0.1), -1), (("b", 0.3), 1)]})
    compiled.apply({"S": [(("b", 5), 1)], "T": [(("b", "red"), 1)]})
    with pytest.raises(DataError):
        compiled.apply({"T": [(("c", "red"), 1)], "R": [(("c", float("inf")), 1)]})
    assert set(compiled.entries()) == {("b",)}
    compiled.rollback()
    assert contents(compiled) == before
    compiled.begin()
    with pytest.raises(SchemaError, match="begun"):
        compiled.begin()
    compiled.apply({"R": [(("a", 0.1), -1)]})
    compiled.commit()
    assert not compiled.entries()


def test_a_watched_tree_tells_which_rows_of_its_result_have_changed() -> None:
    compiled = star(CofactorRing(("x", "y"), ("c",)), "k")
    with pytest.raises(SchemaError, match="not watched"):
        compiled.take_changed()
    compiled.watch()
    compiled.apply({"R": [((key, 0.5), 1) for key in "abc"], "S": [((key, 25), 1) for key in "abd"]})
    assert compiled.take_changed() == set()
    compiled.apply({"T": [(("a", "blue"), 1), (("b", "red"), 1), (("b", "blue"), 1), (("c", "red"), 1)]})
    assert compiled.take_changed() == {("a",), ("b",)}
    compiled.apply({"S": [(("a", 25), -1), (("d", 7), 1)]})
    assert compiled.take_changed() == {("a",)}
    assert set(compiled.entries()) == {("b",)}
    whole = star(INTEGER_RING)
    whole.watch()
    whole.apply({"R": [(("a", 0.5), 1)]})
    assert whole.take_changed() <= {()}


def test_what_cannot_be_compiled_says_so() -> None:
    for ring in (
        CofactorRing(("x",), exact=True),
        ProductRing((RelationalRing(frozenset()),)),
    ):
        with pytest.raises(NotCompilable):
            star(ring)
    with pytest.raises(NotCompilable, match="exact"):
        star(IntegerRing(frozenset("x")))
    with pytest.raises(NotCompilable, match="categorical"):
        star(CofactorRing(("c",)))
    with pytest.raises(SchemaError, match="type"):
        star(INTEGER_RING, types={"k": BIGINT})
    compiled = compile_tree(build_tree(STAR), INTEGER_RING, TYPES, {"R"})
    with pytest.raises(SchemaError, match="may change"):
        compiled.apply({"S": [(("a", 1), 1)]})
    with pytest.raises(SchemaError, match="stored"):
        compiled.view("V@x")


SCRIPT = """
from tests.conformance.test_ring_trees import RINGS, CompiledResult, FactorisedResult, assert_agreement, integers
from tests.viewtree.test_ring_random import JOINS, trees
from viewlet.codegen.rings.compiler import compile_tree
from viewlet.runtime.jit import ENABLED
from viewlet.viewtree.order_search import find_order
from viewlet.viewtree.ring_engine import MaintainedTree
from random import Random
assert ENABLED
for name, ring, which in (("figure 2", "cofactors by category", 0), ("triangle", "a record", 2)):
    join, random = JOINS[name], Random(5)
    tree = trees(join)[which]
    compiled, reference = compile_tree(tree, RINGS[ring], integers(tree)), MaintainedTree(tree, RINGS[ring])
    present = []
    for _ in range(30):
        new = [(t, tuple(random.randrange(9) for _ in range(n))) for t, n in join.tables.items() for _ in range(20)]
        old = random.sample(present, len(present) // 3)
        for pair in old:
            present.remove(pair)
        present += new
        batch = {t: [] for t in join.tables}
        for pairs, sign in ((old, -1), (new, 1)):
            for table, row in pairs:
                batch[table].append((row, sign))
        compiled.apply(batch)
        reference.apply(batch)
        assert_agreement(compiled, reference)
    try:
        compiled.apply({t: [((1,) * n, 2**45)] for t, n in join.tables.items()})
    except Exception as error:
        assert "overflow" in str(error), error
        assert_agreement(compiled, reference)
    else:
        raise AssertionError("an overflow goes unnoticed")
    rows, expected = CompiledResult(tree, integers(tree)), FactorisedResult(tree)
    batch = {t: [(row, 1) for table, row in present if table == t] for t in join.tables}
    rows.apply(batch)
    expected.apply(batch)
    assert dict(rows.rows()) == dict(expected.rows()) != {}
print("agreed")
"""


def test_machine_code_agrees_too() -> None:
    pytest.importorskip("numba")
    environment = {**os.environ, "VIEWLET_JIT": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "agreed"


@SOME
@given(data=st.data())
def test_compiled_results_list_the_rows_of_reference_results(data: st.DataObject) -> None:
    join = data.draw(st.sampled_from(list(JOINS.values())))
    order = find_order(join.schemas)
    tree = build_tree(order, sources=join.sources, compose=data.draw(st.booleans()))
    tree = with_indicators(tree) if data.draw(st.booleans()) else tree
    listed = order.variables[: data.draw(st.integers(0, len(order.variables)))]
    try:
        reference = FactorisedResult(tree, listed)
    except SchemaError:  # something that is not listed is above something that is
        with pytest.raises(SchemaError, match="is not listed"):
            CompiledResult(tree, integers(tree), listed)
        return
    compiled = CompiledResult(tree, integers(tree), listed)
    for batch in data.draw(streams(join)):
        reference.apply(batch)
        compiled.apply(batch)
        rows = list(compiled.rows())
        assert len(rows) == len(dict(rows))
        assert dict(rows) == dict(reference.rows())
        assert compiled.count == reference.count
        assert compiled.size == reference.size
        lifts = {"A": lambda x: x + 1, "B": lambda x: x + 2}
        assert compiled.aggregate(INTEGER_RING, lifts) == reference.aggregate(INTEGER_RING, lifts)


def test_rows_come_a_few_at_a_time() -> None:
    compiled = CompiledResult(build_tree(STAR), TYPES, ("k", "c", "x"))
    compiled.apply({"S": [(("a", 1), 2)], "T": [(("a", f"c{i}"), 1) for i in range(20)]})
    assert list(compiled.rows()) == []
    compiled.apply({"R": [(("a", i / 4), 1) for i in range(30)]})
    assert compiled.count == 1200
    expected = {("a", f"c{i}", j / 4): 2 for i in range(20) for j in range(30)}
    assert dict(compiled.rows()) == expected
    assert [len(times) for _, times in compiled.words(100)] == [16, 100, 100, 100, 100, 100, 84]
    reading = compiled.rows()
    assert next(reading)[0] in expected
    compiled.apply({"S": [(("a", 1), -1)]})
    with pytest.raises(DataError, match="changed"):
        list(reading)
    assert compiled.maintained.payload == 600
