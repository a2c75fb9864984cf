"""Joins of four relations by rules: paths, Loomis-Whitney joins and cycles, after every update, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import log
from random import Random
from typing import Any

import numpy as np
import pytest

from viewlet.adaptive.split_join import SplitJoin
from viewlet.adaptive.split_programs import CYCLE, LOOMIS_WHITNEY, PATH, PROGRAMS
from viewlet.adaptive.split_rules import Atom, SplitProgram
from viewlet.rings import INTEGER_RING
from viewlet.triggers.store import UndoLog

RELATIONS = "RSTU"
SIDE = 8


def stream(program: SplitProgram, seed: int, length: int) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Hubs that come and go, deletes of what is there, and multiplicities of either sign."""
    random, held = Random(seed), dict[Any, int]()
    for number in range(length):
        if held and random.random() < (0.2 if number < 0.6 * length else 0.7):
            key, times = (known := random.choice(list(held))), -held[known]
        else:
            relation = random.choice(RELATIONS)
            hub = number * 4 // length
            values = tuple(random.choice((hub, hub, random.randrange(SIDE))) for _ in program.relations[relation])
            key, times = (relation, values), random.choice((1, 1, 1, 2, -1))
        held[key] = held.get(key, 0) + times
        if not held[key]:
            del held[key]
        yield *key, times


class Arrays:
    """The relations as arrays: the join is a sum of products."""

    def __init__(self, program: SplitProgram) -> None:
        self._program = program
        self.held = {name: np.zeros((SIDE,) * len(names), np.int64) for name, names in program.relations.items()}

    def count(self) -> int:
        letters = ",".join("".join(names) for names in self._program.relations.values())
        return int(np.einsum(f"{letters}->", *self.held.values()))

    @property
    def size(self) -> int:
        return sum(int(np.count_nonzero(each)) for each in self.held.values())


def check(state: SplitJoin[int]) -> None:
    """Sizes, degrees and views are as they are defined."""
    divided, program = state.divided, state.program
    assert divided.base // 4 <= state.size < divided.base
    assert divided.threshold == divided.base**state.epsilon
    for split in program.splits:
        values = {
            state._values(relation, split, row) for relation, row, _ in state.tuples() if relation in split.relations
        }
        for value in values:
            degree = state.degree(split, value)
            heavy = state._is_heavy(split, value)
            assert degree >= divided.threshold / 2 if heavy else degree < 1.5 * divided.threshold
    for relation, row, _ in state.tuples():
        assert divided.stores[state.part_of(relation, row)].get(row) is not None
    for view, body in program.views:
        assert dict(divided.stores[view.name].items()) == defined(state, view, body)


def defined(state: SplitJoin[int], view: Atom, body: tuple[Atom, ...]) -> dict[tuple[Any, ...], int]:
    found: dict[tuple[Any, ...], int] = {}
    parts = [
        [item for name in state.program.parts(atom) for item in state.divided.stores[name].items()] for atom in body
    ]
    arrays, letters = [], []
    for atom, items in zip(body, parts, strict=True):
        array = np.zeros((SIDE,) * len(atom.variables), np.int64)
        for row, payload in items:
            array[row] = payload
        arrays.append(array)
        letters.append("".join(atom.variables))
    total = np.einsum(f"{','.join(letters)}->{''.join(view.variables)}", *arrays)
    for at in product(range(SIDE), repeat=len(view.variables)):
        if total[at]:
            found[at] = int(total[at])
    return found


@pytest.mark.parametrize("epsilon", [None, 0.0, 0.15, 1.0])
@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_to_the_sum_of_products_after_every_update(name: str, epsilon: float | None) -> None:
    program = PROGRAMS[name]
    state, arrays = SplitJoin(program, INTEGER_RING, epsilon), Arrays(program)
    for number, (relation, row, times) in enumerate(stream(program, 1, 150)):
        state.on_update(relation, row, times)
        arrays.held[relation][row] += times
        assert state.groups.get(()) == arrays.count()
        assert state.size == arrays.size
        if number % 5 == 0:
            check(state)
    assert state.work.major > 2
    assert state.work.minor or epsilon != 0.15


