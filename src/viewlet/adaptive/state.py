"""The protocol of a triangle query's state, which engines run: on dictionaries or in flat arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from viewlet.adaptive.choose_epsilon import Choice, entry_bytes
from viewlet.adaptive.plan import RELATIONS, Numbers, SideReader
from viewlet.adaptive.triangles import Epsilons, Thresholds, Work
from viewlet.algebra.triangle_query import PARTS, TriangleQuery
from viewlet.changes import Change
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.types import Datum, Row

GROUPS = "groups"


@dataclass(frozen=True, slots=True)
class StateFacts:
    """What `explain` and `stats` tell of a state: N, the thresholds, sizes, and what it has cost."""

    base: int
    thresholds: Thresholds
    sizes: Mapping[str, int]
    work: Work
    epsilons: Epsilons
    choice: Choice | None = None
    """Where the exponents come from, if they are chosen."""
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

    def closings(self, relation: int, first: Datum, second: Datum) -> Iterable[Datum]:
        """The third values of the triangles with a tuple, each once; only where the groups tell them apart."""

    def commit(self) -> None: ...

    def rollback(self) -> None:
        """Undoes the batch; may be called again if it was interrupted."""

    def save(self, writer: StateWriter) -> dict[str, object]: ...

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> None: ...

    def sizes(self) -> Mapping[str, int]:
        """Tuples of the relations or of their parts, entries of the views, groups: whatever is known at once."""

    def facts(self) -> StateFacts: ...


def show_parts(query: TriangleQuery, facts: StateFacts) -> str:
    """The stage `parts` of `explain`: sizes, thresholds, and the rebalancing there was."""
    sizes, work = facts.sizes, facts.work
    lines = [] if facts.choice is None else [f"epsilon = {facts.choice.epsilon:g}, {facts.choice.reason}"]
    lines += [f"N = {facts.base:,}: |D| is at least {facts.base // 4:,} and below {facts.base:,}"]
    for i, (name, side) in enumerate(zip(RELATIONS, query.sides, strict=True)):
        *others, last = [f"{sizes[f'{name}_{part}']:,} {part}" for part in query.part_names]
        bounds = f"threshold {facts.thresholds.first[i]:,.1f}"
        if query.linear:
            bounds += f", of second values {facts.thresholds.second[i]:,.1f}"
        lines.append(f"{name} = {side.table}: {', '.join(others)} and {last} tuples, {bounds}")
    lines += [f"{name}: {size:,} entries" for name, size in sizes.items() if name.startswith("V_")]
    lines.append(f"Q: {sizes['Q']:,} groups")
    lines.append(f"rebalanced: {work.major:,} times all, {work.minor:,} times one value ({work.moved:,} tuples)")
    if work.balancing:
        most = f"at most {work.longest:,} at a time, the last ones after {work.paused:,} updates"
        lines.append(f"that took {work.balancing:,} steps, {most}")
    lines.append(f"steps: {work.steps:,} for {work.updates:,} updates")
    return "\n".join(lines)


SECOND, EPSILONS = "second_thresholds", "epsilons"


def saved_thresholds(base: int, thresholds: Thresholds, epsilons: Epsilons, query: TriangleQuery) -> dict[str, object]:
    """N and the thresholds in the layout of a saved state; those of second values where space is linear."""
    second = {SECOND: list(thresholds.second)} if query.linear else {}
    chosen = {EPSILONS: list(epsilons)} if query.chooses else {}
    return {"base": base, "thresholds": list(thresholds.first), **second, **chosen}


def read_epsilons(layout: Mapping[str, Any], query: TriangleQuery) -> tuple[Epsilons, Choice | None]:
    """The exponents of a saved state, which may have been chosen."""
    if not query.chooses:
        return query.epsilons, None
    choice = Choice(layout[EPSILONS][0], "as it was when the state was saved")
    return choice.epsilons, choice


def view_budget(query: TriangleQuery) -> float | None:
    """The entries that all views may have together, if memory is limited."""
    return None if query.memory is None else query.memory / entry_bytes(query.width)


def read_thresholds(layout: Mapping[str, Any], query: TriangleQuery) -> Thresholds | None:
    """The thresholds of a saved state, None if its parts are not those that the query asks for now."""
    if (SECOND in layout) is not query.linear:
        return None
    return Thresholds(tuple(layout["thresholds"]), tuple(layout.get(SECOND, (0.0, 0.0, 0.0))))


def saved_parts(layout: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts of each relation that a state was saved with."""
    return PARTS if SECOND in layout else PARTS[:2]
