"""`SparkConnection`: what users call when views run on Spark. It is a `Connection` that takes data frames too."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from viewlet.changes import did_you_mean
from viewlet.connection.database import Database
from viewlet.connection.facade import Connection, defined_aggregates
from viewlet.connection.journal import open_journal
from viewlet.connection.session import Session
from viewlet.connection.spark_queries import SparkQueries
from viewlet.engine.kind import Hints
from viewlet.errors import DataError, SchemaError, StateError
from viewlet.hosts.catalogue import Catalogue
from viewlet.hosts.feeds import FEED, read_changes
from viewlet.hosts.progress import progress_on
from viewlet.hosts.spark import SETUP, SparkHost
from viewlet.runtime.durable.log import Record
from viewlet.runtime.private_folders import temporary_folder
from viewlet.spark.run.engine import Engine
from viewlet.spark.run.exchange import change_files
from viewlet.spark.run.execution.change_events import ChangeEvents, change_events, opened
from viewlet.spark.run.execution.cluster import Cluster, InlineCluster, SparkCluster
from viewlet.spark.run.execution.selection import selection
from viewlet.spark.run.java import session_of
from viewlet.spark.run.load.sources import apart, known_columns, together
from viewlet.spark.run.state.checkpoint import Checkpoint
from viewlet.spark.run.views.scan import driver_frame
from viewlet.spark.run.views.stored_rows import arrow_schema
from viewlet.types import Table
from viewlet.view import Relation, StoredTable, View
from viewlet.visible import described

if TYPE_CHECKING:
    from viewlet.aggregates import Aggregate

PARTITIONS_PER_CORE = 2
ONE_PROCESS = "memory://"
QUERY_ID = "sql.streaming.queryId"
"""The local property of Spark's threads that names the streaming query; restarting it does not change it."""
_GENERATED = {"interpreter": False, "compiled": True, "auto": None}
"""Whether partitions run generated code, by the engine asked for; None lets them once there is enough state."""


def connect_on_spark(
    spark: Any,
    checkpoint: str | os.PathLike[str] | None,
    partitions: int | None,
    sync: bool,
    engine: str,
    external_access: bool = False,
    aggregates: Mapping[str, Aggregate] | None = None,
) -> SparkConnection:
    """The database in a checkpoint directory, run by a Spark session."""
    session = session_of(spark)
    scratch = temporary_folder("checkpoint") if checkpoint is None else None
    location = os.fspath(checkpoint or scratch or "")
    if location.startswith(ONE_PROCESS):
        raise StateError(f"{location} is memory of this process, which Spark's workers do not see")
    usual = PARTITIONS_PER_CORE * session.sparkContext.defaultParallelism
    host = _open(SparkCluster(session), Checkpoint(location, sync), partitions, usual, engine, aggregates or {})
    host.progress = progress_on(session.sparkContext)
    if scratch is not None:
        host.on_close = partial(shutil.rmtree, scratch, ignore_errors=True)
    return _connection(host, session, external_access)


def connect_inline(
    checkpoint: str | os.PathLike[str],
    partitions: int,
    sync: bool = True,
    engine: str = "interpreter",
    aggregates: Mapping[str, object] | None = None,
) -> SparkConnection:
    """A connection as on a cluster, without Spark: tasks run in this process, in turn. For tests and debuggers."""
    known = defined_aggregates(aggregates)
    host = _open(InlineCluster(), Checkpoint(checkpoint, sync), partitions, partitions, engine, known)
    return _connection(host, None)


def _open(
    cluster: Cluster,
    store: Checkpoint,
    asked: int | None,
    usual: int,
    engine: str,
    aggregates: Mapping[str, Aggregate],
) -> SparkHost:
    """A host over the partitions of a checkpoint, which is set up if it is new."""
    try:
        known = store.setup(SETUP)
        count = _partitions(asked, known, usual)
        if known is None:
            store.commit([Record(SETUP, 0, count.to_bytes(8, "little"))], 0)
    except BaseException:
        store.close()
        raise
    return SparkHost(Engine(cluster, store, count, _GENERATED[engine]), Catalogue(dict(aggregates), layered=True))


def _connection(host: SparkHost, spark: Any, external_access: bool = False) -> SparkConnection:
    database = Database(host)
    open_journal(database, host.cluster.checkpoint)
    try:
        host.opened()
    except BaseException:
        database.close()
        raise
    return SparkConnection(Session(database), host, spark, external_access)


def _partitions(asked: int | None, known: int | None, usual: int) -> int:
    if asked is not None and (not isinstance(asked, int) or asked < 1):
        raise DataError(f"partitions is a positive number, not {described(asked)}")
    if known is not None and asked not in (None, known):
        raise StateError(
            f"the checkpoint has {known} partitions; leave partitions={asked} out, and call repartition({asked})"
        )
    return known or asked or usual


def _measured(catalogue: Catalogue, name: str) -> str:
    """A table, or a column of one, by the name that plans know it by."""
    table, dot, column = name.rpartition(".")
    if not dot or catalogue.find(name) is not None:
        return catalogue.find_table(name).schema.name
    schema = catalogue.find_table(table).schema
    return f"{schema.name}.{_check_column(schema, column)}"


