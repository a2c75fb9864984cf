"""Variable orders: the paper's example, and every way in which one can be wrong."""

from __future__ import annotations

import pytest

from viewlet.errors import SchemaError
from viewlet.viewtree.order import Branch, VariableOrder

RELATIONS = {"R": "AB", "S": "ACE", "T": "CD"}
FIGURE_2A = (Branch("A", (Branch("B"), Branch("C", (Branch("D"), Branch("E"))))),)


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
