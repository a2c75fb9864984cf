"""The reference form behind an engine: batches, rollback, and a state that can be saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from viewlet.adaptive.carried import Payloads
from viewlet.adaptive.partition import Partition
from viewlet.adaptive.plan import RELATIONS, AdaptivePlan, Numbers, SideReader
from viewlet.adaptive.rebalance import load, on_batch, partitioned, views_over
from viewlet.adaptive.state import (
    GROUPS,
    StateFacts,
    read_epsilons,
    read_thresholds,
    saved_parts,
    saved_thresholds,
    view_budget,
)
from viewlet.adaptive.triangles import Parts, Triangles, Update
from viewlet.adaptive.update import closings
from viewlet.changes import Change
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.store import UndoLog
from viewlet.types import Datum, Row


class ReferenceState:
    """A triangle query on dictionaries; a batch is undone by the log that it was made with."""

    engine_name = "interpreter"

    def __init__(self, plan: AdaptivePlan, log: UndoLog) -> None:
        self._plan = plan
        query = plan.query
        self._payloads = Payloads(plan)
        self.triangles: Triangles[Any] = Triangles(
            *(self._payloads.ring, query.epsilons, query.keys, log, query.linear, query.chooses, view_budget(query)),
            query.shared,
        )
        self._before = replace(self.triangles.work)

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        return None

    def load(self, changes: Sequence[tuple[SideReader, Change]]) -> None:
        relations: list[list[tuple[Any, Any, Any]]] = [[], [], []]
        for reader, change in changes:
            relations[reader.relation] = [update[1:] for update in self._updates(reader, change)]
        load(self.triangles, relations)
        self.commit()

    def apply(self, reader: SideReader, change: Change) -> None:
        on_batch(self.triangles, self._updates(reader, change))

    def _updates(self, reader: SideReader, change: Change) -> list[Update]:
        payload, names = self._payloads.payload, self._payloads.names_of(reader.relation)
        changes = reader.changes(change.rows().items())
        return [
            (reader.relation, first, second, payload(names, tuple(carried), numbers))
            for (first, second, *carried), numbers in changes.items()
        ]

    def groups(self) -> Iterable[tuple[Row, Numbers]]:
        for key, payload in self.triangles.groups.items():
            for carried, numbers in self._payloads.rows(payload).items():
                yield (*key, *carried), numbers

    def changes(self) -> Mapping[Row, tuple[Numbers, Numbers]]:
        found: dict[Row, tuple[Numbers, Numbers]] = {}
        zero = (0,) * self._plan.query.width
        for key, (old, new) in self.triangles.groups.changes().items():
            before, after = self._payloads.rows(old), self._payloads.rows(new)
            for carried in {**before, **after}:
                found[(*key, *carried)] = before.get(carried, zero), after.get(carried, zero)
        return found

    def closings(self, relation: int, first: Datum, second: Datum) -> Iterable[Datum]:
        state, numbers = self.triangles, self._plan.numbers
        held = [part.row(first).get(second) for part in state.parts.partitions[relation].parts]
        steps = state.work.steps
        found = [
            value
            for payload in held
            if payload is not None and numbers(payload)[0]
            for value, closing in closings(state, relation, first, second)
            if numbers(closing)[0]
        ]
        state.work.steps = steps
        return found

    def commit(self) -> None:
        self.triangles.groups.forget_changes()
        self._before = replace(self.triangles.work)

    def rollback(self) -> None:
        """The log has been rolled back by its owner; this forgets what is not in it."""
        self.triangles.groups.forget_changes()
        self.triangles.work = replace(self._before)

    def save(self, writer: StateWriter) -> dict[str, object]:
        """Parts and groups as rows, N and the thresholds as numbers; views are computed from the parts."""
        parts, query = self.triangles.parts, self._plan.query
        for i, (relation, partition) in enumerate(zip(RELATIONS, parts.partitions, strict=True)):
            names = self._payloads.names_of(i)
            for name, part in zip(query.part_names, partition.parts, strict=False):
                items = (
                    ((first, second, *carried), numbers)
                    for first, second, payload in part.items()
                    for carried, numbers in self._payloads.rows(payload, names).items()
                )
                writer.rows(f"{relation} {name}", items, 2 + len(names), query.width)
        writer.rows(GROUPS, self.groups(), len(query.keys) + len(query.carried), query.width)
        return saved_thresholds(parts.base, parts.thresholds, parts.epsilons, self._plan.query)

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> None:
        plan, state = self._plan, self.triangles
        partitions = []
        for i, relation in enumerate(RELATIONS):
            partition, names = Partition.empty(state.ring, UndoLog()), self._payloads.names_of(i)
            for name, part in zip(saved_parts(layout), partition.parts, strict=False):
                for (first, second, *carried), numbers in reader.rows(f"{relation} {name}", 2 + len(names)):
                    part.add(first, second, self._payloads.payload(names, tuple(carried), tuple(numbers)))
            partitions.append(partition)
        thresholds = read_thresholds(layout, plan.query)
        if thresholds is None:
            state.install(partitioned(state, layout["base"], [list(partition.items()) for partition in partitions]))
        else:
            epsilons, choice = read_epsilons(layout, plan.query)
            views = views_over(state, partitions)
            state.install(Parts(layout["base"], thresholds, partitions, views, epsilons, choice))
        keys, groups = len(plan.query.keys), dict[Row, dict[Row, Numbers]]()
        for key, numbers in reader.rows(GROUPS, keys + len(plan.query.carried)):
            groups.setdefault(tuple(key[:keys]), {})[tuple(key[keys:])] = tuple(numbers)
        state.groups.replace({key: self._payloads.group(rows) for key, rows in groups.items()})
        self.commit()

    def sizes(self) -> Mapping[str, int]:
        return self.triangles.sizes()

    def facts(self) -> StateFacts:
        state = self.triangles
        parts = state.parts
        return StateFacts(parts.base, parts.thresholds, state.sizes(), state.work, parts.epsilons, parts.choice)
