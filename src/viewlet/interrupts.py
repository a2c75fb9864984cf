"""Ctrl-C that waits: for a query of DuckDB, whose interruption ends the transaction, for `psql`, where half a statement
spoils others, and for LLVM, whose callbacks swallow exceptions."""

from __future__ import annotations

import signal
import threading
from typing import Any


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
