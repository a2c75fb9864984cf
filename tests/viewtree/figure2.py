"""The join, the variable order and the database of Figure 2, which most examples of the paper use."""

from __future__ import annotations

from typing import TypeVar

from viewlet.rings import Ring
from viewlet.viewtree.order import Branch, VariableOrder, chain
from viewlet.viewtree.ring_relation import Row

T = TypeVar("T")

RELATIONS = {"R": "AB", "S": "ACE", "T": "CD"}
ORDER = VariableOrder((Branch("A", (Branch("B"), chain("C", below=(Branch("D"), Branch("E"))))),), RELATIONS)
ROWS: dict[str, list[Row]] = {
    "R": [("a1", "b1"), ("a1", "b2"), ("a2", "b3"), ("a3", "b4")],
    "S": [("a1", "c1", "e1"), ("a1", "c1", "e2"), ("a1", "c2", "e3"), ("a2", "c2", "e4")],
    "T": [("c1", "d1"), ("c2", "d2"), ("c2", "d3"), ("c3", "d4")],
}


def database(ring: Ring[T]) -> dict[str, dict[Row, T]]:
    """Every row with payload 1."""
    return {name: dict.fromkeys(rows, ring.one) for name, rows in ROWS.items()}
