"""Rebalancing (Figure 4): ONUPDATE for a change of one tuple, the same for a batch, MAJORREBALANCING and
MINORREBALANCING.

A batch may take |D| past its bounds by any number of tuples. It is applied in runs of theta tuples, so that no degree
exceeds its bound by more than a factor, and each run ends with one check: of |D|, after which N is 2 * |D| + 1 and the
database is partitioned once, or of the values of every tuple of the run. A batch of more tuples than there are replaces
the state by that of the new database, in the time of a worst-case optimal join.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice, product
from typing import TypeVar

from viewlet.adaptive.choose_epsilon import (
    OVERRAN,
    SAFE,
    SAMPLED,
    Choice,
    Degrees,
    Sample,
    choose_epsilon,
    is_overrun,
)
from viewlet.adaptive.pair_view import PairView
from viewlet.adaptive.partition import Kind, Partition, strict_partition
from viewlet.adaptive.triangles import Parts, Triangles, Update, thresholds_for
from viewlet.adaptive.update import apply_update, change_part, meet
from viewlet.triggers.store import UndoLog
from viewlet.types import Datum, Row

T = TypeVar("T")


def on_update(state: Triangles[T], relation: int, first: Datum, second: Datum, payload: T) -> None:
    """A change of one tuple, and the rebalancing that it calls for."""
    apply_update(state, relation, kind_of(state, relation, first, second), first, second, payload)
    base, size, before = state.parts.base, state.parts.size, state.work.steps
    if size == base:
        major_rebalancing(state, 2 * base)
    elif size < base // 4:
        major_rebalancing(state, base // 2 - 1)
    elif overruns(state):
        major_rebalancing(state, base, OVERRAN)
    else:
        check_values(state, relation, first, second)
    if state.work.steps > before:
        state.work.pause(state.work.steps - before)


def on_batch(state: Triangles[T], updates: Sequence[Update]) -> None:
    """Many changes, with one rebalancing for every theta of them."""
    if len(updates) > state.parts.size:
        load_with(state, updates)
        return
    rest = iter(updates)
    while run := list(islice(rest, run_length(state))):
        for relation, first, second, payload in run:
            apply_update(state, relation, kind_of(state, relation, first, second), first, second, payload)
        base, size, before = state.parts.base, state.parts.size, state.work.steps
        if size >= base or size < base // 4:
            major_rebalancing(state, 2 * size + 1)
        elif overruns(state):
            major_rebalancing(state, base, OVERRAN)
        else:
            for relation, first, second, _ in run:
                check_values(state, relation, first, second)
        if state.work.steps > before:
            state.work.pause(state.work.steps - before)


def run_length(state: Triangles[T]) -> int:
    """How many tuples may change between two checks."""
    return max(1, int(min(state.parts.thresholds.first)))


def kind_of(state: Triangles[T], relation: int, first: Datum, second: Datum) -> Kind:
    """The part that a tuple is in, or comes to: that of its values; all are heavy if epsilon is 0."""
    partition = state.parts.partitions[relation]
    if partition.heavy.row(first) or state.parts.epsilons[relation] == 0:
        return Kind.HEAVY
    return partition.light_kind(second, state.parts.thresholds.second[relation])


def check_values(state: Triangles[T], relation: int, first: Datum, second: Datum) -> None:
    """Moves the tuples of either value of a tuple, if its degree no longer suits the part that they are in."""
    partition, thresholds = state.parts.partitions[relation], state.parts.thresholds
    degree, threshold = partition.degree(first), thresholds.first[relation]
    is_heavy = bool(partition.heavy.row(first))
    if not is_heavy and degree >= 1.5 * threshold:
        move_first(state, relation, first, heavy=True)
    elif is_heavy and degree < 0.5 * threshold:
        move_first(state, relation, first, heavy=False)
    degree, threshold = partition.second_degree(second), thresholds.second[relation]
    if partition.sparse.column(second) and degree >= 1.5 * threshold:
        move_second(state, relation, second, heavy=True)
    elif partition.light.column(second) and degree < 0.5 * threshold:
        move_second(state, relation, second, heavy=False)


def move_first(state: Triangles[T], relation: int, first: Datum, heavy: bool) -> None:
    """MINORREBALANCING: the tuples of a first value go to the heavy part, or leave it."""
    partition, threshold = state.parts.partitions[relation], state.parts.thresholds.second[relation]
    for source in (Kind.LIGHT, Kind.SPARSE) if heavy else (Kind.HEAVY,):
        for second, payload in list(partition.part(source).row(first).items()):
            target = Kind.HEAVY if heavy else partition.light_kind(second, threshold)
            move_tuple(state, relation, source, target, first, second, payload)
    state.work.minor += 1


def move_second(state: Triangles[T], relation: int, second: Datum, heavy: bool) -> None:
    """Like `move_first`, for the tuples of a second value in the light or the sparse part."""
    source, target = (Kind.SPARSE, Kind.LIGHT) if heavy else (Kind.LIGHT, Kind.SPARSE)
    column = state.parts.partitions[relation].part(source).column(second)
    for first, payload in list(column.items()):
        move_tuple(state, relation, source, target, first, second, payload)
    state.work.minor += 1


def move_tuple(
    state: Triangles[T], relation: int, source: Kind, target: Kind, first: Datum, second: Datum, payload: T
) -> None:
    """Moves a tuple to another part. That changes the views over the parts, and never the result."""
    change_part(state, relation, source, first, second, state.ring.neg(payload))
    change_part(state, relation, target, first, second, payload)
    state.work.moved += 1


def overruns(state: Triangles[T]) -> bool:
    """Updates take more steps than an epsilon that was chosen had promised."""
    parts, work = state.parts, state.work
    if parts.choice is None or parts.choice.epsilon == SAFE:
        return False
    return is_overrun(work.updates - parts.begun[0], work.steps - parts.begun[1], parts.base)


def major_rebalancing(state: Triangles[T], base: int, choice: Choice | None = None) -> None:
    """Partitions the database strictly for a new N, and computes the views; the result stays."""
    held = [list(partition.items()) for partition in state.parts.partitions]
    state.install(partitioned(state, base, held, choice))
    state.work.major += 1


def partitioned(
    state: Triangles[T], base: int, relations: Sequence[Sequence[tuple[Datum, Datum, T]]], choice: Choice | None = None
) -> Parts[T]:
    """Strict partitions of three relations, and the views over them, in O(N^(1 + min(epsilon, 1-epsilon)))."""
    shape, ring = state.shape, state.ring
    if choice is None and shape.chooses:
        sizes = [len(tuples) for tuples in relations]
        choice = choose_epsilon(sizes, lambda: sampled(relations), shape.linear, shape.budget, state.parts.choice)
    epsilons = shape.epsilons if choice is None else choice.epsilons
    thresholds = thresholds_for(base, epsilons, shape.linear)
    partitions = [
        strict_partition(tuples, first, second, ring)
        for tuples, first, second in zip(relations, thresholds.first, thresholds.second, strict=True)
    ]
    views = views_over(state, partitions)
    return Parts(base, thresholds, partitions, views, epsilons, choice, (state.work.updates, state.work.steps))


def sampled(relations: Sequence[Sequence[tuple[Datum, Datum, T]]]) -> Sample:
    """Tuples of each relation, evenly spread, with their degrees."""
    firsts = [Counter(first for first, _, _ in tuples) for tuples in relations]
    seconds = [Counter(second for _, second, _ in tuples) for tuples in relations]
    return [
        [
            Degrees(firsts[i][x], seconds[i][y], firsts[(i + 1) % 3][y], seconds[(i + 2) % 3][x])
            for x, y, _ in tuples[:: max(1, len(tuples) // SAMPLED)]
        ]
        for i, tuples in enumerate(relations)
    ]


def views_over(state: Triangles[T], partitions: Sequence[Partition[T]]) -> list[PairView[T]]:
    """The views over some parts, by their definition."""
    ring, views = state.ring, state.shape.empty_views(UndoLog())
    for i, view in enumerate(views):
        light = partitions[(i + 1) % 3].light
        for first, middle, payload in partitions[i].heavy.items():
            paths = light.row(middle)
            state.work.steps += 1 + len(paths)
            for last, other in paths.items():
                view.add(first, middle, last, ring.mul(payload, other))
    return views


def load(state: Triangles[T], relations: Sequence[Iterable[tuple[Datum, Datum, T]]]) -> None:
    """Starts from three relations: N = 2 * |D| + 1, strict partitions, and the result by a join."""
    held = [list(tuples) for tuples in relations]
    state.install(partitioned(state, 2 * sum(map(len, held)) + 1, held))
    state.groups.replace(dict(join(state)))


def load_with(state: Triangles[T], updates: Iterable[Update]) -> None:
    """Starts again from the database after some changes."""
    ring = state.ring
    relations = [{(first, second): m for first, second, m in p.items()} for p in state.parts.partitions]
    for relation, first, second, payload in updates:
        held = relations[relation]
        old = held.get((first, second))
        held[first, second] = payload if old is None else ring.add(old, payload)
        state.work.updates += 1
    load(state, [[(*pair, m) for pair, m in held.items() if not ring.is_zero(m)] for held in relations])
    state.work.major += 1


def join(state: Triangles[T]) -> Iterable[tuple[Row, T]]:
    """The result from the parts alone, in O(sqrt(|R| * |S| * |T|)): each tuple of R takes its shorter side."""
    ring, shape = state.ring, state.shape
    r, s, t = state.parts.partitions
    found: dict[Row, T] = {}
    for a, b, payload in r.items():
        for left, right in product(s.parts, t.parts):
            for c, closing in meet(state, left.row(b), right.column(a)):
                key, term = shape.key((a, b, c)), ring.mul(payload, closing)
                found[key] = ring.add(found[key], term) if key in found else term
    return [(key, payload) for key, payload in found.items() if not ring.is_zero(payload)]
