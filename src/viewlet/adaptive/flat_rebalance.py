"""Rebalancing on flat arrays, for Numba (Figure 4): tuple by tuple, so that it may stop after any of them.

A view is over the tuples that are heavy or light now, not over those that should be. The values whose tuples are still
to move wait in a queue.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.adaptive.choose_epsilon import OVERRUN, SAFE
from viewlet.adaptive.flat_parts import (
    BEGINS,
    CHAINS,
    COPIES,
    FIRSTS,
    HEAVY,
    KIND,
    LIGHT,
    NUMBERS,
    SECONDS,
    SPARSE,
    STATUS,
    STORES_OF_RELATION,
    WIDTH,
    light_kind,
    rows_of,
    set_kind,
    value_slot,
)
from viewlet.adaptive.flat_update import change_views, room_for_paths, value_store, wants_status
from viewlet.adaptive.flat_words import (
    BALANCING,
    BASE,
    BUDGET,
    CHOICE,
    CHOSEN,
    EXPONENT,
    FIXED,
    MOVE,
    MOVED,
    QUEUE,
    QUEUE_BEGIN,
    QUEUE_END,
    QUEUE_LENGTH,
    SECOND_THRESHOLD,
    SEEN,
    SPENT,
    STEPS,
    SWEEP,
    SWEEP_SLOT,
    TERM,
    THRESHOLD,
)
from viewlet.runtime.jit import compiled
from viewlet.runtime.probe import ALIVE, LIVE, META, SIZE
from viewlet.runtime.state import flags, numbers


@compiled
def size_of(state: Any, shape: Any) -> Any:
    """|D|; copies of a relation count once."""
    total = np.int64(0)
    for relation in range(3 // shape[COPIES]):
        total += numbers(state, shape[BEGINS + STORES_OF_RELATION * relation] + META)[ALIVE]
    return total


@compiled
def overruns(thresholds: Any, balance: Any) -> Any:
    """Whether updates take more steps than the exponents promised that were chosen (`choose_epsilon`)."""
    if balance[CHOICE] == FIXED or thresholds[EXPONENT] == SAFE:
        return balance[CHOICE] == CHOSEN
    return balance[SPENT] > OVERRUN * np.sqrt(np.float64(balance[BASE])) * balance[SEEN] + balance[BASE]


@compiled
def rebase(base: Any, thresholds: Any, balance: Any) -> None:
    """Another N."""
    balance[BASE] = base
    balance[SEEN] = balance[SPENT] = 0
    for i in range(6):
        exponent = thresholds[EXPONENT + i]
        thresholds[i] = np.float64(base) ** exponent if exponent >= 0 else 0.0


@compiled
def check_value(state: Any, shape: Any, number: Any, value: Any, strict: Any, thresholds: Any, balance: Any) -> Any:
    """Makes a value heavy or light if its degree asks for it: its tuples wait in the queue. Says whether it did."""
    if balance[QUEUE_END] - balance[QUEUE_BEGIN] >= QUEUE_LENGTH:
        balance[SWEEP], balance[SWEEP_SLOT] = 1, 0  # it is looked at again when all are
        return False
    values, relation = rows_of(state, shape, value_store(number)), number // 2
    threshold = thresholds[(SECOND_THRESHOLD if number % 2 == 0 else THRESHOLD) + relation]
    status = wants_status(values, value, number, threshold, strict)
    if status == values[value, STATUS]:
        return False
    values[value, STATUS] = status
    at = QUEUE + 2 * (balance[QUEUE_END] % QUEUE_LENGTH)
    balance[at], balance[at + 1] = number, values[value, 0]
    balance[QUEUE_END] += 1
    return True


@compiled
def misplaced(values: Any, value: Any, number: Any) -> Any:
    """A tuple of a value that is in a part that the value is not in, or -1."""
    link = np.int64(0)
    if number % 2 == 0:
        link = values[value, CHAINS + (SPARSE if values[value, STATUS] else LIGHT)]
    elif values[value, STATUS]:
        link = values[value, CHAINS + LIGHT]
        if link == 0:
            link = values[value, CHAINS + SPARSE]
    else:
        link = values[value, CHAINS + HEAVY]
    return link - 1


@compiled
def move_tuple(
    state: Any,
    shape: Any,
    relation: Any,
    slot: Any,
    number: Any,
    thresholds: Any,
    scratch: Any,
    progress: Any,
    control: Any,
) -> Any:
    """Moves a tuple to the part of its values; False if a view needs room first."""
    own = STORES_OF_RELATION * relation
    tuples, seconds = rows_of(state, shape, own), rows_of(state, shape, own + SECONDS)
    x, y, old, m = tuples[slot, 0], tuples[slot, 1], tuples[slot, KIND], scratch[MOVE]
    mine, its = value_slot(state, shape, own + FIRSTS, x), value_slot(state, shape, own + SECONDS, y)
    if number % 2 == 1 and rows_of(state, shape, own + FIRSTS)[mine, STATUS]:
        kind = np.int64(HEAVY)
    else:
        kind = np.int64(light_kind(seconds, its, thresholds[SECOND_THRESHOLD + relation]))
    second = value_slot(state, shape, STORES_OF_RELATION * ((relation + 1) % 3) + FIRSTS, y)
    first = value_slot(state, shape, STORES_OF_RELATION * ((relation + 2) % 3) + SECONDS, x)
    for target in (old, kind):
        if not room_for_paths(state, shape, relation, target, second, first, control):
            return False
    for is_added in range(2):  # the paths of the old kind go, those of the new one come
        for j in range(shape[WIDTH]):
            m[j] = tuples[slot, NUMBERS + j] if is_added else -tuples[slot, NUMBERS + j]
        if is_added:
            set_kind(state, shape, relation, slot, mine, its, kind)
        target = kind if is_added else old
        change_views(state, shape, relation, target, x, y, second, first, m, scratch[TERM], progress, control)
    return True


@compiled
def advance_sweep(state: Any, shape: Any, thresholds: Any, balance: Any) -> None:
    """Looks at one more value in a major rebalancing."""
    number = balance[SWEEP] - 1
    store, slot = value_store(number), balance[SWEEP_SLOT]
    if slot >= numbers(state, shape[BEGINS + store] + META)[SIZE]:
        last = number + 1 >= 2 * (3 // shape[COPIES])
        balance[SWEEP], balance[SWEEP_SLOT] = 0 if last else number + 2, 0
        return
    balance[SWEEP_SLOT] += 1
    if flags(state, shape[BEGINS + store] + LIVE)[slot]:
        check_value(state, shape, number, slot, True, thresholds, balance)


@compiled
def rebalance(state: Any, shape: Any, thresholds: Any, balance: Any, scratch: Any, progress: Any, control: Any) -> Any:
    """Moves tuples of the values in the queue, then looks for more, as far as `BUDGET` goes; False if it needs room."""
    while progress[BUDGET] > 0 and (balance[QUEUE_BEGIN] < balance[QUEUE_END] or balance[SWEEP] > 0):
        before = progress[STEPS]
        progress[STEPS] += 1
        if balance[QUEUE_BEGIN] == balance[QUEUE_END]:
            advance_sweep(state, shape, thresholds, balance)
        else:
            at = QUEUE + 2 * (balance[QUEUE_BEGIN] % QUEUE_LENGTH)
            number, store = balance[at], value_store(balance[at])
            value = value_slot(state, shape, store, balance[at + 1])
            slot = misplaced(rows_of(state, shape, store), value, number) if value >= 0 else np.int64(-1)
            if slot < 0:
                balance[QUEUE_BEGIN] += 1
            elif not move_tuple(state, shape, number // 2, slot, number, thresholds, scratch, progress, control):
                return False
            elif balance[SWEEP] == 0:
                progress[MOVED] += 1
        progress[BUDGET] -= progress[STEPS] - before
        progress[BALANCING] += progress[STEPS] - before
    return True
