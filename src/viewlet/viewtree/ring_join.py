"""Joins of relations over a ring, driven by one of them: the work that a change does at one view.

    ⊕C  δV@D[C] ⊗ V@E[A, C]       each changed C finds the rows of V@E with that C, by an index

The plan is made once for the schemas and the driver; it says in which order the others are visited, which of their
columns are bound by then, and what becomes of the joined row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from viewlet.rings.ring import Lift, Ring
from viewlet.viewtree.ring_relation import Positions, RingRelation, Row, summing, without_zeros

T = TypeVar("T")


@dataclass(slots=True)
class Meter:
    """Counts the rows that were visited: the cost of a change, independent of the machine."""

    rows: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """Visit one more relation: the columns `at` have the values of `sources`, and the columns `new` are joined on."""

    relation: int
    at: Positions
    sources: Positions
    new: Positions
    complete: bool


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """Start from the rows of the driver, visit the others, keep the columns `kept` and lift the columns `lifted`."""

    steps: tuple[Step, ...]
    kept: Positions
    lifted: Positions
    lift_of: tuple[str, ...] = field(default=())


def plan_join(schemas: Sequence[Sequence[str]], driver: int, bound: Sequence[str], keys: Sequence[str]) -> JoinPlan:
    """A plan that visits the relation with the fewest unbound columns next; `bound` are summed away, `keys` kept."""
    row = list(schemas[driver])
    left = [i for i in range(len(schemas)) if i != driver]
    steps: list[Step] = []
    while left:
        nearest = min(left, key=lambda i: (not set(schemas[i]) & set(row), len(set(schemas[i]) - set(row)), i))
        left.remove(nearest)
        schema = schemas[nearest]
        at = tuple(i for i, name in enumerate(schema) if name in row)
        new = tuple(i for i in range(len(schema)) if i not in at)
        steps.append(Step(nearest, at, tuple(row.index(schema[i]) for i in at), new, not new))
        row += [schema[i] for i in new]
    lifted = [name for name in bound if name in row]
    return JoinPlan(
        tuple(steps), tuple(row.index(name) for name in keys), tuple(row.index(name) for name in lifted), tuple(lifted)
    )


def run_join(
    plan: JoinPlan,
    driver: Iterable[tuple[Row, T]],
    relations: Sequence[RingRelation[T] | None],
    ring: Ring[T],
    lift: Lift[T] | None,
    meter: Meter,
) -> dict[Row, T]:
    """The rows of the join, lifted, summed and without zeros; `relations` has those that the steps visit."""
    rows: Iterator[tuple[Row, T]] = _counted(driver, meter)
    for step in plan.steps:
        relation = relations[step.relation]
        assert relation is not None
        rows = _visit(rows, step, relation, ring.mul, meter)
    found: dict[Row, T] = {}
    sum_into, kept, lifted = summing(ring), plan.kept, plan.lifted
    for row, payload in rows:
        if lift is not None:
            payload = ring.mul(payload, lift(tuple(row[i] for i in lifted)))
        sum_into(found, tuple(row[i] for i in kept), payload)
    return without_zeros(ring, found)


def _counted(rows: Iterable[tuple[Row, T]], meter: Meter) -> Iterator[tuple[Row, T]]:
    for pair in rows:
        meter.rows += 1
        yield pair


def _visit(
    rows: Iterator[tuple[Row, T]], step: Step, relation: RingRelation[T], mul: Callable[[T, T], T], meter: Meter
) -> Iterator[tuple[Row, T]]:
    sources, entries, new = step.sources, relation.entries, step.new
    for row, payload in rows:
        values: tuple[Any, ...] = tuple(row[i] for i in sources)
        if step.complete:
            meter.rows += 1
            if (other := entries.get(values)) is not None:
                yield row, mul(payload, other)
            continue
        for match in relation.matching(step.at, values):
            meter.rows += 1
            yield (*row, *(match[i] for i in new)), mul(payload, entries[match])
