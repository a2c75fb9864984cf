"""Heavy/light maintenance of triangles on flat arrays, for Numba: the functions of `update` and `rebalance` as loops.

The state is thirteen stores: three for each relation (`flat_parts.py`); the three views, by their ends, or with
witnesses by ends and middle with a chain for each pair of ends; and the groups. Three copies of one relation share its
stores and one view. Payloads are `width` integers, multiplied place by place. They are computed modulo 2**64, which is
a ring too: a change that overflowed is noted, and taken back exactly by its negative.

A view is over the tuples that are heavy or light now, not over those that should be, so that rebalancing may stop after
any tuple: the values whose tuples are still to move wait in a queue.

No function allocates. `run` is called again where it left off, once a store has the room that it asked for; `progress`
tells how far it got.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.adaptive.flat_parts import (
    ALL_HEAVY,
    BEGINS,
    CHAINS,
    COLUMN_LINKS,
    COPIES,
    FIRST_KEY,
    FIRSTS,
    GROUPS,
    HEAVY,
    KEYS,
    KIND,
    LENGTHS,
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
    WITNESSES,
    WORDS_OF,
    add_tuple,
    added,
    count_of,
    has_room,
    index_of,
    light_kind,
    product,
    push,
    push_second,
    rows_of,
    set_kind,
    settle_row,
    tuple_slot,
    value_slot,
)
from viewlet.runtime.jit import compiled, entry
from viewlet.runtime.probe import (
    ALIVE,
    HEADS,
    LINKS,
    LIVE,
    META,
    NEXT,
    PREVIOUS,
    SIZE,
    enter,
    find,
    find_head,
    leave,
    touch,
)
from viewlet.runtime.state import chains, flags, hashes, numbers, words

BEFORE, TOUCHED = 4, 5
"""Arrays of the journal of the groups, counted from their first."""
ROW, CHECKED, RUN_END, DUE, BUDGET, STEPS, MINOR, MAJOR, MOVED, BALANCING, BALANCED, LONGEST, PAUSED = range(13)
"""Words of `progress`: the next row to apply; twice the next row to check, plus one for its second value; the end of a
run, and whether a value of it may have to move; the steps of rebalancing that may still be done; and what it has cost:
steps, minor and major rebalancing, tuples that minor rebalancing moved, the steps that were spent on rebalancing, those
before this run, the most of one run, and the row after which there was some last."""
PROGRESS_WORDS = 13
CHANGE, TERM, SUMS, TRIANGLE, TIMES, MOVE = range(6)
"""Rows of `scratch`: the payload of a change, a product, sums of products, the values of a triangle, the change times
the copies of its relation, and the payload of a tuple that moves."""
SCRATCH_ROWS = 6
BASE, SWEEP, SWEEP_SLOT, QUEUE_BEGIN, QUEUE_END, STEP_LIMIT, QUEUE = range(7)
"""Words of `balance`: N; the store of values, plus one, and the row in it that a major rebalancing looks at next, or 0;
how many values have left the queue and entered it; the steps of rebalancing in one update, or 0 for no limit; then the
queue, with two words for each value: its store among those of values, and the value."""
QUEUE_LENGTH = 1024
BALANCE_WORDS = QUEUE + 2 * QUEUE_LENGTH
THRESHOLD, SECOND_THRESHOLD, EXPONENT, SECOND_EXPONENT = 0, 3, 6, 9
"""Words of `thresholds`, three each: those of first and of second values, and what power of N they are; -1 is none."""
THRESHOLD_WORDS = 12
DONE, NEEDS_ROOM = 0, 1
"""What `run` returns."""
ANY = 7
"""All kinds of tuples, as a set of bits."""


# -- the views and the groups -----------------------------------------------------------------------------------------


@compiled
def add_path(state: Any, shape: Any, view: Any, x: Any, y: Any, z: Any, term: Any, control: Any) -> None:
    """Adds a path from x through y to z to a view."""
    store = VIEWS + view
    first, width = shape[BEGINS + store], shape[WORDS_OF + store]
    if shape[WITNESSES + view]:
        slot = enter(state, first, width, (x, z, y))
        settle_row(state, shape, store, np.int64(3), np.int64(3), slot, term, control)
    else:
        slot = enter(state, first, width, (x, z))
        settle_row(state, shape, store, np.int64(2), np.int64(2), slot, term, control)


@compiled
def add_group(state: Any, shape: Any, totals: Any, triangle: Any, term: Any, control: Any) -> None:
    """Adds a payload to the group of a triangle, given by its values of the three variables."""
    keys = shape[KEYS]
    if keys == 0:
        for j in range(shape[WIDTH]):
            totals[j] = added(totals[j], term[j], control)
        return
    first, width = shape[BEGINS + GROUPS], shape[WORDS_OF + GROUPS]
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
    settle_row(state, shape, GROUPS, keys, keys, slot, term, control)


@compiled
def witness_head(state: Any, shape: Any, view: Any, x: Any, z: Any) -> Any:
    """The first path between two ends in a view with witnesses, or -1."""
    first = shape[BEGINS + VIEWS + view]
    return find_head(rows_of(state, shape, VIEWS + view), hashes(state, first + HEADS), (0, 1), (x, z))


@compiled
def count_witnesses(state: Any, shape: Any, view: Any, head: Any) -> Any:
    """How many paths there are from a first one on."""
    if head < 0:
        return 0
    return -np.int64(chains(state, shape[BEGINS + VIEWS + view] + LINKS)[head, PREVIOUS])


# -- the result -------------------------------------------------------------------------------------------------------


@compiled
def meet(
    state: Any,
    shape: Any,
    relation: Any,
    second: Any,
    first: Any,
    left_kinds: Any,
    right_kinds: Any,
    each: Any,
    m: Any,
    scratch: Any,
    totals: Any,
    progress: Any,
    control: Any,
) -> None:
    """The z with S(y, z) and T(z, x) of some kinds, through the shorter of the two: y and x are in rows of values.

    With `each`, every triangle goes to its group; otherwise the products are added to `SUMS`.
    """
    term, sums, triangle, width = scratch[TERM], scratch[SUMS], scratch[TRIANGLE], shape[WIDTH]
    s, t, third = (
        STORES_OF_RELATION * ((relation + 1) % 3),
        STORES_OF_RELATION * ((relation + 2) % 3),
        (relation + 2) % 3,
    )
    x, y = triangle[relation], triangle[(relation + 1) % 3]
    ys, xs = rows_of(state, shape, s + FIRSTS), rows_of(state, shape, t + SECONDS)
    in_row, in_column = count_of(ys, second, left_kinds), count_of(xs, first, right_kinds)
    if in_row == 0 or in_column == 0:
        return
    by_row = in_row <= in_column
    walked, probed = rows_of(state, shape, s if by_row else t), rows_of(state, shape, t if by_row else s)
    index = index_of(state, shape, t if by_row else s)
    values, value = ys if by_row else xs, second if by_row else first
    my_kinds, other_kinds = left_kinds if by_row else right_kinds, right_kinds if by_row else left_kinds
    links, place = ROW_LINKS if by_row else COLUMN_LINKS, 1 if by_row else 0
    for kind in range(3):
        if (my_kinds >> kind) & 1 == 0:
            continue
        slot = values[value, CHAINS + kind] - 1
        while slot >= 0:
            progress[STEPS] += 1
            z = walked[slot, place]
            match = find(probed, index, (z if by_row else y, x if by_row else z))
            if match >= 0 and (other_kinds >> probed[match, KIND]) & 1:
                for j in range(width):
                    closing = product(walked[slot, NUMBERS + j], probed[match, NUMBERS + j], control)
                    if each:
                        term[j] = product(m[j], closing, control)
                    else:
                        sums[j] = added(sums[j], closing, control)
                if each:
                    triangle[third] = z
                    add_group(state, shape, totals, triangle, term, control)
            slot = walked[slot, links] - 1


@compiled
def direct_cost(ys: Any, second: Any, xs: Any, first: Any) -> Any:
    """What it takes to enumerate the shorter side."""
    return min(count_of(ys, second, ANY), count_of(xs, first, ANY))


@compiled
def view_cost(ys: Any, second: Any, xs: Any, first: Any) -> Any:
    """What it takes where a view has the paths of a heavy tuple and a light one."""
    heavy, light = count_of(ys, second, 1 << HEAVY), count_of(ys, second, ANY - (1 << HEAVY))
    both = min(heavy, count_of(xs, first, 1 << HEAVY)) + min(heavy, count_of(xs, first, 1 << SPARSE))
    return 1 + both + min(light, count_of(xs, first, ANY))


@compiled
def tells_third(shape: Any, relation: Any) -> Any:
    """Whether the groups tell the triangles of one tuple apart."""
    each = False
    for j in range(shape[KEYS]):
        each = each or shape[FIRST_KEY + j] == (relation + 2) % 3
    return each


@compiled
def room_for_result(
    state: Any, shape: Any, relation: Any, x: Any, y: Any, second: Any, first: Any, control: Any
) -> Any:
    """Whether the groups have room for the triangles that a tuple closes."""
    if shape[KEYS] == 0:
        return True
    rows = np.int64(1)
    if tells_third(shape, relation):
        s, t = (relation + 1) % 3, (relation + 2) % 3
        ys = rows_of(state, shape, STORES_OF_RELATION * s + FIRSTS)
        xs = rows_of(state, shape, STORES_OF_RELATION * t + SECONDS)
        paths = count_witnesses(state, shape, s, witness_head(state, shape, s, y, x))
        rows = min(direct_cost(ys, second, xs, first), view_cost(ys, second, xs, first) + paths)
    return has_room(state, shape, GROUPS, rows, control)


@compiled
def change_result(
    state: Any,
    shape: Any,
    relation: Any,
    x: Any,
    y: Any,
    second: Any,
    first: Any,
    m: Any,
    scratch: Any,
    totals: Any,
    progress: Any,
    control: Any,
) -> None:
    """Lines 3 to 7 of Figure 3, every triangle that the tuple closes; `second` is the row of y in the next relation,
    `first` that of x in the one before."""
    term, sums, triangle, width = scratch[TERM], scratch[SUMS], scratch[TRIANGLE], shape[WIDTH]
    s, t, third = (relation + 1) % 3, (relation + 2) % 3, (relation + 2) % 3
    progress[STEPS] += 1
    if second < 0 or first < 0:
        return
    each = tells_third(shape, relation)
    triangle[relation], triangle[(relation + 1) % 3], triangle[third] = x, y, 0
    for j in range(width):
        sums[j] = 0
    ys = rows_of(state, shape, STORES_OF_RELATION * s + FIRSTS)
    xs = rows_of(state, shape, STORES_OF_RELATION * t + SECONDS)
    direct = direct_cost(ys, second, xs, first) <= view_cost(ys, second, xs, first)
    for piece in range(1 if direct else 3):  # all, or: heavy and heavy, heavy and sparse, light and any
        left = ANY if direct else 1 << HEAVY if piece < 2 else ANY - (1 << HEAVY)
        right = ANY if direct or piece == 2 else 1 << HEAVY if piece == 0 else 1 << SPARSE
        meet(state, shape, relation, second, first, left, right, each, m, scratch, totals, progress, control)
    if not direct:
        add_paths(state, shape, s, y, x, each, third, m, scratch, totals, progress, control)
    if each:
        return
    changed = False
    for j in range(width):
        term[j] = product(m[j], sums[j], control)
        changed = changed or term[j] != 0
    if changed:
        add_group(state, shape, totals, triangle, term, control)


@compiled
def add_paths(
    state: Any,
    shape: Any,
    view: Any,
    y: Any,
    x: Any,
    each: Any,
    third: Any,
    m: Any,
    scratch: Any,
    totals: Any,
    progress: Any,
    control: Any,
) -> None:
    """The paths from y to x that a view has: their sum, or a triangle for each of them."""
    term, sums, triangle, width = scratch[TERM], scratch[SUMS], scratch[TRIANGLE], shape[WIDTH]
    pool = rows_of(state, shape, VIEWS + view)
    progress[STEPS] += 1
    if not each:  # nobody asks for z: the view has no witnesses
        slot = find(pool, index_of(state, shape, VIEWS + view), (y, x))
        if slot >= 0:
            for j in range(width):
                sums[j] = added(sums[j], pool[slot, 2 + j], control)
        return
    links, slot = chains(state, shape[BEGINS + VIEWS + view] + LINKS), witness_head(state, shape, view, y, x)
    while slot >= 0:
        progress[STEPS] += 1
        triangle[third] = pool[slot, 2]
        for j in range(width):
            term[j] = product(m[j], pool[slot, 3 + j], control)
        add_group(state, shape, totals, triangle, term, control)
        slot = np.int64(links[slot, NEXT])


@compiled
def add_loop(state: Any, shape: Any, slot: Any, m: Any, scratch: Any, totals: Any, control: Any) -> None:
    """What a loop changes besides, where it is a tuple of all three relations at once and numbers are counts.

    tr (E + m D)^3 - tr E^3  =  3 m (E^2)(y, x), and for a loop also 3 m^2 E(x, x) + m^3
    """
    held = rows_of(state, shape, 0)[slot, NUMBERS] if slot >= 0 else np.int64(0)
    square, term = product(m[0], m[0], control), scratch[TERM]
    term[0] = added(product(3 * held, square, control), product(square, m[0], control), control)
    add_group(state, shape, totals, scratch[TRIANGLE], term, control)


# -- the parts --------------------------------------------------------------------------------------------------------


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
    elif firsts[mine, STATUS] == 0 if mine >= 0 else shape[ALL_HEAVY + relation] == 0:
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


# -- rebalancing ------------------------------------------------------------------------------------------------------


@compiled
def size_of(state: Any, shape: Any) -> Any:
    """|D|; copies of a relation count once."""
    total = np.int64(0)
    for relation in range(3 // shape[COPIES]):
        total += numbers(state, shape[BEGINS + STORES_OF_RELATION * relation] + META)[ALIVE]
    return total


@compiled
def rebase(base: Any, thresholds: Any, balance: Any) -> None:
    """Another N."""
    balance[BASE] = base
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
            if not change_tuple(
                relation, firsts[row], seconds[row], m, thresholds, scratch, totals, progress, shape, state, control
            ):
                return NEEDS_ROOM
            progress[ROW] = row + 1
        size = size_of(state, shape)
        if size >= balance[BASE] or size < balance[BASE] // 4:
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
