"""A view in flat arrays: its layout, its growth, and reading it from Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from viewlet.rings import Dyadic
from viewlet.runtime.memory import HEAP, Memory
from viewlet.runtime.moves import tick
from viewlet.runtime.ordered_index import KEPT, SUMS, build, specification
from viewlet.runtime.probe import (
    ALIVE,
    FREE,
    META_WORDS,
    NO_SLOT,
    ROOM,
    SIZE,
    SLICES,
    TOUCHED,
    TOUCHED_SLOTS,
    UNINDEXED,
    rebuild,
)
from viewlet.runtime.refill import index_rows, link_rows
from viewlet.runtime.weak_list import WeakList
from viewlet.runtime.wide import from_words

Words = npt.NDArray[np.int64]
Item = tuple[tuple[int, ...], tuple[Any, ...]]
"""A row: the words of its key and the numbers of its payload."""
Entries = npt.NDArray[np.uint64]
Image = tuple[dict[str, Any], dict[str, list[Any]]]
_SINGLE, _MANY = ("pool", "live", "meta", "index", "before", "touched"), ("heads", "links", "tree", "spec")
WIDTHS = {"count": 1, "wide": 2, "double": 2}
_FIRST_CAPACITY = 4
_ROWS_AT_ONCE = 1 << 16
_DOUBLED_BELOW = 1024
"""Rows up to which a pool doubles; a larger one grows by a quarter, for its spare rows cost more than copying does."""


PartKind = Literal["pool", "index", "meta", "live", "heads", "links", "tree", "spec", "before", "touched", "floats"]


@dataclass(frozen=True, slots=True)
class Part:
    """One array of a store; those of a slice or of an ordered index have its number."""

    kind: PartKind
    number: int | None = None

    def __str__(self) -> str:
        return self.kind if self.number is None else f"{self.kind}{self.number}"


POOL = Part("pool")
FLOATS = Part("floats")
"""The words of the pool as doubles."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """An ordered index: over words of the key, then over the number in a field if one is named.

    Over the key alone it has sums of all fields, and tracks whether a watched field is negative anywhere.
    """

    positions: tuple[int, ...]
    field: str = ""
    watched: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the words of a row are: keys first, then each field, `kinds` being count, wide or double."""

    name: str
    arity: int
    fields: tuple[str, ...]
    kinds: tuple[str, ...]
    slices: tuple[tuple[int, ...], ...] = ()
    ordered: tuple[Ordered, ...] = ()
    journaled: bool = False
    """Whether it can be asked which rows have changed."""
    transient: bool = False
    """Whether it holds changes for one batch: its rows leave only when all numbers are zero."""
    scratch: bool = False
    """Whether it holds an intermediate result, which the code computes again if there is no room for it."""
    scanned: bool = False
    """Whether its rows are only ever read one after the other and added up: there is no index, and keys may repeat."""
    may_repeat: bool = False
    """Whether its rows are only ever read one after the other, so that it may do without the index, and keys repeat."""
    doubles: bool = False
    """Whether some of its counts are the bits of doubles, which only the code that reads them can tell."""

    def offset(self, field: str) -> int:
        before = self.fields.index(field)
        return self.arity + sum(WIDTHS[kind] for kind in self.kinds[:before])

    def kind(self, field: str) -> str:
        return self.kinds[self.fields.index(field)]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The arrays of a store, in the order `probe.enter` relies on."""
        floats = (FLOATS,) if self.doubles or "double" in self.kinds else ()
        journal = (Part("before"), Part("touched")) if self.journaled else ()
        if not self.arity:
            return (POOL, *journal, *floats)
        slices = [part for j in range(len(self.slices)) for part in (Part("heads", j), Part("links", j))]
        trees = [part for j in range(len(self.ordered)) for part in (Part("tree", j), Part("spec", j))]
        return (POOL, Part("index"), Part("meta"), Part("live"), *slices, *trees, *journal, *floats)

    @property
    def width(self) -> int:
        return max(1, self.arity + sum(WIDTHS[kind] for kind in self.kinds))

    def tree_offset(self, field: str) -> int:
        """Where the sums of a field are in a node of an ordered index."""
        return SUMS + self.offset(field) - self.arity

    def tree_width(self, number: int) -> int:
        """Words per node of an ordered index."""
        return SUMS if self.ordered[number].field else SUMS + sum(WIDTHS[kind] for kind in self.kinds)

    def specification(self, order: Ordered) -> Words:
        """The spec of an ordered index, not kept yet."""
        if order.field:
            at, wide = self.offset(order.field), self.kind(order.field) == "wide"
            words = (at, at + 1) if wide else (at,)
            return specification((*order.positions, *words), True, wide, ())
        fields = [
            (self.offset(field), kind, self.tree_offset(field), field in order.watched)
            for field, kind in zip(self.fields, self.kinds, strict=True)
        ]
        return specification(order.positions, False, False, fields)


_IN_MEMORY: WeakList[FlatStore] = WeakList()


class FlatStore:
    """A store in flat arrays, which live in `memory`; existing arrays are used as they are."""

    def __init__(self, layout: Layout, memory: Memory = HEAP) -> None:
        self.layout = layout
        self.version = 0
        """Grows whenever an array moves."""
        self._memory = memory
        if memory is HEAP:
            _IN_MEMORY.add(self)
        self._attach()
        self.before: Words = np.zeros((0, layout.width), np.int64)
        self.touched: Words = np.zeros(1, np.int64)
        if memory.is_new:
            self.clear()

    def _attach(self) -> None:
        """Finds the arrays in memory."""
        layout, memory = self.layout, self._memory
        capacity = _FIRST_CAPACITY if layout.arity else 1
        slices = range(len(layout.slices))
        self.pool: Words = memory.first("pool", (capacity, layout.width), np.int64)
        self.live = memory.first("live", (capacity,), np.uint8)
        self.meta: Words = memory.first("meta", (META_WORDS + len(slices) * (layout.arity + 3),), np.int64)
        self.index: Entries = memory.first("index", (_index_size(capacity if layout.arity else 0),), np.uint64)
        self.heads = [memory.first(f"heads{j}", (_index_size(capacity),), np.uint64) for j in slices]
        self.links = [memory.first(f"links{j}", (capacity, 2), np.int32) for j in slices]
        self.tree: list[Words] = []
        self.spec: list[Words] = []
        for j, order in enumerate(layout.ordered):
            spec = layout.specification(order)
            self.tree.append(memory.first(f"tree{j}", (capacity + 1, layout.tree_width(j)), np.int64))
            self.spec.append(memory.first(f"spec{j}", spec.shape, np.int64))
            if memory.is_new:
                self.spec[j][:] = spec

    def _move(self) -> None:
        """Arrays move: callers that hold their addresses have to ask for them again."""
        self.version += 1
        tick()

    def attach_again(self) -> None:
        """Attaches to arrays that another process has written."""
        self._move()
        self._memory.is_new = False
        self._attach()

    def clear(self) -> None:
        """Empties the store; its arrays stay where they are."""
        if (self.layout.scanned or self.is_unindexed) and self.meta[SIZE]:
            self.live[: self.meta[SIZE]] = 0
            self.meta[SIZE] = self.meta[ALIVE] = 0
            self.meta[FREE] = NO_SLOT
            self._count_room()
            return
        everything: tuple[Any, ...] = (self.pool, self.live, self.meta, self.index, *self.heads, *self.tree)
        for array in everything:
            array.fill(0)
        for spec in self.spec:
            spec[KEPT] = 0
        self.touched.fill(0)
        self.meta[FREE] = NO_SLOT
        self.meta[SLICES] = len(self.layout.slices)
        for j, positions in enumerate(self.layout.slices):
            at = self._slice_at(j)
            self.meta[at] = len(positions)
            self.meta[at + 1 : at + 1 + len(positions)] = positions
        if not self.layout.arity:
            self.live[0] = 1
            self.meta[SIZE] = self.meta[ALIVE] = 1
        self._count_room()

    def drain(self) -> None:
        """Empties the store and gives its memory back; may be done again after an exception."""
        fresh = FlatStore(self.layout)
        if len(self.before):
            fresh.keep_journal()
        self.put_back(fresh.image())

    def _slice_at(self, j: int) -> int:
        """Where the positions of slice j are told."""
        return META_WORDS + 2 * len(self.layout.slices) + j * (self.layout.arity + 1)

    def _chains(self, j: int) -> int:
        """How many distinct parts slice j has."""
        return int(self.meta[META_WORDS + len(self.layout.slices) + j])

    def __len__(self) -> int:
        return int(self.meta[ALIVE])

    def rows_with(self, field: str) -> int:
        """How many rows have another number than zero in a field."""
        size, at = int(self.meta[SIZE]), self.layout.offset(field)
        some = self.pool[:size, at] != 0
        if self.layout.kind(field) == "wide":
            some |= self.pool[:size, at + 1] != 0
        if size != self.meta[ALIVE]:
            some &= self.live[:size] != 0
        return int(np.count_nonzero(some))

    @property
    def is_empty(self) -> bool:
        """Nothing has been put into it since it was cleared."""
        if self.layout.arity:
            return not self.meta[SIZE]
        return not self.pool.any()

    @property
    def is_full(self) -> bool:
        """There is no room for another row."""
        return bool(self.layout.arity) and int(self.meta[ROOM]) <= 0

    @property
    def is_unindexed(self) -> bool:
        """Its rows have been put behind each other (`append`), although it has an index."""
        return int(self.meta[FREE]) == UNINDEXED

    @property
    def is_shared(self) -> bool:
        """Other processes may see its arrays."""
        return self._memory is not HEAP

    def array(self, part: Part) -> Any:
        if part == FLOATS:
            return self.pool.view(np.float64)
        found = getattr(self, part.kind)
        return found if part.number is None else found[part.number]

    def reserve(self, rows: int) -> bool:
        """Makes room for so many new rows; says whether the arrays moved."""
        if not self.layout.arity or self.meta[ROOM] >= rows:
            return False
        version, capacity = self.version, self.pool.shape[0]
        spare = capacity - len(self)
        if spare < max(rows, capacity // 16):
            spare = max(rows, spare + (capacity if capacity < _DOUBLED_BELOW else capacity // 4))
            self._resize(len(self) + spare)
        for j, heads in enumerate(self.heads):
            self.heads[j] = self._roomy(f"heads{j}", heads, self._chains(j) + max(rows, spare // 4))
        self._count_room()
        return self.version != version

    def repair(self) -> None:
        """Completes a `reserve` that an exception cut short: all arrays of rows have the same capacity again."""
        if self.layout.arity:
            arrays = (self.pool, self.live, *self.links)
            self._resize(max(len(array) for array in arrays))
            self._count_room()

    def image(self) -> Image:
        """A copy of everything, for `put_back`."""
        single = {part: getattr(self, part).copy() for part in _SINGLE}
        return single, {part: [array.copy() for array in getattr(self, part)] for part in _MANY}

    def put_back(self, image: Image) -> None:
        """Makes everything what it was when the image was made; the image is used up."""
        self._move()
        for part, array in (image[0] | image[1]).items():
            setattr(self, part, array)

    def _resize(self, capacity: int) -> None:
        """Gives every array of rows this capacity, and the index what it takes; may be done again."""
        self._move()
        grown = self._memory.grown
        self.pool = grown("pool", self.pool, capacity)
        self.live = grown("live", self.live, capacity)
        for j in range(len(self.links)):
            self.links[j] = grown(f"links{j}", self.links[j], capacity)
        for j in range(len(self.tree)):
            if self.spec[j][KEPT]:
                self.tree[j] = grown(f"tree{j}", self.tree[j], capacity + 1)
            else:
                self.tree[j] = self._memory.zeros(f"tree{j}", (capacity + 1, self.tree[j].shape[1]), np.int64)
        if len(self.before):
            self._grow_journal(capacity)
        if not self.layout.scanned:
            self.index = self._roomy("index", self.index, capacity)

    def _roomy(self, part: str, index: Entries, entries: int) -> Entries:
        """The index, or a larger one with the same entries if it could not take so many."""
        if entries <= _entries(index.shape[0]):
            return index
        return self._rebuilt(part, index, entries)

    def _rebuilt(self, part: str, index: Entries, entries: int) -> Entries:
        """An index for so many entries with those of another one."""
        self._move()
        other: Entries = self._memory.zeros(part, (_index_size(entries),), np.uint64)
        rebuild(index, other)
        return other

    def _count_room(self) -> None:
        """Rows that may be added: each takes a slot, and may begin a chain in every slice."""
        room = self.pool.shape[0] - len(self)
        for j, heads in enumerate(self.heads):
            room = min(room, _entries(heads.shape[0]) - self._chains(j))
        self.meta[ROOM] = room

    def keep_orders(self) -> None:
        """Builds the ordered indexes, whatever the number of rows."""
        for tree, spec in zip(self.tree, self.spec, strict=True):
            build(self.pool, self.live, self.meta, tree, spec)

    def keep_journal(self) -> None:
        """From now on `take_journal` tells which rows have changed."""
        if self.layout.journaled and not len(self.before):
            self._move()
            self._grow_journal(self.pool.shape[0])

    def _grow_journal(self, capacity: int) -> None:
        slots = self._touched_slots()
        touched = np.zeros(TOUCHED_SLOTS + 2 * capacity, np.int64)
        touched[TOUCHED] = len(slots)
        touched[TOUCHED_SLOTS : TOUCHED_SLOTS + len(slots)] = slots
        touched[TOUCHED_SLOTS + capacity + slots] = 1
        self.before = HEAP.grown("before", self.before, capacity)
        self.touched = touched

    def _touched_slots(self) -> Words:
        return self.touched[TOUCHED_SLOTS : TOUCHED_SLOTS + self.touched[TOUCHED]].copy()

    def take_journal(self) -> tuple[list[Item], list[Item]]:
        """The rows that have changed since the last time, as they were and as they are."""
        slots = self._touched_slots()
        self.touched[TOUCHED_SLOTS + len(self.before) + slots] = 0
        self.touched[TOUCHED] = 0
        was = self.before[slots, self.layout.arity :].any(axis=1)  # a row that is new was all zeros
        return list(self._rows(self.before, slots[was])), list(self._rows(self.pool, slots[self.live[slots] != 0]))

    def forget_journal(self) -> None:
        """No row counts as changed, whatever an exception has left of the journal."""
        self.touched.fill(0)

    def packed(self) -> Words:
        """A copy of the rows alive, without anything between them: what `fill` takes."""
        size = self.meta[SIZE]
        if size == self.meta[ALIVE]:
            return self.pool[:size].copy()
        rows: Words = self.pool[:size][self.live[:size] != 0]
        return rows

    def append(self, rows: Words) -> None:
        """Puts rows behind those of a store that is only scanned, or that may be (`Layout.may_repeat`)."""
        self.reserve(len(rows))
        if not self.layout.scanned:
            self.meta[FREE] = UNINDEXED
        begin = int(self.meta[SIZE])
        end = begin + len(rows)
        self.pool[begin:end] = rows
        self.live[begin:end] = 1
        self.meta[SIZE] = self.meta[ALIVE] = end
        self._count_room()

    def fill(self, rows: Words, indexed: bool = True) -> None:
        """Replaces everything by rows with distinct keys, as `packed` gave them.

        Without the indexes, they can be read one after the other until the store is cleared, and nothing else.
        """
        self.clear()
        if not self.layout.arity:
            self.pool[:] = rows
            return
        count = rows.shape[0]
        self.reserve(count)
        self.pool[:count] = rows
        self.live[:count] = 1
        self.meta[SIZE] = self.meta[ALIVE] = count
        if not indexed:
            return
        whole = np.array([self.layout.arity, *range(self.layout.arity)], np.int64)
        index_rows(self.pool, self.index, whole, count)
        for j in range(len(self.layout.slices)):
            link_rows(self.pool, self.heads[j], self.links[j], self.meta, j, self._slice_at(j), count)
            chains = max(_FIRST_CAPACITY, self._chains(j))
            if _index_size(chains) < self.heads[j].shape[0]:
                self.heads[j] = self._rebuilt(f"heads{j}", self.heads[j], chains)
        self._move()
        self._count_room()

    def nbytes(self) -> int:
        arrays: tuple[Any, ...] = (self.pool, self.live, self.index, *self.heads, *self.links)
        arrays += tuple(tree for tree, spec in zip(self.tree, self.spec, strict=True) if spec[KEPT])
        return sum(int(array.nbytes) for array in arrays)

    def packed_bytes(self) -> int:
        """Key and payload words of the rows alive, and nothing else."""
        return len(self) * self.layout.width * 8

    def words_in_use(self) -> Iterator[Words]:
        """All words that the store will read again, a piece at a time."""
        size = int(self.meta[SIZE]) if self.layout.arity else len(self.pool)
        is_dense = not self.layout.arity or size == self.meta[ALIVE]
        for begin in range(0, size, _ROWS_AT_ONCE):
            rows = slice(begin, min(begin + _ROWS_AT_ONCE, size))
            yield self.pool[rows] if is_dense else self.pool[rows][self.live[rows] != 0]
        if len(self.before):
            yield self.before[self._touched_slots()]

    def items(self) -> Iterator[Item]:
        """Key words and payload numbers of every row."""
        return self._rows(self.pool, np.flatnonzero(self.live[: self.meta[SIZE]]))

    def slots_with(self, conditions: Sequence[tuple[int, Words]]) -> Words:
        """The slots of the rows whose keys have one of some words at each of some positions."""
        slots = np.flatnonzero(self.live[: self.meta[SIZE]])
        for position, words in conditions:
            column = self.pool[slots, position]
            slots = slots[column == words[0] if len(words) == 1 else np.isin(column, words)]
        return slots

    def items_at(self, slots: Words) -> Iterator[Item]:
        """Like `items`, for the rows at some slots."""
        return self._rows(self.pool, slots)

    def _rows(self, pool: Words, slots: Words) -> Iterator[Item]:
        floats = pool.view(np.float64)
        for slot in slots:
            row = pool[slot]
            yield (
                tuple(int(word) for word in row[: self.layout.arity]),
                tuple(
                    self._number(row, floats[slot], field, kind)
                    for field, kind in zip(self.layout.fields, self.layout.kinds, strict=True)
                ),
            )

    def _number(self, row: Words, floats: Any, field: str, kind: str) -> Any:
        at = self.layout.offset(field)
        if kind == "count":
            return int(row[at])
        if kind == "wide":
            return from_words(row[at], row[at + 1])
        return Dyadic.of(float(floats[at])) + Dyadic.of(float(floats[at + 1]))


def stores_in_memory() -> Iterable[FlatStore]:
    """The stores whose arrays belong to this process alone."""
    return _IN_MEMORY


def _index_size(entries: int) -> int:
    """The power of two that keeps an index at most three quarters full; without entries there is no index."""
    return 1 << (entries * 4 // 3).bit_length() if entries else 0


def _entries(size: int) -> int:
    """How many entries an index of this size takes."""
    return size * 3 // 4
