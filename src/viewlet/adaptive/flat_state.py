"""The state of a triangle query in flat arrays, changed by the kernel.

A batch that fails is taken back by its negative: the rows that were applied are applied again with the opposite sign.
The database and the groups are then what they were; N, the parts and the views are those of a partition that satisfies
the same invariants. As plain Python (`VIEWLET_JIT=0`) calls are not atomic, and copies of all arrays are put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from viewlet.adaptive import flat_parts, flat_words, kernel
from viewlet.adaptive.bulk_join import sum_triangles
from viewlet.adaptive.choose_epsilon import AT_FIRST, OVERRAN, SAMPLED, Choice, Degrees, Sample, choose_epsilon
from viewlet.adaptive.columns import TOO_WIDE, ColumnReader
from viewlet.adaptive.plan import RELATIONS, AdaptivePlan, Numbers, SideReader
from viewlet.adaptive.state import (
    GROUPS,
    StateFacts,
    read_epsilons,
    read_thresholds,
    saved_parts,
    saved_thresholds,
    view_budget,
)
from viewlet.adaptive.triangles import Epsilons, Thresholds, Triangles, Work, thresholds_for
from viewlet.changes import Change
from viewlet.changes.word_codec import Codes, decode_words, encode_words
from viewlet.errors import DataError
from viewlet.runtime.control import CONTROL_WORDS, FAILURE, NEEDED_ROWS, NEEDED_STORE
from viewlet.runtime.flat import FlatStore, Image, Layout
from viewlet.runtime.jit import ENABLED
from viewlet.runtime.probe import SIZE
from viewlet.runtime.state import bundle
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.types import Datum, Row, Table

Words = Any
"""An array of 64-bit words."""


@dataclass(slots=True)
class _AppliedRows:
    """Rows of a batch that were given to the kernel; the words of `progress` tell how many of them it has applied."""

    relation: int
    firsts: Words
    seconds: Words
    payloads: Words
    progress: Words = field(default_factory=lambda: np.zeros(flat_words.PROGRESS_WORDS, np.int64))
    undone: Words = field(default_factory=lambda: np.zeros(flat_words.PROGRESS_WORDS, np.int64))

    def negated(self) -> tuple[int, Words, Words, Words]:
        """What takes back what was applied."""
        done = int(self.progress[flat_words.ROW])
        return self.relation, self.firsts[:done], self.seconds[:done], -self.payloads[:done]


@dataclass(slots=True)
class _Copy:
    """All that changes, as it was at the beginning of a batch."""

    images: list[Image]
    thresholds: Words
    balance: Words
    choice: Choice | None


class FlatState:
    """A triangle query on thirteen stores."""

    engine_name = "compiled"

    def __init__(self, plan: AdaptivePlan, tables: Mapping[str, Table], dictionary: Codes) -> None:
        self._plan = plan
        self._dictionary = dictionary
        query = plan.query
        self._width, self._keys = query.width, query.keys
        self._choice: Choice | None = AT_FIRST if query.chooses else None
        self._copies = 3 if query.counts_cycles and len(set(query.epsilons)) == 1 else 1
        self._readers = {
            reader: ColumnReader(reader, tables[table]) for table, readers in plan.readers.items() for reader in readers
        }
        relations, parts = 3 // self._copies, flat_parts.STORES_OF_RELATION
        self.stores = [FlatStore(layout) for layout in _layouts(query.width, query.keys, relations)]
        self.relations = [self.stores[parts * i : parts * (i + 1)] for i in range(relations)]
        """For each relation its tuples, its first and its second values."""
        self.views = self.stores[parts * relations : (parts + 1) * relations]
        groups = self.stores[(parts + 1) * relations :]
        self._numbered = [*self.stores[: parts * relations] * self._copies, *self.views * self._copies, *groups]
        """The stores as the kernel numbers them; those of copies are the same."""
        if self._keys:
            self._groups.keep_journal()
        self._shape = self._shape_words()
        self._scratch = np.zeros((flat_words.SCRATCH_ROWS, max(self._width, 3)), np.int64)
        self._control = np.zeros(CONTROL_WORDS, np.int64)
        self._totals = np.zeros(self._width, np.int64)
        self._totals_before = self._totals.copy()
        self._thresholds = np.zeros(flat_words.THRESHOLD_WORDS)
        self._set_epsilons(query.epsilons)
        self._balance = np.zeros(flat_words.BALANCE_WORDS, np.int64)
        self._balance[flat_words.CHOICE] = flat_words.ASKS if query.chooses else flat_words.FIXED
        self._balance[flat_words.STEP_LIMIT] = query.rebalance_steps
        self.work = Work()
        self._work_before = Work()
        self._batch: list[_AppliedRows] = []
        self._copy: _Copy | None = None
        self._is_dirty = False
        """The views and groups may not be those of the parts."""
        self._state: Any = None
        self._versions: tuple[int, ...] = ()
        self._rebase(1)

    # -- the arrays -------------------------------------------------------------------------------------------------

    def _shape_words(self) -> Words:
        shape = np.zeros(flat_parts.SHAPE_WORDS, np.int64)
        shape[flat_parts.WIDTH], shape[flat_parts.KEYS] = self._width, len(self._keys)
        shape[flat_parts.FIRST_KEY : flat_parts.FIRST_KEY + len(self._keys)] = self._keys
        shape[flat_parts.COPIES] = self._copies
        begins, begin = list[int](), 0
        for store in self.stores:
            begins.append(begin)
            begin += len(store.layout.parts)
        for i, store in enumerate(self._numbered):
            at = next(j for j, each in enumerate(self.stores) if each is store)
            shape[flat_parts.BEGINS + i], shape[flat_parts.WORDS_OF + i] = begins[at], store.layout.width
        for i in range(3):
            shape[flat_parts.WITNESSES + i] = (i + 1) % 3 in self._keys
        return shape

    @property
    def _groups(self) -> FlatStore:
        return self.stores[-1]

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
        return sum(len(tuples) for tuples, _, _ in self.relations)

    @property
    def base(self) -> int:
        """N."""
        return int(self._balance[flat_words.BASE])

    @property
    def thresholds(self) -> Thresholds:
        first, second = self._thresholds[:3].tolist(), self._thresholds[3:6].tolist()
        return Thresholds(tuple(first), tuple(second))

    @property
    def epsilons(self) -> Epsilons:
        r, s, t = self._thresholds[flat_words.EXPONENT : flat_words.SECOND_EXPONENT].tolist()
        return r, s, t

    def _set_epsilons(self, epsilons: Epsilons) -> None:
        linear = self._plan.query.linear
        self._thresholds[flat_words.EXPONENT : flat_words.SECOND_EXPONENT] = epsilons
        self._thresholds[flat_words.SECOND_EXPONENT :] = [max(each, 1 - each) if linear else -1 for each in epsilons]

    def _choose(self, overran: bool) -> None:
        """Chooses epsilon for a major rebalancing, which `kernel.run` continues with."""
        query = self._plan.query
        sizes = [len(store) for store, _, _ in self.relations] * self._copies
        if overran:
            self._choice = OVERRAN
        else:
            self._choice = choose_epsilon(sizes, self._sample, query.linear, view_budget(query), self._choice)
        self._set_epsilons(self._choice.epsilons)
        self._balance[flat_words.CHOICE] = flat_words.CHOSEN

    def _sample(self) -> Sample:
        """Some tuples of each relation, with their degrees."""
        random, found = np.random.default_rng(self._size), []
        for relation, (store, _, _) in enumerate(self.relations):
            slots = np.flatnonzero(store.live[: int(store.meta[SIZE])])
            drawn = slots[random.integers(0, len(slots), SAMPLED)] if len(slots) else slots
            told = np.zeros((len(drawn), 4), np.int64)
            self._call(kernel.degrees, relation, drawn, told)
            found.append([Degrees(*row) for row in told.tolist()])
        return found * self._copies

    def _rebase(self, base: int) -> None:
        self._resume_with(base, thresholds_for(base, self.epsilons, self._plan.query.linear))

    def _resume_with(self, base: int, thresholds: Thresholds) -> None:
        """Another N, with nothing left to rebalance."""
        self._balance[flat_words.BASE] = base
        self._balance[flat_words.SWEEP] = self._balance[flat_words.QUEUE_BEGIN] = self._balance[
            flat_words.QUEUE_END
        ] = 0
        self._balance[flat_words.SEEN] = self._balance[flat_words.SPENT] = 0
        self._balance[flat_words.CHOICE] = flat_words.FIXED if self._choice is None else flat_words.ASKS
        self._thresholds[:6] = (*thresholds.first, *thresholds.second)

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
        if reader.relation >= len(self.relations):
            return  # a copy of a relation that has changed already
        self._begin()
        self._apply(self._rows(reader, change))
        if self._control[FAILURE]:
            self._control[FAILURE] = 0
            raise DataError(TOO_WIDE)

    def _begin(self) -> None:
        """Only compiled calls are atomic: others are undone by a copy."""
        if not ENABLED and self._copy is None:
            images = [store.image() for store in self.stores]
            self._copy = _Copy(images, self._thresholds.copy(), self._balance.copy(), self._choice)

    def _rows(self, reader: SideReader, change: Change) -> _AppliedRows:
        """What a change of a table adds to one relation, as words."""
        columns = self._readers[reader]
        if columns.positions is not None:
            held = change.columns(columns.table, columns.positions, self._dictionary)
            return _AppliedRows(reader.relation, *columns.read(held))
        return self._encoded(reader, reader.changes(change.rows().items()))

    def _encoded(self, reader: SideReader, changes: Mapping[Row, Numbers]) -> _AppliedRows:
        types = [scalar.type for scalar in reader.side.variables]
        columns = list(zip(*changes, strict=True)) or [(), ()]
        firsts, seconds = (
            encode_words(type, list(column), self._dictionary) for type, column in zip(types, columns, strict=True)
        )
        try:
            payloads = np.array(list(changes.values()), np.int64).reshape(-1, self._width)
        except OverflowError as error:
            raise DataError(TOO_WIDE) from error
        return _AppliedRows(reader.relation, firsts, seconds, payloads)

    def _apply(self, rows: _AppliedRows) -> None:
        self._batch.append(rows)
        self.work.updates += len(rows.firsts)
        if len(rows.firsts) > self._size:
            self._is_dirty = True
            self._insert(rows.relation, rows.firsts, rows.seconds, rows.payloads, rows.progress)
            self._rebuild()
        else:
            self._run(rows.relation, rows.firsts, rows.seconds, rows.payloads, rows.progress)

    def _run(self, relation: int, firsts: Words, seconds: Words, payloads: Words, progress: Words) -> None:
        """Applies rows with rebalancing, from where it was left."""
        given = (firsts, seconds, payloads, self._thresholds, self._balance, self._scratch, self._totals, progress)
        while (asks := self._call(kernel.run, relation, *given)) != flat_words.DONE:
            if asks == flat_words.NEEDS_EPSILON:
                self._choose(overran=self.base // 4 <= self._size < self.base)
            else:
                self._grow()
        self._note(progress, len(firsts))

    def _note(self, progress: Words, rows: int = 0) -> None:
        work = self.work
        work.steps += int(progress[flat_words.STEPS])
        work.minor += int(progress[flat_words.MINOR])
        work.major += int(progress[flat_words.MAJOR])
        work.moved += int(progress[flat_words.MOVED])
        if progress[flat_words.BALANCING]:
            work.balancing += int(progress[flat_words.BALANCING])
            work.longest = max(work.longest, int(progress[flat_words.LONGEST]))
            work.paused = work.updates - rows + int(progress[flat_words.PAUSED])

    def _insert(self, relation: int, firsts: Words, seconds: Words, payloads: Words, progress: Words) -> None:
        """Adds rows to the tuples alone."""
        self.relations[relation][0].reserve(len(firsts))
        while self._call(kernel.insert, relation, firsts, seconds, payloads, progress) != flat_words.DONE:
            self._grow()

    def _rebuild(self) -> None:
        """Everything from the tuples: N = 2 * |D| + 1, strict partitions, views, and the groups by a join."""
        self._is_dirty = True
        if self._choice is not None:
            self._choose(overran=False)
        self._rebase(2 * self._size + 1)
        self._partition()
        progress = np.zeros(flat_words.PROGRESS_WORDS, np.int64)
        self._build_views(progress)
        if self._keys:
            kernel.empty_groups(self._shape, self._arrays())
            self._from_slot(lambda start: (kernel.join, start, self._scratch, self._totals, progress))
        else:
            self._sum_triangles(progress)
        self._note(progress)
        self.work.major += 1
        self._is_dirty = False

    def _sum_triangles(self, progress: Words) -> None:
        """The only group, from all tuples."""
        tuples = []
        for store, _, _ in self.relations:
            used = int(store.meta[SIZE])
            rows = store.pool[:used][:, [0, 1, *range(flat_parts.NUMBERS, store.layout.width)]]
            tuples.append(rows if len(store) == used else rows[store.live[:used] != 0])
        with np.errstate(over="ignore", invalid="ignore"):  # plain Python notes an overflow as compiled code does
            self._totals[:], steps = sum_triangles(tuples, self._width, self._control)
        progress[flat_words.STEPS] += steps

    def _partition(self) -> None:
        """Strict partitions of all relations."""
        for relation in range(len(self.relations)):
            self._call(kernel.partition, relation, self._thresholds)

    def _build_views(self, progress: Words) -> None:
        for view, store in enumerate(self.views):
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
        rows = self._groups.packed()
        return zip(
            self._decoded(rows[:, : len(self._keys)]), map(tuple, rows[:, len(self._keys) :].tolist()), strict=True
        )

    def _decoded(self, keys: Words) -> Iterable[Row]:
        type = self._plan.query.key_type
        return zip(*(decode_words(type(i), keys[:, i], self._dictionary) for i in range(len(self._keys))), strict=True)

    def changes(self) -> Mapping[Row, tuple[Numbers, Numbers]]:
        if not self._keys:
            old, new = tuple(self._totals_before.tolist()), tuple(self._totals.tolist())
            return {} if old == new else {(): (old, new)}
        zero = (0,) * self._width
        before, after = self._groups.take_journal()
        words = np.array([key for key, _ in (*before, *after)], np.int64).reshape(-1, len(self._keys))
        keys = list(self._decoded(words))
        found: dict[Row, tuple[Numbers, Numbers]] = {}
        for key, (_, numbers) in zip(keys, before, strict=False):
            found[key] = (numbers, zero)
        for key, (_, numbers) in zip(keys[len(before) :], after, strict=True):
            found[key] = (found[key][0] if key in found else zero, numbers)
        return {key: (old, new) for key, (old, new) in found.items() if old != new}

    def closings(self, relation: int, first: Datum, second: Datum) -> Iterable[Datum]:
        query = self._plan.query
        x, y = (
            int(encode_words(scalar.type, [value], self._dictionary)[0])
            for scalar, value in zip(query.sides[relation].variables, (first, second), strict=True)
        )
        found = np.zeros(64, np.int64)
        while (count := int(self._call(kernel.closings, relation, x, y, found))) > len(found):
            found = np.zeros(count, np.int64)
        return decode_words(query.variable_type((relation + 2) % 3), found[:count], self._dictionary)

    def commit(self) -> None:
        self._totals_before = self._totals.copy()
        self._batch = []
        self._copy = None
        self._work_before = replace(self.work)

    def rollback(self) -> None:
        """Takes back what the batch did; may be called again if it was interrupted."""
        if self._copy is not None:
            self._put_back(self._copy)
        elif self._batch:
            self._take_back()
        self._totals[:] = self._totals_before
        self._forget_journal()
        self._control[:] = 0
        self.work = replace(self._work_before)
        self._batch, self._copy = [], None

    def _put_back(self, copy: _Copy) -> None:
        for i, image in enumerate(copy.images):
            self.stores[i].put_back(image)
        self._thresholds[:] = copy.thresholds
        self._choice = copy.choice
        self._balance[:] = copy.balance
        self._is_dirty = False

    def _take_back(self) -> None:
        for store in self.stores:
            store.repair()
        if self._is_dirty:
            self._take_back_by_tuples()
            return
        while self._batch:
            rows = self._batch[-1]
            self._run(*rows.negated(), rows.undone)
            self._batch.pop()

    def _take_back_by_tuples(self) -> None:
        """Views that an interrupt left half-way: only the tuples are taken back, and the rest computed from them."""
        while self._batch:
            rows = self._batch[-1]
            self._insert(*rows.negated(), rows.undone)
            self._batch.pop()
        self._rebuild()

    def _forget_journal(self) -> None:
        if self._keys:
            self._groups.forget_journal()

    # -- filling and saving -----------------------------------------------------------------------------------------

    def load(self, changes: Sequence[tuple[SideReader, Change]]) -> None:
        """Starts from all rows of the tables, outside a batch."""
        for store in self.stores:
            store.clear()
        self._totals[:] = 0
        for reader, change in changes[: len(self.relations)]:
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
        readers = [reader for readers in self._plan.readers.values() for reader in readers]
        for reader in readers[: len(self.relations)]:
            rows = []
            for part in parts.partitions[reader.relation].parts:
                held: dict[Row, Numbers] = {(x, y): numbers(payload) for x, y, payload in part.items()}
                words = self._encoded(reader, held)
                rows.append(np.column_stack([words.firsts, words.seconds, words.payloads]).astype(np.int64))
            self._fill_parts(reader.relation, rows)
        self._fill_groups({key: numbers(payload) for key, payload in other.groups.items()})
        self.work = replace(other.work)
        if self._choice is not None:
            self._choice = parts.choice or AT_FIRST
        self._set_epsilons(parts.epsilons)
        if self._copies == 1:
            self._resume_with(parts.base, parts.thresholds)
            self._build_views(np.zeros(flat_words.PROGRESS_WORDS, np.int64))
        else:
            self._rebuild()
        self._settle()

    def _fill_parts(self, relation: int, parts: Sequence[Words]) -> None:
        """Makes tuples of parts, in the order of their kinds, a relation."""
        tuples, firsts, seconds = self.relations[relation]
        rows = np.concatenate(parts)
        filled = np.zeros((len(rows), tuples.layout.width), np.int64)
        filled[:, :2], filled[:, flat_parts.NUMBERS :] = rows[:, :2], rows[:, 2:]
        filled[:, flat_parts.KIND] = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        tuples.fill(filled)
        firsts.clear()
        seconds.clear()
        self._from_slot(lambda start: (kernel.link, relation, start))

    def _fill_groups(self, groups: Mapping[Row, Numbers]) -> None:
        if not self._keys:
            self._totals[:] = groups.get((), (0,) * self._width)
            return
        keys = list(zip(*groups, strict=True))
        types = map(self._plan.query.key_type, range(len(keys)))
        words = [encode_words(type, list(key), self._dictionary) for type, key in zip(types, keys, strict=True)]
        numbers = np.array(list(groups.values()), np.int64).reshape(-1, self._width)
        empty = np.zeros((0, len(self._keys) + self._width), np.int64)
        self._groups.fill(np.column_stack([*words, numbers]).astype(np.int64) if groups else empty)

    def save(self, writer: StateWriter) -> dict[str, object]:
        """Parts and groups as words, N and the thresholds as numbers; views are computed from the parts."""
        for name, (tuples, _, _) in zip(RELATIONS, self.relations, strict=False):
            rows = tuples.packed()
            for kind, part in enumerate(self._plan.query.part_names):
                kept = rows[rows[:, flat_parts.KIND] == kind]
                writer.words(f"{name} {part}", np.hstack([kept[:, :2], kept[:, flat_parts.NUMBERS :]]))
        writer.words(GROUPS, self._groups.packed() if self._keys else self._totals.copy())
        return saved_thresholds(self.base, self.thresholds, self.epsilons, self._plan.query)

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> None:
        for relation, name in zip(range(len(self.relations)), RELATIONS, strict=False):
            parts = [reader.words(f"{name} {part}") for part in saved_parts(layout)]
            self._fill_parts(relation, [part.reshape(-1, 2 + self._width) for part in parts])
        groups = reader.words(GROUPS)
        if self._keys:
            self._groups.fill(groups)
        else:
            self._totals[:] = groups
        thresholds = read_thresholds(layout, self._plan.query)
        epsilons, self._choice = read_epsilons(layout, self._plan.query)
        self._set_epsilons(epsilons)
        if thresholds is None:
            self._rebase(layout["base"])
        else:
            self._resume_with(layout["base"], thresholds)
        if thresholds is None or self._plan.query.rebalance_steps:  # some tuples may have been on their way
            self._partition()
        self._build_views(np.zeros(flat_words.PROGRESS_WORDS, np.int64))
        self._settle()

    def sizes(self) -> Mapping[str, int]:
        tuples = {name: len(store) for name, (store, _, _) in zip(RELATIONS, self.relations, strict=False)}
        return {**tuples, **{store.layout.name: len(store) for store in self.views}, "Q": self._group_count}

    @property
    def _group_count(self) -> int:
        return len(self._groups) if self._keys else int(self._totals.any())

    def facts(self) -> StateFacts:
        sizes: dict[str, int] = {}
        for name, (tuples, _, _) in zip(RELATIONS, self.relations * self._copies, strict=True):
            used = int(tuples.meta[SIZE])
            kinds = np.bincount(tuples.pool[:used, flat_parts.KIND][tuples.live[:used] != 0], minlength=3).tolist()
            sizes |= {f"{name}_{part}": kinds[kind] for kind, part in enumerate(self._plan.query.part_names)}
        sizes |= dict(zip(("V_RS", "V_ST", "V_TR"), map(len, self.views * self._copies), strict=True))
        sizes["Q"] = self._group_count
        return StateFacts(self.base, self.thresholds, sizes, self.work, self.epsilons, self._choice, self.nbytes())

    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(store.nbytes() for store in self.stores)

    def warm_up(self) -> None:
        """Has the kernel compiled, or read from the disk cache."""
        none = np.zeros(0, np.int64)
        rows = _AppliedRows(0, none, none, np.zeros((0, self._width), np.int64))
        self._run(rows.relation, rows.firsts, rows.seconds, rows.payloads, rows.progress)
        self._insert(rows.relation, rows.firsts, rows.seconds, rows.payloads, rows.progress)
        self._rebuild()
        self.work = Work()


def _layouts(width: int, keys: tuple[int, ...], relations: int) -> list[Layout]:
    """The stores that there are: copies of a relation have none of their own."""

    def layout(name: str, arity: int, fields: Sequence[str], **more: Any) -> Layout:
        return Layout(name, arity, tuple(fields), ("count",) * len(fields), **more)

    numbers = [f"number{i}" for i in range(width)]
    found = []
    for name in RELATIONS[:relations]:
        found.append(layout(f"{name} tuples", 2, [*flat_parts.TUPLE_FIELDS, *numbers]))
        found += [layout(f"{name} {place}", 1, flat_parts.VALUE_FIELDS) for place in ("firsts", "seconds")]
    for i in range(relations):
        witnesses = (i + 1) % 3 in keys
        found.append(layout(f"view {i}", 3 if witnesses else 2, numbers, slices=((0, 1),) if witnesses else ()))
    return [*found, *([layout(GROUPS, len(keys), numbers, journaled=True)] if keys else [])]
