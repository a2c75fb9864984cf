"""The search for variable orders: the least width, then the cheapest updates."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.viewtree.figure2 import RELATIONS
from viewlet.errors import SchemaError
from viewlet.rings import INTEGER_RING
from viewlet.viewtree.order import Branch, VariableOrder, chain
from viewlet.viewtree.order_search import find_order
from viewlet.viewtree.ring_engine import MaintainedTree
from viewlet.viewtree.ring_tree import build_tree
from viewlet.viewtree.widths import cover_number

HALF = Fraction(1, 2)


def edges(relations: dict[str, str]) -> dict[frozenset[str], Fraction]:
    return {frozenset(schema): Fraction(1) for schema in relations.values()}


def width(order: VariableOrder, relations: dict[str, str], indicators: bool = False) -> Fraction:
    """The largest exponent of what is joined at a variable, by the definition."""

    def bounding(variable: str) -> dict[str, str]:
        below = {variable, *(name for name in order.variables if variable in order.ancestors(name))}
        return {name: schema for name, schema in relations.items() if indicators or below & set(schema)}

    return max(cover_number({name, *order.dependencies(name)}, edges(bounding(name))) for name in order.variables)


@pytest.mark.parametrize(
    ("relations", "expected"),
    [
        ({"R": "AB", "S": "BC", "T": "CA"}, 3 * HALF),
        ({"R": "AB", "S": "BC", "T": "CD", "U": "DA"}, 2),
        ({"R": "ABC", "S": "CDE"}, 2),
        ({"R": "ABCDE"}, 1),
        ({"R": "AB", "S": "BC", "T": "CD", "U": "DE", "V": "EA"}, 5 * HALF),
    ],
)
def test_covers_of_whole_joins(relations: dict[str, str], expected: Fraction) -> None:
    assert cover_number("".join(relations.values()), edges(relations)) == expected


def test_a_variable_that_no_relation_has_cannot_be_covered() -> None:
    with pytest.raises(ValueError, match="Z"):
        cover_number("AZ", edges({"R": "AB"}))


@pytest.mark.parametrize(
    ("relations", "indicators", "expected"),
    [
        (RELATIONS, False, 1),
        ({"R": "AB", "S": "BC", "T": "CD", "U": "DE"}, False, 1),
        ({"R": "AB", "S": "BC", "T": "CA"}, False, 2),
        ({"R": "AB", "S": "BC", "T": "CA"}, True, 3 * HALF),
        ({"R": "AB", "S": "BC", "T": "CD", "U": "DA"}, True, 2),
        ({"R": "AB", "S": "CD"}, False, 1),
    ],
)
def test_the_search_finds_the_least_width(relations: dict[str, str], indicators: bool, expected: Fraction) -> None:
    assert width(find_order(relations, indicators=indicators), relations, indicators) == expected


@settings(max_examples=settings.default.max_examples // 5)
@given(
    st.lists(
        st.text("ABCD", min_size=1, max_size=3).map(lambda names: "".join(sorted(set(names)))), min_size=1, max_size=4
    )
)
def test_no_order_that_is_a_path_is_narrower(schemas: list[str]) -> None:
    relations = {f"R{i}": schema for i, schema in enumerate(schemas)}
    found = find_order(relations)
    names = sorted(set("".join(schemas)))
    assert width(found, relations) <= min(
        width(VariableOrder((chain(*path),), relations), relations) for path in permutations(names)
    )


def test_free_variables_are_on_top() -> None:
    order = find_order(RELATIONS, "CD")
    assert set(order.ancestors("A")) >= {"C"}
    assert build_tree(order, "CD").root.keys in [("C", "D"), ("D", "C")]
    assert all(not set(order.ancestors(name)) & set("ABE") for name in "CD")


def test_the_relation_that_changes_often_gets_the_constant_time() -> None:
    """A path R(A, B), S(B, C), T(C, D): whichever end changes, an order makes that cost constant."""
    relations = {"R": "AB", "S": "BC", "T": "CD"}
    rows = {name: {(i, 0) if name != "T" else (0, i): 1 for i in range(20)} for name in relations}
    rows["S"] = {(0, i): 1 for i in range(20)}
    for name in relations:
        order = find_order(relations, updatable={name})
        tree = MaintainedTree(build_tree(order), INTEGER_RING, None, {name}, rows)
        tree.update(name, {(0, 0): 1})
        assert tree.meter.rows <= 4, name


def test_known_sizes_decide_where_widths_are_equal() -> None:
    relations = {"R": "AB", "S": "BC", "T": "CD", "U": "DA"}
    tops = []
    for large in ("RS", "RU"):
        order = find_order(relations, rows={name: 1e6 if name in large else 10 for name in relations})
        (root,) = order.roots
        (second,) = root.below
        tops.append({root.variable, second.variable})
    assert tops == [{"B", "D"}, {"A", "C"}], "large relations are not joined with each other"


def test_too_many_variables_are_refused() -> None:
    relations = {f"R{i}": (f"X{i}", f"X{i + 1}") for i in range(20)}
    with pytest.raises(SchemaError, match="give the variable order"):
        find_order(relations)


def test_orders_found_are_valid_and_local_variables_hang_below() -> None:
    order = find_order({"R": ("k", "x", "y"), "S": ("k", "z")})
    assert order.roots == (Branch("k", (chain("x", "y"), Branch("z"))),)
