"""Queries of the page. While DuckDB answers one, batches go on: what it reads is of one epoch."""

from __future__ import annotations

import threading

from viewlet.adhoc import AdHoc
from viewlet.errors import DataError
from viewlet.ui.listings import Listing
from viewlet.ui.subject import Subject

MOST_ROWS = 1_000_000
"""Of an answer, the first rows that are kept."""
LONGEST_SECONDS = 60.0


class Queries:
    """Answers statements that change nothing, one at a time."""

    def __init__(self, seconds: float = LONGEST_SECONDS) -> None:
        self._seconds = seconds
        self._answering = threading.Lock()
        self._ending = threading.Event()

    @property
    def is_answering(self) -> bool:
        return self._answering.locked()

    def answer(self, subject: Subject, sql: str) -> Listing:
        """The rows of an answer."""
        if not self._answering.acquire(blocking=False):
            raise DataError("another query is being answered: wait for it, or cancel it")
        duckdb, done = AdHoc(), threading.Event()
        self._ending.clear()
        watch = threading.Thread(target=self._watch, args=(duckdb, done), name="viewlet-ui-query", daemon=True)
        try:
            with subject.session.open() as database:
                epoch, question = database.epoch, subject.statements.question(sql)
            watch.start()
            rows = question(duckdb, MOST_ROWS + 1)
            return Listing(rows.slice(0, MOST_ROWS), epoch, is_cut=rows.num_rows > MOST_ROWS)
        except KeyboardInterrupt:
            raise DataError(f"the query was cancelled, or took longer than {self._seconds:g} seconds") from None
        finally:
            done.set()
            self._ending.set()
            if watch.ident is not None:
                watch.join()
            duckdb.close()
            self._answering.release()

    def cancel(self) -> None:
        """Ends the query that is being answered."""
        self._ending.set()

    def _watch(self, duckdb: AdHoc, done: threading.Event) -> None:
        """Interrupts a query that is cancelled or takes long; until it has ended, for it may be about to start."""
        self._ending.wait(self._seconds)
        while not done.wait(0.02):
            duckdb.interrupt()
