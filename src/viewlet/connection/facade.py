"""`Connection`: the methods users call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import starmap
from threading import TIMEOUT_MAX
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from viewlet.asynchronous import awaited
from viewlet.changes import Change
from viewlet.connection.database import Database
from viewlet.connection.journal import open_journal
from viewlet.connection.session import Session
from viewlet.connection.statements import StatementRunner
from viewlet.engine.chooser import check_engine
from viewlet.engine.ingest import rows_in
from viewlet.errors import DataError, SchemaError, SqlError, StateError
from viewlet.hosts.catalogue import Catalogue
from viewlet.hosts.local import LocalHost
from viewlet.runtime.durable.batch_ids import BatchMark
from viewlet.runtime.garbage import collecting_later
from viewlet.view import StoredTable, View
from viewlet.visible import described

T = TypeVar("T")

if TYPE_CHECKING:
    from viewlet.aggregates import Aggregate
    from viewlet.signals import Query, Signal
    from viewlet.streams.host import PartHost
    from viewlet.streams.new_parts import Updates
    from viewlet.tables.base_table import BaseTable
    from viewlet.ui.server import UserInterface


def connect(
    path: str | os.PathLike[str] | None = None,
    *,
    engine: str = "auto",
    fsync: bool = True,
    spark: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    partitions: int | None = None,
    external_access: bool = False,
    aggregates: Mapping[str, object] | None = None,
    streams: PartHost | None = None,
    stream_updates: Updates | None = None,
) -> Connection:
    """Opens a database: the one in the directory `path`, which is made if it is not there, or an empty one in memory.
    `path` may be a URL that fsspec knows, such as `"s3://bucket/folder"`.

    `engine` says what runs the views declared from now on: `"interpreter"`, `"compiled"` (generated code, with Numba),
    or `"auto"`, which compiles a view over tables once it has seen many rows. Without `fsync` a batch is committed when
    the operating system has it: it survives the end of the process, but perhaps not a power failure.

    With `spark`, a SparkSession or a master such as `"local[*]"`, views are spread over `partitions` of a Spark cluster
    (twice the cores, if it is not said when the database is made), and the database is in the directory `checkpoint`.

    With `external_access`, queries may read files and other places that DuckDB reaches, as in
    `SELECT * FROM 'orders.parquet'`; otherwise they read the tables and views of this database and nothing else.

    `aggregates` are classes to register by name (`Connection.register_aggregate`) before a directory is opened whose
    views use them: code is never read from a directory.

    `streams` is what holds the parts of partitioned streams (docs/streams.md), if not DuckDB in this process, and
    `stream_updates` the order in which new parts of their views are computed, if not all of them in every batch.
    """
    known = defined_aggregates(aggregates)
    if spark is not None:
        from viewlet.spark.run.java import require_spark

        require_spark()
        from viewlet.connection.spark_facade import connect_on_spark

        check_engine(engine)
        if streams is not None or stream_updates is not None:
            raise StateError(
                "connect(spark=...) keeps no partitioned streams: give streams= to a connection without it"
            )
        place = checkpoint if checkpoint is not None else path
        return connect_on_spark(spark, place, partitions, fsync, engine, external_access, known)
    check_engine(engine)
    place = None if path is None else os.fspath(path) if isinstance(path, str | os.PathLike) else None
    host = LocalHost(Catalogue(known, layered=True), engine, place, parts=streams, updates=stream_updates)
    database = Database(host)
    if path is None:
        return Connection(Session(database), external_access)
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise StateError(f"connect() takes the path of a directory, not {described(path)}")
    from viewlet.runtime.durable.store import open_location

    host.storage = open_location(os.fspath(path), fsync)
    try:
        open_journal(database, host.storage)
    except BaseException:
        host.close()
        raise
    return Connection(Session(database), external_access)


class Connection:
    """Tables, views over them, and the batches that move both from one consistent state to the next.

    A connection may be shared by threads. Used in a `with` statement, it is closed at the end of the block.
    """

    _closes_with_snapshot = True

    def __init__(self, session: Session, external_access: bool = False) -> None:
        self._session = session
        self._statements = StatementRunner(self._session, external_access)
        self._pages: list[UserInterface] = []

    def close(self) -> None:
        """Ends the connection; what is not in a directory is forgotten. Closing twice is harmless.

        A connection belongs to the process that opened it. In a fork of that process it cannot be used, and closing it
        does nothing: the fork opens its own.
        """
        if self._session.is_here:
            while self._pages:
                self._pages.pop().close()
            self._session.close(self._closes_with_snapshot)
            self._statements.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._session.closed:
            return "<viewlet.Connection, closed>"
        if not self._session.is_here:
            return "<viewlet.Connection of another process>"
        return f"<viewlet.Connection: tables {list(self.tables)}, views {list(self.views)}, epoch {self.epoch}>"

    # -- changing ---------------------------------------------------------------------------------------------------

    def insert(self, table: str, rows: object) -> int:
        """Inserts rows (tuples, dicts, Arrow, pandas, Polars) as one batch; returns the epoch."""
        return self._session.change(table, [(rows, 1)])

    def upsert(self, table: str, rows: object) -> int:
        """Inserts rows, or puts them in the place of rows with their primary key, as one batch; returns the epoch.

        Of several rows with one key the last counts.
        """
        from viewlet.connection.keyed import upserted

        return self._change_by_key(table, rows, upserted)

    def delete(self, table: str, rows: object = None, *, keys: Iterable[object] | None = None) -> int:
        """Deletes rows as one batch; returns the epoch.

        They are given in full, or by their primary `keys`: values, or tuples where a key has several columns. It is an
        error to delete an absent row, or to give a key of no row.
        """
        if keys is None:
            if rows is None:
                raise DataError("delete() takes rows, or the keys of rows")
            return self._session.change(table, [(rows, -1)])
        if rows is not None:
            raise DataError("delete() takes rows or keys, not both")
        from viewlet.connection.keyed import deleted

        return self._change_by_key(table, keys, deleted)

    def update(self, table: str, old: object, new: object) -> int:
        """Replaces the rows `old` by the rows `new` in one batch; returns the epoch."""
        return self._session.change(table, [(old, -1), (new, 1)])

    def apply(self, batch: Mapping[str, object], *, batch_id: int | None = None, source: str = "") -> int:
        """Applies changes of several tables as one atomic batch; returns the epoch.

        Changes are rows or frames with a `_multiplicity` column (an integer) or a `_change_type` column ('insert',
        'delete', 'update_preimage', 'update_postimage', 'upsert'); without one they are inserts. Rows of the type
        'upsert' come after the others of their table, and take the place of rows with their primary key. The epoch
        counts batches that change something: an empty batch, and one whose changes cancel out, leave it alone. A change
        may also be a product of factors (`viewlet.product`), or a list of products.

        A batch with a `batch_id` is applied once: handed in again with the id and `source` of a committed one, it does
        nothing. A source that cannot tell whether its last batch got through may so repeat it.
        """
        if not isinstance(batch, Mapping):
            raise DataError(f"apply() takes {{table: changes}}, not {type(batch).__name__}")
        from viewlet.connection.keyed import change_with_upserts

        mark = batch_mark(batch_id, source)
        with self._session.open() as database:
            if mark is not None and mark in database.batches:
                return database.epoch
            find = database.catalogue.find_table
            sizes = {find(name).schema.name: rows_in(data) for name, data in batch.items()}
            with collecting_later(sum(sizes.values())):
                database.host.expect(sizes)
                changes: dict[str, Change] = {}
                for name, data in batch.items():
                    table = find(name)
                    if table.schema.name in changes:
                        raise DataError(f"table {table.schema.name!r} is given twice in one batch")
                    changes[table.schema.name] = change_with_upserts(database, table, data)
                return self._session.commit(changes, mark)

    async def insert_async(self, table: str, rows: object) -> int:
        """Like `insert`, awaited in a program of asyncio. Calls that are awaited together share batches.

        A task that is cancelled does not take its batch back.
        """
        return await awaited(self.insert, table, rows)

    async def upsert_async(self, table: str, rows: object) -> int:
        """Like `upsert`, awaited."""
        return await awaited(self.upsert, table, rows)

    async def delete_async(self, table: str, rows: object = None, *, keys: Iterable[object] | None = None) -> int:
        """Like `delete`, awaited."""
        return await awaited(self.delete, table, rows, keys=keys)

    async def apply_async(self, batch: Mapping[str, object], *, batch_id: int | None = None, source: str = "") -> int:
        """Like `apply`, awaited."""
        return await awaited(self.apply, batch, batch_id=batch_id, source=source)

    async def execute_async(self, sql: str, parameters: Sequence[object] | Mapping[str, object] | None = None) -> Any:
        """Like `execute`, awaited."""
        return await awaited(self.execute, sql, parameters)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Makes one batch of all changes in a `with` block; an exception in it leaves the tables as they were.

        The same as `BEGIN`, and `COMMIT` or `ROLLBACK`, which it may be mixed with. Tables are read as the block has
        changed them; views change at its end, and those that it concerns are not read before. The transaction is that
        of the connection: other threads that use it change tables within it too.
        """
        with self._session.open() as database:
            database.begin_transaction()
            ours = database.transaction
        try:
            yield
        except BaseException:
            with self._session.open() as database:
                if database.transaction is ours:
                    database.roll_back_transaction()
            raise
        with self._session.open() as database:
            if database.transaction is ours:
                self._session.commit_transaction()

    def _change_by_key(self, name: str, data: T, change: Callable[[Database, BaseTable, T], Change]) -> int:
        with self._session.open() as database:
            table = database.catalogue.find_table(name)
            return self._session.commit({table.schema.name: change(database, table, data)})

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The number of batches that have changed something since the database was made."""
        with self._session.open() as database:
            return database.epoch

    @contextmanager
    def same_epoch(self) -> Iterator[int]:
        """Everything that is read in the `with` block is of one epoch, whose number it is given.

        Batches of other threads wait for the end of the block.
        """
        with self._session.open() as database:
            yield database.epoch

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables, in the order of their declaration."""
        with self._session.open() as database:
            return tuple(database.tables)

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the views, in the order of their declaration."""
        with self._session.open() as database:
            return tuple(database.catalogue.visible_views)

    def table(self, name: str) -> StoredTable:
        """A handle to read the rows of a table."""
        with self._session.open() as database:
            return StoredTable(self._session, database.catalogue.find_table(name).schema.name)

    def view(self, name: str) -> View:
        """A handle to read a view and to subscribe to its changes; what else it can do depends on the kind of view."""
        with self._session.open() as database:
            view = database.catalogue.find_view(name)
            return view.kind.handle(self._session, view.name)

    def stats(self) -> dict[str, object]:
        """The epoch, what is known about every table and view, and what a directory holds."""
        with self._session.open() as database:
            known: dict[str, object] = {
                "epoch": database.epoch,
                "tables": {name: database.stats(name) for name in database.tables},
                "views": {name: database.stats(name) for name in database.catalogue.visible_views},
            }
            if (stats := database.journal.stats()) is not None:
                known["durability"] = stats
            return known

    def checkpoint(self) -> None:
        """Writes a snapshot of a database in a directory, so that opening it needs no log; in memory, does nothing.

        This happens by itself when the log has grown long, and when the connection is closed.
        """
        with self._session.open() as database:
            database.checkpoint()

    def settle(self, timeout: float | None = None) -> bool:
        """Waits until views that are being compiled in the background run on their compiled code.

        Nothing needs this: views move by themselves, before the next batch. It makes benchmarks, tests and notebooks
        repeatable. Returns False if `timeout` seconds were not enough.
        """
        if timeout is not None and (not isinstance(timeout, int | float) or not timeout <= TIMEOUT_MAX):
            raise DataError(f"timeout is a number of seconds, not {described(timeout)}")
        return self._session.settle(timeout)

    def explain(self, name: str, stage: str | None = None, format: str = "text") -> str:
        """How a view is maintained: one stage of its compilation, or all of them.

        The stage `"view-tree"` is also drawn, with `format="svg"`.
        """
        return self._session.explain(name, stage, format)

    def serve_ui(self, port: int = 0) -> UserInterface:
        """Serves a page about this database to a browser on this machine (docs/ui.md), until it or this is closed.

        Its `url` has a secret in it, and lets whoever has it read the database. `port` is a free one if it is 0.
        """
        from viewlet.ui.server import UserInterface
        from viewlet.ui.subject import Subject

        subject = Subject(self._session, self._statements)
        page = UserInterface(lambda: subject, port)
        self._pages.append(page)
        return page

    def program(self, name: str, program: Any, *, output: str | None = None, **tables: str) -> None:
        """Declares a view that is an output of a matrix program over tables or views of entries (row, column, value).

        `tables` names the table or view of each input, `db.program("reach", program, A="links")`; `output` is needed
        where the program has several outputs.
        """
        from viewlet.linalg.declare import view_statement

        self.execute(view_statement(name, program, output, tables))

    def stream_view(
        self,
        name: str,
        *,
        initialize: str,
        update: str | None = None,
        length: int | None = None,
        start: str | None = None,
    ) -> None:
        """Declares a view delta function: `initialize` computes part i of the view, `update` each later part j.

        `db.stream_view("busy", initialize="SELECT * FROM packets[i] WHERE lost > 10", length=60)`; without `update`,
        later parts are computed like the first one. `start` is the time from which on parts that are there already are
        computed. The same as `CREATE VIEW name AS INITIALIZE name[i] AS ... UPDATE name[j] AS ...`.
        """
        from viewlet.streams.declare import view_statement

        self.execute(view_statement(name, initialize, update, length, start))

    def stream_views(self, views: Mapping[str, Mapping[str, Any]]) -> None:
        """Declares view delta functions that read each other's earlier parts, each with the arguments of `stream_view`.

        `db.stream_views({"a": {"initialize": "SELECT x FROM s[i]", "update": "SELECT x FROM b[j-1]"}, "b": {...}})`.
        The same as `CREATE VIEW a AS INITIALIZE ... UPDATE ..., b AS INITIALIZE ... UPDATE ...`.
        """
        from viewlet.streams.declare import views_statement

        self.execute(views_statement(views))

    def close_parts(self, stream: str, time: datetime | str | None = None) -> int:
        """Says that a stream is complete until a time (UTC): its parts that end then or before are closed.

        Views over them are computed before this returns. Rows that come for closed parts are late. Without a time, a
        stream by the time of arrival is closed until now. Returns the epoch.
        """
        from viewlet.changes.part_close import PartClose
        from viewlet.streams.times import now, to_microseconds

        with self._session.open() as database:
            database.check_no_transaction("close_parts()")
            table = database.catalogue.find_table(stream)
            if table.schema.parts is None:
                raise SchemaError(f"{stream!r} has no parts: declare it with PARTITION LENGTH ... BY ...")
            if time is None and not table.schema.parts.arrival:
                raise SchemaError(f"{stream!r} has the times of its rows: say until when it is complete")
            moment = now() if time is None else to_microseconds(time)
            return self._session.commit({table.schema.name: PartClose(moment)})

    def refresh(self) -> int:
        """Computes all parts of stream views that wait, where updates are ordered by freshness; returns the epoch."""
        from viewlet.changes.part_close import PartClose
        from viewlet.streams.definition import BEGINNING

        with self._session.open() as database:
            database.check_no_transaction("refresh()")
            streams = [name for name, table in database.tables.items() if table.schema.parts is not None]
            return self._session.commit({name: PartClose(BEGINNING) for name in streams})

    def late_rows(self, stream: str) -> Any:
        """The rows of a partitioned stream that came later than its LATENESS allows, as a pyarrow Table."""
        with self._session.open() as database:
            late = database.catalogue.find_table(stream).late
            if late is None:
                raise SchemaError(f"{stream!r} has no parts, so that no row is late")
            return late()

    def archived_rows(self, stream: str) -> Any:
        """The rows of parts of a stream that `RETAIN ... ARCHIVE` has written to the archive, as a pyarrow Table."""
        with self._session.open() as database:
            archived = database.catalogue.find_table(stream).archived
            if archived is None:
                raise SchemaError(f"{stream!r} has no parts: declare it with PARTITION LENGTH ... BY ...")
            return archived()

    def signal(
        self,
        table: str,
        *,
        time: str,
        value: str | Sequence[str],
        key: str | Sequence[str] = (),
        end: str | None = None,
        is_complex: bool = False,
        unit: str | None = None,
        overlap: str = "error",
        lateness: Any = 0,
        late: str = "refuse",
        function: Any = None,
        idle: Any = None,
        payload: Any = None,
    ) -> Signal:
        """A signal for each key over the events of a table or view: a value at a time, or from `time` up to `end`.

        Several columns of `value` are the components of a vector, or with `is_complex` a real and an imaginary part.
        A time column of numbers counts `unit`s ('s', 'ms', 'us', 'ns'). Events of a key at equal times are an error,
        or with `overlap` their "mean", "sum", "min" or "max" counts. Over a stream, events wait `lateness` for later
        ones to overtake; what comes after that is refused, or with `late="count"` left out and counted. With
        `function`, the columns of `value` are the arguments of a function f(time, *values). With `idle`, a key of a
        stream that has been silent for longer restarts, and what is known of it is given up. `payload` is a subclass
        of `viewlet.signals.Payload`, for values with an arithmetic of their own (docs/signals.md).
        """
        from viewlet.signals.declare import signal_over

        with self._session.open() as database:
            found = database.catalogue.find(table)
            if found in database.catalogue.lost:
                raise database.catalogue.lost[found].error()
            if found is None:
                raise SchemaError(f"there is no table or view {table!r}")
            schema = database.catalogue.schemas()[found]
        options = {"end": end, "is_complex": is_complex, "overlap": overlap, "lateness": lateness, "late": late}
        options |= {"function": function, "idle": idle, "payload": payload}
        return signal_over(schema, key, time, value, unit, **options)

    def create_view(self, name: str, query: Query | Any, *, retain: Any = None) -> View:
        """Declares a view of a query, kept up to date; returns its handle.

        `query` is one of signals, SQL as text, or an expression of Ibis, SQLAlchemy or sqlglot over tables and views of
        these names. With `retain`, as in `retain="1h"`, a view of samples has those up to that long before the newest.
        """
        from viewlet.connection.query_text import view_statement

        self.execute(view_statement(name, query, retain))
        return self.view(name)

    def register_aggregate(self, name: str, aggregate: object) -> None:
        """Lets views call an aggregate that Python code computes: `SELECT g, name(x) FROM t GROUP BY g`.

        `aggregate` is a class, or an object of one, with `zero()`, `add(state, value)`, `remove(state, value)` and
        `result(state)`, and with `state`, the fixed layout of a state, `returns`, the SQL type of the result, and
        `arguments`, the SQL types of its arguments. docs/aggregates.md describes it in full; `viewlet.sketches` has
        examples.
        """
        made = defined_aggregate(name, aggregate)
        with self._session.open() as database:
            database.catalogue.register_aggregate(made)

    # -- SQL --------------------------------------------------------------------------------------------------------

    def execute(self, sql: str, parameters: Sequence[object] | Mapping[str, object] | None = None) -> Any:
        """Runs SQL statements separated by semicolons; returns the answer of the last one.

        A SELECT answers with a pyarrow Table, EXPLAIN with a table of lines, a statement that changes rows with their
        number, and a declaration with None. `parameters` are the values of `?` or `$1` in the text, or a mapping with
        those of `$name` and `:name`.
        """
        if not isinstance(sql, str):
            raise SqlError(f"execute() takes SQL as a string, not {type(sql).__name__}")
        return self._statements.run(sql) if parameters is None else self._statements.run_with(sql, parameters)

    def executemany(self, sql: str, rows: Iterable[Sequence[object]]) -> int:
        """Runs an INSERT INTO ... VALUES (?, ...) for many rows, as one batch; returns their number."""
        if not isinstance(sql, str):
            raise SqlError(f"executemany() takes SQL as a string, not {type(sql).__name__}")
        return self._statements.insert_many(sql, rows)


def defined_aggregate(name: str, aggregate: object) -> Aggregate:
    """A class of the user as an aggregate, once everything that it says of itself is checked."""
    from viewlet.aggregates.definition import aggregate_name, define_aggregate
    from viewlet.sql.user_aggregates import check_free_name, type_named

    name = aggregate_name(name)
    check_free_name(name)
    return define_aggregate(name, aggregate, type_named)


def defined_aggregates(aggregates: Mapping[str, object] | None) -> dict[str, Aggregate]:
    """Classes of the user as aggregates, by name."""
    if aggregates is not None and not isinstance(aggregates, Mapping):
        raise SchemaError(f"aggregates is a dict of names to classes, not {described(aggregates)}")
    return {made.name: made for made in starmap(defined_aggregate, (aggregates or {}).items())}


def batch_mark(batch_id: int | None, source: str) -> BatchMark | None:
    """What a batch is known by, if its source says so."""
    if batch_id is None:
        return None
    if not isinstance(batch_id, int) or isinstance(batch_id, bool) or not isinstance(source, str):
        raise DataError(
            f"batch_id is an integer and source a string, not {described(batch_id)} and {described(source)}"
        )
    return BatchMark(source, batch_id)
