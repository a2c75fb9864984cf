"""View trees on generated code (`codegen/rings`), with NULL among their values.

Flat arrays of a tree have no NULLs. NULL in a variable that may be NULL (a key of GROUP BY, a column of a factorised
result) is represented by a reserved value: the smallest integer or double, or a string that is no text. A table that
holds such a value is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from viewlet.algebra.ring_query import CofactorPayload, FactorisedPayload, JoinedRelation, Variable
from viewlet.changes import ColumnChange
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.rings.columns import Column
from viewlet.codegen.rings.compiled_tree import CompiledTree
from viewlet.codegen.rings.compiler import cofactor_form, compile_tree, load
from viewlet.codegen.rings.factorised import CompiledResult
from viewlet.codegen.rings.migrate import Unpack, stores_of
from viewlet.codegen.rings.origins import STORE as ORIGINS
from viewlet.errors import DataError
from viewlet.rings import INTEGER_RING
from viewlet.rings.cofactor import CofactorRing
from viewlet.rings.ring import Lift, Ring
from viewlet.runtime.arithmetic import NULL
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.memory import Memories, on_heap
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.types import BIGINT, Kind, Row, SqlType
from viewlet.viewtree.product_update import expand, product_update
from viewlet.viewtree.ring_plan import Projection, RingPlan
from viewlet.viewtree.tree_state import Counted, Part

T = TypeVar("T")
MULTIPLIED_OUT = 1000
"""Rows of a product up to which it is multiplied out."""
NO_TEXT = "\ufdd0"
"""A code point that Unicode sets aside: no string of it is text."""


class Nulls:
    """The values that stand for NULL, by variable."""

    def __init__(self, plan: RingPlan) -> None:
        self._stand_in: dict[str, Any] = {}
        self._truths: set[str] = set()
        for relation in plan.query.relations:
            for variable in relation.variables:
                if _may_be_null(variable):
                    self._stand_in[variable.name] = _stand_in(variable.scalar.type)
                    if variable.scalar.type.kind is Kind.BOOLEAN:
                        self._truths.add(variable.name)

    def hide(self, schema: Sequence[str], rows: Mapping[Row, T]) -> Mapping[Row, T]:
        """Rows, and what belongs to them, with stand-ins in the place of NULLs."""
        places = [(i, self._stand_in[name]) for i, name in enumerate(schema) if name in self._stand_in]
        if not places:
            return rows
        found: dict[Row, T] = {}
        for row, weight in rows.items():
            values = list(row)
            for i, stand_in in places:
                if values[i] == stand_in:
                    raise self.refusal(schema[i])
                if values[i] is None:
                    values[i] = stand_in
            found[tuple(values)] = weight
        return found

    def show(self, schema: Sequence[str], row: Row) -> Row:
        """A row with its NULLs again."""
        known = self._stand_in
        if not known:
            return row
        pairs = zip(schema, row, strict=True)
        return tuple(self._value(name, value) if name in known else value for name, value in pairs)

    def _value(self, name: str, value: Any) -> Any:
        if value == self._stand_in[name]:
            return None
        return bool(value) if name in self._truths else value

    def show_words(self, name: str, words: Column, type: SqlType, stand_in: int | None) -> Column:
        """A column of words of keys as those of values, with its NULLs again; strings have this code for NULL."""
        if type.is_float:
            numbers = np.ascontiguousarray(words).view(np.float64)
            return np.where(numbers == self._stand_in[name], np.nan, numbers) if name in self._stand_in else numbers
        if type.kind is Kind.VARCHAR and stand_in is not None:
            return np.where(words == stand_in, NULL, words)
        return np.ascontiguousarray(words)

    def refusal(self, name: str) -> DataError:
        """A table has the value that stands for NULL in a variable."""
        stand_in = self._stand_in.get(name, int(NULL))
        return DataError(f"{name!r}: {stand_in!r} stands for NULL in the compiled engine; it is no value")

    def hide_words(self, variable: Variable, words: Column, dictionary: StringDictionary) -> Column:
        """A column of words with stand-ins in the place of NULLs."""
        stand_in = self._stand_in.get(variable.name)
        if stand_in is None or stand_in == NULL:
            return words
        missing = is_missing(words)
        word = dictionary.code(stand_in) if variable.scalar.type.kind is Kind.VARCHAR else stand_in
        if ((words == word) & ~missing).any():
            raise self.refusal(variable.name)
        return np.where(missing, word, words) if missing.any() else words

    def lift(self, name: str, lift: Lift[Any]) -> Lift[Any]:
        if name not in self._stand_in:
            return lift
        return lambda value: lift(self._value(name, value))


def is_missing(words: Column) -> Any:
    """Where a column of words has NULL."""
    return np.isnan(words) if words.dtype == np.float64 else words == NULL


def relation_words(projection: Projection, change: ColumnChange) -> tuple[list[Column], Column]:
    """The rows of a relation in the change of its table: a column for each variable, and multiplicities.

    The projection takes columns as they are. Rows with NULL in a required variable are left out.
    """
    taken = projection.taken
    assert taken is not None
    variables = projection.relation.variables
    columns = [
        _as_wanted(change.words[position], held, variable.scalar.type)
        for variable, (position, held) in zip(variables, taken, strict=True)
    ]
    return without_missing(projection.relation, columns, change.multiplicity)


def without_missing(
    relation: JoinedRelation, columns: list[Column], multiplicity: Column
) -> tuple[list[Column], Column]:
    """Rows of a relation without those that have NULL in a required variable."""
    present = np.ones(len(multiplicity), np.bool_)
    for column, variable in zip(columns, relation.variables, strict=True):
        if variable.required:
            present &= ~is_missing(column)
    if present.all():
        return columns, multiplicity
    return [column[present] for column in columns], multiplicity[present]


def _as_wanted(words: Column, held: SqlType, wanted: SqlType) -> Column:
    """Words of a column as those of a variable: decimals as the numbers they stand for, where doubles are wanted."""
    if held.kind is not Kind.DECIMAL or not wanted.is_float:
        return words
    return np.where(words == NULL, np.nan, words / 10.0**held.scale)


def _may_be_null(variable: Variable) -> bool:
    return variable.scalar.type.nullable and not variable.required


def _stand_in(type: SqlType) -> Any:
    if type.kind is Kind.VARCHAR:
        return NO_TEXT
    return -sys.float_info.max if type.is_float else int(NULL)


class GeneratedTree:
    """A tree on flat arrays; a batch can be rolled back exactly."""

    engine_name = "compiled"

    def __init__(
        self,
        plan: RingPlan,
        dictionary: StringDictionary,
        memory: Memories = on_heap,
        tree: CompiledTree | None = None,
    ) -> None:
        self._plan, self._nulls = plan, Nulls(plan)
        self.compiled = tree or compile_tree(
            plan.tree, plan.ring, types_of(plan), plan.updatable, None, dictionary, memory
        )
        self.source = self.compiled.source
        self._known: tuple[int, dict[Row, Any]] | None = None

    def load(self, relations: Mapping[str, Counted]) -> None:
        load(self.compiled, self._plan.ring, self._hidden(relations))

    def _hidden(self, relations: Mapping[str, Counted]) -> dict[str, Counted]:
        schemas = self._plan.query.schemas
        return {name: self._nulls.hide(schemas[name], rows) for name, rows in relations.items()}

    def add(self, relation: str, change: Counted) -> Iterable[Row] | None:
        hidden = self._hidden({relation: change})
        self._begin()
        self.compiled.apply({relation: hidden[relation].items()})
        return self._touched()

    def watch(self) -> None:
        self.compiled.watch()

    def _touched(self) -> list[Row] | None:
        """The keys of the result that the last change may have changed, if the tree is watched."""
        if not self.compiled.is_watched:
            return None
        keys = self._plan.tree.root.keys
        return [self._nulls.show(keys, row) for row in self.compiled.take_changed()]

    def _begin(self) -> None:
        if not self.compiled.is_open:
            self.compiled.begin()

    def add_columns(self, projection: Projection, change: ColumnChange) -> Iterable[Row] | None:
        """The change of a table as columns, whose strings have codes of the tree's dictionary."""
        self.add_words(projection.relation, *relation_words(projection, change))
        return self._touched()

    def refusal(self, name: str) -> DataError:
        """A relation has the value that stands for NULL in a variable."""
        return self._nulls.refusal(name)

    def add_words(self, relation: JoinedRelation, columns: Sequence[Column], multiplicity: Column) -> None:
        """Rows of a relation as columns of words, without NULLs in required variables."""
        hide, dictionary = self._nulls.hide_words, self.compiled.dictionary
        pairs = zip(relation.variables, columns, strict=True)
        words = [hide(variable, column, dictionary) for variable, column in pairs]
        self._begin()
        self.compiled.apply_columns(relation.name, words, multiplicity)

    def add_products(self, relation: str, products: Sequence[Sequence[Part]], tell: bool) -> Iterable[Row] | None:
        """Small products are multiplied out to rows: that takes less time than making code for them."""
        large: list[Sequence[Part]] = []
        small: list[Sequence[Part]] = []
        for parts in products:
            (large if self._is_large(relation, parts) else small).append(parts)
        rows = expand([product_update(*parts) for parts in small], self._plan.query.schemas[relation], INTEGER_RING)
        if rows or large:
            self._begin()
        if rows:
            self.compiled.apply({relation: self._hidden({relation: rows})[relation].items()})
        if large:
            self.compiled.apply_products(relation, [self._hidden_factors(parts) for parts in large])
        return self._touched()

    def _is_large(self, relation: str, parts: Sequence[Part]) -> bool:
        sizes = [len(rows) for _, rows in parts]
        return prod(sizes) > max(MULTIPLIED_OUT, sum(sizes)) and self.compiled.takes_products(relation)

    def _hidden_factors(self, parts: Sequence[Part]) -> list[Part]:
        return [(schema, self._nulls.hide(schema, rows)) for schema, rows in parts]

    def commit(self) -> None:
        if self.compiled.is_open:
            self.compiled.commit()

    def rollback(self) -> bool:
        if self.compiled.is_open:
            self.compiled.rollback()
        self._known = None
        return True

    def entries(self) -> Mapping[Row, Any]:
        if self._known is None or self._known[0] != self.compiled.epoch:
            keys = self._plan.tree.root.keys
            shown = {self._nulls.show(keys, row): payload for row, payload in self.compiled.entries().items()}
            self._known = (self.compiled.epoch, shown)
        return self._known[1]

    def entries_at(self, keys: Iterable[Row]) -> Mapping[Row, Any]:
        names = self._plan.tree.root.keys
        hidden = self._nulls.hide(names, dict.fromkeys(keys, 0))
        found = self.compiled.entries_at(list(hidden)) if hidden else {}
        return {self._nulls.show(names, row): payload for row, payload in found.items()}

    def _layouts(self) -> dict[str, object]:
        """What the words of each stored view mean, as plain lists."""
        held = self.compiled.held.items()
        return {name: [store.layout.arity, list(store.layout.fields), list(store.layout.kinds)] for name, store in held}

    def save(self, writer: StateWriter) -> dict[str, object]:
        for name, store in self.compiled.held.items():
            writer.words(name, store.packed())
        return self._layouts()

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        known = self._layouts()
        if {ORIGINS: known.get(ORIGINS), **layout} != {ORIGINS: None, **known}:  # earlier versions had no origins
            return False
        self.compiled.restore({name: reader.words(name) for name in layout})
        return True

    def take_over(self, nodes: Mapping[str, Mapping[Row, Any]]) -> None:
        """Continues from the state of a tree on the reference engine."""
        payload = self._plan.query.payload
        variables = payload.continuous if isinstance(payload, CofactorPayload) else ()
        origins, moved = self.compiled.origins.common(variables, nodes)
        contents = stores_of(self.compiled, moved, self._unpack, self._nulls.hide)
        self.compiled.restore(contents | {ORIGINS: self.compiled.origins.words(origins)})

    @property
    def _unpack(self) -> Unpack:
        ring = self._plan.ring
        assert isinstance(ring, CofactorRing)
        return cofactor_form(ring).unpack

    def sizes(self) -> dict[str, int]:
        return self.compiled.sizes()

    def bytes(self) -> int:
        return self.compiled.bytes()


