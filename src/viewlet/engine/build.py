"""From a declaration to compiled code.

Nothing here reads or changes a database, so that a thread, or a second process, can do it ahead of time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from viewlet.engine.choice import Choice
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import Draft, Step
from viewlet.engine.kinds import compiled_form
from viewlet.triggers.sources import Sources
from viewlet.triggers.statistics import Statistics

if TYPE_CHECKING:
    from viewlet.runtime.dictionary import StringDictionary


class LeftToInterpreterError(Exception):
    """A view that `auto` does not compile; the text says why."""


def draft_for_auto(declared: Declaration, sources: Sources, statistics: Statistics) -> Draft:
    """The compiled form of a view that nobody asked to compile."""
    draft = compiled_form(declared).draft(declared, sources.tables, statistics)
    if (obstacle := draft.obstacle) is not None:
        raise LeftToInterpreterError(obstacle)
    return draft


def build_compiled(
    declared: Declaration,
    sources: Sources,
    statistics: Statistics,
    dictionary: StringDictionary,
    reason: str = "",
    draft: Draft | None = None,
    reads: bool = False,
    step: Step = lambda text: None,
) -> Choice:
    """A view on generated code, compiled now; with `reads`, the code that reads a large result is compiled too."""
    started = time.perf_counter()
    step("writing its code")
    if draft is None:
        draft = compiled_form(declared).draft(declared, sources.tables, statistics)
    engine = draft.build(sources, dictionary, step, reads)
    return Choice(engine, reason, True, time.perf_counter() - started, statistics=statistics)
