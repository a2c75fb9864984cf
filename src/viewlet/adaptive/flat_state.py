"""The state of a triangle query in flat arrays, changed by the kernel.

A batch that fails is taken back by its negative: the rows that were applied are applied again with the opposite sign.
The database, the views and the groups are then what they were; N and the parts are those of a partition that satisfies
the same invariants. As plain Python (`VIEWLET_JIT=0`) calls are not atomic, and copies of all arrays are put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viewlet.adaptive import kernel
from viewlet.adaptive.columns import TOO_WIDE, ColumnReader
from viewlet.adaptive.plan import RELATIONS, AdaptivePlan, Numbers, SideReader
from viewlet.adaptive.state import GROUPS, PARTS, StateFacts
from viewlet.adaptive.triangles import Triangles, Work
from viewlet.changes import Change
from viewlet.changes.word_codec import Codes, decode_words, encode_words
from viewlet.errors import DataError
from viewlet.runtime.control import CONTROL_WORDS, FAILURE, NEEDED_ROWS, NEEDED_STORE
from viewlet.runtime.flat import FlatStore, Image, Layout
from viewlet.runtime.jit import ENABLED
from viewlet.runtime.state import bundle
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.types import Row, Table

Words = Any
"""An array of 64-bit words."""


@dataclass(slots=True)
class _Applied:
    """Rows of a batch that were given to the kernel; the words of `progress` tell how many of them it has applied."""

    relation: int
    firsts: Words
    seconds: Words
    payloads: Words
    progress: Words = field(default_factory=lambda: np.zeros(kernel.PROGRESS_WORDS, np.int64))
    undone: Words = field(default_factory=lambda: np.zeros(kernel.PROGRESS_WORDS, np.int64))

    def negated(self) -> tuple[int, Words, Words, Words]:
        """What takes back what was applied."""
        done = int(self.progress[kernel.ROW])
        return self.relation, self.firsts[:done], self.seconds[:done], -self.payloads[:done]


@dataclass(slots=True)
class _Copy:
    """All that changes, as it was at the beginning of a batch."""

    images: list[Image]
    thresholds: Words
    base: int


class FlatState:
    """A triangle query on ten stores."""

    engine_name = "compiled"

    def __init__(self, plan: AdaptivePlan, tables: Mapping[str, Table], dictionary: Codes) -> None:
        self._plan = plan
        self._dictionary = dictionary
        query = plan.query
        self._width, self._keys = query.width, query.keys
        self._copies = 3 if query.counts_cycles and len(set(query.epsilons)) == 1 else 1
        self._readers = {
            reader: ColumnReader(reader, tables[table]) for table, readers in plan.readers.items() for reader in readers
        }
        self.stores = [FlatStore(layout) for layout in _layouts(query.width, query.keys, self._copies)]
        self.parts = self.stores[: kernel.VIEWS // self._copies]
        self._views = self.stores[len(self.parts) : len(self.parts) + 3 // self._copies]
        self._numbered = [*self.parts * self._copies, *self._views * self._copies, *self.stores[kernel.GROUPS :]]
        """The stores as the kernel numbers them; those of copies are the same."""
        if self._keys:
            self.stores[kernel.GROUPS].keep_journal()
        self._shape = self._shape_words()
        self._scratch = np.zeros((kernel.SCRATCH_ROWS, max(self._width, 3)), np.int64)
        self._control = np.zeros(CONTROL_WORDS, np.int64)
        self._totals = np.zeros(self._width, np.int64)
        self._totals_before = self._totals.copy()
        self._thresholds = np.ones(3)
        self._base = 1
        self._work = Work()
        self._work_before = Work()
        self._batch: list[_Applied] = []
        self._copy: _Copy | None = None
        self._saved_rows: list[Words] | None = None
        """The tuples of all relations, while the parts are filled with them."""
        self._is_dirty = False
        """The views and groups may not be those of the parts."""
        self._state: Any = None
        self._versions: tuple[int, ...] = ()
        self._rebase(1)

    # -- the arrays -------------------------------------------------------------------------------------------------

    def _shape_words(self) -> Words:
        shape = np.zeros(kernel.SHAPE_WORDS, np.int64)
        shape[kernel.WIDTH], shape[kernel.KEYS] = self._width, len(self._keys)
        shape[kernel.FIRST_KEY : kernel.FIRST_KEY + len(self._keys)] = self._keys
        shape[kernel.COPIES] = self._copies
        firsts, first = list[int](), 0
        for store in self.stores:
            firsts.append(first)
            first += len(store.layout.parts)
        for i, store in enumerate(self._numbered):
            at = next(j for j, each in enumerate(self.stores) if each is store)
            shape[kernel.FIRSTS + i], shape[kernel.WORDS_OF + i] = firsts[at], store.layout.width
        for i in range(3):
            shape[kernel.ALL_HEAVY + i] = self._plan.query.epsilons[i] == 0
            shape[kernel.WITNESSES + i] = (i + 1) % 3 in self._keys
        return shape

    def _arrays(self) -> Any:
        """The state as the kernel takes it, valid until an array moves."""
        versions = tuple([store.version for store in self.stores])
        if versions != self._versions:
            self._state = bundle([store.array(part) for store in self.stores for part in store.layout.parts])
            self._versions = versions
        return self._state

    def _call(self, function: Any, *given: Any) -> Any:
        if ENABLED:
            return function(*given, self._shape, self._arrays(), self._control)
        with np.errstate(over="ignore", invalid="ignore"):
            return function(*given, self._shape, self._arrays(), self._control)

    def _grow(self) -> None:
        """Gives a store the room that the kernel asked for."""
        self._numbered[self._control[NEEDED_STORE]].reserve(int(self._control[NEEDED_ROWS]))

    @property
    def _size(self) -> int:
        return sum(map(len, self.parts))

    def _rebase(self, base: int) -> None:
        self._base = base
        self._thresholds[:] = [float(base) ** epsilon for epsilon in self._plan.query.epsilons]

    # -- changes ----------------------------------------------------------------------------------------------------

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        """The columns of a table that are read, if all of its relations take columns."""
        used: set[int] = set()
        for reader in self._plan.readers[table]:
            if (columns := self._readers[reader].positions) is None:
                return None
            used.update(columns)
        return tuple(sorted(used))

    def apply(self, reader: SideReader, change: Change) -> None:
        if reader.relation >= len(self._views):
            return  # a copy of a relation that has changed already
        self._begin()
        self._apply(self._rows(reader, change))
        if self._control[FAILURE]:
            self._control[FAILURE] = 0
            raise DataError(TOO_WIDE)

    def _begin(self) -> None:
        """Only compiled calls are atomic: others are undone by a copy."""
        if not ENABLED and self._copy is None:
            self._copy = _Copy([store.image() for store in self.stores], self._thresholds.copy(), self._base)

    def _rows(self, reader: SideReader, change: Change) -> _Applied:
        """What a change of a table adds to one relation, as words."""
        columns = self._readers[reader]
        if columns.positions is not None:
            held = change.columns(columns.table, columns.positions, self._dictionary)
            return _Applied(reader.relation, *columns.read(held))
        return self._encoded(reader, reader.changes(change.rows().items()))

    def _encoded(self, reader: SideReader, changes: Mapping[tuple[Any, Any], Numbers]) -> _Applied:
        types = [scalar.type for scalar in reader.side.variables]
        columns = list(zip(*changes, strict=True)) or [(), ()]
        firsts, seconds = (
            encode_words(type, list(column), self._dictionary) for type, column in zip(types, columns, strict=True)
        )
        try:
            payloads = np.array(list(changes.values()), np.int64).reshape(-1, self._width)
        except OverflowError as error:
            raise DataError(TOO_WIDE) from error
        return _Applied(reader.relation, firsts, seconds, payloads)

    def _apply(self, rows: _Applied) -> None:
        self._batch.append(rows)
        self._work.updates += len(rows.firsts)
        if len(rows.firsts) > self._size:
            self._is_dirty = True
            self._insert(rows.relation, rows.firsts, rows.seconds, rows.payloads, rows.progress)
            self._rebuild()
        else:
            self._run(rows.relation, rows.firsts, rows.seconds, rows.payloads, rows.progress)

    def _run(self, relation: int, firsts: Words, seconds: Words, payloads: Words, progress: Words) -> None:
        """Applies rows with rebalancing, from where it was left."""
        while True:
            progress[kernel.BASE] = self._base
            why = self._call(
                kernel.run, relation, firsts, seconds, payloads, self._thresholds, self._scratch, self._totals, progress
            )
            if why == kernel.DONE:
                break
            if why == kernel.NEEDS_ROOM:
                self._grow()
            else:
                self._is_dirty = True
                self._partition(2 * self._size + 1)
                self._build_views(progress)
                self._is_dirty = False
                self._work.major += 1
                progress[kernel.CHECKED] = progress[kernel.ROW]
        self._note(progress)

    def _note(self, progress: Words) -> None:
        work = self._work
        work.steps += int(progress[kernel.STEPS])
        work.minor += int(progress[kernel.MINOR])
        work.moved += int(progress[kernel.MOVED])

    def _insert(self, relation: int, firsts: Words, seconds: Words, payloads: Words, progress: Words) -> None:
        """Adds rows to the parts alone."""
        while self._call(kernel.insert, relation, firsts, seconds, payloads, progress) != kernel.DONE:
            self._grow()

    def _rebuild(self) -> None:
        """Everything from the tuples: N = 2 * |D| + 1, strict partitions, views, and the groups by a join."""
        self._is_dirty = True
        self._partition(2 * self._size + 1)
        progress = np.zeros(kernel.PROGRESS_WORDS, np.int64)
        self._build_views(progress)
        self._totals[:] = 0
        if self._keys:
            kernel.empty_groups(self._shape, self._arrays())
        for part in (0, 1):
            self._from_slot(lambda start, part=part: (kernel.join, part, start, self._scratch, self._totals, progress))
        self._note(progress)
        self._work.major += 1
        self._is_dirty = False

    def _partition(self, base: int) -> None:
        """Strict partitions of all relations for another N."""
        if self._saved_rows is None:
            parts = self.parts
            self._saved_rows = [
                np.concatenate([parts[i].packed(), parts[i + 1].packed()]) for i in range(0, len(parts), 2)
            ]
        self._rebase(base)
        for i, rows in enumerate(self._saved_rows):
            _, places, degrees = np.unique(rows[:, 0], return_inverse=True, return_counts=True)
            is_heavy = degrees[places] >= self._thresholds[i]
            self.parts[2 * i].fill(rows[is_heavy])
            self.parts[2 * i + 1].fill(rows[~is_heavy])
        self._saved_rows = None

    def _build_views(self, progress: Words) -> None:
        for view, store in enumerate(self._views):
            store.clear()
            self._from_slot(lambda start, view=view: (kernel.build_view, view, start, self._scratch, progress))

    def _from_slot(self, call: Any) -> None:
        """Calls a function of the kernel from the slot on that needed room, until it needs none."""
        slot = 0
        while slot >= 0:
            function, *given = call(slot)
            if (slot := int(self._call(function, *given))) >= 0:
                self._grow()

    # -- the result -------------------------------------------------------------------------------------------------

    def groups(self) -> Iterable[tuple[Row, Numbers]]:
        if not self._keys:
            return [((), tuple(self._totals.tolist()))] if self._totals.any() else []
        rows = self.stores[kernel.GROUPS].packed()
        return zip(
            self._decoded(rows[:, : len(self._keys)]), map(tuple, rows[:, len(self._keys) :].tolist()), strict=True
        )

    def _decoded(self, keys: Words) -> Iterable[Row]:
        columns = self._plan.query.table.columns
        return zip(
            *(decode_words(columns[i].type, keys[:, i], self._dictionary) for i in range(len(self._keys))), strict=True
        )

    def changes(self) -> Mapping[Row, tuple[Numbers, Numbers]]:
        if not self._keys:
            old, new = tuple(self._totals_before.tolist()), tuple(self._totals.tolist())
            return {} if old == new else {(): (old, new)}
        zero = (0,) * self._width
        before, after = self.stores[kernel.GROUPS].take_journal()
        words = np.array([key for key, _ in (*before, *after)], np.int64).reshape(-1, len(self._keys))
        keys = list(self._decoded(words))
        found: dict[Row, tuple[Numbers, Numbers]] = {}
        for key, (_, numbers) in zip(keys, before, strict=False):
            found[key] = (numbers, zero)
        for key, (_, numbers) in zip(keys[len(before) :], after, strict=True):
            found[key] = (found[key][0] if key in found else zero, numbers)
        return {key: (old, new) for key, (old, new) in found.items() if old != new}

    def commit(self) -> None:
        self._totals_before = self._totals.copy()
        self._batch = []
        self._copy = None
        self._work_before = Work(**self._counted(self._work))

    @staticmethod
    def _counted(work: Work) -> dict[str, int]:
        return {name: getattr(work, name) for name in ("updates", "steps", "minor", "major", "moved")}

    def rollback(self) -> None:
        """Takes back what the batch did; may be called again if it was interrupted."""
        if self._copy is not None:
            self._put_back(self._copy)
        elif self._batch:
            self._take_back()
        self._totals[:] = self._totals_before
        self._forget_journal()
        self._control[:] = 0
        self._work = Work(**self._counted(self._work_before))
        self._batch, self._copy = [], None

    def _put_back(self, copy: _Copy) -> None:
        for i, image in enumerate(copy.images):
            self.stores[i].put_back(image)
        self._thresholds[:] = copy.thresholds
        self._base, self._is_dirty, self._saved_rows = copy.base, False, None

    def _take_back(self) -> None:
        for store in self.stores:
            store.repair()
        if self._is_dirty or any(rows.progress[kernel.MOVING] for rows in self._batch):
            self._take_back_by_tuples()
            return
        while self._batch:
            rows = self._batch[-1]
            self._run(*rows.negated(), rows.undone)
            self._batch.pop()

    def _take_back_by_tuples(self) -> None:
        """Parts that an interrupt left half-way: only their tuples are taken back, and the rest computed from them."""
        self._is_dirty = True
        if self._saved_rows is not None:
            self._partition(self._base)
        while self._batch:
            rows = self._batch[-1]
            self._insert(*rows.negated(), rows.undone)
            self._batch.pop()
        self._rebuild()

    def _forget_journal(self) -> None:
        if self._keys:
            self.stores[kernel.GROUPS].forget_journal()

    # -- filling and saving -----------------------------------------------------------------------------------------

    def load(self, changes: Sequence[tuple[SideReader, Change]]) -> None:
        """Starts from all rows of the tables, outside a batch."""
        for store in self.stores:
            store.clear()
        self._totals[:] = 0
        for reader, change in changes[: len(self._views)]:
            rows = self._rows(reader, change)
            self._insert(rows.relation, rows.firsts, rows.seconds, rows.payloads, rows.progress)
        self._rebuild()
        self._settle()

    def _settle(self) -> None:
        """The state is that between two batches."""
        self._forget_journal()
        failed, self._control[FAILURE] = self._control[FAILURE], 0
        if failed:
            raise DataError(TOO_WIDE)
        self.commit()

    def take_over(self, other: Triangles[Any]) -> None:
        """Continues from what the reference form holds."""
        numbers, parts = self._plan.numbers, other.parts
        for reader in [reader for readers in self._plan.readers.values() for reader in readers][: len(self._views)]:
            partition = parts.partitions[reader.relation]
            for i, part in enumerate((partition.heavy, partition.light)):
                held = {(first, second): numbers(payload) for first, second, payload in part.items()}
                rows = self._encoded(reader, held)
                packed = np.column_stack([rows.firsts, rows.seconds, rows.payloads]).astype(np.int64)
                self.parts[2 * reader.relation + i].fill(packed)
        self._fill_groups({key: numbers(payload) for key, payload in other.groups.items()})
        self._work = Work(**self._counted(other.work))
        if self._copies == 1:
            self._rebase(parts.base)
            self._build_views(np.zeros(kernel.PROGRESS_WORDS, np.int64))
        else:
            self._rebuild()
        self._settle()

    def _fill_groups(self, groups: Mapping[Row, Numbers]) -> None:
        if not self._keys:
            self._totals[:] = groups.get((), (0,) * self._width)
            return
        columns, keys = self._plan.query.table.columns, list(zip(*groups, strict=True))
        words = [encode_words(columns[i].type, list(keys[i]), self._dictionary) for i in range(len(keys))]
        numbers = np.array(list(groups.values()), np.int64).reshape(-1, self._width)
        empty = np.zeros((0, len(self._keys) + self._width), np.int64)
        self.stores[kernel.GROUPS].fill(np.column_stack([*words, numbers]).astype(np.int64) if groups else empty)

    def save(self, writer: StateWriter) -> dict[str, object]:
        """Parts and groups as words, N and the thresholds as numbers; views are computed from the parts."""
        for name, store in zip(_part_names(), self.parts, strict=False):
            writer.words(name, store.packed())
        writer.words(GROUPS, self.stores[kernel.GROUPS].packed() if self._keys else self._totals.copy())
        return {"base": self._base, "thresholds": self._thresholds.tolist()}

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> None:
        for name, store in zip(_part_names(), self.parts, strict=False):
            store.fill(reader.words(name))
        groups = reader.words(GROUPS)
        if self._keys:
            self.stores[kernel.GROUPS].fill(groups)
        else:
            self._totals[:] = groups
        self._base = layout["base"]
        self._thresholds[:] = layout["thresholds"]
        self._build_views(np.zeros(kernel.PROGRESS_WORDS, np.int64))
        self._settle()

    def facts(self) -> StateFacts:
        names = [*(f"{relation}_{part}" for relation in RELATIONS for part in PARTS), "V_RS", "V_ST", "V_TR"]
        sizes = dict(zip(names, map(len, self._numbered), strict=False))
        sizes["Q"] = len(self.stores[kernel.GROUPS]) if self._keys else int(self._totals.any())
        return StateFacts(self._base, self._thresholds.tolist(), sizes, self._work, self.nbytes())

    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(store.nbytes() for store in self.stores)

    def warm_up(self) -> None:
        """Has the kernel compiled, or read from the disk cache."""
        none = np.zeros(0, np.int64)
        rows = _Applied(0, none, none, np.zeros((0, self._width), np.int64))
        self._run(rows.relation, rows.firsts, rows.seconds, rows.payloads, rows.progress)
        self._insert(rows.relation, rows.firsts, rows.seconds, rows.payloads, rows.progress)
        self._rebuild()
        self._work = Work()


def _part_names() -> list[str]:
    return [f"{relation} {part}" for relation in RELATIONS for part in PARTS]


def _layouts(width: int, keys: tuple[int, ...], copies: int) -> list[Layout]:
    """The stores that there are: copies of a relation have none of their own."""
    fields, kinds = tuple(f"number{i}" for i in range(width)), ("count",) * width
    parts = [Layout(name, 2, fields, kinds, slices=((0,), (1,))) for name in _part_names()]
    views = [
        Layout(f"view {i}", 3, fields, kinds, slices=((0, 1),))
        if (i + 1) % 3 in keys
        else Layout(f"view {i}", 2, fields, kinds)
        for i in range(3)
    ]
    groups = [Layout(GROUPS, len(keys), fields, kinds, journaled=True)] if keys else []
    return [*parts[: len(parts) // copies], *views[: 3 // copies], *groups]
