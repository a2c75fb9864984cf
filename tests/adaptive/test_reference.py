"""The reference form against products of matrices after every update, with its invariants and its amortisation."""

from __future__ import annotations

from collections.abc import Iterable
from math import isclose
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.adaptive.oracle import Tables
from tests.adaptive.streams import LENGTH, STREAMS, Change
from viewlet.adaptive.invariants import check
from viewlet.adaptive.rebalance import load, on_batch, on_update
from viewlet.adaptive.triangles import RELATIONS, Triangles
from viewlet.errors import InternalError
from viewlet.rings import INTEGER_RING, ProductRing
from viewlet.rings.cofactor import CofactorRing
from viewlet.rings.relational import RelationalRing
from viewlet.triggers.store import UndoLog

EPSILONS = (0.0, 0.25, 0.5, 0.75, 1.0)
KEYS = ((), (0,), (1, 2), (2, 0, 1))


def image(state: Triangles[Any]) -> object:
    """All that a state consists of."""
    parts = state.parts
    partitions = [[sorted(part.items()) for part in p.parts] for p in parts.partitions]
    views = [sorted(view.items(), key=repr) for view in parts.views]
    return parts.base, parts.thresholds, partitions, views, sorted(state.groups.items())


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", STREAMS)
def test_equal_to_the_trace_after_every_update(name: str, epsilon: float, linear: bool) -> None:
    state, tables = Triangles(INTEGER_RING, epsilon, linear=linear), Tables()
    for change in STREAMS[name](Random(1), LENGTH):
        on_update(state, *change)
        tables.apply(change)
        assert state.groups.get(()) == tables.count()
        assert state.parts.size == tables.size
        check(state)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("name", ["power_law", "star", "cancelling"])
def test_groups_after_every_update(name: str, keys: tuple[int, ...], linear: bool) -> None:
    state, tables = Triangles(INTEGER_RING, 0.5, keys, linear=linear), Tables()
    for change in STREAMS[name](Random(2), LENGTH):
        on_update(state, *change)
        tables.apply(change)
        expected = tables.groups(keys)
        assert dict(state.groups.items()) == expected
        check(state)


@pytest.mark.parametrize("size", [3, 40, 200])
@pytest.mark.parametrize("epsilons", [(0.5, 0.5, 0.5), (0.25, 0.5, 0.75), (0.0, 0.0, 1.0)])
def test_batches_and_epsilons_of_single_relations(size: int, epsilons: tuple[float, float, float]) -> None:
    for name in ("power_law", "grow_and_shrink", "uniform"):
        state, tables = Triangles(INTEGER_RING, epsilons, (0,)), Tables()
        changes = list(STREAMS[name](Random(3), 2 * LENGTH))
        for start in range(0, len(changes), size):
            batch = changes[start : start + size]
            on_batch(state, batch)
            for change in batch:
                tables.apply(change)
            assert dict(state.groups.items()) == tables.groups((0,))
            check(state)


def test_a_batch_tells_the_groups_that_it_changed() -> None:
    state, tables, shown = Triangles(INTEGER_RING, 0.5, (1,)), Tables(), dict[Any, int]()
    changes = list(STREAMS["uniform"](Random(4), 300))
    for start in range(0, len(changes), 7):
        on_batch(state, changes[start : start + 7])
        for key, (old, new) in state.groups.changes().items():
            assert shown.get(key, 0) == old
            shown[key] = new
        state.groups.forget_changes()
        for change in changes[start : start + 7]:
            tables.apply(change)
        assert {key: count for key, count in shown.items() if count} == tables.groups((1,))


@pytest.mark.parametrize("linear", [False, True])
def test_a_batch_is_rolled_back_with_thresholds_parts_and_views(linear: bool) -> None:
    log = UndoLog()
    state = Triangles(INTEGER_RING, 0.5, (0,), log, linear)
    changes = list(STREAMS["power_law"](Random(5), 3 * LENGTH))
    for start in range(0, len(changes), 20):
        before = image(state)
        log.begin()
        on_batch(state, changes[start : start + 20])
        for change in changes[:50]:
            on_update(state, *change)
        log.rollback()
        state.groups.forget_changes()
        assert image(state) == before
        log.begin()
        on_batch(state, changes[start : start + 20])
        log.commit()
        check(state)


