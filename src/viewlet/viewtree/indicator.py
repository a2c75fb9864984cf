"""Indicator projections: which keys a relation has, to bound the views of cyclic joins (Figure 10, appendix B).

    triangle R(A, B), S(B, C), T(C, A):   V@C[A, B] = ⊕C S ⊗ T          up to N² pairs (A, B)
                                          V@C[A, B] = ⊕C S ⊗ T ⊗ ∃A,B R  only pairs that R has

An indicator multiplies by 1 where its relation has a row, so it changes no result: what it leaves out, the relation
would leave out further up. It is worth having where it closes a cycle with the children of a view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from viewlet.triggers.hypergraph import cyclic_core
from viewlet.triggers.store import UndoLog
from viewlet.viewtree.ring_relation import Row
from viewlet.viewtree.ring_tree import IndicatorLeaf, Node, RelationLeaf, View, ViewTree, walk


def with_indicators(tree: ViewTree) -> ViewTree:
    """The tree with an indicator wherever a relation from elsewhere forms a cycle with the children of a view."""
    root = _extended(tree.root, tree.order.relations)
    assert isinstance(root, View)
    return ViewTree(root, tree.order, tree.free, tree.sources)


def _extended(node: Node, relations: Mapping[str, Sequence[str]]) -> Node:
    if not isinstance(node, View):
        return node
    inside = {leaf.relation for leaf in walk(node) if isinstance(leaf, RelationLeaf)}
    children = tuple(_extended(child, relations) for child in node.children)
    here = {name for child in children for name in child.keys}
    candidates = [
        IndicatorLeaf(name, tuple(key for key in schema if key in here), ",".join(node.variables))
        for name, schema in relations.items()
        if name not in inside and here & set(schema)
    ]
    edges = [frozenset(child.keys) for child in (*children, *candidates)]
    core = cyclic_core(edges)
    chosen = (leaf for i, leaf in enumerate(candidates, start=len(children)) if i in core)
    return replace(node, children=(*children, *chosen))


@dataclass(slots=True)
class IndicatorCounts:
    """How many rows of a relation project to each key of an indicator: it changes where a count leaves or reaches 0."""

    positions: tuple[int, ...]
    counts: dict[Row, int] = field(default_factory=dict)
    log: UndoLog | None = None

    def move(self, moved: Iterable[tuple[Row, int]]) -> dict[Row, int]:
        """Rows came (1) and went (-1); returns the keys that the indicator gained (1) and lost (-1)."""
        before: dict[Row, bool] = {}
        for row, sign in moved:
            key = tuple(row[i] for i in self.positions)
            known = self.counts.get(key, 0)
            before.setdefault(key, known > 0)
            if self.log is not None and self.log.active:
                self.log.record(partial(self._put, key, known))
            self._put(key, known + sign)
        now = {key: key in self.counts for key in before}
        return {key: 1 if now[key] else -1 for key, was in before.items() if was != now[key]}

    def _put(self, key: Row, count: int) -> None:
        if count:
            self.counts[key] = count
        else:
            self.counts.pop(key, None)
