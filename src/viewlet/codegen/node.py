"""The part of a distributed program at one partition or at the driver: its stores, and the code that changes them.

Contents are passed as columns of words: the words of each key column, then one or two arrays for each number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from viewlet.codegen.affected_rows import ChangedRows, affected_rows
from viewlet.codegen.blocks import BlockModule, Computation, StoreCopy
from viewlet.codegen.process import Column, Process
from viewlet.runtime.add_rows import slots_at
from viewlet.runtime.arithmetic import SMALL
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FlatStore, Layout
from viewlet.triggers.result import TermSources
from viewlet.types import SqlType

APART_FROM, APART_SHARE = 50_000, 0.75
"""Rows from which those that arrive may stay apart, and how many different keys they must have for each of them."""
_FACTOR, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
_SAMPLED = np.uint64(63)
"""The bits of a hash that are zero where a key is looked at."""


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


Images = dict[str, list[Column]]
"""Rows of stores before they were changed."""


class CompiledNode:
    """The driver, or one partition."""

    def __init__(
        self,
        module: BlockModule,
        dictionary: StringDictionary | None = None,
        make_store: Callable[[Layout], FlatStore] = FlatStore,
    ) -> None:
        self.module = module
        self.process = Process(module.generated, dictionary, make_store)
        self.dictionary = self.process.dictionary
        self.stores = self.process.stores
        self._scratch: CompiledNode | None = None
        self.undo: Undo = []
        """What this batch did to views: what was added, or what there was before it was replaced."""
        self.images: Images = {}
        """Rows as they were when this batch first changed them, of watched views with sums of doubles."""
        self._imaged: frozenset[str] = frozenset()

    def compile_all(self, plan: str, statements: Iterable[int]) -> None:
        """Compiles the code of some statements before it is needed."""
        functions = (self.module.computations[plan, i].function for i in statements)
        self.process.compile_all(list(dict.fromkeys(name for name in functions if name)))

    def key_types(self, store: str) -> tuple[SqlType, ...]:
        return tuple(var.type for var in self.module.keys[store])

    def encode(self, type: SqlType, values: Sequence[object]) -> Column:
        """Values of one type as words of a key."""
        return self.process.key_words(type, values)  # type: ignore[arg-type]

    def decode(self, words: Column, type: SqlType) -> list[object]:
        """Words of a key as values."""
        return self.process.decode_column(words.view(np.float64) if type.is_float else words, type)  # type: ignore[return-value]

    def add(self, store: str, contents: Contents) -> None:
        """Adds rows to a store."""
        self.process.add_rows(store, self._rows(store, contents))
        self.process.check_overflow()

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
        self.replace_rows(store, self._rows(store, contents))

    def replace_rows(self, store: str, rows: Column, indexed: bool = True) -> None:
        """Like `replace`, for rows as the store has them; unless they are `indexed`, they can only be scanned."""
        if len(rows):
            self.stores[store].fill(rows, indexed=indexed)
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
        return self.contents_of(store, self._all_rows(store))

    def _all_rows(self, store: str) -> Column:
        kept = self.stores[store]
        return kept.packed() if kept.layout.arity or not kept.is_empty else kept.pool[:0]

    def contents_of(self, store: str, rows: Column) -> Contents:
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
        self.process.fill_lookups()
        for i in statements:
            self._carry_out(self.module.computations[plan, i])
        self.process.check_overflow()

    def _carry_out(self, computation: Computation) -> None:
        if computation.replaces and computation.lasts:
            self.undo.append((computation.target, self.contents(computation.target), True))
        if computation.copied is not None and self._can_add(computation.copied.source, computation.target):
            self._add(computation, self._copy(computation.copied))
            return
        if not self.stores[computation.into].is_empty:
            self.stores[computation.into].clear()
        if computation.copied is not None:
            self.process.add_rows(computation.into, self._copy(computation.copied))
        else:
            self.process.compute(computation.function, computation.into, computation.scratches)
        self.process.check_overflow()
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
        if computation.lasts and self._has_large(computation.target, rows):
            self.undo.append((computation.target, self.contents(computation.target), True))
        elif computation.lasts:
            if computation.target in self._imaged:
                self._keep_image(computation.target, rows)
            self.undo.append((computation.target, self.contents_of(computation.target, rows), False))
        self.process.add_rows(computation.target, rows)

    def _has_large(self, store: str, rows: Column) -> bool:
        """Whether some rows have doubles too large to be taken back from a sum."""
        layout = self.stores[store].layout
        fields = zip(layout.fields, layout.kinds, strict=True)
        words = [layout.offset(field) for field, kind in fields if kind == "double"]
        return bool(words) and not bool((np.abs(rows.view(np.float64)[:, words]) <= SMALL).all())

    def watch(self, views: Iterable[str]) -> None:
        """From now on `changed_rows` is asked for these views too.

        What a sum of doubles was cannot be told from what it is and what was added.
        """
        self._imaged |= {name for name in views if "double" in self.stores[name].layout.kinds}

    def unwatch(self) -> None:
        """From now on `changed_rows` is asked for no views."""
        self._imaged = frozenset()

    def _keep_image(self, store: str, changes: Column) -> None:
        """Notes the rows that are about to change, unless all of them have been replaced before."""
        if any(name == store and replaced for name, _, replaced in self.undo):
            return
        kept = self.stores[store]
        slots = self._slots(store, changes[:, : kept.layout.arity])
        self.images.setdefault(store, []).append(_at(kept, slots, changes))

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
        self.images.clear()

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
        """Where a store has the rows with some keys; less than zero for those it does not have."""
        kept = self.stores[store]
        found = np.zeros(len(keys), np.int64)
        if kept.layout.arity:
            slots_at(kept.pool, kept.index, np.ascontiguousarray(keys), found)
        return found

    def added_rows(self, store: str) -> int:
        """How many rows this batch has added to a view."""
        return sum(map(len, self._added(store)))

    def changed_rows(self, store: str) -> ChangedRows:
        """The rows of a view that this batch has changed, as the store has them."""
        if any(name == store and replaced for name, _, replaced in self.undo):
            return ChangedRows(self._replaced(store), self.stores[store].packed(), 0)
        kept, layout = self.stores[store], self.stores[store].layout
        if store in self._imaged:
            before = self._image(store)
            after = _at(kept, self._slots(store, before[:, : layout.arity]), before)
        else:
            added = self._net_added(store)
            after = _at(kept, self._slots(store, added[:, : layout.arity]), added)
            before = _difference(layout, after, added)
        was, is_now = before[:, layout.arity :].any(axis=1), after[:, layout.arity :].any(axis=1)
        both = was & is_now
        return ChangedRows(
            np.concatenate([before[both], before[was & ~both]]),
            np.concatenate([after[both], after[is_now & ~both]]),
            int(both.sum()),
        )

    def _image(self, store: str) -> Column:
        """The rows of a store that this batch has changed as they were, each key once."""
        kept = self.stores[store]
        images = self.images.get(store)
        if images is None:
            return kept.pool[:0]
        rows = np.concatenate(images)
        if not kept.layout.arity:
            return rows[:1]
        _, first = np.unique(rows[:, : kept.layout.arity], axis=0, return_index=True)
        return np.asarray(rows[first])

    def _replaced(self, store: str) -> Column:
        """The rows that a store had before this batch, which has replaced them."""
        own = [(contents, replaced) for name, contents, replaced in self.undo if name == store]
        first = next(i for i, (_, replaced) in enumerate(own) if replaced)
        if not first:
            return self._rows(store, own[0][0])
        images = self._image(store)
        with self._set_aside(store) as aside:
            self.beside.replace(store, own[first][0])
            for contents, _ in own[:first]:
                self.beside.add(store, contents.negated())
            slots = self.beside._slots(store, images[:, : aside.layout.arity])
            aside.pool[slots[slots >= 0]] = images[slots >= 0]  # exactly as they were, where doubles have rounded
            return aside.packed()

    def _net_added(self, store: str) -> Column:
        """What this batch has added to a view in all, as rows of the store, each key once."""
        added = self._added(store)
        if not added:
            return self.stores[store].pool[:0]
        if len(added) == 1 and store == self.module.shown:
            return self._rows(store, added[0])
        with self._set_aside(store) as total:
            for contents in added:
                self.beside.add(store, contents)
            return total.packed()

    @contextmanager
    def _set_aside(self, store: str) -> Iterator[FlatStore]:
        """A store of the same layout, to compute something in."""
        try:
            yield self.beside.stores[store]
        finally:
            self.beside.stores[store].clear()

    def affected(self, terms: Sequence[TermSources], constant: Iterable[str] = ()) -> dict[str, ChangedRows]:
        """The rows from which the change of a result can be told, by view: see `affected_rows`; all `constant` ones."""
        views = dict.fromkeys(view for term in terms for view, _ in term.positions)
        changed = {view: self.changed_rows(view) for view in views}
        found = affected_rows(terms, changed, self.stores, self._slots)
        return found | {name: ChangedRows(rows := self._all_rows(name), rows, 0) for name in constant}

    @contextmanager
    def compared_with(self, before: Mapping[str, Contents], has_run: bool) -> Iterator[None]:
        """For a while the batch counts as having replaced the contents of some stores, which were these `before`.

        Unless it `has_run` here, what was done last belongs to an earlier batch, and does not count.
        """
        undo, images = self.undo, self.images
        try:
            self.undo = [*(undo if has_run else ()), *((name, contents, True) for name, contents in before.items())]
            self.images = images if has_run else {}
            yield
        finally:
            self.undo, self.images = undo, images

    def is_changed(self, store: str) -> bool:
        """The batch has done something to a view."""
        return any(name == store for name, _, _ in self.undo)

    def end_batch(self) -> None:
        """Discards the state of the batch, which can no longer be rolled back."""
        self.undo.clear()
        self.images.clear()
        for name in (*self.module.temporaries.values(), *self.module.changes.values()):
            if not self.stores[name].is_empty:
                self.stores[name].clear()


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


def _at(store: FlatStore, slots: Column, keyed: Column) -> Column:
    """The rows of a store at some slots; those it does not have are zeros behind the keys of `keyed`."""
    rows: Column = store.pool[slots]
    rows[slots < 0] = 0
    rows[:, : store.layout.arity] = keyed[:, : store.layout.arity]
    return rows


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