def test_a_loaded_state_is_strict_and_equal_to_one_that_grew() -> None:
    tables = Tables()
    for change in STREAMS["power_law"](Random(6), 500):
        tables.apply(change)
    state = Triangles(INTEGER_RING, 0.5, (2,))
    load(state, [[(*pair, times) for pair, times in held.items()] for held in tables.relations])
    assert state.parts.base == 2 * tables.size + 1
    for partition, threshold in zip(state.parts.partitions, state.parts.thresholds.first, strict=True):
        assert all(len(partition.heavy.row(value)) >= threshold for value in partition.heavy.firsts())
        assert all(len(partition.light.row(value)) < threshold for value in partition.light.firsts())
    assert dict(state.groups.items()) == tables.groups((2,))
    check(state)


# -- amortisation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", STREAMS)
def test_rebalancing_is_rare_enough_to_be_paid_for(name: str, epsilon: float) -> None:
    """At least N / 4 updates between two majors, more than N^epsilon / 2 of a value between two of its moves."""
    state = Triangles(INTEGER_RING, epsilon)
    since_major, since_move = 0, dict[tuple[int, int], int]()
    for change in STREAMS[name](Random(7), 2 * LENGTH):
        before, base = (state.work.major, state.work.minor), state.parts.base
        threshold = state.parts.thresholds.first[0]
        on_update(state, *change)
        since_major += 1
        value = (change[0], change[1])
        since_move[value] = since_move.get(value, 0) + 1
        if state.work.major > before[0]:
            assert since_major >= base / 4
            since_major, since_move = 0, {}
        elif state.work.minor > before[1]:
            assert since_move[value] > threshold / 2
            since_move[value] = 0


def test_a_change_of_multiplicity_alone_never_rebalances() -> None:
    state = Triangles(INTEGER_RING, 0.5)
    for leaf in range(40):
        on_update(state, 0, 0, leaf, 1)
    rebalanced, parts = (state.work.major, state.work.minor), state.parts
    for _ in range(3):
        for leaf in range(40):
            on_update(state, 0, 0, leaf, 5)
    assert (state.work.major, state.work.minor) == rebalanced
    assert state.parts is parts


def test_sizes_after_major_rebalancing_are_those_of_the_proof() -> None:
    """|D| = N / 2 after doubling, N / 2 - 1 / 2 or N / 2 - 1 after halving; the first update of all is a major one."""
    state, changes = Triangles(INTEGER_RING, 0.5), [(0, leaf, leaf, 1) for leaf in range(200)]
    assert state.parts.base == 1
    on_update(state, *changes[0])
    assert (state.work.major, state.work.minor) == (1, 0)
    for change in changes[1:]:
        majors = state.work.major
        on_update(state, *change)
        if state.work.major > majors:
            assert 2 * state.parts.size == state.parts.base
    for relation, first, second, times in changes:
        majors = state.work.major
        on_update(state, relation, first, second, -times)
        if state.work.major > majors and state.parts.size:
            assert state.parts.base - 2 * state.parts.size in (1, 2)


# -- other approaches at the ends of the range ------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "part"), [(0.0, "heavy"), (1.0, "light")])
def test_classical_maintenance_at_both_ends(epsilon: float, part: str) -> None:
    state = Triangles(INTEGER_RING, epsilon)
    for change in STREAMS["power_law"](Random(8), LENGTH):
        on_update(state, *change)
        assert all(len(getattr(each, part)) == len(each) for each in state.parts.partitions)
        assert not any(map(len, state.parts.views))


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_factorised_maintenance_keeps_one_view_and_answers_from_it(epsilon: float) -> None:
    state, tables = Triangles(INTEGER_RING, (epsilon, 0.0, 1.0)), Tables()
    for change in STREAMS["power_law"](Random(9), LENGTH):
        on_update(state, *change)
        tables.apply(change)
    _, s, t = (np.array(matrix) for matrix in tables._matrices())
    assert {ends: m for ends, _, m in state.parts.views[1].items()} == {
        (int(b), int(a)): int((s @ t)[b, a]) for b, a in np.argwhere(s @ t)
    }
    steps = state.work.steps
    on_update(state, 0, 1000, 1001, 1)
    assert state.work.steps - steps <= 6


