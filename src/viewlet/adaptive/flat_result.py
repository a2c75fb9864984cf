"""The views and the result of a triangle query on flat arrays, for Numba: lines 3 to 7 of Figure 3."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.adaptive.flat_parts import (
    BEGINS,
    CHAINS,
    COLUMN_LINKS,
    FIRST_KEY,
    FIRSTS,
    GROUPS,
    HEAVY,
    KEYS,
    KIND,
    NUMBERS,
    ROW_LINKS,
    SECONDS,
    SPARSE,
    STORES_OF_RELATION,
    VIEWS,
    WIDTH,
    WITNESSES,
    WORDS_OF,
    added,
    count_of,
    has_room,
    index_of,
    product,
    rows_of,
    settle_row,
)
from viewlet.adaptive.flat_words import ANY, STEPS, SUMS, TERM, TRIANGLE
from viewlet.runtime.jit import compiled
from viewlet.runtime.probe import HEADS, LINKS, NEXT, PREVIOUS, enter, find, find_head, touch
from viewlet.runtime.state import chains, hashes, numbers, words

BEFORE, TOUCHED = 4, 5
"""Arrays of the journal of the groups, counted from their first."""


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
    if not each:  # z is not requested: the view has no witnesses
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


@compiled
def collect(
    state: Any,
    shape: Any,
    relation: Any,
    x: Any,
    y: Any,
    second: Any,
    first: Any,
    left_kinds: Any,
    right_kinds: Any,
    found: Any,
    count: Any,
) -> Any:
    """Adds the z of `meet` to those that were found; says how many there are now, whether or not there is room."""
    s, t = STORES_OF_RELATION * ((relation + 1) % 3), STORES_OF_RELATION * ((relation + 2) % 3)
    ys, xs = rows_of(state, shape, s + FIRSTS), rows_of(state, shape, t + SECONDS)
    by_row = count_of(ys, second, left_kinds) <= count_of(xs, first, right_kinds)
    walked, probed = rows_of(state, shape, s if by_row else t), rows_of(state, shape, t if by_row else s)
    index = index_of(state, shape, t if by_row else s)
    values, value = ys if by_row else xs, second if by_row else first
    my_kinds, other_kinds = left_kinds if by_row else right_kinds, right_kinds if by_row else left_kinds
    for kind in range(3):
        slot = values[value, CHAINS + kind] - 1 if (my_kinds >> kind) & 1 else np.int64(-1)
        while slot >= 0:
            z = walked[slot, 1 if by_row else 0]
            match = find(probed, index, (z if by_row else y, x if by_row else z))
            is_met = match >= 0 and (other_kinds >> probed[match, KIND]) & 1 != 0
            if is_met and walked[slot, NUMBERS] != 0 and probed[match, NUMBERS] != 0:
                if count < found.shape[0]:
                    found[count] = z
                count += 1
            slot = walked[slot, ROW_LINKS if by_row else COLUMN_LINKS] - 1
    return count
