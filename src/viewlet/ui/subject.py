"""What a page is about: a database that this process has, or a directory that another process may be writing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from viewlet.connection.database import Database
from viewlet.connection.journal import open_journal
from viewlet.connection.session import Session
from viewlet.connection.statements import StatementRunner
from viewlet.errors import StateError
from viewlet.hosts.catalogue import Catalogue
from viewlet.hosts.local import LocalHost
from viewlet.runtime.durable.read_only import ATTEMPTS, open_for_reading

PATIENCE = 10
"""Between two openings of a directory lies so many times what the last one has taken."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A session, and what answers its queries."""

    session: Session
    statements: StatementRunner


Source = Callable[[], Subject]
"""The subject as it is now."""


class Directory:
    """A database directory that is read and left as it is; it is opened again when there are new commits."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._lock = Lock()
        self.due = 0.0
        self._subject, self._position = self._open()

    def __call__(self) -> Subject:
        """The state after the last commit, or a little earlier where opening it takes long."""
        if self._lock.acquire(blocking=False):
            try:
                if time.monotonic() >= self.due and open_for_reading(self._location).position() != self._position:
                    self._subject, self._position = self._open()
            finally:
                self._lock.release()
        return self._subject

    def close(self) -> None:
        with self._lock:
            self._subject.session.close(with_snapshot=False)
            self._subject.statements.close()

    def _open(self) -> tuple[Subject, int]:
        started = time.monotonic()
        for attempt in range(1, ATTEMPTS + 1):
            store = open_for_reading(self._location)
            host = LocalHost(Catalogue(layered=True), place=self._location)
            host.storage = store
            database = Database(host)
            try:
                open_journal(database, store)
                break
            except (StateError, OSError):
                host.close()
                if attempt == ATTEMPTS or store.position() == open_for_reading(self._location).position():
                    raise  # otherwise a commit has removed what was about to be read
        session = Session(database)
        now = time.monotonic()
        self.due = now + PATIENCE * (now - started)
        return Subject(session, StatementRunner(session)), store.position()
