"""The worked examples of "Incremental View Maintenance with Triple Lock Factorization Benefits", with their numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.viewtree.figure2 import ORDER, database
from viewlet.errors import SchemaError
from viewlet.rings import FLOAT_RING, INTEGER_RING, IntegerRing
from viewlet.rings.cofactor import CofactorRing
from viewlet.rings.cofactor_table import cofactor_table
from viewlet.rings.relational import RelationalRing
from viewlet.viewtree.delta_tree import delta_tree
from viewlet.viewtree.factorised import FactorisedResult
from viewlet.viewtree.indicator import IndicatorCounts, with_indicators
from viewlet.viewtree.order import Branch, VariableOrder, chain
from viewlet.viewtree.product_update import decompose, expand, product_update
from viewlet.viewtree.ring_engine import MaintainedTree
from viewlet.viewtree.ring_relation import Row
from viewlet.viewtree.ring_tree import IndicatorLeaf, build_tree, describe, materialised

TREE = build_tree(ORDER)
EVERYTHING = tuple(TREE.nodes)


def counting(updatable: set[str] | None = None, also: tuple[str, ...] = ()) -> MaintainedTree[int]:
    return MaintainedTree(TREE, INTEGER_RING, None, updatable, database(INTEGER_RING), also)


def contents(tree: MaintainedTree[Any], name: str) -> dict[Row, Any]:
    return tree.stores[name].entries


def test_figure_2b_has_one_view_for_each_variable() -> None:
    assert [str(view) for view in TREE.views] == ["V@A[]", "V@B[A]", "V@C[A]", "V@D[C]", "V@E[A, C]"]
    assert describe(TREE, ["V@A", "R"]).splitlines()[:3] == ["* V@A[] = ⊕A", "    V@B[A] = ⊕B", "    * R(A, B)"]


def test_figure_2d_counts() -> None:
    tree = counting(also=EVERYTHING)
    assert contents(tree, "V@B") == {("a1",): 2, ("a2",): 1, ("a3",): 1}
    assert contents(tree, "V@D") == {("c1",): 1, ("c2",): 2, ("c3",): 1}
    assert contents(tree, "V@E") == {("a1", "c1"): 2, ("a1", "c2"): 1, ("a2", "c2"): 1}
    assert contents(tree, "V@C") == {("a1",): 4, ("a2",): 2}
    assert contents(tree, "V@A") == {(): 10}


def test_example_1_1_and_2_3_sums_of_products_by_free_variables() -> None:
    numbers = {
        "R": {(1, 2): 1, (2, 5): 1},
        "S": {(1, 7, 3): 1, (1, 8, 4): 1, (2, 8, 1): 2},
        "T": {(7, 10): 1, (8, 3): 1},
    }
    tree = MaintainedTree(build_tree(ORDER, "AC"), IntegerRing(frozenset("BDE")), database=numbers)
    assert tree.result.entries == {(1, 7): 2 * 3 * 10, (1, 8): 2 * 4 * 3, (2, 8): 5 * 2 * 1 * 3}


def test_example_4_1_deltas_of_an_update_to_t() -> None:
    assert [str(delta) for delta in delta_tree(TREE, "T")] == [
        "δV@D[C] = ⊕D δT(C, D)",
        "δV@C[A] = ⊕C δV@D[C] ⊗ V@E[A, C]",
        "δV@A[] = ⊕A V@B[A] ⊗ δV@C[A]",
    ]
    tree = counting(also=EVERYTHING)
    before = {name: dict(contents(tree, name)) for name in ("V@D", "V@C", "V@A")}
    assert tree.update("T", {("c1", "d1"): -1, ("c2", "d2"): 3}) == {(): 5}
    changed = {
        name: {row: contents(tree, name).get(row, 0) - old for row, old in before[name].items()} for name in before
    }
    assert changed == {
        "V@D": {("c1",): -1, ("c2",): 3, ("c3",): 0},
        "V@C": {("a1",): 1, ("a2",): 3},
        "V@A": {(): 5},
    }


@pytest.mark.parametrize("size", [10, 1000])
def test_example_4_1_updates_to_r_and_s_take_constant_time_and_those_to_t_linear(size: int) -> None:
    rows = {
        "R": {(a, 0): 1 for a in range(size)},
        "S": {(a, 0, 0): 1 for a in range(size)},
        "T": {(0, 0): 1},
    }
    tree = MaintainedTree(TREE, INTEGER_RING, database=rows)
    costs = {}
    for relation, row in {"R": (3, 9), "S": (3, 0, 9), "T": (0, 9)}.items():
        tree.meter.rows = 0
        tree.update(relation, {row: 1})
        costs[relation] = tree.meter.rows
    assert costs["R"] <= 4
    assert costs["S"] <= 6
    assert size <= costs["T"] <= 4 * size


@pytest.mark.parametrize(
    ("updatable", "stored"),
    [
        ({"T"}, {"V@A", "V@E", "V@B"}),
        ({"R", "S", "T"}, {"V@A", "V@E", "V@B", "V@C", "V@D"}),
        ({"R"}, {"V@A", "V@C"}),
        ({"S"}, {"V@A", "V@B", "V@D"}),
        (set(), {"V@A"}),
    ],
)
def test_example_4_2_which_views_are_stored(updatable: set[str], stored: set[str]) -> None:
    assert set(materialised(TREE, updatable)) == stored


def test_only_updatable_relations_may_change() -> None:
    tree = counting({"T"})
    tree.update("T", {("c2", "d9"): 1})
    assert tree.payload == 13
    with pytest.raises(SchemaError, match="'R' is not among those that may change"):
        tree.update("R", {("a1", "b9"): 1})


def test_example_5_1_decompositions() -> None:
    n, m = 7, 5
    product = {(f"a{i}", f"b{j}"): 1 for i in range(n) for j in range(m)}
    (found,) = decompose("AB", product, INTEGER_RING)
    assert found.size == n + m
    assert expand([found], "AB", INTEGER_RING) == product
    larger = product | {(f"a{n}", f"b{j}"): 1 for j in range(m - 1)}
    parts = decompose("AB", larger, INTEGER_RING)
    assert sum(part.size for part in parts) == n + 2 * m
    assert expand(parts, "AB", INTEGER_RING) == larger
    compensated = [
        product_update(("A", {(f"a{i}",): 1 for i in range(n + 1)}), ("B", {(f"b{j}",): 1 for j in range(m)})),
        product_update(("A", {(f"a{n}",): 1}), ("B", {(f"b{m - 1}",): -1})),
    ]
    assert sum(part.size for part in compensated) == n + m + 3
    assert expand(compensated, "AB", INTEGER_RING) == larger


def test_example_5_2_a_factorised_update_to_s() -> None:
    """The cost is that of the factors, though the product has 40 * 40 * 40 rows; the result is the same."""
    many = range(40)
    relations = {
        "R": {(a, b): 1 for a in many for b in range(3)},
        "T": {(c, d): 1 for c in many for d in range(2)},
        "S": {},
    }
    whole, parts = (MaintainedTree(TREE, INTEGER_RING, None, {"S"}, relations) for _ in range(2))
    assert parts.stored == ("V@A", "V@B", "V@D")
    change = product_update(*((name, {(i,): 1 for i in many}) for name in "ACE"))
    (result,) = parts.update_products("S", [change])
    assert expand([result], (), INTEGER_RING) == whole.update("S", expand([change], "ACE", INTEGER_RING))
    assert parts.payload == whole.payload == 40 * 3 * 40 * 2 * 40
    assert parts.meter.rows <= 5 * 40
    assert whole.meter.rows >= 40**3


MATRICES = {f"A{i}": (f"X{i}", f"X{i + 1}") for i in range(1, 5)}
CHAIN = VariableOrder((chain("X1", "X5", "X3", below=(Branch("X2"), Branch("X4"))),), MATRICES)


def test_example_6_1_a_chain_of_four_matrices() -> None:
    """The views at X5 and X1 are that at X3; a product u v goes through as two vectors."""
    tree = build_tree(CHAIN, ("X1", "X5"))
    assert [(str(view), view.bound) for view in tree.views] == [
        ("V@X1,X5,X3[X1, X5]", ("X3",)),
        ("V@X2[X1, X3]", ("X2",)),
        ("V@X4[X5, X3]", ("X4",)),
    ]
    size, random = 6, np.random.default_rng(1)
    matrices = {name: random.normal(size=(size, size)) for name in MATRICES}
    maintained = MaintainedTree(
        tree, FLOAT_RING, {}, None, {name: dict(np.ndenumerate(matrix)) for name, matrix in matrices.items()}
    )

    def dense(entries: dict[Row, float]) -> np.ndarray:
        found = np.zeros((size, size))
        for at, number in entries.items():
            found[at] = number
        return found

    u, v = random.normal(size=size), random.normal(size=size)
    before = dense(maintained.result.entries)
    vectors = ((("X2",), {(i,): float(u[i]) for i in range(size)}), (("X3",), {(i,): float(v[i]) for i in range(size)}))
    (change,) = maintained.update_products("A2", [product_update(*vectors)])
    assert sorted(factor.schema for factor in change.factors) == [("X1",), ("X5",)]
    left, right = matrices["A1"], matrices["A3"] @ matrices["A4"]
    np.testing.assert_allclose(before, left @ matrices["A2"] @ right)
    np.testing.assert_allclose(dense(expand([change], ("X1", "X5"), FLOAT_RING)), np.outer(left @ u, v @ right))
    np.testing.assert_allclose(
        dense(maintained.result.entries), left @ (matrices["A2"] + np.outer(u, v)) @ right, atol=1e-12
    )


def test_example_6_3_cofactors() -> None:
    """The values are numbers now: a1 is 1, b2 is 12 and so on."""

    def number(name: str) -> int:
        return 10 * "abcde".index(name[0]) + int(name[1])

    ring = CofactorRing(tuple("ABCDE"), exact=True)
    rows = {
        name: {tuple(map(number, row)): payload for row, payload in relation.items()}
        for name, relation in database(ring).items()
    }
    tree = MaintainedTree(TREE, ring, database=rows)
    c2, d2, d3, e4 = map(number, ("c2", "d2", "d3", "e4"))
    t_of_c2 = contents(tree, "V@D")[c2,]
    assert (t_of_c2.count, ring.moment(t_of_c2, "D"), ring.moment(t_of_c2, "DD")) == (2, d2 + d3, d2**2 + d3**2)
    st_of_a2 = cofactor_table(ring, contents(tree, "V@C")[number("a2"),])
    assert st_of_a2.count == 2
    assert st_of_a2.sums.tolist() == [0, 0, 2 * c2, d2 + d3, 2 * e4]
    assert st_of_a2.matrix.tolist() == [
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [0, 0, 2 * c2**2, c2 * (d2 + d3), 2 * c2 * e4],
        [0, 0, c2 * (d2 + d3), d2**2 + d3**2, (d2 + d3) * e4],
        [0, 0, 2 * c2 * e4, (d2 + d3) * e4, 2 * e4**2],
    ]
    join = np.array([[number(x) for x in row] for row in joined()], dtype=float)
    table = cofactor_table(ring, tree.payload)
    assert table.count == 10
    np.testing.assert_array_equal(table.sums, join.sum(axis=0))
    np.testing.assert_array_equal(table.matrix, join.T @ join)


def joined() -> list[tuple[str, ...]]:
    """The natural join over A, B, C, D, E, by nested loops."""
    rows = {name: list(relation) for name, relation in database(INTEGER_RING).items()}
    return [
        (a, b, c, d, e) for a, b in rows["R"] for a2, c, e in rows["S"] for c2, d in rows["T"] if a == a2 and c == c2
    ]


def test_example_6_5_listing_payloads() -> None:
    ring = RelationalRing(frozenset("ABCD"))
    tree = MaintainedTree(TREE, ring, database=database(ring))
    assert dict(contents(tree, "V@D")["c2",].rows("D")) == {("d2",): 1, ("d3",): 1}
    assert contents(tree, "V@E")["a1", "c1"].blocks == {(): {(): 2}}
    assert dict(contents(tree, "V@C")["a1",].rows("CD")) == {("c1", "d1"): 2, ("c2", "d2"): 1, ("c2", "d3"): 1}
    assert dict(contents(tree, "V@C")["a2",].rows("CD")) == {("c2", "d2"): 1, ("c2", "d3"): 1}
    expected = Counter(row[:4] for row in joined())
    assert len(expected) == 8
    assert dict(tree.payload.rows("ABCD")) == expected


def test_example_6_6_factorised_payloads() -> None:
    result = FactorisedResult(TREE, "ABCD", database=database(INTEGER_RING))

    def values(view: str, *key: str) -> dict[str, int]:
        (block,) = contents(result.maintained, view)[key].blocks.values()
        return {value: times for (value,), times in block.items()}

    assert values("V@A") == {"a1": 8, "a2": 2}
    assert values("V@C", "a1") == {"c1": 2, "c2": 2}
    assert values("V@C", "a2") == {"c2": 2}
    assert values("V@B", "a1") == {"b1": 1, "b2": 1}
    assert values("V@B", "a2") == {"b3": 1}
    assert values("V@D", "c2") == {"d2": 1, "d3": 1}
    listing = list(result.rows())
    assert len(listing) == 8
    assert dict(listing) == Counter(row[:4] for row in joined())
    assert result.count == 10
    narrower = FactorisedResult(TREE, "ABC", database=database(INTEGER_RING))
    assert dict(narrower.rows()) == Counter(row[:3] for row in joined())


TRIANGLE = VariableOrder((chain("A", "B", "C"),), {"R": "AB", "S": "BC", "T": "CA"})
N = 30


def hub() -> dict[str, dict[Row, int]]:
    """S and T meet in one value of C: N * N pairs (A, B), of which R has N."""
    return {
        "R": {(i, i): 1 for i in range(N)},
        "S": {(i, 0): 1 for i in range(N)},
        "T": {(0, i): 1 for i in range(N)},
    }


def test_example_b_1_a_view_of_quadratic_size_makes_updates_to_r_constant() -> None:
    tree = MaintainedTree(build_tree(TRIANGLE, compose=False), INTEGER_RING, database=hub())
    assert [str(view) for view in tree.tree.views] == ["V@A[]", "V@B[A]", "V@C[A, B]"]
    assert len(contents(tree, "V@C")) == N * N
    assert tree.payload == N
    tree.meter.rows = 0
    tree.update("R", {(3, 4): 1})
    assert tree.payload == N + 1
    assert tree.meter.rows <= 4


def test_example_b_1_with_r_further_below_no_view_is_quadratic() -> None:
    tree = MaintainedTree(build_tree(TRIANGLE, placed={"R": "C"}), INTEGER_RING, database=hub())
    assert sorted(tree.stored) == ["R", "S", "T", "V@A,B,C"]
    assert tree.payload == N
    tree.update("R", {(3, 4): 1})
    assert tree.payload == N + 1


def test_example_b_2_counts_of_an_indicator() -> None:
    counts = IndicatorCounts((0,))
    assert counts.move([(("a1", "b1"), 1), (("a1", "b2"), 1), (("a2", "b3"), 1)]) == {("a1",): 1, ("a2",): 1}
    assert counts.counts == {("a1",): 2, ("a2",): 1}
    assert counts.move([(("a1", "b2"), -1)]) == {}
    assert counts.counts == {("a1",): 1, ("a2",): 1}
    assert counts.move([(("a1", "b1"), -1)]) == {("a1",): -1}


def test_example_b_3_an_indicator_bounds_the_view() -> None:
    tree = with_indicators(build_tree(TRIANGLE, compose=False))
    assert tree.indicators == (IndicatorLeaf("R", ("A", "B"), "C"),)
    assert [child.name for child in tree.parents["∃R@C"].children] == ["S", "T", "∃R@C"]
    maintained = MaintainedTree(tree, INTEGER_RING, database=hub())
    assert len(contents(maintained, "V@C")) == N
    assert maintained.payload == N
    maintained.meter.rows = 0
    assert maintained.update("R", {(3, 3): 1}) == {(): 1}
    assert maintained.meter.rows <= 4, "the projection did not change"
    assert maintained.update("R", {(3, 4): 1}) == {(): 1}
    assert maintained.update("R", {(3, 4): -1, (3, 3): -2}) == {(): -3}
    assert len(contents(maintained, "V@C")) == N - 1
    assert maintained.update("S", {(5, 0): -1}) == {(): -1}
    assert maintained.payload == N - 2


def test_cofactors_over_triangles_are_the_same_with_indicators_and_their_views_smaller() -> None:
    ring = CofactorRing(tuple("ABC"))
    plain = build_tree(TRIANGLE)
    rows = {name: dict.fromkeys(relation, ring.one) for name, relation in hub().items()}
    without, bounded = (MaintainedTree(tree, ring, database=rows) for tree in (plain, with_indicators(plain)))
    for _ in range(2):
        assert bounded.payload == without.payload
        assert len(contents(without, "V@C")) == N * N
        assert len(contents(bounded, "V@C")) == len(contents(bounded, "R"))
        for tree in (without, bounded):
            tree.apply({"R": [((i, i), -1) for i in range(5)] + [((i, i + 1), 1) for i in range(9)]})


def test_indicators_close_both_triangles_of_a_square_with_a_chord() -> None:
    relations = {"R": "AB", "S": "BC", "T": "CD", "U": "DA", "K": "AC"}
    order = VariableOrder((chain("A", "C", below=(Branch("B"), Branch("D"))),), relations)
    tree = with_indicators(build_tree(order))
    assert sorted(leaf.name for leaf in tree.indicators) == ["∃K@B", "∃K@D"]


def test_acyclic_joins_get_no_indicators() -> None:
    assert with_indicators(TREE).indicators == ()
