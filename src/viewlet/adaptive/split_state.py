"""A split join behind an engine: batches, rollback, and a state that can be saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from viewlet.adaptive.plan import Numbers, SideReader, SplitPlan
from viewlet.adaptive.split_join import SplitJoin
from viewlet.adaptive.split_programs import PROGRAMS
from viewlet.adaptive.state import GROUPS
from viewlet.algebra.split_query import SplitQuery
from viewlet.changes import Change
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.store import UndoLog
from viewlet.types import Row


class SplitState:
    """A join of four tables on dictionaries; a batch is undone by the log that it was made with."""

    engine_name = "interpreter"

    def __init__(self, plan: SplitPlan, log: UndoLog) -> None:
        self._plan = plan
        program = PROGRAMS[plan.query.shape]
        self.join: SplitJoin[Any] = SplitJoin(program, plan.ring, plan.query.epsilon, log)
        self._relations = tuple(program.relations)
        self._before = replace(self.join.work)

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        return None

    def load(self, changes: Sequence[tuple[SideReader, Change]]) -> None:
        self.join.on_batch([update for reader, change in changes for update in self._updates(reader, change)])
        self.commit()

    def apply(self, reader: SideReader, change: Change) -> None:
        self.join.on_batch(self._updates(reader, change))

    def _updates(self, reader: SideReader, change: Change) -> list[tuple[str, Row, Any]]:
        payload, changes = self._plan.payload, reader.changes(change.rows().items())
        return [(self._relations[reader.relation], row, payload(numbers)) for row, numbers in changes.items()]

    def groups(self) -> Iterable[tuple[Row, Numbers]]:
        numbers = self._plan.numbers
        return ((key, numbers(payload)) for key, payload in self.join.groups.items())

    def changes(self) -> Mapping[Row, tuple[Numbers, Numbers]]:
        numbers = self._plan.numbers
        return {key: (numbers(old), numbers(new)) for key, (old, new) in self.join.groups.changes().items()}

    def commit(self) -> None:
        self.join.groups.forget_changes()
        self._before = replace(self.join.work)

    def rollback(self) -> None:
        """The log has been rolled back by its owner; this forgets what is not in it."""
        self.join.groups.forget_changes()
        self.join.work = replace(self._before)

    def save(self, writer: StateWriter) -> dict[str, object]:
        """Heavy values, tuples and the result as rows; N and the threshold as numbers. Views follow from the parts."""
        join, numbers, width = self.join, self._plan.numbers, self._plan.query.width
        for split in join.program.splits:
            heavy = ((key, (1,)) for key, _ in join.divided.stores[f"#{split.name}"].items())
            writer.rows(f"#{split.name}", heavy, len(split.variables), 1)
        for relation, variables in join.program.relations.items():
            held = ((row, numbers(payload)) for name, row, payload in join.tuples() if name == relation)
            writer.rows(relation, held, len(variables), width)
        writer.rows(GROUPS, self.groups(), 0, width)
        return {"base": join.divided.base, "threshold": join.divided.threshold}

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> None:
        join, payload = self.join, self._plan.payload
        heavy = {
            split.name: [tuple(key) for key, _ in reader.rows(f"#{split.name}", len(split.variables))]
            for split in join.program.splits
        }
        tuples = [
            (relation, tuple(row), payload(tuple(numbers)))
            for relation, variables in join.program.relations.items()
            for row, numbers in reader.rows(relation, len(variables))
        ]
        join.refill(layout["base"], layout["threshold"], heavy, tuples, moves=True)
        join.groups.replace({tuple(key): payload(tuple(numbers)) for key, numbers in reader.rows(GROUPS, 0)})
        self.commit()

    def sizes(self) -> Mapping[str, int]:
        """Tuples of the parts, entries of the views, heavy values."""
        return {name: len(store) for name, store in self.join.divided.stores.items()}


def show_split(query: SplitQuery) -> str:
    """The stage `join` of `explain`: the relations, how they are divided, and the views that are kept."""
    program = PROGRAMS[query.shape]
    epsilon = program.epsilon if query.epsilon is None else query.epsilon
    lines = [f"{program.name} of four tables, heavy from N^{epsilon:.3g} tuples on"]
    for (name, variables), side in zip(program.relations.items(), query.sides, strict=True):
        lines.append(f"{name}({', '.join(variables)}) = {side.table}")
    lines += [
        f"({', '.join(each.variables)}) by its tuples in {' and '.join(each.relations)}" for each in program.splits
    ]
    for view, body in program.views:
        marks = [f"{atom.name}({', '.join(_marked(atom))})" for atom in body]
        lines.append(f"{view.name}({', '.join(view.variables)}) = {' * '.join(marks)}")
    return "\n".join(lines)


def _marked(atom: Any) -> list[str]:
    words = {"h": "heavy", "l": "light"}
    asked = {name: words[status] for name, status in atom.asked}
    whole = [asked[atom.name]] if atom.name in asked else []
    return [f"{asked[each]} {each}" if each in asked else each for each in atom.variables] + whole


def show_split_parts(state: SplitState) -> str:
    """The stage `parts`: sizes, the threshold, and the rebalancing there was."""
    join, work = state.join, state.join.work
    lines = [f"N = {join.divided.base:,}: |D| is {join.size:,}, threshold {join.divided.threshold:,.1f}"]
    lines += [f"{name}: {size:,}" for name, size in state.sizes().items()]
    lines.append(f"rebalanced: {work.major:,} times all, {work.minor:,} times one value ({work.moved:,} tuples)")
    lines.append(f"steps: {work.steps:,} for {work.updates:,} updates")
    return "\n".join(lines)
