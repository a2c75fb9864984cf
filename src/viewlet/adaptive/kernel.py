"""Heavy/light maintenance of triangles on flat arrays, for Numba: what Python calls, `update` and `rebalance` as loops.

The state is thirteen stores: three for each relation (`flat_parts.py`); the three views, by their ends, or with
witnesses by ends and middle with a chain for each pair of ends; and the groups. Three copies of one relation share its
stores and one view. Payloads are `width` integers, multiplied place by place. They are computed modulo 2**64, which is
a ring too: a change that overflowed is noted, and taken back exactly by its negative.

No function allocates. `run` is called again where it left off, once a store has the room that it asked for; `progress`
tells how far it got. Numba's cache looks at the time of this file alone: touch it if a function it calls changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.adaptive.flat_parts import (
    BEGINS,
    CHAINS,
    COLUMN_LINKS,
    FIRSTS,
    GROUPS,
    HEAVY,
    KEYS,
    KIND,
    LIGHT,
    NUMBERS,
    ROW_LINKS,
    SECONDS,
    SPARSE,
    STATUS,
    STORES_OF_RELATION,
    VALUE_WORDS,
    VIEWS,
    WIDTH,
    WORDS_OF,
    add_tuple,
    count_of,
    has_room,
    push,
    push_second,
    rows_of,
    tuple_slot,
    value_slot,
)
from viewlet.adaptive.flat_rebalance import check_value, overruns, rebalance, rebase, size_of
from viewlet.adaptive.flat_result import (
    BEFORE,
    TOUCHED,
    change_result,
    collect,
    direct_cost,
    room_for_result,
    view_cost,
    witness_head,
)
from viewlet.adaptive.flat_update import change_tuple, change_views, room_for_paths, value_store
from viewlet.adaptive.flat_words import (
    ANY,
    ASKS,
    BALANCED,
    BALANCING,
    BASE,
    BUDGET,
    CHANGE,
    CHECKED,
    CHOICE,
    CHOSEN,
    DONE,
    DUE,
    FIXED,
    LONGEST,
    MAJOR,
    MINOR,
    MOVE,
    NEEDS_EPSILON,
    NEEDS_ROOM,
    PAUSED,
    ROW,
    RUN_END,
    SECOND_THRESHOLD,
    SEEN,
    SPENT,
    STEP_LIMIT,
    STEPS,
    SWEEP,
    SWEEP_SLOT,
    TERM,
    THRESHOLD,
)
from viewlet.runtime.jit import entry
from viewlet.runtime.probe import LINKS, LIVE, META, NEXT, SIZE, enter, leave, touch
from viewlet.runtime.state import chains, flags, numbers, words


@entry
def run(
    relation: Any,
    firsts: Any,
    seconds: Any,
    payloads: Any,
    thresholds: Any,
    balance: Any,
    scratch: Any,
    totals: Any,
    progress: Any,
    shape: Any,
    state: Any,
    control: Any,
) -> Any:
    """Applies rows from `progress` on, in runs that each end with rebalancing; returns why it stops."""
    rows = firsts.shape[0]
    limit, m = balance[STEP_LIMIT], scratch[CHANGE]
    while True:
        while progress[ROW] < progress[RUN_END]:
            row = progress[ROW]
            for j in range(shape[WIDTH]):
                m[j] = payloads[row, j]
            before = progress[STEPS]
            if not change_tuple(
                relation, firsts[row], seconds[row], m, thresholds, scratch, totals, progress, shape, state, control
            ):
                return NEEDS_ROOM
            progress[ROW] = row + 1
            balance[SEEN] += 1
            balance[SPENT] += progress[STEPS] - before
        size = size_of(state, shape)
        if size >= balance[BASE] or size < balance[BASE] // 4 or overruns(thresholds, balance):
            if balance[CHOICE] == ASKS:
                return NEEDS_EPSILON
            balance[CHOICE] = ASKS if balance[CHOICE] == CHOSEN else FIXED
            rebase(2 * size + 1, thresholds, balance)
            balance[SWEEP], balance[SWEEP_SLOT] = 1, 0
            progress[MAJOR] += 1
            progress[CHECKED] = 2 * progress[ROW]
        if progress[DUE] == 0:
            progress[CHECKED] = 2 * progress[ROW]
        while True:
            if not rebalance(state, shape, thresholds, balance, scratch, progress, control):
                return NEEDS_ROOM
            if progress[CHECKED] >= 2 * progress[ROW]:
                break
            row, is_second = progress[CHECKED] // 2, progress[CHECKED] % 2
            progress[CHECKED] += 1
            number = 2 * relation + 1 - is_second
            value = value_slot(state, shape, value_store(number), seconds[row] if is_second else firsts[row])
            if value >= 0 and check_value(state, shape, number, value, False, thresholds, balance):
                progress[MINOR] += 1
        if progress[BALANCING] > progress[BALANCED]:
            progress[LONGEST] = max(progress[LONGEST], progress[BALANCING] - progress[BALANCED])
            progress[PAUSED], progress[BALANCED] = progress[ROW], progress[BALANCING]
        if progress[ROW] >= rows:
            return DONE
        shortest = np.int64(min(thresholds[0], thresholds[1], thresholds[2]))
        progress[RUN_END] = min(rows, progress[ROW] + (1 if limit > 0 else max(np.int64(1), shortest)))
        progress[BUDGET], progress[DUE] = limit if limit > 0 else np.int64(1) << 62, 0


@entry
def closings(relation: Any, x: Any, y: Any, found: Any, shape: Any, state: Any, control: Any) -> Any:
    """The values that close a triangle with a tuple: how many, and as many of them as `found` has room for.

    The groups tell them apart, so that the views have witnesses.
    """
    s, count = (relation + 1) % 3, np.int64(0)
    ys = rows_of(state, shape, STORES_OF_RELATION * s + FIRSTS)
    xs = rows_of(state, shape, STORES_OF_RELATION * ((relation + 2) % 3) + SECONDS)
    slot = tuple_slot(state, shape, relation, x, y)
    second = value_slot(state, shape, STORES_OF_RELATION * s + FIRSTS, y)
    first = value_slot(state, shape, STORES_OF_RELATION * ((relation + 2) % 3) + SECONDS, x)
    if slot < 0 or rows_of(state, shape, STORES_OF_RELATION * relation)[slot, NUMBERS] == 0 or second < 0 or first < 0:
        return count
    if direct_cost(ys, second, xs, first) <= view_cost(ys, second, xs, first):
        return collect(state, shape, relation, x, y, second, first, ANY, ANY, found, count)
    heavy, sparse = 1 << HEAVY, 1 << SPARSE
    for left, right in ((heavy, heavy), (heavy, sparse), (ANY - heavy, ANY)):
        count = collect(state, shape, relation, x, y, second, first, left, right, found, count)
    pool, links = rows_of(state, shape, VIEWS + s), chains(state, shape[BEGINS + VIEWS + s] + LINKS)
    path = witness_head(state, shape, s, y, x)
    while path >= 0:
        if pool[path, 3] != 0:
            if count < found.shape[0]:
                found[count] = pool[path, 2]
            count += 1
        path = np.int64(links[path, NEXT])
    return count


@entry
def degrees(relation: Any, slots: Any, found: Any, shape: Any, state: Any, control: Any) -> None:
    """The degrees of the values of some tuples (`choose_epsilon.Degrees`), a row for each."""
    own = STORES_OF_RELATION * relation
    following, before = STORES_OF_RELATION * ((relation + 1) % 3), STORES_OF_RELATION * ((relation + 2) % 3)
    tuples = rows_of(state, shape, own)
    for row in range(slots.shape[0]):
        x, y = tuples[slots[row], 0], tuples[slots[row], 1]
        for place in range(4):
            store = own + FIRSTS if place == 0 else own + SECONDS
            if place >= 2:
                store = following + FIRSTS if place == 2 else before + SECONDS
            value = value_slot(state, shape, store, x if place in (0, 3) else y)
            found[row, place] = count_of(rows_of(state, shape, store), value, ANY)


# -- everything from the tuples ---------------------------------------------------------------------------------------


@entry
def insert(
    relation: Any, firsts: Any, seconds: Any, payloads: Any, progress: Any, shape: Any, state: Any, control: Any
) -> Any:
    """Adds rows to the tuples alone, before everything over them is computed again."""
    own = STORES_OF_RELATION * relation
    for row in range(progress[ROW], firsts.shape[0]):
        for store in range(STORES_OF_RELATION):
            if not has_room(state, shape, own + store, 1, control):
                return NEEDS_ROOM
        x, y, heavy = firsts[row], seconds[row], np.int64(HEAVY)
        mine, its = value_slot(state, shape, own + FIRSTS, x), value_slot(state, shape, own + SECONDS, y)
        slot = tuple_slot(state, shape, relation, x, y)
        add_tuple(state, shape, relation, x, y, slot, mine, its, heavy, payloads[row], control)
        progress[ROW] = row + 1
    return DONE


@entry
def link(relation: Any, start: Any, shape: Any, state: Any, control: Any) -> Any:
    """Puts the tuples from a slot on into chains, by their kinds; returns the slot that needs more room, or -1."""
    own = STORES_OF_RELATION * relation
    tuples = rows_of(state, shape, own)
    firsts, seconds = rows_of(state, shape, own + FIRSTS), rows_of(state, shape, own + SECONDS)
    live = flags(state, shape[BEGINS + own] + LIVE)
    for slot in range(start, numbers(state, shape[BEGINS + own] + META)[SIZE]):
        if live[slot] == 0:
            continue
        if not has_room(state, shape, own + FIRSTS, 1, control) or not has_room(
            state, shape, own + SECONDS, 1, control
        ):
            return slot
        first = enter(state, shape[BEGINS + own + FIRSTS], VALUE_WORDS, (tuples[slot, 0],))
        firsts[first, STATUS] = tuples[slot, KIND] == HEAVY
        push(tuples, firsts, first, ROW_LINKS, slot)
        second = enter(state, shape[BEGINS + own + SECONDS], VALUE_WORDS, (tuples[slot, 1],))
        push_second(tuples, seconds, second, slot)
    return -1


@entry
def partition(relation: Any, thresholds: Any, shape: Any, state: Any, control: Any) -> None:
    """The strict partition of a relation."""
    own = STORES_OF_RELATION * relation
    tuples = rows_of(state, shape, own)
    firsts, seconds = rows_of(state, shape, own + FIRSTS), rows_of(state, shape, own + SECONDS)
    for store in (FIRSTS, SECONDS):
        values, live = rows_of(state, shape, own + store), flags(state, shape[BEGINS + own + store] + LIVE)
        threshold = thresholds[(THRESHOLD if store == FIRSTS else SECOND_THRESHOLD) + relation]
        for value in range(numbers(state, shape[BEGINS + own + store] + META)[SIZE]):
            if live[value]:
                values[value, STATUS] = count_of(values, value, ANY) >= threshold
                for word in range(CHAINS, VALUE_WORDS):
                    values[value, word] = 0
    live = flags(state, shape[BEGINS + own] + LIVE)
    for slot in range(numbers(state, shape[BEGINS + own] + META)[SIZE]):
        if live[slot]:
            first = value_slot(state, shape, own + FIRSTS, tuples[slot, 0])
            second = value_slot(state, shape, own + SECONDS, tuples[slot, 1])
            light = LIGHT if seconds[second, STATUS] else SPARSE
            tuples[slot, KIND] = HEAVY if firsts[first, STATUS] else light
            push(tuples, firsts, first, ROW_LINKS, slot)
            push(tuples, seconds, second, COLUMN_LINKS, slot)


@entry
def build_view(view: Any, start: Any, scratch: Any, progress: Any, shape: Any, state: Any, control: Any) -> Any:
    """Adds the paths of the heavy tuples from a slot on to a view; returns the slot that needs more room, or -1."""
    own, s = STORES_OF_RELATION * view, STORES_OF_RELATION * ((view + 1) % 3)
    tuples, live = rows_of(state, shape, own), flags(state, shape[BEGINS + own] + LIVE)
    for slot in range(start, numbers(state, shape[BEGINS + own] + META)[SIZE]):
        if live[slot] == 0 or tuples[slot, KIND] != HEAVY:
            continue
        second = value_slot(state, shape, s + FIRSTS, tuples[slot, 1])
        if not room_for_paths(state, shape, view, np.int64(HEAVY), second, np.int64(-1), control):
            return slot
        m, x, y = scratch[MOVE], tuples[slot, 0], tuples[slot, 1]
        for j in range(shape[WIDTH]):
            m[j] = tuples[slot, NUMBERS + j]
        change_views(
            state, shape, view, np.int64(HEAVY), x, y, second, np.int64(-1), m, scratch[TERM], progress, control
        )
    return -1


@entry
def join(start: Any, scratch: Any, totals: Any, progress: Any, shape: Any, state: Any, control: Any) -> Any:
    """Adds the triangles of the tuples of R from a slot on to the groups; like `build_view` otherwise."""
    tuples, live = rows_of(state, shape, 0), flags(state, shape[BEGINS] + LIVE)
    m = scratch[CHANGE]
    for slot in range(start, numbers(state, shape[BEGINS] + META)[SIZE]):
        if live[slot] == 0:
            continue
        x, y = tuples[slot, 0], tuples[slot, 1]
        second = value_slot(state, shape, STORES_OF_RELATION + FIRSTS, y)
        first = value_slot(state, shape, 2 * STORES_OF_RELATION + SECONDS, x)
        if not room_for_result(state, shape, 0, x, y, second, first, control):
            return slot
        for j in range(shape[WIDTH]):
            m[j] = tuples[slot, NUMBERS + j]
        change_result(state, shape, 0, x, y, second, first, m, scratch, totals, progress, control)
    return -1


@entry
def empty_groups(shape: Any, state: Any) -> None:
    """Removes every group, with a note of what it was."""
    first, width = shape[BEGINS + GROUPS], shape[WORDS_OF + GROUPS]
    pool, live = words(state, first, width), flags(state, first + LIVE)
    before, touched = words(state, first + BEFORE, width), numbers(state, first + TOUCHED)
    for slot in range(numbers(state, first + META)[SIZE]):
        if live[slot] != 0:
            touch(pool, before, touched, slot)
            leave(state, first, width, shape[KEYS], slot)
