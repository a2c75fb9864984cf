"""Factorised results on flat arrays: what `viewtree.factorised.FactorisedResult` means, kept fresh by generated code.

    V@C[A] by C     A, C -> how many rows       read along the chain of an A
    V@C[A]          A    -> how many rows       what the view above multiplies with

A view with listed variables is stored twice: with them, to read their values, and without them, to count. Rows are
enumerated when they are read (`runtime.enumeration`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from viewlet.codegen.rings.columns import Column, decode
from viewlet.codegen.rings.compiled_tree import Changes, CompiledTree
from viewlet.codegen.rings.plan import TreePlan, Variant, plan_tree
from viewlet.codegen.rings.sums_form import sums_form
from viewlet.codegen.rings.tree_writer import write_module
from viewlet.errors import DataError, InternalError, SchemaError
from viewlet.rings.factorised import Choices
from viewlet.rings.integer import INTEGER_RING
from viewlet.rings.ring import Lift, Ring, product, times, total
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.enumeration import LOOK_UP, SCAN, read_rows
from viewlet.runtime.memory import Memories, on_heap
from viewlet.types import SqlType
from viewlet.viewtree.factorised import Piece, piece_of, pieces_of
from viewlet.viewtree.ring_relation import Row
from viewlet.viewtree.ring_tree import Keys, View, ViewTree

T = TypeVar("T")
AT_ONCE = 4096
"""Rows that `rows` puts together at a time; the first ones come sooner."""


class CompiledResult:
    """The rows over the `variables` of a join; those not listed are summed over and must be below those that are."""

    def __init__(
        self,
        tree: ViewTree,
        column_types: Mapping[str, SqlType],
        variables: Sequence[str] | None = None,
        updatable: Set[str] | None = None,
        dictionary: StringDictionary | None = None,
        memory: Memories = on_heap,
    ) -> None:
        self.variables = tree.order.variables if variables is None else tuple(variables)
        if tree.free:
            raise SchemaError("a factorised result lists its variables itself: build its view tree without free ones")
        if unknown := [name for name in self.variables if name not in tree.order.variables]:
            raise SchemaError(f"variable {unknown[0]!r} is in no relation of the join")
        if missing := [name for name in tree.order.variables if name not in column_types]:
            raise SchemaError(f"the type of variable {missing[0]!r} is not given")
        self._root = piece_of(
            tree.root, {name: i for i, name in enumerate(tree.order.variables) if name in self.variables}
        )
        self._pieces = list(pieces_of(self._root))
        plan = self._plan(tree, updatable)
        self._variants = {(variant.node, bool(variant.group_by)): variant for variant in plan.stored}
        form = sums_form(INTEGER_RING, column_types)
        assert form is not None
        words = StringDictionary() if dictionary is None else dictionary
        source = write_module(plan, form, column_types)
        self.maintained = CompiledTree(plan, form, source, column_types, words, memory)
        self._spec, self._refs = self._specification()

    def _plan(self, tree: ViewTree, updatable: Set[str] | None) -> TreePlan:
        listed = {piece.name: piece.values for piece in self._pieces if piece.values}
        read = {name for piece in self._pieces for name in (piece.name, *(node.name for node in piece.counted))}

        def groupings(view: View) -> Iterable[Keys]:
            return ((), listed[view.name]) if view.name in listed else ((),)

        def also(variant: Variant) -> bool:
            return bool(variant.group_by) if variant.node in listed else variant.node in read

        plan = plan_tree(tree, groupings, updatable, also)
        chains = {
            variant.name: tuple(range(len(variant.keys) - len(variant.group_by)))
            for variant in plan.stored
            if variant.group_by and len(variant.keys) > len(variant.group_by)
        }
        return replace(plan, read=chains)

    # Changing

    def apply(self, changes: Changes) -> None:
        """Inserts and deletes rows, given with multiplicities: all of them, or on an error none."""
        self.maintained.apply(changes)

    def apply_columns(self, relation: str, columns: Sequence[Column], multiplicity: Column) -> None:
        """Rows of one relation as columns of words."""
        self.maintained.apply_columns(relation, columns, multiplicity)

    def apply_arrow(self, relation: str, table: Any, multiplicity: Any = None) -> None:
        """The rows of an Arrow table."""
        self.maintained.apply_arrow(relation, table, multiplicity)

    def unpack(self, variant: Variant, payloads: Mapping[Row, Choices]) -> Iterator[tuple[Row, tuple[int]]]:
        """The rows of a variant in the payloads that a `FactorisedResult` keeps of its node."""
        for key, payload in payloads.items():
            if not variant.group_by:
                yield key, (payload.count,)
                continue
            ((_, block),) = payload.blocks.items()
            for values, count in block.items():
                yield (*key, *values), (count,)

    # Reading

    @property
    def count(self) -> int:
        """How many rows the result has, without reading them."""
        return int(self.maintained.stores[self._root.name].pool[0, 0])

    @property
    def size(self) -> int:
        """How many values are stored to stand for them."""
        return sum(len(piece.values) * self.maintained.sizes()[self._variant(piece).name] for piece in self._pieces)

    def bytes(self) -> int:
        """The memory of all stored views."""
        return self.maintained.bytes()

    def rows(self) -> Iterator[tuple[Row, int]]:
        """Iterates over the distinct rows with their multiplicities; the result must not change meanwhile."""
        types = [self.maintained.types[name] for name in self.variables]
        for words, found in self.words():
            columns = [decode(type, words[:, i], self.maintained.dictionary) for i, type in enumerate(types)]
            values: Iterable[Row] = zip(*columns, strict=True) if columns else [()] * len(found)
            yield from zip(values, found.tolist(), strict=True)

    def words(self, at_once: int = AT_ONCE) -> Iterator[tuple[Column, Column]]:
        """The rows as words, a column for each variable, with their multiplicities; not more than so many at a time."""
        pieces, epoch = len(self._pieces), self.maintained.epoch
        cursor, weights = np.zeros(pieces + 1, np.int64), np.ones(pieces + 1, np.int64)
        known, size = np.zeros(max(1, len(self.variables)), np.int64), min(16, at_once)
        while True:
            if self.maintained.epoch != epoch:
                raise DataError("the result has changed while its rows were read; read them again")
            rows, found = np.empty((size, len(self.variables)), np.int64), np.empty(size, np.int64)
            state = self.maintained.state()
            count = read_rows(self._spec, self._refs, cursor, weights, known, rows, found, state)
            yield rows[:count], found[:count]
            if count < size:
                return
            size = min(8 * size, at_once)

    def aggregate(self, ring: Ring[T], lifts: Mapping[str, Lift[T]]) -> T:
        """The sum over all rows of the product of the lifts, in one pass over what is stored."""
        done: dict[str, dict[Row, T]] = {}
        for piece in reversed(self._pieces):
            done[piece.name] = self._sums(piece, ring, lifts, done)
        return done[self._root.name].get((), ring.zero)

    def _sums(
        self, piece: Piece, ring: Ring[T], lifts: Mapping[str, Lift[T]], done: Mapping[str, Mapping[Row, T]]
    ) -> dict[Row, T]:
        """The sums of a piece and what is below it, by its keys."""
        variant = self._variant(piece)
        counted = {node.name: (node.keys, self.maintained.view(node.name)) for node in piece.counted}
        terms: dict[Row, list[T]] = {}
        for row, own in self._stored(variant):
            known = dict(zip(variant.keys, row, strict=True))
            count = 1 if piece.below else own
            for keys, entries in counted.values():
                count *= entries.get(tuple(known[name] for name in keys), 0)
            factors = [times(ring, count), *(lifts[name](known[name]) for name in piece.values if name in lifts)]
            factors += [done[child.name][tuple(known[name] for name in child.keys)] for child in piece.below]
            terms.setdefault(row[: len(piece.keys)], []).append(product(ring, factors))
        return {key: total(ring, parts) for key, parts in terms.items()}

    def _stored(self, variant: Variant) -> Iterator[tuple[Row, int]]:
        words, rows = self.maintained.rows(variant)
        return zip(rows, words[:, len(variant.keys)].tolist(), strict=True)

    # What the walk through the pieces needs to know

    def _variant(self, piece: Piece) -> Variant:
        return self._variants[piece.name, bool(piece.values)]

    def _specification(self) -> tuple[Column, Column]:
        place = {name: i for i, name in enumerate(self.variables)}
        spec, refs = list[list[int]](), list[int]()
        for piece in self._pieces:
            variant = self._variant(piece)
            keys, values = len(piece.keys), len(piece.values)
            if variant.keys != piece.keys + tuple(piece.values):
                raise InternalError(f"{variant} is not read by {piece.keys} with values {piece.values}")
            if values:
                chain = self.maintained.plan.slices[variant.name].index(tuple(range(keys))) if keys else SCAN
            else:
                chain = LOOK_UP
            first, width = self._where(variant)
            spec.append([first, width, keys, values, chain, not piece.below, len(piece.counted), len(refs)])
            refs += [place[name] for name in variant.keys]
            for node in piece.counted:
                refs += [*self._where(self._variants[node.name, False]), len(node.keys)]
                refs += [place[name] for name in node.keys]
        return np.array(spec, np.int64), np.array(refs or [0], np.int64)

    def _where(self, variant: Variant) -> tuple[int, int]:
        """Where the arrays of a store are in the state, and the width of a row."""
        return self.maintained.place(variant.name), self.maintained.stores[variant.name].layout.width