def _check_column(table: Table, column: str) -> str:
    if column not in table.column_names:
        raise SchemaError(f"table {table.name!r} has no column {column!r}" + did_you_mean(column, table.column_names))
    return column


class SparkConnection(Connection):
    """Tables, views over them, and batches, on a Spark cluster (see `Connection`)."""

    _closes_with_snapshot = False  # it would take a job of the cluster

    def __init__(self, session: Session, host: SparkHost, spark: Any, external_access: bool = False) -> None:
        super().__init__(session, external_access)
        self._host = host
        self._spark = spark
        if spark is not None:
            self._statements.elsewhere = SparkQueries(spark, host).answer

    @property
    def spark(self) -> Any:
        """The Spark session."""
        return self._spark

    def view(self, name: str) -> SparkView:
        """A handle to read a view and to subscribe to its changes; what else it can do depends on the kind of view."""
        with self._session.open() as database:
            view = database.catalogue.find_view(name)
            return handle_on_spark(view.kind.handle)(self._session, view.name, self._frame)

    def table(self, name: str) -> SparkTable:
        """A handle to read the rows of a table."""
        return SparkTable(self._session, super().table(name).name, self._frame)

    def _frame(self, name: str, columns: Sequence[str] | None = None, where: str | None = None) -> Any:
        """The rows that a view or a table has now, or what is wanted of them, as a data frame."""
        with self._session.open() as database:
            scan = self._host.scan(name)
            if scan is not None:
                return scan.frame(self._spark, selection(arrow_schema(scan.shown), columns, where))
            known, rows = database.columns(name), database.arrow(name)
            wanted = selection(rows.schema, columns, where)
            shown = [known[place] for place in wanted.shown]
            return driver_frame(self._spark, shown, wanted.rows(rows.select(list(wanted.read))))

    def expect_rows(self, rows: Mapping[str, float]) -> None:
        """Says about how many rows tables, and how many values columns, will have, for views declared from now on.

        Small tables can then be kept at every worker, and large views go by the keys of large tables: batches need
        fewer stages. A column is named `table.column`; groups by one with many values are partitioned from the first.
        """
        with self._session.open() as database:
            hints = self._host.hints
            known = {_measured(database.catalogue, name): float(count) for name, count in rows.items()}
            self._host.hints = Hints({**hints.rows, **known}, hints.partition_by)

    def partition_by(self, name: str, *columns: str) -> None:
        """Says by which columns of a table, or keys of an inner view, views declared from now on are partitioned.

        It takes precedence over the PARTITION BY of a table.
        """
        with self._session.open() as database:
            found = database.catalogue.find(name)
            if found in database.tables:
                name = found
                for column in columns:
                    _check_column(database.tables[found].schema, column)
            hints = self._host.hints
            self._host.hints = Hints(hints.rows, {**hints.partition_by, name: columns})

    def repartition(self, partitions: int) -> None:
        """Spreads the state over another number of partitions; a snapshot moves it, nothing is loaded again."""
        if not isinstance(partitions, int) or partitions < 1:
            raise DataError(f"partitions is a positive number, not {described(partitions)}")
        with self._session.open() as database:
            database.repartition(partitions)

    def changes(self, view: str, since: int | None = None) -> Any:
        """The changes of a view as a data frame: its columns, `_multiplicity` and `_epoch`.

        They are kept from the first time they are asked for, as files in the checkpoint directory, which other jobs
        may read with `viewlet.changes_of`. `since` leaves out epochs up to that one.
        """
        with self._session.open() as database:
            found, feeds, epoch = database.catalogue.find_view(view), self._host.feeds, database.epoch
            if found.name not in feeds.since:
                change_files.begin(feeds.files, found.name, found.columns, epoch)
                known = {"name": found.name, "since": epoch}
                database.declare(FEED, known, lambda: self._host.feed(found, epoch))
            begin = feeds.since[found.name] if since is None else since
            return read_changes(self._spark, feeds.files, found.name, begin, epoch)

    def forget_changes(self, view: str, until: int) -> None:
        """Removes the files of a view's changes up to an epoch."""
        with self._session.open() as database:
            change_files.remove_until(self._host.feeds.files, database.catalogue.find_view(view).name, until)

    def apply(self, batch: Mapping[str, object], *, batch_id: int | None = None, source: str = "") -> int:
        """Applies changes of several tables, data frames and events among them, as one batch (`Connection.apply`)."""
        if not isinstance(batch, Mapping) or not any(isinstance(data, ChangeEvents) for data in batch.values()):
            return super().apply(batch, batch_id=batch_id, source=source)
        with opened(batch) as whole:
            return super().apply(whole, batch_id=batch_id, source=source)

    def debezium(
        self,
        table: str,
        events: Any,
        *,
        encodings: Mapping[str, str] | None = None,
        full_before: bool = False,
        dead_letters: str | None = None,
    ) -> ChangeEvents:
        """Events of Debezium about a table, for `apply` and `stream`.

        `events` is a frame with the columns `op`, `before` and `after`, the latter two as structs, or with all of that
        as JSON in a column `value`, with or without a schema. `encodings` names those of columns for events without a
        schema: `{"at": "MicroTimestamp", "price": "Decimal(2)"}`. `full_before` says that `before` is always a whole
        row. Events that cannot be read stop their batch, or become rows of the table `dead_letters`.
        """
        with self._session.open() as database:
            schema = database.catalogue.find_table(table).schema
            letters = None if dead_letters is None else database.catalogue.find_table(dead_letters).schema
            zone = "UTC" if self._spark is None else self._spark.conf.get("spark.sql.session.timeZone")
            return change_events(schema, events, zone, encodings or {}, full_before, letters)

    def stream(self, sources: Mapping[str, Any], name: str = "stream", progress: str | None = None) -> SparkStream:
        """Streams to be applied to tables batch by batch, each exactly once; `start` starts them.

        A stream has all columns of its table; those that the table does not have are left out. Spark notes how far it
        has read at `progress`, which has to be a place that Hadoop reaches: a folder of the checkpoint directory, if
        nothing is said. Streams with another name or place are other streams: their batches are numbered from 0.
        """
        with self._session.open() as database:
            found = [(database.catalogue.find_table(table).schema, data) for table, data in sources.items()]
        events = {schema.name: data for schema, data in found if isinstance(data, ChangeEvents)}
        frames = {schema.name: data.frame if isinstance(data, ChangeEvents) else data for schema, data in found}
        for table, frame in frames.items():
            if not getattr(frame, "isStreaming", False):
                raise DataError(f"{table}: this is not a stream; hand it to insert() or apply()")
        for schema, frame in found:
            if schema.name not in events:
                frames[schema.name] = known_columns(schema, frame)
        place = progress or f"{self._host.cluster.checkpoint.directory}/streams/{name}"
        return SparkStream(self, frames, events, name, place)

    def stats(self) -> dict[str, object]:
        """The epoch, tables and views, the checkpoint directory, and what the last batches cost."""
        known = super().stats()
        known["checkpoint"] = known.pop("durability")
        with self._session.open():
            known["partitions"] = self._host.cluster.partitions
            known["batches"] = [batch.as_dict() for batch in self._host.cluster.batches]
        return known


