"""The last warnings and errors of the log of this process."""

from __future__ import annotations

import logging
import traceback
from collections import deque
from typing import Any

from viewlet.visible import logger, visible

MOST_MESSAGES = 200
LONGEST_TEXT = 4_000


class Messages(logging.Filter):
    """A filter that lets everything pass and remembers it: a handler would silence logs that have none."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        """Messages since the beginning."""
        self._last: deque[dict[str, Any]] = deque(maxlen=MOST_MESSAGES)

    def start(self) -> None:
        logger.addFilter(self)

    def stop(self) -> None:
        logger.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            text = record.getMessage()
            if record.exc_info and record.exc_info[1] is not None:
                text += "\n" + "".join(traceback.format_exception_only(record.exc_info[1])).rstrip()
            known = {"time": record.created, "level": record.levelname.lower(), "text": visible(text)[:LONGEST_TEXT]}
            self._last.append(known)
            self.count += 1
        return True

    def last(self) -> list[dict[str, Any]]:
        """The newest first."""
        return list(self._last)[::-1]
