"""The protocol of a triangle query's state, which engines run: on dictionaries or in flat arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from viewlet.adaptive.plan import Numbers, SideReader
from viewlet.adaptive.triangles import Thresholds, Work
from viewlet.algebra.triangle_query import PARTS, TriangleQuery
from viewlet.changes import Change
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.types import Row

GROUPS = "groups"


@dataclass(frozen=True, slots=True)
class StateFacts:
    """What `explain` and `stats` tell of a state: N, the thresholds, sizes, and what it has cost."""

    base: int
    thresholds: Thresholds
    sizes: Mapping[str, int]
    work: Work
    bytes: int = 0
    """The bytes of its arrays, if it has some."""


class TriangleState(Protocol):
    """The state of a triangle query in this process, whatever it is made of."""

    engine_name: str

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        """The columns of a table that are read, if changes of it may come as columns."""

    def load(self, changes: Sequence[tuple[SideReader, Change]]) -> None:
        """Starts from the rows of the tables behind the relations, outside a batch."""

    def apply(self, reader: SideReader, change: Change) -> None:
        """A change of the table behind one relation."""

    def groups(self) -> Iterable[tuple[Row, Numbers]]: ...

    def changes(self) -> Mapping[Row, tuple[Numbers, Numbers]]:
        """What the groups that the batch has changed were and are; zeros stand for no group. Asked once a batch."""

    def commit(self) -> None: ...

    def rollback(self) -> None:
        """Undoes the batch; may be called again if it was interrupted."""

    def save(self, writer: StateWriter) -> dict[str, object]: ...

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> None: ...

    def facts(self) -> StateFacts: ...


SECOND = "second_thresholds"


def saved_thresholds(base: int, thresholds: Thresholds, linear: bool) -> dict[str, object]:
    """N and the thresholds in the layout of a saved state; those of second values where space is linear."""
    second = {SECOND: list(thresholds.second)} if linear else {}
    return {"base": base, "thresholds": list(thresholds.first), **second}


def read_thresholds(layout: Mapping[str, Any], query: TriangleQuery) -> Thresholds | None:
    """The thresholds of a saved state, None if its parts are not those that the query asks for now."""
    if (SECOND in layout) is not query.linear:
        return None
    return Thresholds(tuple(layout["thresholds"]), tuple(layout.get(SECOND, (0.0, 0.0, 0.0))))


def saved_parts(layout: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts of each relation that a state was saved with."""
    return PARTS if SECOND in layout else PARTS[:2]
