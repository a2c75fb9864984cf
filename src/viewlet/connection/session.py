"""A database shared by threads: the lock, and the delivery of changes to subscribers.

Every call takes the lock, so that a reader sees the state between two batches, never inside one; and completes first
what an exception, Ctrl-C for one, has left of a batch.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from viewlet.connection.database import Database
from viewlet.connection.explain import explain_view
from viewlet.connection.journal import Batch
from viewlet.errors import StateError, ViewletError
from viewlet.runtime.durable.batch_ids import BatchMark
from viewlet.types import Column, Row
from viewlet.view import Callback, Snapshot

if TYPE_CHECKING:
    from viewlet.connection.durability import Durability


_delivering: ContextVar[object] = ContextVar("delivering", default=None)
"""The session whose subscriber is being called."""
_call = attrgetter("call")
ROWS_AT_A_TIME = 256
"""Rows of a factorised view that are read while others wait."""


class Session:
    """What connections and handles share (see `viewlet.view.Home`)."""

    def __init__(self, database: Database, durability: Durability | None = None) -> None:
        self._lock = threading.RLock()
        self._database: Database | None = database
        self.durability = durability

    @property
    def closed(self) -> bool:
        return self._database is None

    @contextmanager
    def open(self) -> Iterator[Database]:
        """The database, for as long as the block holds the lock."""
        with self._lock:
            if self._database is None:
                raise ViewletError("the connection is closed")
            self._database.recover()
            yield self._database

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                with suppress(StateError):  # the directory is in doubt, and is not written to any more
                    self._database.recover()
                self._database.outbox.clear()
                self._database.close()
                if self.durability is not None:
                    self.durability.close()
            self._database = None

    def commit(self, changes: Batch, mark: BatchMark | None = None) -> int:
        """Applies a batch, tells the subscribers, and returns the epoch."""
        with self.open() as database:
            database.apply(changes, mark)
            epoch = database.epoch
            self._deliver(database)
            return epoch

    def settle(self, timeout: float | None) -> bool:
        """Waits, without the lock, for compilations in the background, then moves views to them."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self.open() as database:
                database.take_compiled()
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
        delivered with the next batch.
        """
        if _delivering.get() is self:
            return
        errors: list[Exception] = []
        context = copy_context()
        context.run(_delivering.set, self)
        while database.outbox:
            news = database.outbox[0]
            step = map(context.run, map(_call, iter(database.outbox.popleft, None)))
            try:
                next(step)
            except Exception as error:
                error.add_note(f"raised by a subscriber of view {news.view!r}; batch {news.epoch} is committed")
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup("several subscribers failed; the batch is committed", errors)

    def columns_of(self, name: str) -> tuple[Column, ...]:
        with self.open() as database:
            return database.columns(name)

    def snapshot_of(self, name: str) -> Snapshot:
        with self.open() as database:
            return database.snapshot(name)

    def arrow_of(self, name: str) -> Any:
        with self.open() as database:
            return database.arrow(name)

    def stats_of(self, name: str) -> dict[str, object]:
        with self.open() as database:
            return database.stats(name)

    def explain(self, name: str, stage: str | None = None, format: str = "text") -> str:
        with self.open() as database:
            return explain_view(database.find_view(name), stage, database.source_code, format)

    def cofactor_of(self, name: str) -> Any:
        with self.open() as database:
            return database.cofactor(name)

    def stream_of(self, name: str) -> Iterator[tuple[Row, int]]:
        """The rows of a factorised view, a few at a time: the lock is free in between."""
        with self.open() as database:
            view, rows = database.find_view(name), database.stream(name)
            before = view.work.batches
        while True:
            with self.open() as database:
                if database.views.get(name) is not view or view.work.batches != before:
                    raise ViewletError(f"view {name!r} has changed while its rows were read: read them again")
                part = list(islice(rows, ROWS_AT_A_TIME))
            if not part:
                return
            yield from part

    def count_of(self, name: str) -> int:
        with self.open() as database:
            return database.count(name)

    def aggregate_of(self, name: str, function: str, columns: Sequence[str]) -> object:
        with self.open() as database:
            return database.aggregate(name, function, columns)

    def subscribe(self, name: str, callback: Callback) -> Callable[[], None]:
        """Adds a subscriber and returns how to remove it."""
        with self.open() as database:
            view = database.find_view(name)
            token = object()
            view.subscribe(token, callback)

        def cancel() -> None:
            with self._lock:
                view.subscribers.pop(token, None)
                database.outbox = deque(news for news in database.outbox if news.token is not token)

        return cancel
