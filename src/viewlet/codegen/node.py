"""The part of a distributed program at one partition or at the driver: its stores, and the code that changes them.

Contents are passed as columns of words: the words of each key column, then one or two arrays for each number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from viewlet.algebra.query import Query
from viewlet.codegen.blocks import BlockModule, Computation, StoreCopy
from viewlet.codegen.process import Column, Listed, Process
from viewlet.runtime.add_rows import slots_at
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FlatStore, Layout
from viewlet.types import Row, SqlType

APART_FROM, APART_SHARE = 50_000, 0.75
"""Rows from which those that arrive may stay apart, and how many different keys they must have for each of them."""
_FACTOR, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
_SAMPLED = np.uint64(63)
"""The bits of a hash that are zero where a key is looked at."""
READ_BY_CODE_FROM = 10_000
"""Rows of a view from which compiling the reader of a result pays; fewer are read in Python."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Rows of a store: keys as words, doubles among them as their bits, and the arrays of each number by its kind."""

    keys: tuple[Column, ...]
    numbers: tuple[tuple[Column, ...], ...]

    def __len__(self) -> int:
        return len(self.numbers[0][0])

    def negated(self) -> Contents:
        """The rows with all numbers negative."""
        return Contents(self.keys, tuple(_negative(number) for number in self.numbers))

    def parted(self, numbers: Column, count: int) -> dict[int, Contents]:
        """The rows by a number that each has, below `count`; they stay in order."""
        small = numbers.astype(np.uint16 if count <= 1 << 16 else np.int64)  # small numbers are sorted by counting
        sorted_rows = self._at(np.argsort(small, kind="stable"))
        ends = np.cumsum(np.bincount(numbers, minlength=count))
        begins = [0, *ends[:-1]]
        return {i: sorted_rows._at(slice(a, b)) for i, (a, b) in enumerate(zip(begins, ends, strict=True)) if a < b}

    def _at(self, places: Column) -> Contents:
        numbers = tuple(tuple(column[places] for column in number) for number in self.numbers)
        return Contents(tuple(column[places] for column in self.keys), numbers)


