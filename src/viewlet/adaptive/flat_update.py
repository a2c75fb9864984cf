"""A change of one tuple on flat arrays, for Numba (Figure 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.adaptive.flat_parts import (
    CHAINS,
    COLUMN_LINKS,
    COPIES,
    FIRSTS,
    HEAVY,
    KIND,
    LENGTHS,
    LIGHT,
    NUMBERS,
    ROW_LINKS,
    SECONDS,
    SPARSE,
    STATUS,
    STORES_OF_RELATION,
    VIEWS,
    WIDTH,
    add_tuple,
    count_of,
    has_room,
    light_kind,
    product,
    rows_of,
    tuple_slot,
    value_slot,
)
from viewlet.adaptive.flat_result import add_loop, add_path, change_result, room_for_result
from viewlet.adaptive.flat_words import ANY, DUE, EXPONENT, SECOND_THRESHOLD, STEPS, TERM, THRESHOLD, TIMES
from viewlet.runtime.jit import compiled


@compiled
def paths_of(state: Any, shape: Any, relation: Any, kind: Any, second: Any, first: Any) -> Any:
    """How many paths of its view a tuple of some kind is on; for `second` and `first` see `change_result`."""
    if kind == HEAVY:
        ys = rows_of(state, shape, STORES_OF_RELATION * ((relation + 1) % 3) + FIRSTS)
        return count_of(ys, second, 1 << LIGHT)
    if kind == LIGHT:
        xs = rows_of(state, shape, STORES_OF_RELATION * ((relation + 2) % 3) + SECONDS)
        return count_of(xs, first, 1 << HEAVY)
    return np.int64(0)


@compiled
def room_for_paths(state: Any, shape: Any, relation: Any, kind: Any, second: Any, first: Any, control: Any) -> Any:
    """Whether the view over a kind of tuple has room for another one."""
    view = relation if kind == HEAVY else (relation + 2) % 3
    paths = paths_of(state, shape, relation, kind, second, first)
    return has_room(state, shape, VIEWS + view, paths, control)


@compiled
def change_views(
    state: Any,
    shape: Any,
    relation: Any,
    kind: Any,
    x: Any,
    y: Any,
    second: Any,
    first: Any,
    m: Any,
    term: Any,
    progress: Any,
    control: Any,
) -> None:
    """Lines 8 to 12 of Figure 3: the paths of a tuple in the view over its kind."""
    s, t = STORES_OF_RELATION * ((relation + 1) % 3), STORES_OF_RELATION * ((relation + 2) % 3)
    progress[STEPS] += 1
    if kind == HEAVY and second >= 0:
        tuples = rows_of(state, shape, s)
        slot = rows_of(state, shape, s + FIRSTS)[second, CHAINS + LIGHT] - 1
        while slot >= 0:
            progress[STEPS] += 1
            for j in range(shape[WIDTH]):
                term[j] = product(m[j], tuples[slot, NUMBERS + j], control)
            add_path(state, shape, relation, x, y, tuples[slot, 1], term, control)
            slot = tuples[slot, ROW_LINKS] - 1
    elif kind == LIGHT and first >= 0:
        tuples = rows_of(state, shape, t)
        slot = rows_of(state, shape, t + SECONDS)[first, CHAINS + HEAVY] - 1
        while slot >= 0:
            progress[STEPS] += 1
            for j in range(shape[WIDTH]):
                term[j] = product(tuples[slot, NUMBERS + j], m[j], control)
            add_path(state, shape, (relation + 2) % 3, tuples[slot, 0], x, y, term, control)
            slot = tuples[slot, COLUMN_LINKS] - 1


@compiled
def value_store(number: Any) -> Any:
    """The stores of values, by relation: that of second values, then that of first ones."""
    return STORES_OF_RELATION * (number // 2) + (SECONDS if number % 2 == 0 else FIRSTS)


@compiled
def wants_status(values: Any, value: Any, number: Any, threshold: Any, strict: Any) -> Any:
    """Whether a value should be heavy by its degree; otherwise as it is."""
    degree, status = count_of(values, value, ANY), values[value, STATUS]
    if number % 2 == 0 and values[value, LENGTHS + LIGHT] + values[value, LENGTHS + SPARSE] == 0:
        return status  # no tuple depends on it
    if strict:
        return np.int64(degree >= threshold)
    if status == 0 and degree >= 1.5 * threshold:
        return np.int64(1)
    if status == 1 and degree < 0.5 * threshold:
        return np.int64(0)
    return status


@compiled
def is_due(state: Any, shape: Any, number: Any, value: Any, thresholds: Any) -> Any:
    """Whether the degree of a value, if it still has tuples, asks for another part."""
    values, relation = rows_of(state, shape, value_store(number)), number // 2
    threshold = thresholds[(SECOND_THRESHOLD if number % 2 == 0 else THRESHOLD) + relation]
    return np.int64(value >= 0 and wants_status(values, value, number, threshold, False) != values[value, STATUS])


@compiled
def change_tuple(
    relation: Any,
    x: Any,
    y: Any,
    m: Any,
    thresholds: Any,
    scratch: Any,
    totals: Any,
    progress: Any,
    shape: Any,
    state: Any,
    control: Any,
) -> Any:
    """Figure 3: adds a payload to a tuple, the result and the views; False if a store needs room first."""
    own = STORES_OF_RELATION * relation
    second = value_slot(state, shape, STORES_OF_RELATION * ((relation + 1) % 3) + FIRSTS, y)
    first = value_slot(state, shape, STORES_OF_RELATION * ((relation + 2) % 3) + SECONDS, x)
    slot, kind = tuple_slot(state, shape, relation, x, y), np.int64(HEAVY)
    mine, its = value_slot(state, shape, own + FIRSTS, x), value_slot(state, shape, own + SECONDS, y)
    firsts, seconds = rows_of(state, shape, own + FIRSTS), rows_of(state, shape, own + SECONDS)
    if slot >= 0:
        kind = rows_of(state, shape, own)[slot, KIND]
    elif firsts[mine, STATUS] == 0 if mine >= 0 else thresholds[EXPONENT + relation] > 0:
        kind = np.int64(light_kind(seconds, its, thresholds[SECOND_THRESHOLD + relation]))
    for store in range(STORES_OF_RELATION):
        if not has_room(state, shape, own + store, 1, control):
            return False
    if not room_for_paths(state, shape, relation, kind, second, first, control):
        return False
    if not room_for_result(state, shape, relation, x, y, second, first, control):
        return False
    times = scratch[TIMES]
    for j in range(shape[WIDTH]):
        times[j] = product(shape[COPIES], m[j], control)
    change_result(state, shape, relation, x, y, second, first, times, scratch, totals, progress, control)
    if shape[COPIES] == 3 and x == y:
        add_loop(state, shape, slot, m, scratch, totals, control)
    change_views(state, shape, relation, kind, x, y, second, first, m, scratch[TERM], progress, control)
    if add_tuple(state, shape, relation, x, y, slot, mine, its, kind, m, control):
        progress[DUE] |= is_due(state, shape, 2 * relation + 1, mine, thresholds)
        progress[DUE] |= is_due(state, shape, 2 * relation, its, thresholds)
    return True
