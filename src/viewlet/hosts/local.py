"""Views in this process, each with an engine of its own.

A batch goes table by table, in the order of their declaration: the triggers of every view over the table run, then the
table itself changes. Then view by view, in the order of theirs: the change of the view's rows is fed to the views over
it, and becomes visible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from viewlet.changes import Change, Changes, RowChange
from viewlet.engine.catalogue_json import Json
from viewlet.engine.chooser import EngineChooser
from viewlet.engine.declaration import Declaration
from viewlet.engine.ingest import Wanted, change_of, net_change
from viewlet.engine.inner_views import InnerViews, run_order
from viewlet.engine.kinds import kind_of
from viewlet.engine.maintained_view import MaintainedView
from viewlet.engine.maintainer import Maintainer, maintainers
from viewlet.engine.shape import shape_of
from viewlet.errors import StateError
from viewlet.hosts.catalogue import AffectedViews, Catalogue
from viewlet.hosts.contract import Batch, Signed, Start
from viewlet.hosts.routes import ROUTED_ROWS
from viewlet.runtime.garbage import collecting_later
from viewlet.tables import BaseTable, TableStore
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import RowStore, UndoLog
from viewlet.types import Table

if TYPE_CHECKING:
    from viewlet.runtime.dictionary import StringDictionary
    from viewlet.runtime.durable.batch_ids import BatchMark
    from viewlet.runtime.durable.log import Record
    from viewlet.runtime.durable.snapshot import SnapshotReader, SnapshotWriter
    from viewlet.runtime.durable.store import StateStore
    from viewlet.streams import Updates, Warehouse
    from viewlet.streams.host import PartHost
    from viewlet.triggers.statistics import Statistics

BATCH = 1
"""The kind of a record with the changes of a batch."""
FEW_ROWS = 1_000
"""Tables with fewer rows in all are taken to be still filling up."""


@dataclass(slots=True)
class LocalHost:
    """The host in this process; `engine` is the one that users asked for."""

    catalogue: Catalogue = field(default_factory=Catalogue)
    engine: str = "auto"
    place: str | None = None
    """The directory of the database, for the parts of streams."""
    storage: StateStore | None = None
    """The log of that directory, which notes what is committed to the parts."""
    parts: PartHost | None = None
    """What holds the parts of streams, if the user says so."""
    updates: Updates | None = None
    """In which order new parts of stream views are computed, if the user says so."""
    stores: dict[str, TableStore] = field(default_factory=dict)
    """The rows of the tables; those of a stream are none."""
    log: UndoLog = field(default_factory=UndoLog)
    engines: EngineChooser = field(init=False)
    inner_views: InnerViews = field(default_factory=InnerViews)
    """Stored views that several engines read."""
    _warehouse: Warehouse | None = None
    _dropped: set[str] = field(default_factory=set)
    """The names of partitioned streams and their views that were dropped since the last snapshot."""
    _starting: list[MaintainedView] = field(default_factory=list)
    """Views that are declared, but not part of the database yet."""

    def __post_init__(self) -> None:
        self.engines = EngineChooser(self.engine, self.measure, self.sources, self.log)

    @property
    def has_temporary_views(self) -> bool:
        return True

    @property
    def may_lose_views(self) -> bool:
        return True

    @property
    def dictionary(self) -> StringDictionary:
        return self.engines.dictionary

    @property
    def warehouse(self) -> Warehouse:
        """What keeps the parts of streams, once there is a partitioned one."""
        if self._warehouse is None:
            from viewlet.hosts.streams import open_warehouse
            from viewlet.streams.stamps import Stamps

            stamps, storage = Stamps(), self.storage
            if storage is not None and storage.is_read_only:
                raise StateError("the parts of streams are read only by the process that has the directory open")
            if storage is not None:
                stamps = storage.parts = Stamps(lambda: storage.manifest.parts)
            self._warehouse = open_warehouse(
                self.place, self.parts, lambda name: self.stores[name].arrow(), self.updates, stamps
            )
        return self._warehouse

    # -- declarations -----------------------------------------------------------------------------------------------

    def check_table(self, schema: Table) -> None:
        if schema.parts is not None:
            _ = self.warehouse  # which cannot be opened everywhere

    def make_table(self, schema: Table, saved: SnapshotReader | None = None) -> BaseTable:
        if schema.parts is not None:
            return self._make_stream(schema)
        store = self.stores[schema.name] = TableStore(schema, self.log, lambda: self.dictionary)
        table = BaseTable(schema, store)
        if saved is not None and table.kept:
            from viewlet.hosts.snapshot import read_table

            store.fill(read_table(schema, saved), may_be_flat=self.engine != "interpreter")
        return table

    def _make_stream(self, schema: Table) -> BaseTable:
        from viewlet.hosts.streams import StreamRows

        self.warehouse.add_stream(schema)
        self.stores[schema.name] = TableStore(schema, self.log, lambda: self.dictionary)
        rows = StreamRows(schema, self.warehouse)
        return BaseTable(schema, rows, late=rows.late, archived=rows.archived, with_parts=rows.with_parts)

    @property
    def set_aside(self) -> Callable[[BaseTable], Callable[[], None]]:
        return self._set_aside

    def _set_aside(self, table: BaseTable) -> Callable[[], None]:
        name = table.schema.name
        return partial(self.stores.__setitem__, name, self.stores.pop(name))

    def forget_table(self, table: BaseTable) -> None:
        self.stores.pop(table.schema.name, None)
        if table.schema.parts is not None:
            self._note_dropped(table.schema.name)
            self.warehouse.drop_stream(table.schema.name)
            self.warehouse.commit()

    def over_tables(self, declared: Declaration) -> Declaration:
        return declared

    def tables_under(self, declared: Declaration) -> frozenset[str]:
        return declared.sources

    def choose(self, declared: Declaration) -> Declaration:
        """Triangles may be counted adaptively."""
        from viewlet.engine.choose_adaptive import choose_adaptive

        if self.engine == "interpreter":
            return declared
        tables = self.catalogue.sources_of(declared)
        return choose_adaptive(declared, tables, self.measure(tables))

    def plan(self, declared: Declaration, tables: Mapping[str, Table]) -> Any:
        return kind_of(declared).plan(declared, tables, self.measure(tables))

    def measure(self, tables: Mapping[str, Table]) -> Statistics:
        """Sizes of what a view reads, unless there are so few rows that they tell nothing of those to come."""
        from viewlet.triggers.statistics import UNKNOWN, Statistics

        kept = {name: store for name in tables if (store := self._kept_rows(name)) is not None}
        if sum(map(len, kept.values())) < FEW_ROWS:
            return UNKNOWN
        return Statistics({name: store.size(len(tables[name].columns)) for name, store in kept.items()})

    def sources(self, declared: Declaration) -> Sources:
        tables, views = self.catalogue.tables, self.catalogue.views
        if kind_of(declared).reads_parts:
            return Sources(self.catalogue.sources_of(declared), {}, warehouse=self.warehouse)
        stores: dict[str, RowStore] = {
            source: self.stores[source] if source in tables else views[source].watch() for source in declared.sources
        }
        has_past = any(tables[source].started for source in declared.sources & tables.keys())
        return Sources(self.catalogue.sources_of(declared), stores, has_past)

    def _kept_rows(self, name: str) -> RowStore | None:
        """The rows of a table or view, if someone keeps them."""
        if name in self.catalogue.views:
            return self.catalogue.views[name].store
        return self.stores[name] if self.catalogue.tables[name].kept else None

    def start(self, declared: Declaration, engine: str | None) -> Start:
        """Compiles a view and fills it, unless another view has an engine that holds the same rows."""
        shared = None if declared.temporary else self._shared(declared, engine or self.engine)
        if shared is not None:
            return self._started(MaintainedView(declared, shared, self.log))
        kept = map(self._kept_rows, declared.sources)
        with collecting_later(sum(len(rows) for rows in kept if rows is not None)):
            choice = self.engines.start(declared, self.sources(declared), engine)
        started = self._started(MaintainedView(declared, Maintainer(declared, choice), self.log))
        if not declared.temporary:  # a snapshot has no state of it that others could share
            self._share_inner_views(started.view.maintainer)
        return started

    def _share_inner_views(self, maintainer: Maintainer) -> None:
        """Lets a view over tables read stored views that others over tables have too."""
        tables = self.catalogue.tables.keys()
        if maintainer.declared.sources <= tables:
            every = [each for each in self._maintainers() if each.declared.sources <= tables]
            self.inner_views.share(maintainer, every)

    def _started(self, view: MaintainedView) -> Start:
        self._starting.append(view)
        return Start(view)

    def _shared(self, declared: Declaration, engine: str) -> Maintainer | None:
        """What maintains the same rows as a new view would have, on the engine that is asked for."""
        shape = shape_of(declared)
        if shape is None or engine != self.engine:
            return None
        return next((each for each in self._maintainers() if each.shape == shape), None)

    def facts(self, view: MaintainedView) -> Json:
        return {"engine": self.engine}

    def forget_view(self, view: MaintainedView) -> None:
        if view.kind.reads_parts:
            self._note_dropped(view.name)
            self.warehouse.drop_view(view.engine.plan)
            self.warehouse.commit()
        view.maintainer.leave(view)
        self.inner_views.changed()
        if not view.maintainer.views:
            self.engines.forget(view.maintainer)

    def relocating(
        self, partition_by: Mapping[str, Sequence[str]], partitions: int | None
    ) -> AbstractContextManager[bool]:
        """One process has nothing to spread."""
        return nullcontext(False)

    def stats(self, view: MaintainedView) -> dict[str, object]:
        return view.stats()

    # -- batches ----------------------------------------------------------------------------------------------------

    def change_of(self, table: Table, data: object, sign: int, encoded: bool) -> Change:
        if table.parts is not None:
            from viewlet.streams.stream_changes import stream_change

            only_parts = all(view.kind.reads_parts for view in self.catalogue.dependents(table.name))
            change = stream_change(self.warehouse, table, data, sign, encoded, only_parts)
            if change is not None:
                return change
        return change_of(self, table, data, sign, encoded)

    def net_change(self, table: Table, signed: Signed) -> Change:
        if table.parts is not None:
            from viewlet.streams.stream_changes import fill_arrival_times

            signed = [(fill_arrival_times(self.warehouse, table, data), sign) for data, sign in signed]
        return net_change(self, table, signed)

    def columns_wanted(self, name: str, rows: int) -> Wanted | None:
        """Which columns of a change with so many rows are read, if it may come as columns: all views run compiled.

        A table that keeps its rows wants all columns, those of strings without their codes.
        """
        table, used = self.catalogue.tables[name], set[int]()
        dependents = self.catalogue.dependents(name)
        for view in dependents:
            columns = view.maintainer.columns_used(name)
            if columns is None:
                return None
            used.update(columns)
        if table.kept:
            store = self.stores[name]
            return Wanted(store.coded.union(used), store.texts) if store.takes_columns(rows) else None
        return Wanted(frozenset(used)) if dependents else None

    def expect(self, sizes: Mapping[str, int]) -> None:
        routes = [self.catalogue.route(name) for name in sizes]
        if any(routes) and sum(sizes.values()) <= ROUTED_ROWS:
            return  # until it is known which views the rows concern
        self._expect(self.catalogue.reach(tuple(sizes)), sizes)

    def _expect(self, reached: AffectedViews, sizes: Mapping[str, int]) -> None:
        is_loaded, moves = False, self.engines.moves
        for maintainer in reached.maintainers:
            known = maintainer.sharing
            self.engines.expect(maintainer, sum(sizes.get(source, 0) for source in maintainer.declared.sources))
            is_loaded |= maintainer.load is not None
            if maintainer.sharing is not known:
                self.inner_views.changed()
        if self.engines.moves != moves:
            self.catalogue.engines_changed()
        if is_loaded and self.inner_views.in_use:
            self.inner_views.keep_again(self._maintainers())

    def _maintainers(self) -> Sequence[Maintainer]:
        """What may share state: a snapshot has none of temporary views."""
        return maintainers(view for view in self.catalogue.views.values() if not view.declared.temporary)

    def due(self, tables: Collection[str]) -> None:
        """Engines share stored views between two batches."""

    def reached(self, batch: Batch) -> AffectedViews:
        if not any(self.catalogue.route(name) for name in batch):
            return self.catalogue.reach(tuple(batch))
        reached = self._routed(batch)
        sizes = {name: len(change) for name, change in batch.items()}
        if sum(sizes.values()) <= ROUTED_ROWS:
            self._expect(reached, sizes)
            return self._routed(batch)  # again, because views may have got other engines
        return reached

    def _routed(self, batch: Batch) -> AffectedViews:
        """What a batch may touch, without the views that few rows do not concern."""
        return self.catalogue.follow(tuple(view for name in batch for view in self._readers(name, batch[name])))

    def _readers(self, table: str, change: Change) -> tuple[MaintainedView, ...]:
        """The views that read a table, without those that a few rows do not concern."""
        route = self.catalogue.route(table)
        rows = None if route is None or len(change) > ROUTED_ROWS else change.held_rows()
        return self.catalogue.dependents(table) if route is None or rows is None else route.views_for(rows)

    def begin(self) -> None:
        self.inner_views.begin(self._maintainers)
        self.log.begin()

    def run(
        self, epoch: int, batch: Batch, reached: Sequence[MaintainedView]
    ) -> Sequence[tuple[MaintainedView, Changes]]:
        streams = [name for name in batch if self.catalogue.tables[name].schema.parts is not None]
        if streams:
            self.warehouse.begin(epoch)
        for name, change in batch.items():
            self._apply(name, change)
            if self.catalogue.tables[name].kept:
                self.stores[name].add_change(change)
            elif name in streams:
                self.warehouse.apply(name, change)
        if streams:
            self.warehouse.advance()
            for view in reached:
                if view.kind.reads_parts and not view.is_touched:
                    view.maintainer.note(streams[0], 0)  # a stream of its own was idle, and has been closed
        return [(view, self._change_view(view)) for view in reached if view.is_touched]

    def _apply(self, table: str, change: Change) -> None:
        """Runs the triggers of every view over a table."""
        views = self._readers(table, change)
        if self.inner_views.in_use:
            self.inner_views.tables.append(table)
            for engine in run_order(maintainers(views)):
                engine.apply(table, change)
        else:
            for view in views:
                view.maintainer.apply(table, change)

    def _change_view(self, view: MaintainedView) -> Changes:
        changes = view.finish()
        if changes:
            change = RowChange(changes)
            for dependent in self.catalogue.dependents(view.name):
                self.engines.expect_change(dependent.maintainer, len(changes))
                dependent.maintainer.apply(view.name, change)
            view.publish(changes)
        return changes

    def commit(self) -> None:
        self.log.commit()
        self.inner_views.commit()
        if self._warehouse is not None:
            self._warehouse.commit()
        self._starting.clear()

    def rollback(self) -> None:
        """Undoes the changes of tables first, for views are filled from them."""
        self.log.rollback()
        self.inner_views.rollback()
        if self._warehouse is not None:
            self._warehouse.rollback()
        while self._starting:
            self.forget_view(self._starting[-1])
            self._starting.pop()

    def settle(self, touched: Sequence[Maintainer]) -> None:
        for maintainer in touched:
            self.engines.compile_if_busy(maintainer)
            if self.inner_views.is_due(maintainer):
                self._share_inner_views(maintainer)
        self.engines.sweep_if_due()

    # -- the journal ------------------------------------------------------------------------------------------------

    def record(self, epoch: int, batch: Batch, mark: BatchMark | None) -> Record:
        """The changes of the batch."""
        from viewlet.runtime.durable.batch_records import encode_batch
        from viewlet.runtime.durable.log import Record

        return Record(BATCH, epoch, encode_batch(batch, self.catalogue.schemas(), mark))

    def replay(self, record: Record) -> tuple[Batch, BatchMark | None]:
        from viewlet.runtime.durable.batch_records import decode_batch

        return decode_batch(record.payload, self.catalogue.schemas(), lambda: self.dictionary)

    def _note_dropped(self, name: str) -> None:
        if self.storage is not None:
            self._dropped.add(name)

    def is_in_log(self, name: str) -> bool:
        return name in self._dropped  # records are replayed in order, but the parts of streams are as they are now

    def save(self, writer: SnapshotWriter, known: Json) -> Json:
        from viewlet.hosts.snapshot import write_state

        self._dropped.clear()
        return write_state(self, writer, known)

    def take_up(self, saved: SnapshotReader) -> Json:
        from viewlet.hosts.snapshot import read_strings

        read_strings(self.engines, saved)
        known: Json = saved.facts
        return known

    def resume(self, declared: Declaration, known: Json, saved: SnapshotReader | None) -> MaintainedView:
        """With the engine of the record, or the state of the snapshot."""
        if saved is None:
            view = self.start(declared, known["engine"]).view
            self._starting.clear()  # what the journal has is part of the database
            return view
        from viewlet.hosts.snapshot import read_view

        view = read_view(self, declared, known, saved)
        if self.inner_views.is_due(view.maintainer):
            self._share_inner_views(view.maintainer)
        return view

    def close(self) -> None:
        """Ends compilations in the background."""
        self.engines.close()
        if self._warehouse is not None:
            self._warehouse.close()
