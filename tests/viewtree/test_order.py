"""Variable orders: the paper's example, and every way in which one can be wrong."""

from __future__ import annotations

import pytest

from viewlet.errors import SchemaError
from viewlet.viewtree.order import Branch, VariableOrder
from viewlet.viewtree.tree import Leaf, Node, maximal_subtrees

RELATIONS = {"R": "AB", "S": "ACE", "T": "CD"}
FIGURE_2A = (Branch("A", (Branch("B"), Branch("C", (Branch("D"), Branch("E"))))),)
R, S, T = range(3)


def test_the_order_of_figure_2() -> None:
    order = VariableOrder(FIGURE_2A, RELATIONS)
    assert order.ancestors("D") == ("A", "C")
    assert {variable: "".join(sorted(order.dependencies(variable))) for variable in "ABCDE"} == {
        "A": "",
        "B": "A",
        "C": "A",
        "D": "C",
        "E": "AC",
    }
    assert order.tree() == Node((Leaf(R), Node((Leaf(T), Leaf(S)))))


@pytest.mark.parametrize(
    ("changed", "read"),
    [(T, [[R], [S]]), (S, [[R], [T]]), (R, [[T, S]])],
)
def test_a_change_reads_the_siblings_on_its_path(changed: int, read: list[list[int]]) -> None:
    """Example 4.2: updates to T need the views of S and R only; updates to R need that of S and T."""
    tree = VariableOrder(FIGURE_2A, RELATIONS).tree()
    assert maximal_subtrees(tree, {R, S, T} - {changed}) == read


def test_relations_without_common_variables_have_a_root_each() -> None:
    assert VariableOrder((Branch("A"), Branch("B")), {"R": "A", "S": "B"}).tree() == Node((Leaf(0), Leaf(1)))


@pytest.mark.parametrize(
    ("roots", "complaint"),
    [
        (
            (Branch("A", (Branch("B"), Branch("C"), Branch("D"), Branch("E"))),),
            "'S'.*'E' is on another branch than 'C'",
        ),
        ((*FIGURE_2A, Branch("B")), "'B' more than once"),
        ((*FIGURE_2A, Branch("F")), "'F', which no relation"),
        ((Branch("A", (Branch("C", (Branch("D"),)),)),), "lacks 'B', 'E'"),
    ],
)
def test_wrong_orders_are_refused(roots: tuple[Branch, ...], complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        VariableOrder(roots, RELATIONS)