def test_bounds_of_the_partition() -> None:
    """At most 2 * N^(1 - epsilon) heavy values, fewer than 3/2 * N^epsilon tuples of a light one."""
    for epsilon in EPSILONS:
        state = Triangles(INTEGER_RING, epsilon)
        for change in STREAMS["star"](Random(10), LENGTH):
            on_update(state, *change)
            for i in RELATIONS:
                heavy = len(list(state.parts.partitions[i].heavy.firsts()))
                assert heavy <= 2 * state.parts.base ** (1 - epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_moves_of_second_values_in_linear_space_are_paid_for(epsilon: float) -> None:
    """More than half of its threshold in updates of a second value between two of its moves."""
    moves = 0
    for name, stream in STREAMS.items():
        state, since = Triangles(INTEGER_RING, epsilon, linear=True), dict[tuple[int, int], int]()
        for relation, first, second, times in stream(Random(13), 3 * LENGTH):
            partition, major = state.parts.partitions[relation], state.work.major
            before, threshold = bool(partition.light.column(second)), state.parts.thresholds.second[relation]
            held = bool(before or partition.sparse.column(second))
            on_update(state, relation, first, second, times)
            since[relation, second] = since.get((relation, second), 0) + 1
            partition = state.parts.partitions[relation]
            after = bool(partition.light.column(second))
            if state.work.major > major:
                since = {}
            elif held and (after or partition.sparse.column(second)) and before != after:
                assert since[relation, second] > threshold / 2, name
                since[relation, second], moves = 0, moves + 1
            elif not held:
                since[relation, second] = 0
    assert moves or epsilon != 0.5


def test_views_take_linear_space() -> None:
    """Where all are heavy in one place and few in the other, views outgrow the database unless space is linear."""
    entries = {linear: [dense_views(size, linear) for size in (16, 64)] for linear in (False, True)}
    assert entries[False][1] / entries[False][0] > 16**1.2
    assert max(entries[True]) <= 3 * 64 * 64


def dense_views(side: int, linear: bool) -> int:
    """Entries of the views over `side` hubs in R, each next to all light values of S."""
    state = Triangles(INTEGER_RING, 0.5, linear=linear)
    count = side * side
    hubs = [(hub, middle, 1) for hub in range(side // 2) for middle in range(2 * side)]
    paths = [(middle, middle * side + j, 1) for middle in range(2 * side) for j in range(side // 4)]
    load(state, [hubs, paths, []])
    assert state.parts.size < 2 * count
    return len(state.parts.views[0])


def test_cost_of_an_update_on_a_stream_that_is_linear_for_others() -> None:
    """Hubs on both sides: the counted steps per update grow like the square root at 1/2, linearly at the ends."""
    growth = {epsilon: hub_steps(epsilon, 4096) / hub_steps(epsilon, 256) for epsilon in (0.0, 0.5, 1.0)}
    assert growth[0.5] < 16**0.6
    assert min(growth[0.0], growth[1.0]) > 16**0.9


def hub_steps(epsilon: float, size: int) -> float:
    """Steps per update between two hubs that share `size` neighbours."""
    state = Triangles(INTEGER_RING, epsilon)
    hub = [[], [(0, leaf, 1) for leaf in range(size)], [(leaf, 0, 1) for leaf in range(size)]]
    load(state, hub)
    state.work.steps = 0
    for _ in range(8):
        on_update(state, 0, 0, 0, 1)
        on_update(state, 0, 0, 0, -1)
    assert state.groups.get(()) == 0
    return state.work.steps / 16


# -- payloads ---------------------------------------------------------------------------------------------------------


def test_any_commutative_ring() -> None:
    """Cofactors of a weight on each tuple: sums and products over all triangles."""
    ring = CofactorRing(("x", "y", "z"), exact=True)
    lifts = [ring.lift((name,)) for name in ("x", "y", "z")]
    state, random = Triangles(ring, 0.5), Random(11)
    held: list[dict[Any, int]] = [{}, {}, {}]
    for _ in range(80):
        relation, pair, weight = random.randrange(3), (random.randrange(4), random.randrange(4)), random.randrange(1, 9)
        if pair in held[relation]:
            on_update(state, relation, *pair, ring.neg(lifts[relation]((held[relation].pop(pair),))))
        else:
            held[relation][pair] = weight
            on_update(state, relation, *pair, lifts[relation]((weight,)))
    expected = ring.zero
    for (a, b), x in held[0].items():
        for (other, c), y in held[1].items():
            if other == b and (z := held[2].get((c, a))) is not None:
                expected = ring.add(expected, ring.mul(ring.mul(lifts[0]((x,)), lifts[1]((y,))), lifts[2]((z,))))
    difference = ring.add(expected, ring.neg(state.groups.get(())))
    assert ring.is_zero(difference)


def test_relations_as_payloads_list_what_the_tuples_carry() -> None:
    """Labels of the tuples of every triangle, by a vertex: the relational ring, with deletes."""
    ring = RelationalRing(frozenset("xyz"))
    lifts = [ring.lift((name,)) for name in "xyz"]
    state, random, held = Triangles(ring, 0.5, (0,), linear=True), Random(14), [dict[Any, str]() for _ in range(3)]
    for number in range(90):
        relation, pair = random.randrange(3), (random.randrange(4), random.randrange(4))
        label = held[relation].pop(pair, None)
        if label is None:
            held[relation][pair] = f"{number}"
            on_update(state, relation, *pair, lifts[relation]((f"{number}",)))
        else:
            on_update(state, relation, *pair, ring.neg(lifts[relation]((label,))))
    expected: dict[Any, list[Any]] = {}
    for (a, b), x in held[0].items():
        for (other, c), y in held[1].items():
            if other == b and (z := held[2].get((c, a))) is not None:
                expected.setdefault((a,), []).append(((x, y, z), 1))
    found = {key: sorted(listing.rows("xyz")) for key, listing in state.groups.items()}
    assert found == {key: sorted(rows) for key, rows in expected.items()} != {}


@pytest.mark.parametrize("keys", [(0,), (2,), (0, 1, 2)])
def test_groups_cost_a_step_for_each_that_changes(keys: tuple[int, ...]) -> None:
    """An edge between hubs closes many triangles: their groups are told, and little else is looked at."""
    size = 2000
    state = Triangles(INTEGER_RING, 0.5, keys, linear=True)
    load(state, [[], [(0, leaf, 1) for leaf in range(size)], [(leaf, 0, 1) for leaf in range(0, size, 50)]])
    before = state.work.steps
    on_update(state, 0, 0, 0, 1)
    changed = len(state.groups.changes())
    assert changed == (1 if keys == (0,) else size // 50)
    assert state.work.steps - before <= changed + 4 * state.parts.base**0.5


def test_witnesses_find_triangles_whose_payloads_cancel() -> None:
    """Two paths of opposite payloads close to two triangles; their sum is zero."""
    state = Triangles(INTEGER_RING, (0.5, 0.0, 1.0), (0, 1, 2))
    for leaf, sign in ((5, 1), (6, -1)):
        on_update(state, 1, 1, leaf, sign)
        on_update(state, 2, leaf, 0, 1)
    on_update(state, 0, 0, 1, 1)
    assert dict(state.groups.items()) == {(0, 1, 5): 1, (0, 1, 6): -1}


def test_products_of_rings_count_tuples_and_not_numbers() -> None:
    """A payload that is zero in one place still has its tuple."""
    ring: ProductRing = ProductRing((INTEGER_RING, INTEGER_RING))
    state: Triangles[Any] = Triangles(ring, 0.5)
    updates: Iterable[Change | Any] = [(0, 0, 1, (1, 0)), (1, 1, 2, (0, 3)), (2, 2, 0, (5, 7)), (1, 1, 2, (2, 0))]
    for update in updates:
        on_update(state, *update)
        check(state)
    assert state.parts.size == 3
    assert state.groups.get(()) == (10, 0)


def test_invariants_are_really_checked() -> None:
    state = Triangles(INTEGER_RING, 0.5)
    for change in STREAMS["uniform"](Random(12), LENGTH):
        on_update(state, *change)
    check(state)
    state.groups.add((), 1)
    with pytest.raises(InternalError, match="the result"):
        check(state)
    assert isclose(state.parts.thresholds.first[0], state.parts.base**0.5)
