"""How far a long job on Spark is: a line on the terminal, and afterwards a line in the log (level INFO).

viewlet: view revenue is being filled: 113 of 200 tasks (14 s)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TextIO

from viewlet.engine.progress import ProgressLine
from viewlet.visible import logger

PATIENCE = 1.0
"""Seconds after which a job counts as long."""
_PERIOD = 0.5

Progress = Callable[[str], AbstractContextManager[None]]


def no_progress(what: str) -> AbstractContextManager[None]:
    """Tells nothing."""
    return nullcontext()


def progress_on(context: Any, stream: TextIO | None = None) -> Progress:
    """Progress of what runs on a Spark context, shown while the block lasts."""

    @contextmanager
    def shown(what: str) -> Iterator[None]:
        started = time.perf_counter()
        done = threading.Event()
        line = ProgressLine(what, stream)
        watcher = threading.Thread(target=_watch, args=(context, line, done), name="viewlet progress", daemon=True)
        if line.is_visible:
            watcher.start()
        try:
            yield
        finally:
            done.set()
            if line.is_visible:
                watcher.join()
            seconds = time.perf_counter() - started
            if seconds > PATIENCE:
                logger.info("%s: %.1f s", what, seconds)

    return shown


def _watch(context: Any, line: ProgressLine, done: threading.Event) -> None:
    wait = PATIENCE
    while not done.wait(wait):
        wait = _PERIOD
        line.step(_tasks(context.statusTracker()))
    line.close()


def _tasks(tracker: Any) -> str:
    """Tasks of the stages that run now."""
    stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
    if not stages:
        return "at the driver"
    return f"{sum(each.numCompletedTasks for each in stages)} of {sum(each.numTasks for each in stages)} tasks"