class GeneratedRows(GeneratedTree):
    """A factorised result on flat arrays."""

    def __init__(self, plan: RingPlan, dictionary: StringDictionary, memory: Memories = on_heap) -> None:
        payload = plan.query.payload
        assert isinstance(payload, FactorisedPayload)
        self._result = CompiledResult(plan.tree, types_of(plan), payload.variables, None, dictionary, memory)
        super().__init__(plan, dictionary, memory, self._result.maintained)

    def load(self, relations: Mapping[str, Counted]) -> None:
        self.compiled.apply({name: rows.items() for name, rows in self._hidden(relations).items()})

    @property
    def _unpack(self) -> Unpack:
        return self._result.unpack

    @property
    def count(self) -> int:
        return self._result.count

    def rows(self) -> Iterator[tuple[Row, int]]:
        names = self._result.variables
        return ((self._nulls.show(names, row), weight) for row, weight in self._result.rows())

    def detached(self) -> GeneratedRows:
        """A copy in the memory of this process, to be read."""
        copy = GeneratedRows(self._plan, self.compiled.dictionary)
        for name, store in self.compiled.held.items():
            copy.compiled.stores[name].put_back(store.image())
        return copy

    def columns(self, places: Sequence[int], at_once: int) -> Iterator[tuple[list[Column], Column]]:
        """The rows, not more than so many at a time, as words of listed variables, with their multiplicities.

        Words are those of `ColumnChange`.
        """
        names, types = self._result.variables, self.compiled.types
        stand_in = self.compiled.dictionary.known(NO_TEXT)
        for words, multiplicities in self._result.words(at_once):
            yield (
                [self._nulls.show_words(names[i], words[:, i], types[names[i]], stand_in) for i in places],
                multiplicities,
            )

    def aggregate(self, ring: Ring[Any], lifts: Mapping[str, Lift[Any]]) -> Any:
        return self._result.aggregate(ring, {name: self._nulls.lift(name, lift) for name, lift in lifts.items()})


def types_of(plan: RingPlan) -> dict[str, SqlType]:
    """The type of every variable, if all of them fit a word."""
    found: dict[str, SqlType] = {}
    for relation in plan.query.relations:
        for variable in relation.variables:
            type = variable.scalar.type
            if type.is_wide:
                raise NotCompilable(f"values of {variable.name!r}, a {type}, need not fit 64 bits")
            truth = type.kind is Kind.BOOLEAN and _may_be_null(variable)
            found[variable.name] = (BIGINT if truth else type).with_nullable(False)
    return found


def generated_tree(plan: RingPlan, dictionary: StringDictionary, memory: Memories = on_heap) -> GeneratedTree:
    """The tree of a plan on flat arrays, which holds what is in their memory."""
    if isinstance(plan.query.payload, FactorisedPayload):
        return GeneratedRows(plan, dictionary, memory)
    return GeneratedTree(plan, dictionary, memory)
