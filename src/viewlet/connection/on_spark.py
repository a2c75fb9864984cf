"""A database whose views are partitioned over a Spark cluster: the same catalogue and SQL, another way to run batches.

The driver keeps the catalogue, the log and what is small; rows of data frames pass through it only if a view needs them
there. Declarations are records of the same log as batches.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from viewlet import __version__
from viewlet.changes import Change, Changes, RowChange, sorted_rows
from viewlet.connection.database import Announcement, Committed, Database, unreadable_stream
from viewlet.connection.restoring import declared_again, explaining, used_aggregates
from viewlet.connection.spark_feeds import FOLDER, begin_changes, forget_changes, remove_changes, write_changes
from viewlet.connection.spark_progress import Progress, no_progress
from viewlet.engine.catalogue_json import Json, table_of_json, table_to_json
from viewlet.engine.choice import Choice
from viewlet.engine.declaration import Declaration
from viewlet.engine.ingest import change_of
from viewlet.engine.kind import DistributedForm, Hints, Subject
from viewlet.engine.kinds import kind_of
from viewlet.engine.maintained_view import MaintainedView
from viewlet.engine.progress import ProgressLine
from viewlet.engine.rows import is_limited
from viewlet.errors import SchemaError, StateError, UnsupportedError
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.durable.batch_ids import BatchIds, BatchMark
from viewlet.runtime.durable.log import Record
from viewlet.spark.run.engine import Engine
from viewlet.spark.run.execution.batch import Batch, BatchStats
from viewlet.spark.run.execution.frame_change import collected, frame_change, is_spark_frame
from viewlet.spark.run.state.checkpoint import DRIVER
from viewlet.spark.run.units.table_unit import unit_name
from viewlet.spark.run.units.unit import Unit
from viewlet.tables import BaseTable, TableStore, check_static
from viewlet.triggers.statistics import UNKNOWN, Statistics
from viewlet.types import Row, Table, TableKind
from viewlet.view import Snapshot

TABLE, VIEW, DROP, SETUP, FEED = 2, 3, 4, 100, 103

_Ran = tuple[Batch | None, BatchStats]
"""What has run of a batch, and what that took."""


@dataclass(slots=True)
class SparkDatabase(Database):
    cluster: Engine = field(kw_only=True)
    progress: Progress = field(default=no_progress, kw_only=True)
    feeds: dict[str, int] = field(default_factory=dict, init=False)
    """Views whose changes are written to files, and the epoch after which that began."""
    _fed_epoch: int = field(default=-1, init=False)
    hints: Hints = field(default_factory=Hints, init=False)
    _planned_with: dict[str, Hints] = field(default_factory=dict, init=False)
    _replaying: bool = field(default=False, init=False)

    # -- declarations -----------------------------------------------------------------------------------------------

    def create_table(self, table: Table) -> None:
        self._check_free(table.name)
        self._declare(TABLE, table_to_json(table))
        self.tables[table.name] = BaseTable(table, TableStore(table, self._log, lambda: self.dictionary))
        if table.kind is not TableKind.STREAM:
            self.cluster.keep(table)
        self._count_version()

    def create_view(self, declared: Declaration, engine: str | None = None) -> None:
        name = declared.name
        self._check_name(declared)
        sources = self._flat(declared).sources
        for source in sorted(sources):
            if not self.tables[source].kept:
                self._check_not_started(source, name)
        replaced = name in self.views
        if replaced:
            self._unit(declared, self.hints, {})  # what is wrong with it shows before the old one is gone
        if replaced:
            self._settle_log()
            self._forget_view(name)
        unit = self._unit(declared, self.hints, {})
        known = {**_view_to_json(declared, unit, self.hints), **used_aggregates(declared, self)}
        record = Record(VIEW, self.epoch, json.dumps(known).encode())
        if not any(self.tables[source].started for source in sources):
            self.cluster.checkpoint.commit(record)
            self._take_up(declared, unit, self.hints)
            return
        self.cluster.add(unit)
        try:
            with self.progress(f"view {name} is being filled"):
                batch, stats = self.cluster.fill(name, self.epoch)
            self.cluster.commit(batch, stats, None, [record])
        except BaseException:
            self.cluster.abandon()
            self.cluster.remove(name)
            raise
        self._take_up(declared, unit, self.hints)

    def _unit(self, declared: Declaration, hints: Hints, facts: Mapping[str, Any]) -> Unit:
        """How a view is kept; one that continues has `facts`."""
        flat = self._flat(declared)
        sources = self._source_schemas(flat)
        own = {name: table.partition_by for name, table in sources.items() if table.partition_by}
        said = Hints(hints.rows, {**own, **hints.partition_by})
        unit: Unit = distributed_form(declared).unit(self.cluster, flat, sources, said, facts)
        return unit

    def _flat(self, declared: Declaration) -> Declaration:
        """The same view as one over tables: the views it reads are replaced by their definitions."""
        inner = sorted(declared.sources & self.views.keys())
        if not inner:
            return declared
        inline = distributed_form(declared).inline
        if inline is None:
            hint = f"let it read the tables under {inner[0]!r}"
            raise UnsupportedError(f"{kind_of(declared).noun} over view {inner[0]!r} on Spark", hint, "engine")
        for name in inner:
            self._check_readable(name, declared.name)
            if distributed_form(self.views[name].declared).inline is None:
                hint = f"read {name!r} with its handle; let view {declared.name!r} read the tables under it"
                raise UnsupportedError(f"a view over {name!r}, {self.views[name].kind.noun}, on Spark", hint, "engine")
        flat = {name: self._flat(self.views[name].declared) for name in inner}
        for name, view in flat.items():
            if is_limited(view.query):
                raise SchemaError(
                    f"view {declared.name!r} reads view {name!r}, which shows its first rows only: "
                    "on Spark views read tables, and views without LIMIT and OFFSET"
                )
        tables = (declared.sources - flat.keys()).union(*(view.sources for view in flat.values()))
        return inline(declared, {name: view.query for name, view in flat.items()}, tables)

    def _take_up(self, declared: Declaration, unit: Unit, hints: Hints) -> None:
        if unit.name not in self.cluster.units:
            self.cluster.add(unit)
        self._planned_with[declared.name] = hints
        form = distributed_form(declared)
        choice = Choice(form.engine(self.cluster, unit, declared), form.reason(self.cluster, unit))
        self._put(MaintainedView(declared, choice, self._log))
        self._count_version()

    def plan(self, declared: Declaration) -> Any:
        flat = self._flat(declared)
        return distributed_form(declared).plan(flat, self._source_schemas(flat))

    def subject(self, declared: Declaration, plan: Any, engine: str, format: str = "text") -> Subject:
        flat = self._flat(declared)
        return Subject(declared, plan, flat, self._source_schemas(flat), self._statistics, engine, format)

    def drop_table(self, name: str) -> None:
        self._check_unused(name, "drop table")
        self._settle_log()
        self._declare(DROP, {"name": name})
        self._forget_table(name)
        self._count_version()

    def drop_view(self, name: str) -> None:
        self._check_unused(name, "drop view")
        self._settle_log()
        self._declare(DROP, {"name": name})
        self._forget_view(name)
        self._count_version()

    def _forget_table(self, name: str) -> None:
        self.cluster.drop(name)
        del self.tables[name]

    def _forget_view(self, name: str) -> None:
        self.cluster.remove(name)
        del self.views[name]
        self._forget_readers()
        if self.feeds.pop(name, None) is not None and not self._replaying:
            forget_changes(self.cluster.checkpoint.files, name)

    def _settle_log(self) -> None:
        """What is in the log of a view that goes becomes part of a snapshot first: another may get its name."""
        if self.cluster.checkpoint.history.steps and not self._replaying:
            self.checkpoint()

    def _declare(self, kind: int, known: Json) -> None:
        if not self._replaying:
            self.cluster.checkpoint.commit(Record(kind, self.epoch, json.dumps(known).encode()))

    def _count_version(self) -> None:
        self.committed = replace(self.committed, version=self.version + 1)

    # -- batches ----------------------------------------------------------------------------------------------------

    @property
    def dictionary(self) -> StringDictionary:
        return self.cluster.dictionary

    def change_of(self, table: Table, data: object, sign: int, encoded: bool) -> Change:
        """A data frame stays one; there are no products, because units take none."""
        if is_spark_frame(data):
            return frame_change(table, data, sign, encoded)
        read = self.tables[table.name].read(data, sign)
        if read is not None:
            return RowChange(read)
        return change_of(self, table, data, sign, encoded, takes_products=False)

    def net_change(self, table: Table, signed: Sequence[tuple[object, int]]) -> Change:
        return Database.net_change(self, table, [(collected(data), sign) for data, sign in signed])

    def expect(self, sizes: Mapping[str, int]) -> None:
        """Partitions choose their engines themselves."""

    def columns_wanted(self, name: str, rows: int) -> frozenset[int] | None:
        return self.cluster.takes_columns(name)

    def apply(self, batch: Mapping[str, Change], mark: BatchMark | None = None) -> None:
        """Applies a batch as a whole or not at all; a data frame counts as a change even if it turns out empty."""
        if mark is not None and mark in self.batches:
            return
        batches = self.batches if mark is None else self.batches.adding(mark)
        changed = {name: batch[name] for name in self.tables if batch.get(name)}
        if not changed and mark is None:
            return
        for name in changed:
            check_static(self.tables[name].schema, (), partial(self.readers, name))
        after = Committed(self.epoch + 1 if changed else self.epoch, self.version + 1, batches)
        started = frozenset(name for name, table in self.tables.items() if table.started)
        reached = [view for view in self.views.values() if self.cluster.units[view.name].tables & changed.keys()]
        tables, news, ran = [self.tables[name] for name in changed], list[Announcement](), list[_Ran]()
        feed = iter(news)

        def work() -> None:
            self._log.begin()
            with self.progress(f"batch {after.epoch}"):
                run, stats = self.cluster.apply(after.epoch, changed)
            ran.append((run, stats))
            visible = self._visible(reached, changed)
            for view in reached:
                news.extend(self._announcements(view, visible[view.name], after.epoch))
            self._write_feeds(visible, after.epoch)
            self.cluster.checkpoint.started = started | changed.keys()
            self.cluster.commit(run, stats, batches.ranges)

        def finish() -> None:
            self.cluster.finish(*ran[0])
            self._finish(reached, tables, feed)
            for table in tables:
                table.started = True

        def take_back() -> None:
            self.cluster.checkpoint.started = started
            self.cluster.abandon()
            self._take_back(reached)

        self._commit(work, after, finish, take_back)
        if self.cluster.checkpoint.snapshot_is_due or self.cluster.needs_snapshot:
            self.checkpoint()

    def _position(self) -> int:
        return self.cluster.checkpoint.position()

    def _visible(self, reached: Sequence[MaintainedView], changed: Mapping[str, Change]) -> dict[str, Changes]:
        """The changes of the views that the batch touched, which has run."""
        for view in reached:
            for table in self.cluster.units[view.name].tables & changed.keys():
                view.note(table, len(changed[table]))
        return {view.name: view.finish() for view in reached}

    def feed(self, name: str) -> None:
        """From now on the changes of a view are written to files."""
        if name not in self.feeds:
            begin_changes(self.cluster.checkpoint.files, name, self.views[name].columns)
            self._declare(FEED, {"name": name, "since": self.epoch})
            self._begin_feed(name, self.epoch)

    def _begin_feed(self, name: str, since: int) -> None:
        self.feeds[name] = since
        self.views[name].subscribe(FOLDER, lambda epoch, changes: None)

    def _write_feeds(self, visible: Mapping[str, Changes], epoch: int) -> None:
        files = self.cluster.checkpoint.files
        if self._fed_epoch == epoch:  # the batch that had this number has failed
            self._remove_feeds_after(epoch - 1)
        self._fed_epoch = epoch
        for name in self.feeds:
            if visible.get(name):
                write_changes(files, name, self.views[name].columns, epoch, visible[name])

    def _remove_feeds_after(self, epoch: int) -> None:
        for name in self.feeds:
            remove_changes(self.cluster.checkpoint.files, name, since=epoch)

    # -- the directory ----------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Writes a snapshot."""
        if self.cluster.checkpoint.has_log:
            with self.progress("a snapshot is being written"):
                self.cluster.snapshot(self._facts())

    def _facts(self) -> Json:
        return {
            "version": __version__,
            "epoch": self.epoch,
            "partitions": self.cluster.partitions,
            "feeds": self.feeds,
            "tables": [table_to_json(table.schema) for table in self.tables.values()],
            "views": [
                {
                    **_view_to_json(view.declared, self.cluster.units[view.name], self._planned_with[view.name]),
                    **used_aggregates(view.declared, self),
                }
                for view in self.views.values()
            ],
        }

    def restore(self) -> None:
        """Brings the database, which is empty, to the last committed state."""
        self._replaying = True
        store = self.cluster.checkpoint
        found = store.facts()
        if found is not None:
            facts, driver = found
            for known in facts["tables"]:
                self._replay_table(known)
            for known in facts["views"]:
                self._replay_view(known)
            self.cluster.restore(driver)
            for name, since in facts["feeds"].items():
                self._begin_feed(name, since)
        line = ProgressLine(f"opening {store.directory}")
        try:
            for number, record in enumerate(store.records(), 1):
                self._replay(record)
                line.step(f"{number} records replayed")
        finally:
            line.close()
        for name in store.started & self.tables.keys():
            self.tables[name].started = True
        self.committed = Committed(store.epoch, self.version, BatchIds(store.batches))
        self._remove_feeds_after(self.epoch)
        self._replaying = False
        self.cluster.remove_old_loads()

    def _replay(self, record: Record) -> None:
        if record.kind == DRIVER:
            self.cluster.replay(record)
            return
        if record.kind == SETUP:
            return
        known = json.loads(bytes(record.payload))
        if record.kind == TABLE:
            self._replay_table(known)
        elif record.kind == VIEW:
            self._replay_view(known)
        elif record.kind == FEED:
            self._begin_feed(known["name"], known["since"])
        elif record.kind == DROP and known["name"] in self.views:
            self._forget_view(known["name"])
        elif record.kind == DROP:
            self._forget_table(known["name"])

    def _replay_table(self, known: Json) -> None:
        self.create_table(table_of_json(known))

    def _replay_view(self, known: Json) -> None:
        with explaining(known["name"], known["version"]):
            if known["name"] in self.views:
                self._forget_view(known["name"])
            declared = declared_again(known, self)
            hints = Hints(known["rows"], known["partition_by"])
            unit = self._unit(declared, hints, known)
            if unit.digest != known["digest"]:
                raise StateError(f"this version of Viewlet ({__version__}) would keep it in another way")
            self._take_up(declared, unit, hints)

    # -- reading ----------------------------------------------------------------------------------------------------

    def stats(self, name: str) -> dict[str, object]:
        if name not in self.views:
            kept = self.find_table(name).kept
            rows = sum(self.cluster.result(unit_name(name)).values()) if kept else None
            return {"kind": self.tables[name].schema.kind.value, "rows": rows}
        view = self.views[name]
        return {
            "sources": sorted(view.sources),
            "strategy": view.engine.plan.strategy,
            "engine": view.engine.name,
            **view.engine.stats(),
            "subscribers": len(view.subscribers),
        }

    def snapshot(self, name: str) -> Snapshot:
        if name in self.views:
            view = self.views[name]
            return Snapshot(view.columns, view.rows())
        table = self.find_table(name)
        if not table.kept:
            raise unreadable_stream(name)
        return Snapshot(table.schema.columns, sorted_rows(self.cluster.result(unit_name(name))))

    def arrow(self, name: str) -> Any:
        return self.snapshot(name).to_arrow()

    def count(self, name: str) -> int:
        return len(self.snapshot(name))

    def rows_with_keys(self, name: str, keys: Sequence[Row]) -> Changes | None:
        return None

    def version_of(self, name: str) -> object:
        return self.version

    def _statistics(self, sources: Mapping[str, Table]) -> Statistics:
        return UNKNOWN


def distributed_form(declared: Declaration) -> DistributedForm:
    """How the kind of a view is spread, if it can be."""
    kind = kind_of(declared)
    if kind.distributed is None:
        hint = f"keep view {declared.name!r} in a connection without spark="
        raise UnsupportedError(f"{kind.noun} on Spark", hint, "engine")
    return kind.distributed


def _view_to_json(declared: Declaration, unit: Unit, hints: Hints) -> Json:
    known = {"name": declared.name, "statement": declared.statement, "version": __version__, "digest": unit.digest}
    said = {"rows": dict(hints.rows), "partition_by": {name: list(keys) for name, keys in hints.partition_by.items()}}
    return {**known, **unit.facts, **said}
