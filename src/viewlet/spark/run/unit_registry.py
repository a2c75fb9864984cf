"""The units of a cluster: their code, the driver's part of their state, and whose changes are wanted."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import Any, TypeVar

from viewlet.errors import ViewletError
from viewlet.runtime.dictionary import StringDictionary
from viewlet.spark.plan.compile import DistributedProgram, compile_at, compile_distributed
from viewlet.spark.plan.locations import REPLICATED
from viewlet.spark.plan.partitioning import DRIVER_ROWS
from viewlet.spark.plan.result_location import ResultLocation, result_location
from viewlet.spark.plan.strategy import cheapest
from viewlet.spark.plan.tree_split import TreeSplit
from viewlet.spark.run.exchange.change_files import KeptChanges
from viewlet.spark.run.exchange.moves import INLINE_BYTES
from viewlet.spark.run.execution.batch import StateSize
from viewlet.spark.run.execution.cluster import Cluster
from viewlet.spark.run.execution.tasks import (
    PartitionTask,
    RemoveState,
)
from viewlet.spark.run.execution.tree_task import Question, TreeRequest
from viewlet.spark.run.state.checkpoint import Checkpoint
from viewlet.spark.run.state.partition import Context, History, SharedCode
from viewlet.spark.run.units.node import Node, with_result
from viewlet.spark.run.units.table_unit import checks_of, partitioned_by, table_program, unit_name
from viewlet.spark.run.units.tree_unit import TreeUnit, form_of
from viewlet.spark.run.units.unit import (
    LOCATIONS,
    ProgramCode,
    ProgramUnit,
    Unit,
    UnitCode,
    digest_of,
)
from viewlet.spark.run.units.unit_result import OWN, ResultCode, ResultKey
from viewlet.triggers.program import Program
from viewlet.triggers.rename import rename_views
from viewlet.types import Table
from viewlet.viewtree.ring_plan import RingPlan

R = TypeVar("R")

Sizes = Mapping[str, float]
Relocate = Callable[[Unit, Sizes, Mapping[str, Any] | None], tuple[Unit, Sizes] | None]
"""A unit with views of some sizes in better places, or in given ones, and the sizes that it was planned for."""

CLOSE_SECONDS = 10.0
"""How long closing waits for the cluster."""
GENERATE_FROM_ROWS = 50_000
"""Rows of state from which compiling code for a view pays."""


@dataclass(slots=True)
class UnitEntry:
    """A unit with its current code and the driver's part of its state."""

    unit: Unit
    code: UnitCode
    node: Node
    shared: SharedCode[UnitCode] | None = None
    size: StateSize = field(default_factory=StateSize)
    """What it has at the workers, as far as batches and loads have told."""
    driver_rows: int = 0
    """The rows of its largest view at the driver at the last snapshot."""
    compiled: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)
    """Plans whose code is in the cache of this machine."""


@dataclass(slots=True)
class ResultEntry:
    """A result over the views of a unit that is not its own."""

    program: Program
    """That of the unit, with another query and result."""
    shared: SharedCode[ResultCode] | None = None
    read_at: tuple[Unit, ResultLocation] | None = None
    """Where its rows are computed, with a unit whose views are where they are."""


@dataclass(frozen=True, slots=True)
class Units:
    """The units of an engine at one moment, the results whose changes are wanted, and the history of their state."""

    entries: Mapping[str, UnitEntry]
    results: Mapping[ResultKey, ResultEntry]
    watched: frozenset[ResultKey]
    kept: Mapping[ResultKey, KeptChanges]
    history: History


