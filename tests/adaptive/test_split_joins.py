"""Joins of four relations by rules: paths, Loomis-Whitney joins and cycles, after every update, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import log
from random import Random
from typing import Any

import numpy as np
import pytest

from bench.split_costs import hubs, steps, tight
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


@pytest.mark.parametrize(
    ("program", "bound", "plain", "sizes"),
    [(PATH, 0.55, 1.0, (250, 750)), (LOOMIS_WHITNEY, 0.55, 1.0, (250, 750)), (CYCLE, 0.72, 0.0, (16, 48))],
)
def test_updates_take_sublinear_time(program: SplitProgram, bound: float, plain: float, sizes: tuple[int, int]) -> None:
    """The exponent of counted steps, where maintenance without parts is linear."""

    def exponent(small: int, large: int, epsilon: float | None) -> float:
        found = [steps(program, hubs(program, size), epsilon) for size in (small, large)]
        return log(found[1] / found[0]) / log(large / small)

    assert exponent(250, 750, None) <= bound
    worst = [steps(program, tight(program, size)) for size in (100, 800)]
    assert 0.1 < log(worst[1] / worst[0]) / log(8) <= bound
    assert exponent(*sizes, plain) > 0.85