@pytest.mark.parametrize("name", PROGRAMS)
def test_batches_and_their_rollback(name: str) -> None:
    program, undo = PROGRAMS[name], UndoLog()
    state, arrays = SplitJoin(program, INTEGER_RING, 0.15, undo), Arrays(program)
    changes = list(stream(program, 2, 200))
    for start in range(0, len(changes), 40):
        batch = changes[start : start + 40]
        before = image(state)
        undo.begin()
        state.on_batch(batch)
        state.on_batch(changes[:150])
        undo.rollback()
        assert image(state) == before
        undo.begin()
        state.on_batch(batch)
        undo.commit()
        for relation, row, times in batch:
            arrays.held[relation][row] += times
        assert state.groups.get(()) == arrays.count()
        check(state)


def image(state: SplitJoin[int]) -> object:
    stores = {name: sorted(store.items()) for name, store in state.divided.stores.items()}
    return state.divided.base, state.divided.threshold, stores, list(state.groups.items())


# -- costs ------------------------------------------------------------------------------------------------------------


def hubs(program: SplitProgram, size: int) -> dict[str, list[tuple[int, ...]]]:
    """The worst for maintenance that enumerates: a hub in the middle of each relation, and a dense block beside it."""
    side = round(size**0.5)
    match program.name:
        case "path":
            fan = [(0, leaf) for leaf in range(size)]
            block = [(1 + i, size + 1 + j) for i in range(side) for j in range(side)]
            back = [(y, x) for x, y in fan + block]
            return {"R": [(i,) for i in range(side + 1)], "S": fan + block, "T": back, "U": [(0,)]}
        case "cycle":
            fan = [(0, leaf) for leaf in range(1, size)]
            block = [(size + i, 2 * size + j) for i in range(side) for j in range(side)]
            pairs = fan + [(y, x) for x, y in fan] + block + [(y, x) for x, y in block]
            return {relation: list(pairs) for relation in RELATIONS}
        case _:
            fan = [(0, 0, leaf) for leaf in range(size)]
            return {relation: fan if relation == "S" else turned(fan, relation) for relation in RELATIONS}


def turned(rows: list[tuple[int, ...]], relation: str) -> list[tuple[int, ...]]:
    """The tuples of T and U that close those of S at (b, c) = (0, 0): d is their first or second value."""
    return [{"T": (0, d, 0), "U": (d, 0, 0), "R": (d, 1, 1)}[relation] for _, _, d in rows]


def steps(program: SplitProgram, size: int, epsilon: float | None) -> float:
    """Steps of an update, on average over tuples of every relation that come and go."""
    state = SplitJoin(program, INTEGER_RING, epsilon)
    held = hubs(program, size)
    state.on_batch([(relation, row, 1) for relation, rows in held.items() for row in rows])
    random = Random(3)
    updates = [(relation, random.choice(held[relation])) for _ in range(3) for relation in RELATIONS]
    updates += [(relation, (0,) * len(program.relations[relation])) for relation in RELATIONS]
    before, count = state.work.steps - state.work.balancing, 0
    for relation, row in updates:
        for times in (1, -1):
            state.on_update(relation, row, times)
            count += 1
    return (state.work.steps - state.work.balancing - before) / count


@pytest.mark.parametrize(
    ("program", "bound", "plain", "sizes"),
    [(PATH, 0.55, 1.0, (250, 750)), (LOOMIS_WHITNEY, 0.55, 1.0, (250, 750)), (CYCLE, 0.72, 0.0, (16, 48))],
)
def test_updates_take_sublinear_time(program: SplitProgram, bound: float, plain: float, sizes: tuple[int, int]) -> None:
    """The exponent of counted steps, where maintenance without parts is linear."""

    def exponent(small: int, large: int, epsilon: float | None) -> float:
        return log(steps(program, large, epsilon) / steps(program, small, epsilon)) / log(large / small)

    assert exponent(250, 750, None) <= bound
    assert exponent(*sizes, plain) > 0.85