@dataclass(frozen=True, slots=True, repr=False)
class SparkRelation(Relation):
    """A table or view that can be read as a Spark data frame too."""

    _frame: Callable[[str, Sequence[str] | None, str | None], Any]

    def to_spark(self, columns: Sequence[str] | None = None, where: str | None = None) -> Any:
        """The rows as a Spark data frame, which shows the state after the last batch, whatever batches follow.

        `columns` and `where`, a condition in SQL, say what is wanted of them: tasks make nothing else of what they
        keep. Spark does not tell tasks in Python which columns and rows a query over the frame needs.

        Tasks read the rows whenever Spark evaluates the frame. A frame that is evaluated after later batches is
        computed from the last snapshot and the log. When the next snapshot has removed these, Spark reports an error
        that says so; `cache()` keeps a frame beyond that.
        """
        return self._frame(self.name, columns, where)


@dataclass(frozen=True, slots=True, repr=False)
class SparkTable(SparkRelation, StoredTable):
    """A table whose rows are kept, readable as a Spark data frame too."""


@dataclass(frozen=True, slots=True, repr=False)
class SparkView(SparkRelation, View):
    """A maintained view, readable as a Spark data frame too."""

    def draw(self) -> str:
        """What a batch of all tables does, block by block, as a picture (SVG)."""
        return self.explain("spark", format="svg")


_handles: dict[type[View], type[SparkView]] = {View: SparkView}


def handle_on_spark(handle: type[View]) -> type[SparkView]:
    """The handle of a kind of view, readable as a Spark data frame too."""
    if handle not in _handles:
        members = {"__slots__": (), "__doc__": handle.__doc__, "__module__": handle.__module__}
        _handles[handle] = type(f"Spark{handle.__name__}", (SparkView, handle), members)
    return _handles[handle]


@dataclass(frozen=True, slots=True)
class SparkStream:
    """Streams that are not started yet."""

    _connection: SparkConnection
    _frames: Mapping[str, Any]
    _events: Mapping[str, ChangeEvents]
    """Those of the frames that are change events."""
    _name: str
    _progress: str

    def start(self, **trigger: Any) -> Any:
        """Starts a streaming query and returns it; `trigger` is what Spark's `trigger` takes.

        Spark hands a batch in again if it cannot tell whether it got through. Its number and the id of the query, which
        Spark keeps at `progress`, are committed with it.
        """
        writer = together(self._frames).writeStream.queryName(self._name).foreachBatch(self._apply)
        writer = writer.option("checkpointLocation", self._progress)
        return (writer.trigger(**trigger) if trigger else writer).start()

    def _apply(self, batch: Any, number: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        held = batch.persist()  # it is read once per table
        try:
            source = f"stream {self._name} {query}"
            parts = apart(held, self._frames)
            changes = {**parts, **{name: replace(known, frame=parts[name]) for name, known in self._events.items()}}
            self._connection.apply(changes, batch_id=number, source=source)
        finally:
            held.unpersist()
