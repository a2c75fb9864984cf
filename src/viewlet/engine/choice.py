"""An engine for a view, and the record of why it is this one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from viewlet.engine.background import Task
from viewlet.triggers.statistics import UNKNOWN, Statistics


@dataclass(frozen=True, slots=True)
class Choice:
    """The engine that runs a view: a `LocalEngine`, or on a cluster an `Engine`."""

    engine: Any
    reason: str
    is_compiled: bool = False
    """It runs generated code; otherwise it is the reference engine, or a cluster's."""
    compile_seconds: float = 0.0
    may_change: bool = False
    """It is the reference engine only until there is enough to do."""
    statistics: Statistics = UNKNOWN
    """What the plan was chosen by."""
    compilation: Task[Choice] | None = None
    """Under way in the background."""
