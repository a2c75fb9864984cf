"""Where the contents of an expression are (thesis "Efficient Incremental Data Analysis", M. Nikolic, section 5.2).

    location ::= Local          at the driver
               | Dist(x, ...)   at the worker that the hash of x, ... names
               | Random         anywhere among the workers: what they hold adds up to the contents
               | Replicated     at every worker in full
               | Everywhere     at the workers and the driver: constants, conditions, assignments of scalars

The thesis maps a tuple to a set of workers; we need two of those functions, one worker and all of them, and call the
second Replicated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from viewlet.algebra.nodes import Var, node
from viewlet.triggers.program import ViewDefinition


@dataclass(frozen=True, slots=True)
class Local:
    def __str__(self) -> str:
        return "local"


class _Hashed:
    __slots__ = ("_hash", "_representative")


@node
class Dist(_Hashed):
    """Partitioned by variables: those of the expression, or the key variables of a view."""

    by: tuple[Var, ...]

    def __str__(self) -> str:
        return f"[{', '.join(var.name for var in self.by)}]"


@dataclass(frozen=True, slots=True)
class Random:
    def __str__(self) -> str:
        return "random"


@dataclass(frozen=True, slots=True)
class Replicated:
    def __str__(self) -> str:
        return "replicated"


@dataclass(frozen=True, slots=True)
class Everywhere:
    def __str__(self) -> str:
        return "everywhere"


LOCAL, RANDOM, REPLICATED, EVERYWHERE = Local(), Random(), Replicated(), Everywhere()

Location = Local | Dist | Random | Replicated | Everywhere
ViewLocation = Local | Dist | Replicated
"""Where a view can live."""
Arrival = Local | Random
"""How the change of a table arrives: collected at the driver, or spread over the workers."""


def describe(at: ViewLocation) -> str:
    """Where a view is, in words."""
    if isinstance(at, Dist):
        return f"partitioned by {at}"
    return "at the driver" if at == LOCAL else "at every worker"


def locations_to_json(views: Iterable[ViewDefinition], locations: Mapping[str, ViewLocation]) -> dict[str, object]:
    """Where views are: the positions of the keys that they go by, or a word."""
    found: dict[str, object] = {}
    for view in views:
        at = locations[view.name]
        found[view.name] = [view.keys.index(var) for var in at.by] if isinstance(at, Dist) else str(at)
    return found


def locations_of_json(views: Iterable[ViewDefinition], known: Mapping[str, Any]) -> dict[str, ViewLocation] | None:
    """What `locations_to_json` was given; None if it was about other views."""
    words: dict[str, ViewLocation] = {str(LOCAL): LOCAL, str(REPLICATED): REPLICATED}
    found: dict[str, ViewLocation] = {}
    for view in views:
        at = known.get(view.name)
        if at is None or (isinstance(at, list) and not all(i < len(view.keys) for i in at)):
            return None
        found[view.name] = Dist(tuple(view.keys[i] for i in at)) if isinstance(at, list) else words[at]
    return found
