"""Views partitioned over a Spark cluster, which runs the batches of all of them together.

The driver keeps the catalogue, the log and what is small; rows of data frames pass through it only if a view needs them
there. Views read tables: the views that they read are replaced by their definitions (`view_stack`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from viewlet import __version__
from viewlet.changes import Change, Changes
from viewlet.engine.catalogue_json import Json
from viewlet.engine.choice import Choice
from viewlet.engine.declaration import READ_FROM, Declaration, planned_again
from viewlet.engine.ingest import Wanted, change_of, net_change
from viewlet.engine.kind import Hints
from viewlet.engine.kinds import distributed_form
from viewlet.engine.maintained_view import MaintainedView
from viewlet.engine.maintainer import Maintainer
from viewlet.engine.planned_unit import PlannedUnit
from viewlet.engine.unit_merging import MERGE, UnitMerge, mergeable, merges_of, names_in
from viewlet.errors import StateError, UnsupportedError
from viewlet.hosts.catalogue import AffectedViews, Catalogue
from viewlet.hosts.contract import Batch, Signed, Start
from viewlet.hosts.feeds import FEED, Feeds
from viewlet.hosts.progress import Progress, no_progress
from viewlet.hosts.spread_views import (
    BatchInProgress,
    ClusterTable,
    RelocationRequest,
    SpreadView,
    noted,
    read_by_tasks,
    reason_of,
    unit_sharers,
)
from viewlet.hosts.unit_planning import UnitPlanner
from viewlet.hosts.unit_sharing import (
    equal_view,
    partitioned,
    readable,
    reading_of,
)
from viewlet.hosts.view_stack import choose_form, over_tables, tables_under
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.durable.batch_ids import BatchMark
from viewlet.runtime.durable.log import Record
from viewlet.runtime.durable.snapshot import SnapshotReader, SnapshotWriter
from viewlet.spark.plan.locations import describe
from viewlet.spark.plan.partitioning import DRIVER_ROWS, FEW_ROWS, few_of_a_load, gatherable, outgrown
from viewlet.spark.run.engine import Engine
from viewlet.spark.run.exchange.change_files import FOLDER
from viewlet.spark.run.execution.batch import Batch as ClusterBatch
from viewlet.spark.run.execution.change_events import DeadLetters, EventChanges
from viewlet.spark.run.execution.frame_change import collected, frame_change, is_spark_frame
from viewlet.spark.run.state.checkpoint import DRIVER
from viewlet.spark.run.units.relocation import Relocation, check_movable, is_worth_moving, only_gathers
from viewlet.spark.run.units.table_unit import unit_name
from viewlet.spark.run.units.unit import LOCATIONS, Unit
from viewlet.spark.run.units.unit_reading import UnitReading
from viewlet.spark.run.units.unit_result import ResultKey
from viewlet.spark.run.views.scan import TableScan, ViewScan
from viewlet.tables import BaseTable
from viewlet.triggers.statistics import UNKNOWN, Statistics
from viewlet.triggers.store import UndoLog
from viewlet.types import Table, TableKind
from viewlet.visible import logger

SETUP = 100
"""The kind of the first record: the number of partitions."""
BUSY_BATCHES = 100


def is_busy(view: MaintainedView) -> bool:
    """It has seen enough changes that a small size says something of its size later."""
    return view.work.tuples >= DRIVER_ROWS or view.work.batches >= BUSY_BATCHES


@dataclass(slots=True)
class SparkHost:
    """The host on a cluster."""

    cluster: Engine
    catalogue: Catalogue = field(default_factory=Catalogue)
    progress: Progress = no_progress
    hints: Hints = field(default_factory=Hints)
    on_close: Callable[[], None] = lambda: None
    log: UndoLog = field(default_factory=UndoLog)
    """Undoes what the driver knows of the rows of views."""
    feeds: Feeds = field(init=False)
    planner: UnitPlanner = field(init=False)
    _views: dict[str, SpreadView] = field(default_factory=dict)
    _keys: WeakKeyDictionary[Maintainer, ResultKey] = field(default_factory=WeakKeyDictionary)
    """What the cluster calls the results that are read."""
    _under_way: BatchInProgress | None = None
    _is_open: bool = False
    """Everything that the log says has been repeated."""

    _wishes: RelocationRequest | None = None
    """What the user wants the next snapshot to change."""
    _moves: Mapping[str, SpreadView] = field(default_factory=dict)
    """Views as they will be when the snapshot is in place that is being written."""

    has_temporary_views = False
    may_lose_views = False  # their state is in the partitions, which every snapshot writes again
    set_aside = None  # what reads a table is spread over the partitions

    def __post_init__(self) -> None:
        self.feeds = Feeds(self.cluster.checkpoint.files)
        self.planner = UnitPlanner(self.cluster, self.catalogue)
        self.cluster.checkpoint.on_snapshot = self._adopt
        self.cluster.relocate = self._relocated

    @property
    def dictionary(self) -> StringDictionary:
        return self.cluster.dictionary

    # -- declarations -----------------------------------------------------------------------------------------------

    def check_table(self, schema: Table) -> None:
        if schema.parts is not None:
            hint = f"keep {schema.name!r} in a connection without spark="
            raise UnsupportedError("a partitioned stream on this host", hint, "engine")

    def make_table(self, schema: Table, saved: SnapshotReader | None = None) -> BaseTable:
        if schema.kind is not TableKind.STREAM:
            self.cluster.keep(schema)
            if saved is not None:
                self.cluster.restore(unit_name(schema.name), saved)
        return BaseTable(schema, ClusterTable(schema, self.cluster))

    def forget_table(self, table: BaseTable) -> None:
        self.cluster.drop(table.schema.name)
        self.cluster.checkpoint.started -= {table.schema.name}

    def choose(self, declared: Declaration) -> Declaration:
        return choose_form(declared, self.catalogue)

    def over_tables(self, declared: Declaration) -> Declaration:
        return over_tables(declared, self.catalogue)

    def tables_under(self, declared: Declaration) -> frozenset[str]:
        return tables_under(declared, self.catalogue)

    def plan(self, declared: Declaration, tables: Mapping[str, Table]) -> Any:
        return distributed_form(declared).plan(declared, tables)

    def measure(self, tables: Mapping[str, Table]) -> Statistics:
        """Only the user knows: see `hints`."""
        return UNKNOWN

    def start(self, declared: Declaration, engine: str | None) -> Start:
        """Plans a view, and fills it if one of its tables has received rows; or finds a unit that has what it needs."""
        checkpoint = self.cluster.checkpoint
        shared = self._shared(declared)
        if shared is not None:
            self._under_way = BatchInProgress(checkpoint.started, self.cluster.units_now(), dict(self._views))
            return Start(shared())
        planned = self._renamed(declared)
        unit = self.planner.unit(planned, self.hints, {})
        made = PlannedUnit(planned, unit, self.hints)
        self._under_way = under_way = BatchInProgress(
            checkpoint.started, self.cluster.units_now(), dict(self._views), made
        )
        self.cluster.add(unit)
        records: tuple[Record, ...] = ()
        if not checkpoint.started.isdisjoint(unit.sources):
            with self.progress(f"view {declared.name} is being filled"):
                under_way.ran = self.cluster.fill(unit.name, checkpoint.epoch)
            records = (self.cluster.record(under_way.ran[0], checkpoint.epoch),)
        made = under_way.declared or made
        return Start(self._spread(declared, made), records)

    def _shared(self, declared: Declaration) -> Callable[[], MaintainedView] | None:
        """What makes a view of a unit that is there: one with its rows, or with all that they are computed from."""
        if declared.sources <= self.catalogue.tables.keys():
            equal = equal_view(declared, self._views.values(), self.hints)
            if equal is not None:
                return partial(self._sharing, declared, equal)
        flat = self.over_tables(declared)

        def is_whole() -> bool:
            return self.planner.unit(self._renamed(declared), self.hints, {}).reading.is_whole

        units = [known.kept for known in self._by_unit().values()]
        found = readable(declared, flat, self.catalogue.sources_of(flat), units, self.hints, is_whole)
        return None if found is None else partial(self._read_from, declared, *found)

    def _sharing(self, declared: Declaration, other: SpreadView) -> MaintainedView:
        view = MaintainedView(declared, other.view.maintainer, self.log)
        self._views[view.name] = replace(other, view=view)
        return view

    def _read_from(self, declared: Declaration, other: PlannedUnit, reading: UnitReading) -> MaintainedView:
        """A view whose rows are another result over the stored views of a unit."""
        form, unit, planned = distributed_form(declared), other.unit, other.declared
        assert form.results is not None
        engine = form.results.engine(self.cluster, reading)
        maintainer = Maintainer(declared, Choice(engine, reason_of(self.cluster, unit, planned, is_own=False)))
        view = MaintainedView(declared, maintainer, self.log)
        self._keys[maintainer] = engine.key
        self._views[view.name] = SpreadView(view, other, is_own=False)
        return view

    def _renamed(self, declared: Declaration) -> Declaration:
        """The declaration under a name that no unit has: the name of a dropped view may be that of a shared unit."""
        users = {known.unit.name for name, known in self._views.items() if name != declared.name}
        names = (declared.name, *(f"{declared.name}_{i}" for i in range(2, len(users) + 3)))
        free = next(name for name in names if name not in users and (name == declared.name or self._is_unused(name)))
        return declared if free == declared.name else replace(declared, name=free)

    def _is_unused(self, name: str) -> bool:
        return name not in self.cluster.units and name not in self.catalogue.views and not self.is_in_log(name)

    def _spread(self, declared: Declaration, kept: PlannedUnit) -> MaintainedView:
        """A view whose unit the cluster has; it may have been planned for another view of the same rows."""
        unit, planned = kept.unit, kept.declared
        engine = distributed_form(planned).engine(self.cluster, unit, planned)
        maintainer = Maintainer(planned, Choice(engine, reason_of(self.cluster, unit, planned, is_own=True)))
        view = MaintainedView(declared, maintainer, self.log)
        self._keys[maintainer] = ResultKey(unit.name)
        self._views[view.name] = SpreadView(view, kept)
        return view

    def facts(self, view: MaintainedView) -> Json:
        return self._views[view.name].facts()

    def forget_view(self, view: MaintainedView) -> None:
        """The unit stays while other views are read from it; it is gone already if another has taken its name."""
        view.maintainer.leave(view)
        known, key = self._views.get(view.name), self._key(view)
        if known is not None and known.view is view:
            del self._views[view.name]
        if key.unit in self.cluster.units and all(other.unit.name != key.unit for other in self._views.values()):
            self.cluster.remove(key.unit)
        elif all(self._key(other.view) != key for other in self._views.values()):
            self.cluster.forget_result(key)
        self.cluster.forget_changes(key, view.name)
        self.feeds.forget(view.name, with_files=self._is_open)

    def _key(self, view: MaintainedView) -> ResultKey:
        return self._keys.get(view.maintainer) or ResultKey(view.maintainer.declared.name)

    @contextmanager
    def relocating(self, partition_by: Mapping[str, Sequence[str]], partitions: int | None) -> Iterator[bool]:
        """Plans units as they will be; the snapshot that moves them clears the wishes."""
        count = self.cluster.partitions if partitions is None else partitions
        units: dict[str, PlannedUnit] = {}
        for name, columns in partition_by.items():
            known = self._views[self.catalogue.find_view(name).name]
            planned = self.planner.again(partitioned(known, tuple(columns)), {})
            is_said = [each.partition_by for each in planned.members] == [m.partition_by for m in known.kept.members]
            if planned.unit.locations != known.unit.locations or not is_said:
                units[planned.unit.name] = planned
        if count != self.cluster.partitions:
            for each in self.cluster.units.values():
                check_movable(each)
        self._wishes = RelocationRequest(units, count) if units or count != self.cluster.partitions else None
        try:
            yield self._wishes is not None
        finally:
            self._wishes = None

    def stats(self, view: MaintainedView) -> dict[str, object]:
        """Without the number of rows, which would have to be read."""
        return {
            "sources": sorted(view.sources),
            "strategy": view.engine.plan.strategy,
            "engine": view.engine.name,
            **view.engine.stats(),
            "subscribers": len(view.subscribers),
            "shared_with": view.sharers,
            "state_shared_with": unit_sharers(view, self._views),
        }

    def scan(self, name: str) -> ViewScan | TableScan | None:
        """How tasks read the rows that a view or a kept table has now; None where the driver reads them."""
        view = self.catalogue.views.get(name)
        if view is None:
            table = self.catalogue.find_kept(name).schema
            return TableScan(self.cluster.context().of(ResultKey(unit_name(table.name))), table)
        engine = read_by_tasks(view)
        scan = None if engine is None else engine.scan(view.declared.query)
        return scan if scan is not None and scan.is_possible else None

    def rows_kept(self, name: str) -> int:
        """About how many rows a view or a kept table has at the workers: those of its largest inner view."""
        known = self._views.get(name)
        unit = unit_name(name) if known is None else known.unit.name
        return max(self.cluster.sizes(unit).values(), default=0) if unit in self.cluster.units else 0

    def feed(self, view: MaintainedView, since: int) -> None:
        """After an epoch, the changes of a view are written to files."""
        self.feeds.since[view.name] = since
        engine = read_by_tasks(view)
        if engine is None or not engine.keep_changes(view.name, view.declared.query):
            view.subscribe(FOLDER, lambda epoch, changes: None)

    # -- batches ----------------------------------------------------------------------------------------------------

    def change_of(self, table: Table, data: object, sign: int, encoded: bool) -> Change:
        """A data frame stays one; there are no products, because units take none."""
        if isinstance(data, EventChanges | DeadLetters):
            data = data.read(table, self.catalogue)
        if is_spark_frame(data):
            return frame_change(table, data, sign, encoded)
        return change_of(self, table, data, sign, encoded, takes_products=False)

    def net_change(self, table: Table, signed: Signed) -> Change:
        return net_change(self, table, [(collected(table, data), sign) for data, sign in signed])

    def columns_wanted(self, name: str, rows: int) -> Wanted | None:
        read = self.cluster.takes_columns(name)
        return None if read is None else Wanted(read)

    def expect(self, sizes: Mapping[str, int]) -> None:
        """Units are loaded or run by what the batch turns out to hold."""

    def due(self, tables: Collection[str]) -> tuple[int, Json, Callable[[], None]] | None:
        """Before the first batch of some views: those that have views in common get one unit."""
        started = self.cluster.checkpoint.started
        if started.issuperset(tables):
            return None
        empty = (known.kept for known in self._by_unit().values() if started.isdisjoint(known.unit.sources))
        with self.progress("views that have views in common get one unit"):
            merges = merges_of(self.cluster, [known for known in empty if mergeable(known, self.catalogue.tables)])
        known = {"merges": [merge.to_json() for merge in merges]}
        return (MERGE, known, partial(self._merge, merges)) if merges else None

    def _merge(self, merges: Sequence[UnitMerge]) -> None:
        """Units that hold nothing become one; may be called again if it was interrupted."""
        for merge in merges:
            for name in merge.names:
                if name in self.cluster.units:
                    self.cluster.remove(name)
            self.cluster.add(merge.after.unit)
            self._read_merged([known for known in self._views.values() if known.unit.name in merge.names], merge)

    def _read_merged(self, mine: Sequence[SpreadView], merge: UnitMerge) -> None:
        """Views are read from the unit that theirs have become."""
        kept, made = merge.after, dict[Maintainer, Any]()
        for known in mine:
            view, maintainer = known.view, known.view.maintainer
            view.subscribers.pop(FOLDER, None)
            is_own = known.is_own and known.planned.name == kept.declared.name
            if maintainer not in made:
                made[maintainer] = self.planner.reader(known, merge, is_own)
            self._views[view.name] = SpreadView(view, kept, is_own)
        for maintainer, engine in made.items():
            self._keys[maintainer] = engine.key
            maintainer.run_on(replace(maintainer.choice, engine=engine))
        self._read_again([self._views[known.view.name] for known in mine])

    def begin(self) -> None:
        self._under_way = BatchInProgress(self.cluster.checkpoint.started)
        self.log.begin()

    def reached(self, batch: Batch) -> AffectedViews:
        return self.catalogue.reach(tuple(batch))

    def run(
        self, epoch: int, batch: Batch, reached: Sequence[MaintainedView]
    ) -> Sequence[tuple[MaintainedView, Changes]]:
        """Runs the stages of the batch. A data frame counts as a change even if it turns out empty."""
        assert self._under_way is not None
        self.feeds.begin(epoch)
        with self.progress(f"batch {epoch}"):
            self._under_way.ran = self.cluster.apply(epoch, batch)
        for view in reached:
            for table in self._views[view.name].unit.tables & batch.keys():
                view.maintainer.note(table, len(batch[table]))
        visible = [(view, view.finish()) for view in reached if view.is_touched]
        self._keep_changes(self._under_way.ran[0], visible)
        self.cluster.checkpoint.started = self.cluster.checkpoint.started.union(batch)
        return visible

    def _keep_changes(self, ran: ClusterBatch | None, visible: Sequence[tuple[MaintainedView, Changes]]) -> None:
        """Writes what the driver knows of changes that are kept, and which parts tasks have written."""
        if ran is None:
            return
        for view, changes in visible:
            key = self._key(view)
            if self.cluster.keeps_changes_of(key, view.name):
                self.feeds.write_shares(ran.commit, view.name, ran.shares.get(key, ()))
            else:
                self.feeds.write(ran.commit, view.name, view.columns, changes)

    def commit(self) -> None:
        under_way = self._under_way
        if under_way is not None and under_way.ran is not None:
            self.cluster.finish(*under_way.ran)
        self.log.commit()
        self._under_way = None

    def rollback(self) -> None:
        under_way = self._under_way
        if under_way is not None:
            self.cluster.checkpoint.started = under_way.started
            self.cluster.abandon()
            if under_way.units is not None:
                self.cluster.reset(under_way.units)
                before = {id(known.view) for known in under_way.views.values()}
                for known in self._views.values():
                    if id(known.view) not in before:
                        known.view.maintainer.leave(known.view)
                self._views = dict(under_way.views)
        self.log.rollback()
        self._under_way = None

    def settle(self, touched: Sequence[Maintainer]) -> None:
        self.cluster.settle()

    # -- the journal ------------------------------------------------------------------------------------------------

    def record(self, epoch: int, batch: Batch, mark: BatchMark | None) -> Record:
        """What the driver was given; the inputs of the stages are in the log already."""
        ran = self._under_way.ran if self._under_way is not None else None
        return self.cluster.record(None if ran is None else ran[0], epoch)

    def replay(self, record: Record) -> None:
        if record.kind == DRIVER:
            self.cluster.replay(record)
        elif record.kind == FEED:
            known = json.loads(bytes(record.payload))
            self.feed(self.catalogue.views[known["name"]], known["since"])
        elif record.kind == MERGE:
            units, merges = self._by_unit().keys(), json.loads(bytes(record.payload))["merges"]
            self._merge([self.planner.merge_again(known) for known in merges if names_in(known) & units])

    def is_in_log(self, name: str) -> bool:
        """The log has stages of a unit of that name."""
        return self._is_open and any(self.cluster.checkpoint.history.steps_of(unit) for unit in (name, unit_name(name)))

    def save(self, writer: SnapshotWriter, known: Json) -> Json:
        """Views whose sizes are not what they were taken to be are written to better places."""
        better = {unit: self._replaced(known) for unit, known in self._by_unit().items()}
        self._moves = moves = {
            name: replace(known, kept=found)
            for name, known in self._views.items()
            if (found := better[known.unit.name]) is not None
        }
        saved = list(noted(known["views"], self._views | moves))
        count = self.cluster.partitions if self._wishes is None else self._wishes.partitions
        facts = {**known, "views": saved, "partitions": count, "feeds": self.feeds.since}
        units = {known.unit.name: known.unit for known in moves.values()}
        if count != self.cluster.partitions:
            units = {**self.cluster.units, **units}
        relocation = Relocation(units, count) if units else None
        with self.progress("a snapshot is being written"):
            return self.cluster.save(writer, facts, relocation)

    def _by_unit(self) -> dict[str, SpreadView]:
        """One view of every unit, the first that was declared."""
        found: dict[str, SpreadView] = {}
        for known in self._views.values():
            found.setdefault(known.unit.name, known)
        return found

    def _replaced(self, known: SpreadView) -> PlannedUnit | None:
        """A unit in better places, by the sizes that it has turned out to have; None if there are none."""
        before = known.unit
        if self._wishes is not None and before.name in self._wishes.units:
            return self._wishes.units[before.name]
        if not before.is_movable:
            return None
        if (pruned := self.planner.pruned(known.kept, self._views.values())) is not None:
            return pruned
        rows = self.cluster.sizes(before.name)
        large = outgrown(before.locations, rows)
        small = gatherable(before.locations, rows, FEW_ROWS) if is_busy(known.view) else {}
        if not (large or small):
            return None
        found = self.planner.again(known.kept, {**large, **small})
        if not large and self.cluster.reads_more(before, found.unit):
            return None
        return found if is_worth_moving(before, found.unit, has_to_move=bool(large)) else None

    def _relocated(
        self, unit: Unit, sizes: Mapping[str, float], locations: Mapping[str, Any] | None
    ) -> tuple[Unit, Mapping[str, float]] | None:
        """A unit that is being loaded with those of its views in one place that turn out to have few rows.

        Where a log says that this was done, `locations` are those it was done with.
        """
        under_way, known = self._under_way, self._by_unit().get(unit.name)
        before = under_way.declared if known is None and under_way is not None else None
        before = before if known is None else known.kept
        if before is None or before.unit is not unit or not unit.is_movable:
            return None
        if locations is None:
            sizes = gatherable(unit.locations, sizes, few_of_a_load(sizes))
            after = self.planner.again(before, sizes) if sizes else before
            if not is_worth_moving(unit, after.unit, has_to_move=False) or not only_gathers(unit, after.unit):
                return None
            if self.cluster.reads_more(unit, after.unit):
                return None
        else:
            after = self.planner.again(before, sizes, {**unit.facts, LOCATIONS: locations})
        self._take_placed(after)
        return after.unit, sizes

    def _take_placed(self, made: PlannedUnit) -> None:
        """Views have their unit in other places, unless the batch under way is rolled back."""
        under_way = self._under_way
        if under_way is not None and under_way.units is None:
            under_way.units, under_way.views = self.cluster.units_now(), dict(self._views)
        if under_way is not None and under_way.declared is not None:
            under_way.declared = made
        self._views |= {
            name: replace(known, kept=made) for name, known in self._views.items() if known.unit.name == made.unit.name
        }

    def _adopt(self) -> None:
        """The snapshot is in place: views are where it was written."""
        sizes = {known.unit.name: self.cluster.sizes(known.unit.name) for known in self._moves.values()}
        before, partitions = self._by_unit(), self.cluster.partitions
        self.cluster.adopt()
        moves, self._moves = self._moves, {}
        self._wishes = None
        self._views |= moves
        for known in moves.values():
            if known.is_own:
                known.view.maintainer.declared = known.planned
        self._read_again(moves.values() if self.cluster.partitions == partitions else self._views.values())
        for unit, rows in sizes.items():
            known = before[unit]
            for view, at in self.cluster.units[unit].locations.items():
                if at != known.unit.locations[view]:
                    many = rows.get(view, 0)
                    logger.info("view %s: %s has %d rows and is now %s", known.view.name, view, many, describe(at))

    def _read_again(self, moved: Iterable[SpreadView]) -> None:
        """Views are read, and their changes told, from other places."""
        for known in moved:
            view = known.view
            view.subscribers.pop(FOLDER, None)
            if view.name in self.feeds.since:
                self.feed(view, self.feeds.since[view.name])
            reason = reason_of(self.cluster, known.unit, known.planned, known.is_own)
            view.maintainer.run_on(replace(view.choice, reason=reason))

    def take_up(self, saved: SnapshotReader) -> Json:
        self.cluster.checkpoint.take_up(saved.facts)
        known: Json = saved.facts["facts"]
        self.feeds.since.update(known["feeds"])
        return known

    def resume(self, declared: Declaration, known: Json, saved: SnapshotReader | None) -> MaintainedView:
        """With the unit that it had; a unit of the log is filled by the records that follow."""
        hints = Hints(known["rows"], known["partition_by"])
        planned = planned_again(known, declared, self.catalogue.schemas(), self.catalogue.aggregates)
        mine = [each for each in self._views.values() if each.unit.name == planned.name and planned is not declared]
        is_own = READ_FROM not in known
        kept = mine[0].kept if mine else self._unit_again(planned, hints, known, saved)
        alike = [each for each in mine if each.is_own is is_own]
        equal = next(iter(alike), None) if is_own else equal_view(declared, alike, hints)
        if equal is not None:
            view = self._sharing(declared, equal)
        elif is_own:
            view = self._spread(declared, kept)
        else:
            flat = self.over_tables(declared)
            reading = reading_of(kept.unit, flat, self.catalogue.sources_of(flat))
            if reading is None:
                raise StateError(f"this version of Viewlet ({__version__}) would keep it in another way")
            view = self._read_from(declared, kept, reading)
        return self._followed(view, saved)

    def _unit_again(self, planned: Declaration, hints: Hints, known: Json, saved: SnapshotReader | None) -> PlannedUnit:
        """A unit as it was."""
        kept = self.planner.as_noted(planned, hints, known)
        self.cluster.add(kept.unit)
        if saved is not None:
            self.cluster.restore(kept.unit.name, saved)
        return kept

    def _followed(self, view: MaintainedView, saved: SnapshotReader | None) -> MaintainedView:
        """A view of a snapshot, whose changes are written to files if they were before."""
        if saved is not None and view.name in self.feeds.since:
            self.feed(view, self.feeds.since[view.name])
        return view

    def opened(self) -> None:
        """The log has been replayed: what batches left behind that were not committed is removed."""
        for name, table in self.catalogue.tables.items():
            table.started = name in self.cluster.checkpoint.started and not table.kept
        self.feeds.remove_after(self.cluster.checkpoint.epoch)
        self.cluster.settle()
        self._is_open = True

    def close(self) -> None:
        self.cluster.close()
        self.on_close()