class UnitRegistry:
    """The units there are; `generated` says when they run generated code: always, never, or once they are large."""

    def __init__(
        self, cluster: Cluster, checkpoint: Checkpoint, partitions: int, generated: bool | None = None
    ) -> None:
        self._generated = generated
        self.cluster = cluster
        self.checkpoint = checkpoint
        self.partitions = partitions
        self.inline_bytes = INLINE_BYTES
        """What a stage may move through the driver; more moves through files."""
        self.kept: dict[str, Table] = {}
        self.dictionary = StringDictionary()
        """The strings of changes that are at the driver."""
        self.has_files = False
        """Batches have told of files that machines keep of the state."""
        self.relocate: Relocate = lambda unit, sizes, locations: None
        self._units: dict[str, UnitEntry] = {}
        self._results: dict[ResultKey, ResultEntry] = {}
        """Those of other queries than the units were planned for."""
        self._watched: set[ResultKey] = set()
        self._kept_changes: dict[ResultKey, KeptChanges] = {}
        """The results whose changes tasks write to files."""

    @property
    def generated(self) -> bool | None:
        """Whether new units run generated code; None if they may as well."""
        return self._generated

    @property
    def units(self) -> Mapping[str, Unit]:
        return {name: entry.unit for name, entry in self._units.items()}

    def unit(
        self,
        programs: Sequence[Program],
        tables: Mapping[str, Table],
        rows: Mapping[str, float] | None = None,
        partition_by: Sequence[Mapping[str, Sequence[str]]] = (),
        facts: Mapping[str, Any] | None = None,
        replaced: Iterable[str] = (),
    ) -> ProgramUnit:
        """Plans the cheapest of some programs of the same query, which is not here yet, each with its `partition_by`.

        A program that continues has `facts`, which say where its views are. Units that it takes the place of are
        `replaced`.
        """
        wishes, gone = partition_by or [{}] * len(programs), frozenset(replaced)
        found = [self._planned(each, tables, rows, by, facts, gone) for each, by in zip(programs, wishes, strict=True)]
        earlier = bool(facts) and LOCATIONS not in (facts or {})
        chosen = found[0] if len(found) == 1 else cheapest(found, rows or {})
        return ProgramUnit(programs[0].name, chosen, dict(tables), earlier=earlier)

    def _planned(
        self,
        program: Program,
        tables: Mapping[str, Table],
        rows: Mapping[str, float] | None,
        partition_by: Mapping[str, Sequence[str]],
        facts: Mapping[str, Any] | None,
        replaced: frozenset[str],
    ) -> DistributedProgram:
        known = (facts or {}).get(LOCATIONS)
        taken = self.names_taken({program.name, *replaced})
        clashes = [view.name for view in program.views if _is_renamed(program.name, view.name, known, taken)]
        program = rename_views(program, {name: f"{program.name}/{name}" for name in clashes})
        distributed = None if known is None else compile_at(program, tables, rows or {}, known)
        if distributed is None:
            distributed = compile_distributed(program, tables, rows, partition_by, bool(facts) and known is None)
        return distributed

    def names_taken(self, without: Collection[str]) -> set[str]:
        """The names of the stored views of all units but some."""
        others = (entry.unit for name, entry in self._units.items() if name not in without)
        return {view.name for unit in others for view in unit.stored}

    def tree_unit(
        self, name: str, plan: RingPlan, split: TreeSplit, tables: Mapping[str, Table], known: bool | None
    ) -> TreeUnit:
        """The unit of a new view tree; `known` is the form of an existing state that it continues with."""
        generated = form_of(plan, self._generated if known is None else known)
        return TreeUnit(name, plan, split, dict(tables), generated)

    def code(self, name: str) -> UnitCode:
        """What processes have to know of a unit now."""
        return self._units[name].code

    def keep(self, table: Table) -> None:
        """From now on the rows of a table are kept."""
        self.kept[table.name] = table
        distributed = compile_distributed(table_program(table), {table.name: table}, None, partitioned_by(table))
        name = unit_name(table.name)
        self.add(ProgramUnit(name, distributed, {table.name: table}, checks_of(table)))

    def drop(self, table: str) -> None:
        """The rows of a table are forgotten."""
        if self.kept.pop(table, None) is not None:
            self.remove(unit_name(table))

    def add(self, unit: Unit) -> None:
        """Takes up a program, instead of another one of its name; its views are as before the first batch."""
        if unit.name in self._units:
            self.remove(unit.name)
        self._units[unit.name] = self._entry(unit)

    def _entry(self, unit: Unit) -> UnitEntry:
        known = unit.name in self.checkpoint.generated
        code = unit.code(known if self._generated is None else self._generated)
        return UnitEntry(unit, code, self._node(code))

    def remove(self, name: str) -> None:
        del self._units[name]
        for key in [key for key in (*self._results, *self._watched, *self._kept_changes) if key.unit == name]:
            self.forget_result(key)
        self.checkpoint.forget(name)

    # -- results ----------------------------------------------------------------------------------------------------

    def add_result(self, unit: str, program: Program) -> ResultKey:
        """The views of a unit are read for another query: `program` is that of the unit, with the result of that."""
        key = ResultKey(unit, digest_of((program.query, program.result)))
        self._results.setdefault(key, ResultEntry(program))
        return key

    def forget_result(self, key: ResultKey) -> None:
        """Nobody reads a result any more; may be called again."""
        self._results.pop(key, None)
        self._watched.discard(key)
        self._kept_changes.pop(key, None)

    def renew_results(self, name: str) -> None:
        """The results of a unit are over the views that it has now, which may be fewer than before."""
        unit = self._units[name].unit
        for key, entry in self._results.items():
            if key.unit == name and isinstance(unit, ProgramUnit) and entry.program.views != unit.program.views:
                program = replace(entry.program, views=unit.program.views, triggers=unit.program.triggers)
                self._results[key] = ResultEntry(program)

    def results_of(self, unit: str) -> list[Program]:
        """The program of a unit with each result that is not its own."""
        return [entry.program for key, entry in self._results.items() if key.unit == unit]

    def reads_more(self, before: Unit, after: Unit) -> bool:
        """With the views of a unit in other places, some result would have to be read whole that is not now."""
        programs = self.results_of(before.name)
        places = [
            (result_location(each, before.locations), result_location(each, after.locations)) for each in programs
        ]
        return any(then.is_whole and not now.is_whole for now, then in places)

    def reading(self, key: ResultKey) -> ResultLocation:
        """Where the rows of a result are computed."""
        unit = self._units[key.unit].unit
        if key.digest == OWN:
            return unit.reading
        entry = self._results[key]
        if entry.read_at is None or entry.read_at[0] is not unit:
            entry.read_at = unit, result_location(entry.program, unit.locations)
        return entry.read_at[1]

    def _other(self, key: ResultKey) -> ResultCode | None:
        """The code of a result; None is the unit's own."""
        return None if key.digest == OWN else self._result_code(key).value

    def _result_code(self, key: ResultKey) -> SharedCode[ResultCode]:
        """What processes have to know of a result that is not the unit's own."""
        entry = self._results[key]
        if entry.shared is None:
            entry.shared = SharedCode(uuid.uuid4().hex, self.cluster.share(ResultCode(key, entry.program)))
        return entry.shared

    # -- what there is ----------------------------------------------------------------------------------------------

    def units_now(self) -> Units:
        """The units that there are, to be brought back by `reset`."""
        watched, kept = frozenset(self._watched), dict(self._kept_changes)
        return Units(dict(self._units), dict(self._results), watched, kept, self.checkpoint.history)

    def reset(self, units: Units) -> None:
        """Takes back what was added and removed; may be called again if it was interrupted."""
        self._units, self._results = dict(units.entries), dict(units.results)
        self._watched, self._kept_changes = set(units.watched), dict(units.kept)
        self.checkpoint.go_back_to(units.history)

    def _node(self, code: UnitCode) -> Node:
        """What a unit has at the driver before the first batch."""
        node = self._empty_node(code)
        for name, blob in code.at_driver().items():
            node.restore(name, blob)
        return node

    def _empty_node(self, code: UnitCode) -> Node:
        if not isinstance(code, ProgramCode) or code.module is None:
            return code.evaluated(code.local)
        from viewlet.spark.run.units.generated_node import GeneratedNode

        return GeneratedNode(code, code.local, self.dictionary)

    def _generate(self, entry: UnitEntry) -> None:
        """From now on a unit runs generated code; its state is moved."""
        code = entry.unit.code(generated=True)
        if code.module is None:
            return
        node = self._node(code)
        for name in code.local:
            node.restore(name, entry.node.contents(name))
        entry.code, entry.node, entry.shared = code, node, None
        entry.compiled.clear()
        for key in self._watched_here(entry.unit.name):
            with_result(node, self._other(key)).watch()

    def _watched_here(self, unit: str) -> list[ResultKey]:
        """The watched results of a unit whose rows are computed at the driver."""
        mine = (key for key in self._watched if key.unit == unit)
        return [key for key in mine if self.reading(key) is ResultLocation.DRIVER]

    @property
    def needs_snapshot(self) -> bool:
        """Some unit is about to be moved to generated code, or to partitions, which happens at a snapshot."""
        return any(self._is_due(entry) or has_outgrown(entry) for entry in self._units.values())

    def _is_due(self, entry: UnitEntry) -> bool:
        large = self._generated is None and entry.size.rows > GENERATE_FROM_ROWS
        return large and entry.code.module is None and entry.unit.may_generate

    def takes_columns(self, table: str) -> frozenset[int] | None:
        """The columns of a table's changes that units read, if all of them take columns instead of rows."""
        found: set[int] = set()
        for entry in self._units.values():
            if table in entry.unit.tables:
                columns = entry.node.columns_read(table)
                if columns is None:
                    return None
                found |= columns
        return frozenset(found)

    def columns_read(self, table: str, units: Iterable[str]) -> frozenset[int] | None:
        """The columns of a table that some units read, whether they take columns or rows; None if that may be all."""
        found: set[int] = set()
        for entry in map(self._units.__getitem__, units):
            reader = entry.unit.plan if isinstance(entry.unit, TreeUnit) else entry.node
            columns = reader.columns_read(table)
            if columns is None:
                return None
            found |= columns
        return frozenset(found)

    def partition_rows(self, name: str) -> tuple[int, ...]:
        """The rows of a unit in each partition, if batches have told."""
        return self._units[name].size.partitions

    def sizes(self, name: str) -> dict[str, int]:
        """The rows of each view of a unit, as far as they are known."""
        entry = self._units[name]
        at_workers = {
            view: rows // self.partitions if entry.unit.locations.get(view) == REPLICATED else rows
            for view, rows in entry.size.views.items()
        }
        return at_workers | dict(entry.node.sizes() if entry.code.local else {})

    def close(self) -> None:
        """Removes what the machines keep of the state, which can be read from the checkpoint.

        A cluster that is gone, or has no executor to spare, is not waited for: what remains on a machine is removed
        after some days.
        """

        def remove() -> None:
            with contextlib.suppress(Exception):
                self._ask(RemoveState(replace(self.context(), units={})), "removing local state")

        if self.has_files or any(entry.code.is_mapped for entry in self._units.values()):
            removal = Thread(target=remove, daemon=True)
            removal.start()
            removal.join(CLOSE_SECONDS)

    def context(self, read: ResultKey | None = None) -> Context:
        """What tasks need to know now, and to `read` a result."""
        watched = self._told_by_tasks()
        known = (key for key in (*watched, *([] if read is None else [read])) if key.digest != OWN)
        return Context(
            self.checkpoint.directory,
            self.cluster.state_folder,
            self.partitions,
            {name: self._share(entry) for name, entry in self._units.items()},
            self.checkpoint.history,
            watched,
            self.compared(),
            {key: replace(kept, is_told=key in self._watched) for key, kept in self._kept_changes.items()},
            {key: self._result_code(key) for key in known},
            None,
            self.inline_bytes,
            self.checkpoint.sync,
        )

    def _told_by_tasks(self) -> frozenset[ResultKey]:
        """The results whose changes tasks tell or keep."""
        return frozenset({key for key in self._watched if self.reading(key).is_spread} | self._kept_changes.keys())

    def compared(self) -> frozenset[ResultKey]:
        """Those of them that are compared with views at the driver."""
        return frozenset(key for key in self._told_by_tasks() if self.reading(key) is ResultLocation.SENT)

    def _share(self, entry: UnitEntry) -> SharedCode[UnitCode]:
        if entry.shared is None:
            entry.shared = SharedCode(uuid.uuid4().hex, self.cluster.share(entry.code))
        return entry.shared

    def _ask(self, task: PartitionTask[R], what: str) -> list[R]:
        """What every partition answers."""
        return [good(answer) for answer in self.cluster.run(task, [None] * self.partitions, what)]

    def ask_tree(self, name: str, question: Question, partition: int | None = None) -> list[Any]:
        """What all partitions of a view tree answer, or one of them."""
        task = TreeRequest(self.context(), name, question)
        if partition is None:
            return self._ask(task, f"read {name}")
        return [good(answer) for answer in self.cluster.run(task, [partition], f"read {name}", [partition])]


def _is_renamed(unit: str, view: str, known: Mapping[str, Any] | None, taken: Collection[str]) -> bool:
    """A view has the name of its unit before its own: another unit has such a name, or had when it was planned."""
    if known is not None and (f"{unit}/{view}" in known or view in known):
        return view not in known
    return view in taken


def has_outgrown(entry: UnitEntry) -> bool:
    """A view at the driver has become large since the last snapshot, which may move it to the partitions."""
    return driver_rows(entry) > max(DRIVER_ROWS, 2 * entry.driver_rows)


def driver_rows(entry: UnitEntry) -> int:
    return max(entry.node.sizes().values(), default=0) if entry.code.local else 0


def good(answer: Any) -> Any:
    if isinstance(answer, ViewletError):
        raise answer
    return answer
