"""Factorised results: a join stored as factors, whose rows are enumerated (section 6.3 of the paper).

    V@A[] = {a1, a2}      V@B[a1] = {b1, b2}   V@C[a1] = {c1, c2}   V@D[c2] = {d2, d3}
            {a1} x ({b1, b2} x ({c1} x ... + {c2} x {d2, d3}))  + {a2} x ...

Each view has, for each of its keys, the values of its own variables with the number of rows below them. What depends on
different variables is never paired up in storage, only while rows are read: the first row comes at once, each next one
after a time that depends on the query alone, and a join of cubic size takes the space of its relations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeVar

from viewlet.errors import SchemaError
from viewlet.rings.factorised import Choices, FactorisedRing
from viewlet.rings.ring import Lift, Ring, product, times, total
from viewlet.triggers.store import UndoLog
from viewlet.viewtree.ring_engine import MaintainedTree
from viewlet.viewtree.ring_relation import Row
from viewlet.viewtree.ring_tree import Node, View, ViewTree, walk

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Piece:
    """A view as the enumeration sees it: its values, the pieces below it, and the views that only count."""

    name: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    level: int
    below: tuple[Piece, ...]
    counted: tuple[Node, ...]


class FactorisedResult:
    """The rows over the `variables` of a join under inserts and deletes; the tree must not have free variables itself.

    Variables that are not listed are summed over. They must be below those that are, or else rows that differ only in
    them would have to be found and merged.
    """

    def __init__(
        self,
        tree: ViewTree,
        variables: Sequence[str] | None = None,
        updatable: Set[str] | None = None,
        database: Mapping[str, Mapping[Row, int]] | None = None,
        log: UndoLog | None = None,
    ) -> None:
        self.variables = tree.order.variables if variables is None else tuple(variables)
        if tree.free:
            raise SchemaError("a factorised result lists its variables itself: build its view tree without free ones")
        if unknown := [name for name in self.variables if name not in tree.order.variables]:
            raise SchemaError(f"variable {unknown[0]!r} is in no relation of the join")
        levels = {name: level for level, name in enumerate(tree.order.variables) if name in self.variables}
        self._ring = FactorisedRing(levels)
        self._root = piece_of(tree.root, levels)
        needed = {
            name for piece in pieces_of(self._root) for name in (piece.name, *(node.name for node in piece.counted))
        }
        self.maintained = MaintainedTree(tree, self._ring, None, updatable, None, needed, log)
        if database:
            self.load(database)

    def load(self, database: Mapping[str, Mapping[Row, int]]) -> None:
        """Resets the result to relations given as rows with multiplicities."""
        counted = {name: {row: times(self._ring, n) for row, n in rows.items()} for name, rows in database.items()}
        self.maintained.load(counted)

    def apply(self, changes: Mapping[str, Iterable[tuple[Row, int]]]) -> None:
        """Insert and delete rows, given with multiplicities."""
        self.maintained.apply(changes)

    @property
    def count(self) -> int:
        """How many rows the result has, without reading them."""
        return self.maintained.payload.count

    @property
    def size(self) -> int:
        """How many values are stored to stand for them."""
        stores = self.maintained.stores
        return sum(
            len(piece.values) * payload.size
            for piece in pieces_of(self._root)
            for payload in stores[piece.name].entries.values()
        )

    def rows(self) -> Iterator[tuple[Row, int]]:
        """Iterates over the distinct rows with their multiplicities; the result must not change meanwhile."""
        known: dict[str, Any] = {}
        for multiplicity in self._walk((self._root,), known):
            yield tuple(known[name] for name in self.variables), multiplicity

    def _walk(self, pieces: tuple[Piece, ...], known: dict[str, Any]) -> Iterator[int]:
        """Sets the values of all variables of the pieces in `known`, in every way there is; yields multiplicities."""
        if not pieces:
            yield 1
            return
        piece, rest = pieces[0], pieces[1:]
        for values, own in self._choices(piece, known):
            known.update(zip(piece.values, values, strict=True))
            below = self._counted(piece, known) if piece.below else own
            if below:
                for multiplicity in self._walk((*piece.below, *rest), known):
                    yield below * multiplicity

    def _choices(self, piece: Piece, known: Mapping[str, Any]) -> Iterable[tuple[Row, int]]:
        payload = self._payload(piece, known)
        if payload is None:
            return ()
        return payload.blocks.get(piece.level, {}).items() if piece.values else (((), payload.count),)

    def _payload(self, node: Piece | Node, known: Mapping[str, Any]) -> Choices | None:
        return self.maintained.stores[node.name].entries.get(tuple(known[key] for key in node.keys))

    def _counted(self, piece: Piece, known: Mapping[str, Any]) -> int:
        """What the parts without values of their own contribute to the multiplicity."""
        found = 1
        for node in piece.counted:
            payload = self._payload(node, known)
            found *= payload.count if payload is not None else 0
        return found

    def aggregate(self, ring: Ring[T], lifts: Mapping[str, Lift[T]]) -> T:
        """The sum over all rows of the product of the lifts, in one pass over what is stored."""
        done: dict[tuple[str, Row], T] = {}

        def value(piece: Piece, known: dict[str, Any]) -> T:
            at = (piece.name, tuple(known[key] for key in piece.keys))
            if at not in done:
                done[at] = total(ring, (term(piece, values, own, known) for values, own in self._choices(piece, known)))
            return done[at]

        def term(piece: Piece, values: Row, own: int, known: dict[str, Any]) -> T:
            inner = {**known, **dict(zip(piece.values, values, strict=True))}
            multiplicity = self._counted(piece, inner) if piece.below else own
            lifted = [lifts[name](x) for name, x in zip(piece.values, values, strict=True) if name in lifts]
            return product(ring, [times(ring, multiplicity), *lifted, *(value(child, inner) for child in piece.below)])

        return value(self._root, {})


def piece_of(view: View, levels: Mapping[str, int]) -> Piece:
    """The pieces of a view and what is below it; `levels` has the listed variables."""
    values = tuple(name for name in view.variables if name in levels)
    has_values = _having(lambda below: isinstance(below, View) and any(name in levels for name in below.variables))
    below = tuple(piece_of(child, levels) for child in view.children if isinstance(child, View) and has_values(child))
    hidden = [name for name in view.variables if name not in levels]
    if below and hidden:
        deeper = below[0].values[0]
        raise SchemaError(
            f"variable {hidden[0]!r} is not listed but is above {deeper!r}, which is: "
            f"move it below in the variable order, or list it"
        )
    counted = tuple(child for child in view.children if child.name not in {piece.name for piece in below})
    level = min((levels[name] for name in values), default=-1)
    return Piece(view.name, view.keys, values, level, below, counted if below else ())


def _having(wanted: Callable[[Node], bool]) -> Callable[[Node], bool]:
    return lambda node: any(wanted(found) for found in walk(node))


def pieces_of(piece: Piece) -> Iterator[Piece]:
    """A piece and all below it, parents first."""
    yield piece
    for below in piece.below:
        yield from pieces_of(below)