Undo = list[tuple[str, Contents, bool]]


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows of a store as they were and as they are; the first of them, `both` in number, are in the same order."""

    before: Column
    after: Column
    both: int


class CompiledNode:
    """The driver, or one partition."""

    def __init__(
        self,
        module: BlockModule,
        dictionary: StringDictionary | None = None,
        make_store: Callable[[Layout], FlatStore] = FlatStore,
    ) -> None:
        self.module = module
        self._process = Process(module.generated, dictionary, make_store)
        self.dictionary = self._process.dictionary
        self.stores = self._process.stores
        self._scratch: CompiledNode | None = None
        self.undo: Undo = []
        """What this batch did to views: what was added, or what there was before it was replaced."""

    def compile_all(self, plan: str, statements: Iterable[int]) -> None:
        """Compiles the code of some statements before it is needed."""
        functions = (self.module.computations[plan, i].function for i in statements)
        self._process.compile_all(list(dict.fromkeys(name for name in functions if name)))

    def key_types(self, store: str) -> tuple[SqlType, ...]:
        return tuple(var.type for var in self.module.keys[store])

    def encode(self, type: SqlType, values: Sequence[object]) -> Column:
        """Values of one type as words of a key."""
        return self._process.key_words(type, values)  # type: ignore[arg-type]

    def decode(self, words: Column, type: SqlType) -> list[object]:
        """Words of a key as values."""
        return self._process.decode_column(words.view(np.float64) if type.is_float else words, type)  # type: ignore[return-value]

    def add(self, store: str, contents: Contents) -> None:
        """Adds rows to a store."""
        self._process.add_rows(store, self._rows(store, contents))
        self._process.check_overflow()

    def arrive(self, store: str, parts: Sequence[Contents]) -> None:
        """Adds rows that have come from elsewhere to a store.

        Many rows that hardly share a key are put behind each other, if the store may have that: entering them into its
        index would bring few of them together.
        """
        kept = self.stores[store]
        if not kept.is_unindexed and not (kept.layout.may_repeat and kept.is_empty and _are_different(parts)):
            for part in parts:
                self.add(store, part)
            return
        kept.reserve(sum(map(len, parts)))
        for part in parts:
            kept.append(self._rows(store, part))

    def replace(self, store: str, contents: Contents) -> None:
        """Makes rows, no two with the same key, the contents of a store."""
        if len(contents):
            self.stores[store].fill(self._rows(store, contents))
        else:
            self.stores[store].clear()

    def _rows(self, store: str, contents: Contents) -> Column:
        """Contents as rows of the store."""
        columns = [*contents.keys, *(column for number in contents.numbers for column in number)]
        rows = np.zeros((len(contents), self.stores[store].layout.width), np.int64)
        for i, column in enumerate(columns):
            rows[:, i] = column.view(np.int64)
        return rows

    def add_change(self, table: str, columns: Callable[[int], Column], multiplicity: Column) -> None:
        """Adds rows to the change of a table; `columns` gives the words of the column at a position."""
        store = self.module.changes.get(table)
        if store is not None:
            keys = tuple(columns(i) for i in self.module.delta_columns[table])
            self.add(store, Contents(keys, ((multiplicity,),)))

    def contents(self, store: str) -> Contents:
        """All rows of a store."""
        kept = self.stores[store]
        return self._contents(store, kept.packed() if kept.layout.arity or not kept.is_empty else kept.pool[:0])

    def _contents(self, store: str, rows: Column) -> Contents:
        """Rows as a store has them, by column."""
        layout = self.stores[store].layout
        keys = tuple(np.ascontiguousarray(rows[:, i]) for i in range(layout.arity))
        numbers = []
        for field, kind in zip(layout.fields, layout.kinds, strict=True):
            at = layout.offset(field)
            words = [np.ascontiguousarray(rows[:, at + i]) for i in range(1 if kind == "count" else 2)]
            numbers.append(tuple(word.view(np.float64) if kind == "double" else word for word in words))
        return Contents(keys, tuple(numbers))

    def run(self, plan: str, statements: Iterable[int]) -> None:
        """Carries out statements of a plan, in the order given."""
        self._process.fill_lookups()
        for i in statements:
            self._carry_out(self.module.computations[plan, i])
        self._process.check_overflow()

    def _carry_out(self, computation: Computation) -> None:
        if computation.replaces and computation.lasts:
            self.undo.append((computation.target, self.contents(computation.target), True))
        if computation.copied is not None and self._can_add(computation.copied.source, computation.target):
            self._add(computation, self._copy(computation.copied))
            return
        if not self.stores[computation.into].is_empty:
            self.stores[computation.into].clear()
        if computation.copied is not None:
            self._process.add_rows(computation.into, self._copy(computation.copied))
        else:
            self._process.compute(computation.function, computation.into, computation.scratches)
        if not computation.replaces:
            self._add(computation, self.stores[computation.into].packed())

    def _can_add(self, source: str, target: str) -> bool:
        """The rows of a store can be added to another as they are.

        What is added to the view that is shown has no key twice, for that tells which of its rows have changed.
        """
        kept = self.stores[source]
        return not (kept.layout.scanned or (kept.is_unindexed and target == self.module.shown))

    def _add(self, computation: Computation, rows: Column) -> None:
        """Adds rows to what a statement changes."""
        if computation.lasts:
            self.undo.append((computation.target, self._contents(computation.target, rows), False))
        self._process.add_rows(computation.target, rows)

    def _copy(self, copied: StoreCopy) -> Column:
        """Rows of one store as another takes them."""
        source = self.stores[copied.source].packed()
        if copied.words == tuple(range(source.shape[1])):
            return source
        rows = np.zeros((len(source), len(copied.words)), np.int64)
        for i, word in enumerate(copied.words):
            if word is not None:
                rows[:, i] = source[:, word]
        return rows

    def take_back(self) -> None:
        """Undoes what was done to views since `end_batch`; sums of doubles may keep an error below their last digit."""
        for store, contents, replaced in reversed(self.undo):
            if replaced:
                self.replace(store, contents)
            else:
                self.add(store, contents.negated())
        self.undo.clear()

    @property
    def result(self) -> CompiledResult:
        """The result that its own module reads."""
        return CompiledResult(self, self.module, self._process)

    def other_result(self, reader: BlockModule) -> CompiledResult:
        """A result that another module reads from the stores of this one (`codegen/reader.py`)."""
        stores = self.stores

        def store_of(layout: Layout) -> FlatStore:
            return FlatStore(layout) if layout.scratch else stores[layout.name]

        return CompiledResult(self, reader, Process(reader.generated, self.dictionary, store_of))

    @property
    def beside(self) -> CompiledNode:
        """Other stores for the same code, to compute something on the side."""
        if self._scratch is None:
            self._scratch = CompiledNode(self.module, self.dictionary)
        return self._scratch

    def _added(self, store: str) -> list[Contents]:
        """What this batch has added to a view; if it is shown, no key occurs twice in one of them."""
        return [contents for name, contents, replaced in self.undo if name == store and not replaced]

    def touched(self, store: str) -> list[tuple[Column, ...]]:
        """The keys of a view that this batch has added something to."""
        return [contents.keys for contents in self._added(store)]

    def counts(self, store: str, keys: tuple[Column, ...]) -> Column:
        """The first number of some keys, which is a count; 0 where there is no row."""
        slots = self._slots(store, np.column_stack(keys))
        counts: Column = np.where(slots < 0, 0, self.stores[store].pool[slots, self.stores[store].layout.arity])
        return counts

    def _slots(self, store: str, keys: Column) -> Column:
        kept = self.stores[store]
        found = np.zeros(len(keys), np.int64)
        slots_at(kept.pool, kept.index, np.ascontiguousarray(keys), found)
        return found

    def changed(self, store: str) -> tuple[Contents, Contents]:
        """The rows of a view of exact numbers that this batch has changed, as they were and as they are."""
        rows = self.changed_rows(store)
        return self._contents(store, rows.before), self._contents(store, rows.after)

    def added_rows(self, store: str) -> int:
        """How many rows this batch has added to a view."""
        return sum(map(len, self._added(store)))

    def changed_rows(self, store: str) -> ChangedRows:
        """The rows of a view of exact numbers that this batch has changed, as the store has them."""
        kept, added = self.stores[store], self._net_added(store)
        arity = kept.layout.arity
        slots = self._slots(store, added[:, :arity])
        after = kept.pool[slots]
        after[slots < 0] = 0
        after[:, :arity] = added[:, :arity]
        before = _difference(kept.layout, after, added)
        was, is_now = before[:, arity:].any(axis=1), after[:, arity:].any(axis=1)
        both = was & is_now
        return ChangedRows(
            np.concatenate([before[both], before[was & ~both]]),
            np.concatenate([after[both], after[is_now & ~both]]),
            int(both.sum()),
        )

    def _net_added(self, store: str) -> Column:
        """What this batch has added to a view in all, as rows of the store, each key once."""
        added = self._added(store)
        if not added:
            return self.stores[store].pool[:0]
        is_shown = store == self.module.shown  # what is added to other views may have a key twice
        if len(added) == 1 and is_shown:
            return self._rows(store, added[0])
        total = self.beside.stores[store]
        try:
            if is_shown:
                self.beside.replace(store, added[0])
            for contents in added[1 if is_shown else 0 :]:
                self.beside.add(store, contents)
            return total.packed()
        finally:
            total.clear()

    def end_batch(self) -> None:
        """Discards the state of the batch, which can no longer be rolled back."""
        self.undo.clear()
        for name in (*self.module.temporaries.values(), *self.module.changes.values()):
            if not self.stores[name].is_empty:
                self.stores[name].clear()


class CompiledResult:
    """A result over the stores of a node that a module has code for: the one of the node, or another one."""

    def __init__(self, node: CompiledNode, module: BlockModule, process: Process) -> None:
        self._node = node
        self._module = module
        self._process = process
        self._scratch: CompiledNode | None = None

    def rows(self, query: Query) -> dict[Row, int] | None:
        """The result by generated code; None where there is none, where it does not pay, or if a number did not fit.

        Of a query with ORDER BY and LIMIT these are all rows that can be among the first.
        """
        return self._process.result(query, READ_BY_CODE_FROM)

    def columns(self, query: Query) -> Listed | None:
        """The columns of the result and the multiplicities of its rows; None where `rows` has none."""
        return self._process.read_result([var.type for var in query.output], READ_BY_CODE_FROM)

    def change(self, query: Query, store: str, keys: Sequence[int]) -> tuple[Listed, bool] | None:
        """What this batch has done to a result whose rows are each made of one of a view: rows as they are and were.

        Those as they were have negative multiplicities. None where `columns` has none, or few rows have changed.
        True if no row is listed twice: `keys` are the columns of the result that are the keys of the view, if it has
        all of them, so that a row as it was can only equal the one that was made of the same key.
        """
        if self._node.added_rows(store) < READ_BY_CODE_FROM:
            return None
        types = [var.type for var in query.output]
        rows = self._node.changed_rows(store)
        found = []
        reader = self._module.generated.result
        is_scan = reader is not None and reader.scans
        beside = self._beside
        try:
            for each in (rows.after, rows.before):
                beside.stores[store].fill(each, indexed=not is_scan)
                found.append(beside.result._process.read_result(types))
        finally:
            beside.stores[store].clear()
        after, before = found
        if after is None or before is None:
            return None
        lists_each = keys and len(after[1]) == len(rows.after) and len(before[1]) == len(rows.before)
        if lists_each and all(np.array_equal(after[0][i][: rows.both], before[0][i][: rows.both]) for i in keys):
            return _net(after, before, rows.both), True
        return _both(after, before), False

    @property
    def _beside(self) -> CompiledNode:
        """Other stores for the same code, to compute something on the side."""
        if self._module is self._node.module:
            return self._node.beside
        if self._scratch is None:
            self._scratch = CompiledNode(self._module, self._node.dictionary)
        return self._scratch


def _are_different(parts: Sequence[Contents]) -> bool:
    """There are many rows, most of them with keys of their own: all rows of some keys are looked at."""
    if sum(map(len, parts)) < APART_FROM:
        return False
    found: Column = np.concatenate([_some_keys(part) for part in parts])
    return len(np.unique(found)) >= APART_SHARE * len(found)


def _some_keys(contents: Contents) -> Column:
    """Hashes of the keys whose hashes happen to end in zeros."""
    hashes = np.zeros(len(contents), np.uint64)
    for words in contents.keys:
        hashes = (hashes ^ words.view(np.uint64)) * _FACTOR
        hashes ^= hashes >> _HALF
    return hashes[hashes & _SAMPLED == 0]


def _negative(number: tuple[Column, ...]) -> tuple[Column, ...]:
    if len(number) == 1 or number[0].dtype == np.float64:
        return tuple(-column for column in number)
    high, low = number
    return np.where(low == 0, -high, ~high), -low


def _net(after: Listed, before: Listed, count: int) -> Listed:
    """What has come, and what has gone, where only rows at the same of the first places of both lists can be equal."""
    equal = np.ones(count, bool)
    for one, other in zip(after[0], before[0], strict=True):
        equal &= one[:count] == other[:count]
    more = after[1].copy()
    more[:count] -= np.where(equal, before[1][:count], 0)
    return _both(_without((after[0], more), more[:count] == 0), _without(before, equal))


def _without(listed: Listed, dropped: Column) -> Listed:
    """A list of rows without some of the first ones."""
    kept = np.ones(len(listed[1]), bool)
    kept[: len(dropped)] = ~dropped
    return [column[kept] for column in listed[0]], listed[1][kept]


def _both(after: Listed, before: Listed) -> Listed:
    """What has come, and what has gone."""
    columns = [np.concatenate(pair) for pair in zip(after[0], before[0], strict=True)]
    return columns, np.concatenate([after[1], -before[1]])


def _difference(layout: Layout, rows: Column, taken: Column) -> Column:
    """Rows of exact numbers without what others of the same keys have."""
    found: Column = rows.copy()
    for field, kind in zip(layout.fields, layout.kinds, strict=True):
        at = layout.offset(field)
        if kind == "count":
            found[:, at] -= taken[:, at]
        else:
            borrow = rows[:, at + 1].view(np.uint64) < taken[:, at + 1].view(np.uint64)
            found[:, at] -= taken[:, at] + borrow
            found[:, at + 1] -= taken[:, at + 1]
    return found
