"""Join hypergraphs: connected components, and the cyclic core that GYO reduction leaves.

A join is a set of edges, each the set of variables of one atom. An ear is an edge whose variables are its own or lie in
one other edge; an acyclic join can be taken apart ear by ear.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

V = TypeVar("V", bound=Hashable)


def components(edges: Sequence[frozenset[V]]) -> list[list[int]]:
    """Indexes of the edges, grouped by connectedness, in order of first appearance."""
    groups: list[tuple[list[int], frozenset[V]]] = []
    for i, edge in enumerate(edges):
        touching = [group for group in groups if group[1] & edge]
        merged = sorted([i, *(member for members, _ in touching for member in members)])
        reach = edge.union(*(variables for _, variables in touching))
        groups = [group for group in groups if group not in touching] + [(merged, reach)]
    return sorted((members for members, _ in groups), key=lambda members: members[0])


def cyclic_core(edges: Sequence[frozenset[V]]) -> set[int]:
    """Indexes of the edges that remain when ears are removed as long as there are any; empty for an acyclic join."""
    left = dict(enumerate(edges))
    while True:
        ear = next((i for i in left if _is_ear(i, left)), None)
        if ear is None:
            return set(left)
        del left[ear]


def _is_ear(i: int, edges: dict[int, frozenset[V]]) -> bool:
    others = [edge for j, edge in edges.items() if j != i]
    shared = frozenset(var for var in edges[i] if any(var in other for other in others))
    return not shared or any(shared <= other for other in others)
