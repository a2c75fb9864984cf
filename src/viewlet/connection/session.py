"""A database shared by threads: the lock, and the delivery of changes to subscribers.

Every call takes the lock, so that a reader sees the state between two batches, never inside one; and completes first
what an exception, Ctrl-C for one, has left of a batch.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar

from viewlet.connection.database import Database
from viewlet.connection.explain import explain_view
from viewlet.connection.together import Call, Group, Queue, may_be_together
from viewlet.engine.ingest import rows_in
from viewlet.engine.maintained_view import MaintainedView
from viewlet.errors import DataError, SchemaError, ViewletError
from viewlet.forks import Owner, bind_to_process
from viewlet.hosts.contract import Batch, Signed
from viewlet.runtime.durable.batch_ids import BatchMark
from viewlet.runtime.garbage import collecting_later
from viewlet.types import Column, Table
from viewlet.view import Callback, Snapshot, View
from viewlet.visible import described, logger

_delivering: ContextVar[object] = ContextVar("delivering", default=None)
"""The session whose subscriber is being called."""
_call = attrgetter("call")
ITEMS_AT_A_TIME = 256
"""Items of a long answer that are read while others wait."""
T = TypeVar("T")


class Session:
    """What connections and handles share (see `viewlet.view.ViewProvider`)."""

    def __init__(self, database: Database) -> None:
        self._lock = threading.RLock()
        self._owner = Owner()
        self._database: Database | None = database
        self._queue = Queue(self._lock)
        self._group: Group | None = None
        """A batch of several threads that is under way."""
        bind_to_process(self)

    @property
    def is_here(self) -> bool:
        """This is the process that opened it, and not a fork of that."""
        return self._owner.is_here

    @property
    def lock(self) -> threading.RLock:
        """What every call holds; a fork has a copy that nobody may ever release, and is refused."""
        self._owner.check("this connection")
        return self._lock

    @property
    def closed(self) -> bool:
        return self._database is None

    @contextmanager
    def open(self) -> Iterator[Database]:
        """The database, for as long as the block holds the lock."""
        with self.lock:
            yield self._between_calls()

    def database(self) -> Database:
        """The database between two batches, for who holds the lock."""
        if self._database is None:
            raise ViewletError("the connection is closed")
        self._database.recover()
        return self._database

    def _between_calls(self) -> Database:
        """The database for a call that is not part of another one: what an interrupted group came to is known."""
        database = self.database()
        self._settle_group()
        return database

    def _settle_group(self) -> None:
        """Finds out what an interrupted group came to; its batch may still have to be completed or taken back."""
        if self._group is not None and self._database is not None:
            self._group.settle(self._database.epoch_in_force)
            self._group = None

    def close(self, with_snapshot: bool) -> None:
        """Ends the session; in a directory a snapshot may take the place of the log. A fork has nothing to end."""
        if not self.is_here:
            return
        with self.lock:
            if self._database is not None:
                database, self._database = self._database, None
                database.close(with_snapshot)
                database.outbox.clear()

    def schema(self, table: str) -> Table | None:
        """What a table looks like now. This does not wait for the lock: `change` asks again."""
        self._owner.check("this connection")
        known = None if self._database is None else self._database.tables.get(table)
        return None if known is None else known.schema

    def change(self, name: str, signed: Signed, schema: Table | None = None) -> int:
        """Inserts and deletes rows of a table, as one batch and perhaps with what other threads wait to change.

        Rows that were made for a `schema` are refused if it is another one by now.
        """
        self._owner.check("this connection")
        call = Call(name, signed, schema)
        if may_be_together(signed):
            return self._queue.wait(call, self._change_together, self._settle_group)
        with self._lock:
            self._between_calls()
            return self._change(call)

    def _change_together(self, first: Call) -> int:
        """Applies the call of this thread, with others that wait; if that is refused, it alone."""
        database = self._between_calls()
        if first.epoch is not None:
            return first.epoch
        calls = [first] if database.transaction is not None else self._queue.take(first)
        if len(calls) > 1:
            with contextlib.suppress(Exception):
                return self._change_as_group(database, calls)
        return self._change_as_group(database, [first])

    def _change_as_group(self, database: Database, calls: Sequence[Call]) -> int:
        """Applies calls as one batch; an exception that is no refusal leaves to the next call what became of it."""
        group = self._group = Group(calls, database.epoch)
        try:
            group.epoch = self._change(*calls)
            return group.epoch
        except Exception:
            self._group = None
            group.take_apart()
            raise
        finally:
            group.wake()

    def _change(self, *calls: Call) -> int:
        """Inserts and deletes rows of tables, as one batch."""
        database = self.database()
        given: dict[str, list[tuple[object, int]]] = {}
        for call in calls:
            known = database.catalogue.find_table(call.name).schema
            if call.schema is not None and call.schema is not known:
                raise SchemaError(f"table {known.name!r} was altered while its rows were made")
            given.setdefault(known.name, []).extend(call.signed)
        sizes = {name: sum(rows_in(rows) for rows, _ in signed) for name, signed in given.items()}
        with collecting_later(sum(sizes.values())):
            database.host.expect(sizes)
            return self.commit({name: database.change(database.tables[name], signed) for name, signed in given.items()})

    def commit(self, changes: Batch, mark: BatchMark | None = None) -> int:
        """Applies a batch, tells the subscribers, and returns the epoch; in a transaction the batch is held back."""
        with self.lock:
            database = self.database()
            if database.transaction is not None:
                if mark is not None:
                    raise DataError("a batch with an id is one of its own: COMMIT the open transaction first")
                database.transaction.hold(changes)
                return database.epoch
            database.apply(changes, mark)
            epoch = database.epoch
            self._tell(database)
            return epoch

    def tell(self) -> None:
        """Tells the subscribers what a declaration has changed."""
        with self.lock:
            if self._database is not None:
                self._tell(self._database)

    def _tell(self, database: Database) -> None:
        if database.outbox:
            epoch = database.epoch
            try:
                self._deliver(database)
            except Exception:  # what is left is delivered with the next batch
                logger.exception(
                    "epoch %d is committed; telling subscribers of it failed", epoch, extra={"epoch": epoch}
                )

    def commit_transaction(self) -> int:
        """Applies what an open transaction has changed, as one batch; if that is refused, nothing is left of it."""
        with self.lock:
            database = self._between_calls()
            transaction, before = database.end_transaction(), database.epoch
            try:
                return self.commit(transaction.changes())
            except BaseException:
                if database.epoch == before:
                    database.take_back_declarations(transaction.declared)
                raise

    def settle(self, timeout: float | None) -> bool:
        """Waits, without the lock, for compilations in the background, then moves views to them."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self.open() as database:
                database.host.expect(dict.fromkeys(database.tables, 0))
                tasks = [task for task in database.compilations() if not task.is_done]
            for task in tasks:
                if not task.wait(None if deadline is None else max(0.0, deadline - time.monotonic())):
                    return False
            if not tasks:
                return True

    def _deliver(self, database: Database) -> None:
        """Calls the subscribers; a batch that one of them applies waits until the others have seen the current one.

        Taking news out of the outbox and calling the subscriber is one step of the Python interpreter, with no place
        for an exception in between: everyone is told everything once. What an exception leaves in the outbox is
        delivered with the next batch. An error of a subscriber is logged: the batch is committed, and its caller has
        nothing to repeat.
        """
        if _delivering.get() is self:
            return
        context = copy_context()
        context.run(_delivering.set, self)
        while database.outbox:
            news = database.outbox[0]
            step = map(context.run, map(_call, iter(database.outbox.popleft, None)))
            try:
                next(step)
            except Exception:
                known = {"epoch": news.epoch, "view": news.view}
                logger.exception(
                    "a subscriber of view %(view)r failed; epoch %(epoch)d is committed", known, extra=known
                )

    def columns_of(self, name: str) -> tuple[Column, ...]:
        with self.open() as database:
            return database.columns(name)

    def comment_of(self, name: str) -> str | None:
        with self.open() as database:
            return database.catalogue.comment(name)

    def snapshot_of(self, name: str) -> Snapshot:
        with self.open() as database:
            return database.snapshot(name)

    def arrow_of(self, name: str) -> Any:
        with self.open() as database:
            return database.arrow(name)

    def rows_with(self, name: str, key: tuple[object, ...], columns: Mapping[str, object]) -> Snapshot:
        from viewlet.connection.keyed import rows_with

        with self.open() as database:
            return rows_with(database, name, key, columns)

    def stats_of(self, name: str) -> dict[str, object]:
        with self.open() as database:
            return database.stats(name)

    def explain(self, name: str, stage: str | None = None, format: str = "text") -> str:
        with self.open() as database:
            return explain_view(database, database.catalogue.find_view(name), stage, format)

    def read(self, name: str, handle: type[View], question: Callable[[Any], T]) -> T:
        """What the engine of a view answers to a question of its handle."""
        with self.open() as database:
            return question(self._view(database, name, handle).engine)

    def stream(self, name: str, handle: type[View], question: Callable[[Any], Iterator[T]]) -> Iterator[T]:
        """Like `read`, for an answer of many items, a few at a time: the lock is free in between."""
        with self.open() as database:
            known = self._view(database, name, handle)
            rows, before = question(known.engine), known.work.batches
        while True:
            with self.open() as database:
                if database.views.get(name) is not known or known.work.batches != before:
                    raise ViewletError(f"view {name!r} has changed while its rows were read: read them again")
                part = list(islice(rows, ITEMS_AT_A_TIME))
            if not part:
                return
            yield from part

    def count_of(self, name: str) -> int:
        with self.open() as database:
            return database.count(name)

    @staticmethod
    def _view(database: Database, name: str, handle: type[View]) -> MaintainedView:
        """The view of a handle; a view of another kind may have got its name."""
        known = database.catalogue.find_view(name)
        database.check_readable(known.name)
        if not issubclass(known.kind.handle, handle):
            raise SchemaError(f"{name!r} is {known.kind.noun} now: take a new handle with view({name!r})")
        return known

    def subscribe(self, name: str, callback: Callback) -> Callable[[], None]:
        """Adds a subscriber and returns how to remove it."""
        _check_callback(callback)
        with self.open() as database:
            view, token = database.catalogue.find_view(name), object()
            view.subscribe(token, callback)
            return self._cancel(database, view.subscribers, token)

    def follow(self, name: str, handle: type[View], callback: Callback) -> Callable[[], None]:
        """Like `subscribe`, for changes in the form of the engine, which a handle of this class reads."""
        _check_callback(callback)
        with self.open() as database:
            view, token = self._view(database, name, handle), object()
            view.follow(token, callback)
            return self._cancel(database, view.followers, token)

    def _cancel(self, database: Database, callbacks: dict[object, Callback], token: object) -> Callable[[], None]:
        def cancel() -> None:
            if not self.is_here:
                return
            with self.lock:
                callbacks.pop(token, None)
                database.outbox = deque(news for news in database.outbox if news.token is not token)

        return cancel


def _check_callback(callback: object) -> None:
    if not callable(callback):
        raise DataError(f"subscribe() takes a function of an epoch and of changes, not {described(callback)}")
