"""Gives a piece of work up after so much processor time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TooSlow(BaseException):
    """The time for one query is over; no handler of errors may take this for one."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raises `TooSlow` after so much processor time."""

    def stop(number: int, frame: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 1.0)  # again, where a callback has swallowed it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
