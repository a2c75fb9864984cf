"""A line on the terminal while something takes long, gone when it is done.

Where standard error is no terminal nothing is written: there the log tells, at level INFO.
"""

from __future__ import annotations

import sys
import time
from typing import TextIO

from viewlet.visible import one_line

_PATIENCE = 0.5
"""Seconds before a line appears."""


class ProgressLine:
    """Says what is going on, how far it is and for how long it has been."""

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = stream if stream is not None else sys.stderr
        self._started = time.perf_counter()
        self._width = 0

    @property
    def is_visible(self) -> bool:
        """Someone may be looking."""
        return self._stream.isatty()

    def step(self, text: str) -> None:
        """Shows the next step, if it has been long enough."""
        seconds = time.perf_counter() - self._started
        if seconds < _PATIENCE or not self.is_visible:
            return
        line = one_line(f"viewlet: {self._what}: {text} ({seconds:.0f} s)")
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)

    def close(self) -> None:
        """Wipes the line."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0
