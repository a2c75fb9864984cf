"""Heavy/light maintenance of triangles on flat arrays, for Numba: the functions of `update` and `rebalance` as loops.

The state is ten stores (`runtime/flat.py`): the heavy and the light part of each relation, with a chain for each value
of either variable; the three views, by their ends, or with witnesses by ends and middle with a chain for each pair of
ends; and the groups. Three copies of one relation share its two parts and one view. Payloads are `width` integers,
multiplied place by place. They are computed modulo 2**64, which is a ring too: a change that overflowed is noted, and
taken back exactly by its negative.

No function allocates. `run` is called again where it left off, once a store has the room that it asked for, or once
Python has partitioned the database again; `progress` tells how far it got.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.control import FAILURE, NEEDED_ROWS, NEEDED_STORE, OVERFLOW
from viewlet.runtime.jit import compiled, entry
from viewlet.runtime.probe import (
    ALIVE,
    HEADS,
    INDEX,
    LINKS,
    LIVE,
    META,
    NEXT,
    PREVIOUS,
    ROOM,
    SIZE,
    enter,
    find,
    find_head,
    leave,
    touch,
)
from viewlet.runtime.state import chains, flags, hashes, numbers, words

STORES = 10
VIEWS, GROUPS = 6, 9
"""Numbers of stores: relation i has 2 * i (heavy) and 2 * i + 1 (light), then come the views and the groups."""
WIDTH, KEYS, FIRST_KEY, FIRSTS = 0, 1, 2, 5
"""Words of `shape`: numbers of a payload, of keys, the keys, and from `FIRSTS` on where the stores begin in the state.
"""
WORDS_OF = FIRSTS + STORES
"""From here on, words of a row of each store; then whether each relation has all tuples heavy, then witnesses."""
ALL_HEAVY = WORDS_OF + STORES
WITNESSES = ALL_HEAVY + 3
COPIES = WITNESSES + 3
"""Of how many relations one part, one view and one update are those of all: 3 where a table is joined with itself."""
SHAPE_WORDS = COPIES + 1
BEFORE, TOUCHED = 4, 5
"""Arrays of the journal of the groups, counted from their first."""
ROW, CHECKED, RUN_END, MOVING, BASE, STEPS, MINOR, MOVED = range(8)
"""Words of `progress`: the next row to apply and to check, the end of the run, whether a value is on its way to the
light (1) or the heavy part (2), N, and what it has cost."""
PROGRESS_WORDS = 8
CHANGE, TERM, SUMS, TRIANGLE, TRIPLED = range(5)
"""Rows of `scratch`: the payload of a change, a product, sums of products, the values of a triangle, three times the
change."""
SCRATCH_ROWS = 5
DONE, NEEDS_ROOM, NEEDS_MAJOR = 0, 1, 2
"""What `run` returns."""
LIMIT = 4.6e18
"""Numbers up to here can be added without leaving a word."""


@compiled
def product(left: Any, right: Any, control: Any) -> Any:
    """left * right; notes if that leaves its range."""
    if abs(float(left) * float(right)) > LIMIT:
        control[FAILURE] = OVERFLOW
    return left * right


@compiled
def added(total: Any, number: Any, control: Any) -> Any:
    """total + number; notes if that leaves its range."""
    total = total + number
    if abs(float(total)) > LIMIT:
        control[FAILURE] = OVERFLOW
    return total


@compiled
def row_head(state: Any, shape: Any, store: Any, value: Any) -> Any:
    """The first tuple of a part with this first value, or -1."""
    first = shape[FIRSTS + store]
    return find_head(words(state, first, shape[WORDS_OF + store]), hashes(state, first + HEADS), (0,), (value,))


@compiled
def column_head(state: Any, shape: Any, store: Any, value: Any) -> Any:
    """The first tuple of a part with this second value, or -1."""
    first = shape[FIRSTS + store]
    pool = words(state, first, shape[WORDS_OF + store])
    return find_head(pool, hashes(state, first + HEADS + 2), (1,), (value,))


@compiled
def length(state: Any, shape: Any, store: Any, side: Any, head: Any) -> Any:
    """How many tuples a chain has, by its first: of a first value (side 0) or a second one (side 1)."""
    if head < 0:
        return 0
    return -np.int64(chains(state, shape[FIRSTS + store] + LINKS + 2 * side)[head, PREVIOUS])


@compiled
def has_room(state: Any, shape: Any, store: Any, rows: Any, control: Any) -> Any:
    """Whether so many rows can be added to a store; notes how many are missing."""
    if numbers(state, shape[FIRSTS + store] + META)[ROOM] >= rows:
        return True
    control[NEEDED_STORE] = store
    control[NEEDED_ROWS] = rows
    return False


@compiled
def settle_row(state: Any, shape: Any, store: Any, arity: Any, slot: Any, term: Any, control: Any) -> None:
    """Adds a payload to a row, which leaves if that makes it zero."""
    first, width = shape[FIRSTS + store], shape[WORDS_OF + store]
    pool = words(state, first, width)
    gone = True
    for j in range(shape[WIDTH]):
        total = added(pool[slot, arity + j], term[j], control)
        pool[slot, arity + j] = total
        gone = gone and total == 0
    if gone:
        leave(state, first, width, arity, slot)


@compiled
def add_tuple(state: Any, shape: Any, store: Any, x: Any, y: Any, term: Any, control: Any) -> None:
    """Adds a payload to a tuple of a part."""
    slot = enter(state, shape[FIRSTS + store], shape[WORDS_OF + store], (x, y))
    settle_row(state, shape, store, np.int64(2), slot, term, control)


@compiled
def add_path(state: Any, shape: Any, view: Any, x: Any, y: Any, z: Any, term: Any, control: Any) -> None:
    """Adds a path from x through y to z to a view."""
    store = VIEWS + view
    first, width = shape[FIRSTS + store], shape[WORDS_OF + store]
    if shape[WITNESSES + view]:
        slot = enter(state, first, width, (x, z, y))
        settle_row(state, shape, store, np.int64(3), slot, term, control)
    else:
        slot = enter(state, first, width, (x, z))
        settle_row(state, shape, store, np.int64(2), slot, term, control)


@compiled
def add_group(state: Any, shape: Any, totals: Any, triangle: Any, term: Any, control: Any) -> None:
    """Adds a payload to the group of a triangle, given by its values of the three variables."""
    keys = shape[KEYS]
    if keys == 0:
        for j in range(shape[WIDTH]):
            totals[j] = added(totals[j], term[j], control)
        return
    first, width = shape[FIRSTS + GROUPS], shape[WORDS_OF + GROUPS]
    a = triangle[shape[FIRST_KEY]]
    if keys == 1:
        slot = enter(state, first, width, (a,))
    else:
        b = triangle[shape[FIRST_KEY + 1]]
        if keys == 2:
            slot = enter(state, first, width, (a, b))
        else:
            slot = enter(state, first, width, (a, b, triangle[shape[FIRST_KEY + 2]]))
    pool = words(state, first, width)
    touch(pool, words(state, first + BEFORE, width), numbers(state, first + TOUCHED), slot)
    settle_row(state, shape, GROUPS, keys, slot, term, control)


@compiled
def meet(
    state: Any,
    shape: Any,
    s: Any,
    t: Any,
    x: Any,
    y: Any,
    m: Any,
    each: Any,
    third: Any,
    scratch: Any,
    totals: Any,
    progress: Any,
    control: Any,
) -> None:
    """The values z with S(y, z) and T(z, x), through the shorter of the two chains.

    With `each`, every triangle goes to its group; otherwise the products are added to `sums`.
    """
    width, term, sums, triangle = shape[WIDTH], scratch[TERM], scratch[SUMS], scratch[TRIANGLE]
    row, column = row_head(state, shape, s, y), column_head(state, shape, t, x)
    if row < 0 or column < 0:
        return
    first_s, first_t = shape[FIRSTS + s], shape[FIRSTS + t]
    left, right = words(state, first_s, shape[WORDS_OF + s]), words(state, first_t, shape[WORDS_OF + t])
    by_row = length(state, shape, s, 0, row) <= length(state, shape, t, 1, column)
    links = chains(state, first_s + LINKS) if by_row else chains(state, first_t + LINKS + 2)
    index = hashes(state, first_t + INDEX) if by_row else hashes(state, first_s + INDEX)
    slot = row if by_row else column
    while slot >= 0:
        progress[STEPS] += 1
        if by_row:
            z = left[slot, 1]
            mine, other = slot, find(right, index, (z, x))
        else:
            z = right[slot, 0]
            mine, other = find(left, index, (y, z)), slot
        if mine >= 0 and other >= 0:
            for j in range(width):
                closing = product(left[mine, 2 + j], right[other, 2 + j], control)
                if each:
                    term[j] = product(m[j], closing, control)
                else:
                    sums[j] = added(sums[j], closing, control)
            if each:
                triangle[third] = z
                add_group(state, shape, totals, triangle, term, control)
        slot = np.int64(links[slot, NEXT])


@compiled
def shorter(state: Any, shape: Any, s: Any, t: Any, x: Any, y: Any) -> Any:
    """How many tuples `meet` looks at."""
    row, column = row_head(state, shape, s, y), column_head(state, shape, t, x)
    return min(length(state, shape, s, 0, row), length(state, shape, t, 1, column))


@compiled
def witness_head(state: Any, shape: Any, view: Any, x: Any, z: Any) -> Any:
    """The first path between two ends in a view with witnesses, or -1."""
    first = shape[FIRSTS + VIEWS + view]
    pool = words(state, first, shape[WORDS_OF + VIEWS + view])
    return find_head(pool, hashes(state, first + HEADS), (0, 1), (x, z))


@compiled
def room_for_result(state: Any, shape: Any, relation: Any, x: Any, y: Any, control: Any) -> Any:
    """Whether the groups have room for the triangles that a tuple closes."""
    if shape[KEYS] == 0:
        return True
    s, t, third = (relation + 1) % 3, (relation + 2) % 3, (relation + 2) % 3
    rows = np.int64(1)
    for j in range(shape[KEYS]):
        if shape[FIRST_KEY + j] == third:
            rows = shorter(state, shape, 2 * s, 2 * t, x, y) + shorter(state, shape, 2 * s + 1, 2 * t, x, y)
            rows += shorter(state, shape, 2 * s + 1, 2 * t + 1, x, y)
            rows += length(state, shape, VIEWS + s, 0, witness_head(state, shape, s, y, x))
    return has_room(state, shape, GROUPS, rows, control)


@compiled
def change_result(
    state: Any,
    shape: Any,
    relation: Any,
    x: Any,
    y: Any,
    m: Any,
    scratch: Any,
    totals: Any,
    progress: Any,
    control: Any,
) -> None:
    """Lines 3 to 7 of Figure 3: every triangle that the tuple closes."""
    term, sums, triangle = scratch[TERM], scratch[SUMS], scratch[TRIANGLE]
    s, t, third, width = (relation + 1) % 3, (relation + 2) % 3, (relation + 2) % 3, shape[WIDTH]
    each = False
    for j in range(shape[KEYS]):
        each = each or shape[FIRST_KEY + j] == third
    triangle[relation], triangle[(relation + 1) % 3], triangle[third] = x, y, 0
    for j in range(width):
        sums[j] = 0
    for parts in range(3):  # heavy and heavy, light and heavy, light and light
        left, right = 2 * s + min(parts, 1), 2 * t + parts // 2
        meet(state, shape, left, right, x, y, m, each, third, scratch, totals, progress, control)
    first = shape[FIRSTS + VIEWS + s]
    pool = words(state, first, shape[WORDS_OF + VIEWS + s])
    progress[STEPS] += 1
    if each:
        links = chains(state, first + LINKS)
        slot = witness_head(state, shape, s, y, x)
        while slot >= 0:
            progress[STEPS] += 1
            triangle[third] = pool[slot, 2]
            for j in range(width):
                term[j] = product(m[j], pool[slot, 3 + j], control)
            add_group(state, shape, totals, triangle, term, control)
            slot = np.int64(links[slot, NEXT])
        return
    slot = find(pool, hashes(state, first + INDEX), (y, x))  # the view has no witnesses: nobody asks for z
    if slot >= 0:
        for j in range(width):
            sums[j] = added(sums[j], pool[slot, 2 + j], control)
    changed = False
    for j in range(width):
        term[j] = product(m[j], sums[j], control)
        changed = changed or term[j] != 0
    if changed:
        add_group(state, shape, totals, triangle, term, control)


@compiled
def change_result_of_copies(
    state: Any, shape: Any, x: Any, y: Any, m: Any, scratch: Any, totals: Any, progress: Any, control: Any
) -> None:
    """The same for a tuple of all three relations at once, where numbers are counts.

    tr (E + m D)^3 - tr E^3  =  3 m (E^2)(y, x), and for a loop also 3 m^2 E(x, x) + m^3
    """
    tripled, term = scratch[TRIPLED], scratch[TERM]
    tripled[0] = product(3, m[0], control)
    change_result(state, shape, 0, x, y, tripled, scratch, totals, progress, control)
    if x == y:
        held = np.int64(0)
        for store in range(2):
            first = shape[FIRSTS + store]
            pool = words(state, first, shape[WORDS_OF + store])
            slot = find(pool, hashes(state, first + INDEX), (x, y))
            if slot >= 0:
                held = pool[slot, 2]
        square = product(m[0], m[0], control)
        term[0] = added(product(3 * held, square, control), product(square, m[0], control), control)
        add_group(state, shape, totals, scratch[TRIANGLE], term, control)


@compiled
def room_for_part(state: Any, shape: Any, relation: Any, heavy: Any, x: Any, y: Any, control: Any) -> Any:
    """Whether a part and the view over it have room for a tuple."""
    if heavy:
        s, view = 2 * ((relation + 1) % 3) + 1, relation
        paths = length(state, shape, s, 0, row_head(state, shape, s, y))
    else:
        t, view = 2 * ((relation + 2) % 3), (relation + 2) % 3
        paths = length(state, shape, t, 1, column_head(state, shape, t, x))
    part = 2 * relation if heavy else 2 * relation + 1
    return has_room(state, shape, part, 1, control) and has_room(state, shape, VIEWS + view, paths, control)


@compiled
def change_part(
    state: Any, shape: Any, relation: Any, heavy: Any, x: Any, y: Any, m: Any, term: Any, progress: Any, control: Any
) -> None:
    """Lines 8 to 12 of Figure 3: the views over the part, and the part itself."""
    width = shape[WIDTH]
    progress[STEPS] += 1
    if heavy:
        s = 2 * ((relation + 1) % 3) + 1
        pool, links = words(state, shape[FIRSTS + s], shape[WORDS_OF + s]), chains(state, shape[FIRSTS + s] + LINKS)
        slot = row_head(state, shape, s, y)
        while slot >= 0:
            progress[STEPS] += 1
            for j in range(width):
                term[j] = product(m[j], pool[slot, 2 + j], control)
            add_path(state, shape, relation, x, y, pool[slot, 1], term, control)
            slot = np.int64(links[slot, NEXT])
        add_tuple(state, shape, 2 * relation, x, y, m, control)
    else:
        before = (relation + 2) % 3
        t = 2 * before
        pool, links = words(state, shape[FIRSTS + t], shape[WORDS_OF + t]), chains(state, shape[FIRSTS + t] + LINKS + 2)
        slot = column_head(state, shape, t, x)
        while slot >= 0:
            progress[STEPS] += 1
            for j in range(width):
                term[j] = product(pool[slot, 2 + j], m[j], control)
            add_path(state, shape, before, pool[slot, 0], x, y, term, control)
            slot = np.int64(links[slot, NEXT])
        add_tuple(state, shape, 2 * relation + 1, x, y, m, control)


@compiled
def size_of(state: Any, shape: Any) -> Any:
    """|D|; copies of a relation count once."""
    total = np.int64(0)
    for store in range(VIEWS // shape[COPIES]):
        total += numbers(state, shape[FIRSTS + store] + META)[ALIVE]
    return total


@compiled
def check_value(
    state: Any, shape: Any, relation: Any, x: Any, threshold: Any, m: Any, term: Any, progress: Any, control: Any
) -> Any:
    """Moves the tuples of a value whose degree no longer suits its part; False if a store needs room first."""
    if progress[MOVING] == 0:
        light = length(state, shape, 2 * relation + 1, 0, row_head(state, shape, 2 * relation + 1, x))
        heavy = length(state, shape, 2 * relation, 0, row_head(state, shape, 2 * relation, x))
        if light >= 1.5 * threshold:
            progress[MOVING] = 2
        elif 0 < heavy < 0.5 * threshold:
            progress[MOVING] = 1
        else:
            return True
        progress[MINOR] += 1
    to_heavy = progress[MOVING] == 2
    source = 2 * relation + 1 if to_heavy else 2 * relation
    slot = row_head(state, shape, source, x)
    pool = words(state, shape[FIRSTS + source], shape[WORDS_OF + source])
    while slot >= 0:
        y = pool[slot, 1]
        if not room_for_part(state, shape, relation, to_heavy, x, y, control):
            return False
        if not room_for_part(state, shape, relation, not to_heavy, x, y, control):
            return False
        for j in range(shape[WIDTH]):
            m[j] = -pool[slot, 2 + j]
        change_part(state, shape, relation, not to_heavy, x, y, m, term, progress, control)
        for j in range(shape[WIDTH]):
            m[j] = -m[j]
        change_part(state, shape, relation, to_heavy, x, y, m, term, progress, control)
        progress[MOVED] += 1
        slot = row_head(state, shape, source, x)
    progress[MOVING] = 0
    return True


@entry
def run(
    relation: Any,
    firsts: Any,
    seconds: Any,
    payloads: Any,
    thresholds: Any,
    scratch: Any,
    totals: Any,
    progress: Any,
    shape: Any,
    state: Any,
    control: Any,
) -> Any:
    """Applies rows from `progress` on, in runs that each end with rebalancing; returns why it stops."""
    rows = firsts.shape[0]
    m, term = scratch[CHANGE], scratch[TERM]
    threshold = thresholds[relation]
    run_length = max(np.int64(1), np.int64(min(thresholds[0], thresholds[1], thresholds[2])))
    while True:
        while progress[ROW] < progress[RUN_END]:
            row = progress[ROW]
            x, y = firsts[row], seconds[row]
            heavy = shape[ALL_HEAVY + relation] != 0 or row_head(state, shape, 2 * relation, x) >= 0
            if not room_for_part(state, shape, relation, heavy, x, y, control):
                return NEEDS_ROOM
            if not room_for_result(state, shape, relation, x, y, control):
                return NEEDS_ROOM
            for j in range(shape[WIDTH]):
                m[j] = payloads[row, j]
            if shape[COPIES] == 3:
                change_result_of_copies(state, shape, x, y, m, scratch, totals, progress, control)
            else:
                change_result(state, shape, relation, x, y, m, scratch, totals, progress, control)
            change_part(state, shape, relation, heavy, x, y, m, term, progress, control)
            progress[ROW] = row + 1
        size = size_of(state, shape)
        if size >= progress[BASE] or size < progress[BASE] // 4:
            return NEEDS_MAJOR
        while progress[CHECKED] < progress[ROW]:
            x = firsts[progress[CHECKED]]
            if not check_value(state, shape, relation, x, threshold, m, term, progress, control):
                return NEEDS_ROOM
            progress[CHECKED] += 1
        if progress[ROW] >= rows:
            return DONE
        progress[RUN_END] = min(rows, progress[ROW] + run_length)


@entry
def insert(
    relation: Any, firsts: Any, seconds: Any, payloads: Any, progress: Any, shape: Any, state: Any, control: Any
) -> Any:
    """Adds rows to the parts alone, before everything over them is computed again."""
    for row in range(progress[ROW], firsts.shape[0]):
        x = firsts[row]
        store = 2 * relation if row_head(state, shape, 2 * relation, x) >= 0 else 2 * relation + 1
        if not has_room(state, shape, store, 1, control):
            return NEEDS_ROOM
        add_tuple(state, shape, store, x, seconds[row], payloads[row], control)
        progress[ROW] = row + 1
    return DONE


@entry
def build_view(view: Any, start: Any, scratch: Any, progress: Any, shape: Any, state: Any, control: Any) -> Any:
    """Adds the paths of the heavy tuples from a slot on to a view; returns the slot that needs more room, or -1."""
    store, light = 2 * view, 2 * ((view + 1) % 3) + 1
    pool = words(state, shape[FIRSTS + store], shape[WORDS_OF + store])
    other, links = (
        words(state, shape[FIRSTS + light], shape[WORDS_OF + light]),
        chains(state, shape[FIRSTS + light] + LINKS),
    )
    live, term = flags(state, shape[FIRSTS + store] + LIVE), scratch[TERM]
    for slot in range(start, numbers(state, shape[FIRSTS + store] + META)[SIZE]):
        if live[slot] == 0:
            continue
        head = row_head(state, shape, light, pool[slot, 1])
        if not has_room(state, shape, VIEWS + view, length(state, shape, light, 0, head), control):
            return slot
        while head >= 0:
            progress[STEPS] += 1
            for j in range(shape[WIDTH]):
                term[j] = product(pool[slot, 2 + j], other[head, 2 + j], control)
            add_path(state, shape, view, pool[slot, 0], pool[slot, 1], other[head, 1], term, control)
            head = np.int64(links[head, NEXT])
    return -1


@entry
def join(part: Any, start: Any, scratch: Any, totals: Any, progress: Any, shape: Any, state: Any, control: Any) -> Any:
    """Adds the triangles of the tuples of a part of R from a slot on to the groups; like `build_view` otherwise."""
    pool = words(state, shape[FIRSTS + part], shape[WORDS_OF + part])
    live = flags(state, shape[FIRSTS + part] + LIVE)
    m = scratch[CHANGE]
    for slot in range(start, numbers(state, shape[FIRSTS + part] + META)[SIZE]):
        if live[slot] == 0:
            continue
        x, y = pool[slot, 0], pool[slot, 1]
        if not room_for_result(state, shape, 0, x, y, control):
            return slot
        for j in range(shape[WIDTH]):
            m[j] = pool[slot, 2 + j]
        change_result(state, shape, 0, x, y, m, scratch, totals, progress, control)
    return -1


@entry
def empty_groups(shape: Any, state: Any) -> None:
    """Removes every group, with a note of what it was."""
    first, width = shape[FIRSTS + GROUPS], shape[WORDS_OF + GROUPS]
    pool, live = words(state, first, width), flags(state, first + LIVE)
    before, touched = words(state, first + BEFORE, width), numbers(state, first + TOUCHED)
    for slot in range(numbers(state, first + META)[SIZE]):
        if live[slot] != 0:
            touch(pool, before, touched, slot)
            leave(state, first, width, shape[KEYS], slot)
