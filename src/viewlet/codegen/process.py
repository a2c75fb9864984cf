"""A module of a trigger program in a process, with what its code needs of Python: strings, tables, answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from viewlet.algebra.functions import compile_scalar
from viewlet.algebra.query import Query
from viewlet.changes.word_codec import encode_words, too_wide
from viewlet.codegen.answers import Answers
from viewlet.codegen.encoding import decode, word_of
from viewlet.codegen.instance import ModuleInstance
from viewlet.codegen.module_writer import KEPT, GeneratedModule
from viewlet.codegen.precompile import Helper, compile_alone, share
from viewlet.codegen.scalars import ANSWERS, CALLS, RANKS, STRINGS, Lookup, lookup_name, memo_name
from viewlet.errors import DataError
from viewlet.rings import Dyadic
from viewlet.runtime.add_rows import add_rows, kinds_of, trees_of
from viewlet.runtime.arithmetic import NULL
from viewlet.runtime.control import FAILURE, FULL, NOT_FINITE, TOO_WIDE
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FlatStore, Layout
from viewlet.runtime.functions import UNKNOWN
from viewlet.runtime.jit import ENABLED
from viewlet.runtime.moves import tick
from viewlet.runtime.wide import to_words
from viewlet.types import Datum, Kind, Row, SqlType

Column = Any
Listed = tuple[list[Column], Column]
"""Columns of some rows, and the multiplicities of the rows."""


class Process(ModuleInstance):
    """A module of a trigger program with its stores, ready to be called."""

    def __init__(
        self,
        generated: GeneratedModule,
        dictionary: StringDictionary | None = None,
        make_store: Callable[[Layout], FlatStore] = FlatStore,
    ) -> None:
        stores = {layout.name: make_store(layout) for layout in generated.layouts}
        super().__init__(generated.source, generated.arrays, stores, self._tables, self._tables_version)
        self._own = dict(stores)
        """The stores that are not borrowed; triggers maintain those among them that are in `stores`."""
        self._kept = np.ones(max(len(stores), 1), np.int64)
        self.dictionary = dictionary if dictionary is not None else StringDictionary()
        self.notes: memoryview[int] = memoryview(self.control.data)
        """The control words as Python reads and writes them one by one: much faster than through the array."""
        self._answers = Answers(generated.tables.formulas, self.dictionary)
        self._asks = bool(generated.tables.formulas)
        self._answer_words = np.zeros(max(generated.tables.answers, 1), np.int64)
        self._generated = generated
        self._firsts = {name: self.place(name) for name in stores}
        self._lookups: list[Any] = [np.zeros(1, np.int64) for _ in generated.tables.lookups]
        self._known_changes = -1
        """What `changes` of the dictionary was when the tables of string functions were brought up to date."""
        self._known_sweeps = self.dictionary.sweeps
        self._ranks = np.zeros(1, np.int64)
        self._strings = np.zeros(1, np.int64)
        self.dictionary.add_holder(self)

    def _tables(self) -> dict[str, Any]:
        """The arrays that belong to no store."""
        lookups = {lookup_name(i): table for i, table in enumerate(self._lookups)}
        memos = {memo_name(i): self._answers.memo(i) for i in range(len(self._generated.tables.formulas))}
        others = {STRINGS: self._strings, RANKS: self._ranks, CALLS: self._answers.calls, ANSWERS: self._answer_words}
        self._kept[: len(self.stores)] = [
            self.is_own(name) for name in self.stores
        ]  # in place: the state has its address
        return lookups | memos | others | {KEPT: self._kept}

    def _tables_version(self) -> int:
        return self._known_changes + self._answers.version

    # Stores of other modules

    def is_own(self, name: str) -> bool:
        """Whether this module maintains a store."""
        return self._own.get(name) is self.stores[name]

    def own_stores(self) -> Mapping[str, FlatStore]:
        return {name: store for name, store in self.stores.items() if self.is_own(name)}

    def read_from(self, stores: Mapping[str, FlatStore]) -> None:
        """From now on finds some stores elsewhere, which others maintain, in one step."""
        self.stores = {**self.stores, **stores}
        for name in stores:
            self._own.pop(name, None)

    def keep(self, stores: Mapping[str, FlatStore]) -> None:
        """From now on maintains these stores, in one step."""
        self._own.update(stores)
        self.stores = {**self.stores, **stores}

    def add_rows(self, store: str, rows: Column) -> None:
        """Adds rows, laid out as in a store, to it."""
        target = self.stores[store]
        if target.layout.scanned:
            target.append(rows)
            return
        target.reserve(len(rows))
        pool, layout = target.pool, target.layout
        first = np.int64(self._firsts[store])
        kinds, trees, arity = kinds_of(layout), trees_of(layout), np.int64(layout.arity)
        reals, state = (pool.view(np.float64), rows.view(np.float64)), self.state()
        add_rows(state, first, arity, kinds, layout.transient, trees, pool, reals[0], rows, reals[1], self.control)

    def read_result(self, types: Sequence[SqlType], at_least: int = 0) -> Listed | None:
        """The columns of the result and the multiplicities of its rows, by generated code.

        None where there is no code, fewer rows to read than `at_least`, or a number that did not fit its word.
        """
        function = self._generated.result
        if function is None or sum(len(self.stores[store]) for store in function.stores) < at_least:
            return None
        stores = function.stores
        self.fill_lookups()
        capacity = max(1, sum(len(self.stores[store]) for store in stores))
        while True:
            columns = [np.empty(capacity, np.float64 if type.is_float else np.int64) for type in types]
            weights = np.empty(capacity, np.int64)
            self.control[:] = 0
            found = self.call(function.name, capacity, weights, *columns)
            failure, full = self.control[FAILURE], self.control[FULL]
            self.control[:] = 0
            self.forget_failure()
            if failure:
                return None
            if full:
                self._grow_scratch(stores)
            elif found <= capacity:
                return [column[:found] for column in columns], weights[:found]
            capacity = max(capacity, found)

    def result(self, query: Query, at_least: int) -> dict[Row, int] | None:
        """The rows of a result with their multiplicities, by generated code; None where `read_result` has none.

        Of a query with ORDER BY and LIMIT these are all rows that can be among the first.
        """
        types = [var.type for var in query.output]
        found = self.read_result(types, at_least)
        if found is None:
            return None
        columns, weights = found
        chosen = can_be_first(query, columns)
        if chosen is not None:
            columns, weights = [column[chosen] for column in columns], weights[chosen]
        return self._rows(columns, weights, types)

    def _rows(self, columns: Sequence[Column], weights: Column, types: Sequence[SqlType]) -> dict[Row, int]:
        decoded = [self.decode_column(column, type) for column, type in zip(columns, types, strict=True)]
        listed = zip(*decoded, strict=True) if decoded else [()] * len(weights)
        rows: dict[Row, int] = {}
        for row, weight in zip(listed, weights.tolist(), strict=True):
            rows[row] = rows.get(row, 0) + weight
        return {row: weight for row, weight in rows.items() if weight}

    def compile_all(self, names: Sequence[str]) -> None:
        """Compiles functions of the state alone; those that no cache has are shared with a second process."""
        if not ENABLED:
            return
        cold = [name for name in names if not self.is_cached(name)]
        lengths = self._generated.lengths()
        others = share({name: lengths[name] for name in cold})
        helper = Helper(self.path, len(self._generated.arrays), dict.fromkeys(others)) if others else None
        for name in cold:
            if name not in others:
                compile_alone(self.function(name))
        if helper is not None:
            helper.wait()

    def compute(self, function: str, into: str, scratches: Sequence[str]) -> None:
        """Lets a function fill an empty store; again, with more room, whenever it runs out of it."""
        target = self.stores[into]
        while True:
            self.notes[FULL] = 0
            self.call(function)
            if not self.notes[FULL]:
                return
            if target.is_full:
                target.reserve(2 * target.pool.shape[0])
            else:  # one of those that are emptied on the way
                self._grow_scratch(scratches)
            target.clear()

    def _grow_scratch(self, names: Sequence[str]) -> None:
        """Doubles the room of stores that hold intermediate results."""
        for name in names:
            if self.stores[name].layout.scratch:
                self.stores[name].reserve(2 * self.stores[name].pool.shape[0])

    def check_overflow(self) -> None:
        """Raises what generated code could only note."""
        noted = self.notes[FAILURE]
        if not noted and self._answers.failure is None:
            return
        self.notes[FAILURE] = 0
        if (failure := self._answers.take_failure()) is not None:
            raise failure
        if noted == TOO_WIDE:
            raise too_wide("number")
        raise DataError("a DOUBLE result is not finite" if noted == NOT_FINITE else "a sum overflows its type")

    def forget_notes(self) -> None:
        """Nothing has gone wrong so far."""
        self.control[:] = 0
        self.forget_failure()

    def forget_failure(self) -> None:
        """No answer of Python's counts as failed."""
        failure = self._answers.take_failure()
        if failure is not None and not isinstance(failure, Exception):
            raise failure  # an interrupt

    # Strings

    def fill_lookups(self) -> None:
        """Brings the tables of string functions up to date with the strings that have codes."""
        if self._asks:
            self._answers.make_room()
        while self._known_changes != self.dictionary.changes:
            self._strings = np.array(
                [self.dictionary.code(text) for text in self._generated.tables.strings] or [0], np.int64
            )
            changes, codes = self.dictionary.changes_since(self._known_changes)
            if self._known_sweeps != (sweeps := self.dictionary.sweeps):
                self._forget_unused()
            for i, lookup in enumerate(self._generated.tables.lookups):
                self._lookups[i] = self._extended(self._lookups[i], lookup, codes)
            if "ranks" in self._generated.source:
                self._ranks = self._ranked()
            self._known_sweeps = sweeps
            self._known_changes = changes  # the last: until then the tables count as out of date
            tick()

    def _forget_unused(self) -> None:
        """Tables have no values for codes that are free: generated code may be the first to see what they mean next."""
        unused = np.array([code for code, text in enumerate(self.dictionary.texts) if text is None], np.int64)
        for table in self._lookups:
            table[unused[unused < len(table) - 1] + 1] = UNKNOWN
        self._answers.forget_texts()

    def _extended(self, table: Column, lookup: Lookup, codes: Sequence[int]) -> Column:
        """A table with the values for NULL, which is first, and for these codes."""
        size = len(self.dictionary.texts) + 1
        if len(table) < size:
            grown = np.full(size + size // 4, UNKNOWN, np.int64)
            grown[: len(table)] = table
            table = grown
        if lookup.is_lazy:
            table[[0, *(code + 1 for code in codes)]] = UNKNOWN
            return table
        compute, texts, name = compile_scalar(lookup.scalar), self.dictionary.texts, lookup.var.name
        if self._known_changes < 0:
            table[0] = word_of(compute({name: None}), lookup.scalar.type, self.dictionary)
        for code in codes:
            table[code + 1] = word_of(compute({name: texts[code]}), lookup.scalar.type, self.dictionary)
        return table

    def _ranked(self) -> Column:
        """The place of each string when all are sorted, by code."""
        codes = np.array(self.dictionary.in_use(), np.int64)
        ranks = np.full(len(self.dictionary.texts) + 1, -1, np.int64)
        texts = np.array([self.dictionary.texts[code] for code in codes.tolist()], object)
        ranks[codes[np.argsort(texts, kind="stable")]] = np.arange(len(codes))
        return ranks

    def held_codes(self) -> Column:
        return self._strings

    def derived_codes(self) -> Iterable[Column]:
        lookups = zip(self._generated.tables.lookups, self._lookups, strict=True)
        return [table for lookup, table in lookups if lookup.scalar.type.kind is Kind.VARCHAR]

    # Values and words

    def key_words(self, type: SqlType, values: Sequence[Datum]) -> Column:
        """Values of one type as words of a key; doubles are their bits, and -0.0 is 0.0."""
        column = encode_words(type, values, self.dictionary)
        return (column + 0.0).view(np.int64) if type.is_float else column

    def fill(self, store: str, types: Sequence[SqlType], rows: Sequence[tuple[Row, Sequence[Any]]]) -> None:
        """Makes rows, keys with the numbers of their payload, the contents of a store."""
        target = self.stores[store]
        words = np.zeros((max(len(rows), 0 if types else 1), target.layout.width), np.int64)
        for i, type in enumerate(types):
            column = self.key_words(type, [key[i] for key, _ in rows])
            words[:, i] = column
        for i, (field, kind) in enumerate(zip(target.layout.fields, target.layout.kinds, strict=True)):
            for j, column in enumerate(number_words(kind, [numbers[i] for _, numbers in rows])):
                words[: len(rows), target.layout.offset(field) + j] = column.view(np.int64)
        target.fill(words)

    def decode(self, word: int, type: SqlType) -> Datum:
        return decode(word, type, self.dictionary)

    def decode_column(self, column: Column, type: SqlType) -> list[Datum]:
        values = column.tolist()
        if type.is_float:
            return [None if value != value else value for value in values]
        if type.kind is Kind.VARCHAR:
            texts = self.dictionary.texts
            return [None if value == NULL else texts[value] for value in values]
        if type.kind is Kind.BOOLEAN:
            return [None if value == NULL else bool(value) for value in values]
        return [None if value == NULL else value for value in values] if type.nullable else values


def number_words(kind: str, numbers: Sequence[Any]) -> tuple[Column, ...]:
    """Numbers of one field as the arrays that hold them: one of counts, two of wide integers or double-doubles."""
    if kind == "count":
        return (np.array(numbers, np.int64),)
    if kind == "wide":
        pairs = [to_words(int(number)) for number in numbers]
        return np.array([high for high, _ in pairs], np.int64), np.array([low for _, low in pairs], np.int64)
    firsts = [float(number) for number in numbers]
    rests = [float(Dyadic.of(number) + -Dyadic.of(first)) for number, first in zip(numbers, firsts, strict=True)]
    return np.array(firsts, np.float64), np.array(rests, np.float64)


def can_be_first(query: Query, columns: Sequence[Column]) -> Column | None:
    """Which rows the first column of the order leaves among those within LIMIT, and one more; None for all."""
    if query.limit is None or not query.order or query.order[0].var.type.kind is Kind.VARCHAR:
        return None
    key, wanted = query.order[0], query.limit + query.offset + 1
    column = columns[query.output.index(key.var)]
    missing = np.isnan(column) if key.var.type.is_float else column == NULL
    if len(column) <= wanted or missing.any():
        return None
    if key.descending:
        return np.asarray(column >= np.partition(column, len(column) - wanted)[len(column) - wanted])
    return np.asarray(column <= np.partition(column, wanted - 1)[wanted - 1])
