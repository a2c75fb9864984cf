"""Ctrl-C that waits, and Ctrl-C that does not.

It waits for a query of DuckDB whose interruption ends the transaction, for `psql`, where half a statement spoils
others, and for LLVM, whose callbacks swallow exceptions. Other queries of DuckDB are interrupted: DuckDB does not look
for signals by itself while the main thread works on a large part of a query.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket


class DeferredInterrupt:
    """SIGINT is noted, and handled at the end. It may be entered again if its end was not reached."""

    def __init__(self) -> None:
        self._handler: Any = None
        self._is_noted = False

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():  # Python handles signals in the main thread
            return
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and handler != self._note:
            self._handler = handler
            signal.signal(signal.SIGINT, self._note)

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGINT) == self._note:
            signal.signal(signal.SIGINT, self._handler)
        if self._is_noted:
            self._is_noted = False
            signal.raise_signal(signal.SIGINT)

    def _note(self, *_: object) -> None:
        self._is_noted = True


DEFERRED_INTERRUPT = DeferredInterrupt()


class SignalWatch:
    """A thread that hears of Ctrl-C while the main thread is inside DuckDB, and interrupts the query there.

    Signals are written to a socket when they come (`signal.set_wakeup_fd`); an event loop that has them written to a
    file of its own gets them too. They are read under a lock, and all of them before a query begins, so that none
    interrupts the query after the one that it came for.
    """

    def __init__(self) -> None:
        self._process = 0
        self._sockets: tuple[socket.socket, socket.socket] | None = None
        """Where signals are read, and where they are written."""
        self._lock = threading.Lock()
        self._connection: Any = None
        self._next = -1
        """Where the program that calls us has signals written to."""

    @contextmanager
    def interrupting(self, connection: Any) -> Iterator[None]:
        """For as long as the block runs, where Ctrl-C raises KeyboardInterrupt."""
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        reader, own = self._started()
        try:
            with self._lock:
                self._connection = None
                self._hear(reader)
                self._connection = connection
            before = signal.set_wakeup_fd(own, warn_on_full_buffer=False)
            if before != own:  # an exception may have come before it was reset
                self._next = before
            yield
        finally:
            signal.set_wakeup_fd(self._next)
            with self._lock:
                self._connection = None

    def _started(self) -> tuple[socket.socket, int]:
        """The file that signals are written to; a fork of the process has no thread that reads it."""
        if self._sockets is None or self._process != os.getpid():
            import socket

            reader, writer = self._sockets = socket.socketpair()
            reader.setblocking(False)
            writer.setblocking(False)
            self._process, self._lock, self._next = os.getpid(), threading.Lock(), -1
            threading.Thread(target=self._listen, args=(reader,), name="viewlet-signals", daemon=True).start()
        reader, writer = self._sockets
        return reader, writer.fileno()

    def _listen(self, reader: socket.socket) -> None:
        from selectors import EVENT_READ, DefaultSelector

        selector = DefaultSelector()
        selector.register(reader, EVENT_READ)
        while selector.select():
            with self._lock:
                self._hear(reader)

    def _hear(self, reader: socket.socket) -> None:
        """Reads the signals that have come; under the lock."""
        try:
            signals = reader.recv(64)
        except BlockingIOError:
            return
        if signal.SIGINT in signals and self._connection is not None:
            self._connection.interrupt()
        if self._next != -1:
            with suppress(OSError):
                os.write(self._next, signals)


SIGNAL_WATCH = SignalWatch()
