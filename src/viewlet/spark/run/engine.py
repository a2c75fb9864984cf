"""The engine on Spark: runs batches and loads of its units.

UnitRegistry    the units, their code and their places           unit_registry.py
ResultReader    reads their results                              result_reader.py
Snapshots       writes their state, and moves it                 snapshots.py
Engine          runs batches                                     this file
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from viewlet.changes import Change, Changes, RowChange
from viewlet.runtime.durable.log import Record
from viewlet.spark.plan.locations import REPLICATED, Dist
from viewlet.spark.plan.result_location import ResultLocation
from viewlet.spark.run.exchange.moves import fetch_all
from viewlet.spark.run.exchange.stage_record import (
    EVERYWHERE,
    StepHead,
    read_head,
    read_step,
    write_step,
)
from viewlet.spark.run.execution import loader
from viewlet.spark.run.execution.batch import Batch, BatchStats, StateSize, UnitRun
from viewlet.spark.run.execution.cluster import Cluster
from viewlet.spark.run.execution.frame_change import FrameChange, by_place, fetch_frames, fetch_small, needed_at_driver
from viewlet.spark.run.execution.tasks import (
    CompareRows,
    KeepRows,
    MapChanges,
    MapTableRows,
)
from viewlet.spark.run.snapshots import Snapshots
from viewlet.spark.run.state.checkpoint import DRIVER, Checkpoint
from viewlet.spark.run.state.segment_files import LoadedViews
from viewlet.spark.run.state.unit_state import NOTHING
from viewlet.spark.run.unit_registry import Sizes, UnitEntry
from viewlet.spark.run.units.node import ResultNode, with_result
from viewlet.spark.run.units.table_unit import unit_name
from viewlet.spark.run.units.tree_unit import TreeUnit
from viewlet.spark.run.units.unit import (
    AT_DRIVER,
    LOCATIONS,
    SPREAD,
)
from viewlet.spark.run.units.unit_result import ResultKey

REMEMBERED_BATCHES = 1000


class Engine(Snapshots):
    """The units of a cluster, and the batches that change them."""

    def __init__(
        self, cluster: Cluster, checkpoint: Checkpoint, partitions: int, generated: bool | None = None
    ) -> None:
        super().__init__(cluster, checkpoint, partitions, generated)
        self._under_way: Batch | None = None
        self.batches: deque[BatchStats] = deque(maxlen=REMEMBERED_BATCHES)
        self._settled: str | None = ""
        """The snapshot after which old files were removed."""

    # -- batches ----------------------------------------------------------------------------------------------------

    def apply(self, epoch: int, changes: Mapping[str, Change]) -> tuple[Batch | None, BatchStats]:
        """Runs a batch up to, but without, its commit."""
        self.settle()
        changed = set(changes)
        local, frames = by_place(changes)
        stats = BatchStats(epoch, tuple(sorted(changed)))
        concerned = [each for each in self._units.values() if each.unit.tables & changed]
        if not concerned:
            return None, stats
        batch = self._under_way = Batch(self.cluster, self.checkpoint, self.context, stats)
        loaded = self._load(batch, concerned, [*frames.values()], local)
        rest = [each for each in concerned if each.unit.name not in loaded]
        read = {table for each in rest for table in each.unit.tables}
        spread = {name: each for name, each in frames.items() if name in read}
        collected = self._collected(batch, rest, spread, local) if spread else {}
        local = {**local, **collected}
        spread = {name: each for name, each in spread.items() if name not in collected}
        for each in rest:
            plan = SPREAD if each.unit.tables & spread.keys() else AT_DRIVER  # nothing else is spread then
            batch.runs[each.unit.name] = self._run(each, plan, changed)
        before = {key: self._at_driver(key) for key in self.compared() if key.unit in batch.runs}
        batch.run(local, {name: (self._mapper(batch, each, changed), each.frame) for name, each in spread.items()})
        self._tell(batch, loaded)
        self._compare(batch, before)
        return batch, stats

    def _collected(
        self, batch: Batch, units: Sequence[UnitEntry], spread: Mapping[str, FrameChange], local: Collection[str]
    ) -> dict[str, Change]:
        """The changes of data frames that the driver gets, by table: small ones, or those that units need here."""
        started = time.perf_counter()
        is_small = fetch_small([*spread.values()])
        wanted = spread.keys() if is_small else needed_at_driver([each.code for each in units], spread, local)
        changes = [spread[name] for name in sorted(wanted)]
        fetch_frames(changes)
        for _ in changes:
            batch.count_stage()
        batch.stats.spent("changes", started)
        return {
            each.table.name: each.at_driver(self.takes_columns(each.table.name), self.dictionary) for each in changes
        }

    def _tell(self, batch: Batch, loaded: Collection[str]) -> None:
        """The changes of results that are not read in the partitions."""
        for key in self._watched:
            if key.unit in loaded:
                batch.changes[key] = self.result(key)
            elif key.unit in batch.runs and self.reading(key) is ResultLocation.DRIVER:
                batch.changes[key] = with_result(self._units[key.unit].node, self._other(key)).result_change()
        for key, kept in self._kept_changes.items():
            if key.unit in loaded:
                sent = self._at_driver(key) if self.reading(key) is ResultLocation.SENT else {}
                task = KeepRows(replace(self.context(), commit=batch.commit, sent=sent), key)
                batch.shares[key] = [share for share in self._ask(task, f"changes of {kept.view}") if share is not None]
                batch.count_stage()

    def _compare(self, batch: Batch, before: Mapping[ResultKey, Mapping[str, bytes]]) -> None:
        """The changes of results that are compared with views at the driver, of which tasks get those `before` too."""
        started = time.perf_counter()
        for key, views in before.items():
            now, has_run = self._at_driver(key), batch.runs[key.unit].has_stages
            different = {name: blob for name, blob in views.items() if now[name] != blob}
            if different or has_run:
                context = replace(self.context(), commit=batch.commit, sent=now)
                task = CompareRows(context, key, different, has_run)
                for change in self._ask(task, f"changes of {key.unit}"):
                    batch.note_change(key, change)
                batch.count_stage()
                batch.stats.moved_bytes += self.partitions * sum(map(len, (*now.values(), *different.values())))
        if before:
            batch.stats.spent("compare", started)

    def _run(self, entry: UnitEntry, key: str, changed: Iterable[str]) -> UnitRun:
        plan = entry.code.plan(key, entry.unit.tables.intersection(changed))
        if isinstance(entry.node, ResultNode):
            entry.node.keep_results([watched.digest for watched in self._watched_here(entry.unit.name)])
        if self.cluster.is_here and (key, plan.tables) not in entry.compiled:
            entry.compiled.add((key, plan.tables))
            entry.node.compile_all(plan)
        return UnitRun(entry.unit.name, plan, entry.node, bool(entry.code.local))

    def _mapper(self, batch: Batch, change: FrameChange, changed: Iterable[str]) -> MapChanges:
        mine = tuple(name for name in batch.runs if change.table.name in self.units[name].tables)
        wanted = change.columns_among(self.columns_read(change.table.name, mine))
        return MapChanges(
            self.context(),
            mine,
            tuple(sorted(changed)),
            change.table,
            change.sign,
            change.encoded,
            batch.token,
            wanted,
            takes_counts=any(isinstance(self.units[name], TreeUnit) for name in mine),
        )

    def changes(self, key: ResultKey) -> Changes | None:
        """What the batch under way has done to the rows of a query; None if it is not watched."""
        if key not in self._watched:
            return None
        told = self._under_way.changes.get(key, {}) if self._under_way is not None else {}
        return {row: weight for row, weight in told.items() if weight}

    def record(self, batch: Batch | None, epoch: int) -> Record:
        """What repeats the driver's part of a batch; it is the last record of the batch."""
        return Record(DRIVER, epoch, write_step(StepHead(""), {}) if batch is None else batch.record())

    def finish(self, batch: Batch | None, stats: BatchStats) -> None:
        """What is left to do when a batch is committed; may be done again."""
        self.checkpoint.keep()
        stats.log_bytes, stats.seconds["commit"] = self.checkpoint.last_commit
        self._under_way = None
        for name, size in (batch.sizes if batch is not None else {}).items():
            self._units[name].size = size
        stats.state_rows = sum(entry.size.rows for entry in self._units.values())
        stats.state_bytes = sum(entry.size.bytes for entry in self._units.values())
        if stats not in self.batches:
            self.batches.append(stats)
        if batch is not None:
            self.has_files |= batch.has_files
            self.checkpoint.remove_files(batch.used_files)
        self.checkpoint.is_wanted = self.needs_snapshot

    def abandon(self) -> None:
        """Rolls back a batch that will not be committed; to be called again if it is interrupted."""
        batch = self._under_way
        if batch is not None:
            for run in batch.begun:
                run.node.rollback()
            for name in batch.loads:
                self._empty(self._units[name])
        self.checkpoint.abandon()
        if batch is not None:
            self.checkpoint.remove_moves_of(batch.token)
        self._under_way = None

    def _empty(self, entry: UnitEntry) -> None:
        entry.size = StateSize()
        initial = entry.code.at_driver()
        for view in entry.code.local:
            entry.node.restore(view, initial.get(view, b""))

    def replay(self, record: Record) -> None:
        """Runs the driver's part of a committed batch again."""
        head = read_head(record.payload)
        for name, known in head.loads.items():
            if name in self._units:
                loaded = LoadedViews.of_json(self.checkpoint.directory, known)
                if loaded.moved is not None:
                    self._move(name, loaded.moved["sizes"], loaded.moved[LOCATIONS])
                self._take_up(self._units[name], loaded)
        for stage in head.stages:
            entry = self._units.get(stage.unit)
            if entry is not None:
                received = fetch_all(self.checkpoint.files, read_step(record.payload, stage.unit, EVERYWHERE))
                entry.node.redo(entry.code.plan(stage.plan, stage.tables), received)

    def settle(self) -> None:
        """Removes strings that nothing uses at the driver; after a snapshot, moves units that have become large to
        generated code, and removes files of old loads.
        """
        self.dictionary.sweep_if_due()
        base = self.checkpoint.history.snapshot
        if base == self._settled:
            return
        for name, entry in self._units.items():
            if self._is_due(entry) and name in self.checkpoint.generated:
                self._generate(entry)
        self._loader.remove_old()
        self._settled = base

    # -- loads ------------------------------------------------------------------------------------------------------

    @property
    def _loader(self) -> loader.Loader:
        return loader.Loader(self.cluster, self.checkpoint, self.partitions)

    def _load(
        self, batch: Batch, concerned: Iterable[UnitEntry], frames: Sequence[FrameChange], local: Mapping[str, Change]
    ) -> set[str]:
        """Loads what is empty and gets a lot from data frames; returns the units that need no triggers then."""
        empty = [each.unit for each in concerned if self.checkpoint.history.token(each.unit.name) == NOTHING]
        found = self._loader.from_frames(batch, empty, frames, local)
        self._take_loaded(batch, found)
        return set(found)

    def _take_loaded(self, batch: Batch, found: Mapping[str, LoadedViews]) -> None:
        placed = {name: self._placed(name, loaded) for name, loaded in found.items()}
        if placed:
            batch.load({name: loaded.to_json() for name, loaded in placed.items()})
        for name, loaded in placed.items():
            self._take_up(self._units[name], loaded)

    def _placed(self, name: str, loaded: LoadedViews) -> LoadedViews:
        """What was loaded, with views of few rows in one place, unless somebody follows the changes of the unit."""
        is_followed = any(key.unit == name for key in (*self._watched, *self._kept_changes))
        sizes = None if is_followed else self._move(name, {view: each.rows for view, each in loaded.views.items()})
        if sizes is None:
            return loaded
        unit = self.units[name]
        views = {
            view: each if isinstance(unit.locations[view], Dist) else each.whole()
            for view, each in loaded.views.items()
        }
        return replace(loaded, views=views, moved={"sizes": sizes, LOCATIONS: unit.facts[LOCATIONS]})

    def _move(self, name: str, sizes: Sizes, locations: Mapping[str, Any] | None = None) -> Sizes | None:
        """Puts the views of a unit in other places before they have contents; returns the sizes that say so."""
        found = self.relocate(self._units[name].unit, sizes, locations)
        if found is None:
            return None
        unit, expected = found
        self._units[name] = self._entry(unit)
        return expected

    def _take_up(self, entry: UnitEntry, loaded: LoadedViews) -> None:
        copies = {name: self.partitions for name, at in entry.unit.locations.items() if at == REPLICATED}
        rows = {name: view.rows * copies.get(name, 1) for name, view in loaded.views.items()}
        entry.size = StateSize(rows, (), loaded.bytes)
        if self._is_due(entry):
            self._generate(entry)
        for name in entry.code.local:
            entry.node.restore(name, loaded.read(name))

    def fill(self, name: str, epoch: int) -> tuple[Batch | None, BatchStats]:
        """Gives a new view the rows that tables keep, up to the commit."""
        self.settle()
        entry = self._units[name]
        tables = [self.kept[table] for table in sorted(entry.unit.tables) if table in self.kept]
        names = tuple(table.name for table in tables)
        stats = BatchStats(epoch, names)
        if not tables:
            return None, stats
        batch = self._under_way = Batch(self.cluster, self.checkpoint, self.context, stats)
        if sum(self._units[unit_name(table)].size.rows for table in names) >= loader.LOAD_FROM_ROWS:
            found = self._loader.from_tables(batch, entry.unit, self.context(), tables)
            self._take_loaded(batch, found)
            if found:
                return batch, stats
        if SPREAD in entry.code.plans and set(names) <= set(entry.code.plans[SPREAD].tables):
            batch.runs[name] = self._run(entry, SPREAD, names)
            context = self.context()
            token = batch.token
            mappers = tuple(MapChanges(context, (name,), names, table, 1, False, token) for table in tables)
            task = MapTableRows(context, token, mappers)
            batch.run({}, {}, lambda: (piece for part in self._ask(task, f"fill {name}") for piece in part))
        else:
            batch.runs[name] = self._run(entry, AT_DRIVER, names)
            batch.run({table: RowChange(self.result(ResultKey(unit_name(table)))) for table in names}, {})
        return batch, stats
