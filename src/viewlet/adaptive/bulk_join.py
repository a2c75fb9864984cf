"""The numbers of all triangles at once, where there are no groups: a worst-case optimal join over sorted arrays.

    for each tuple R(a, b):   the c that S(b, .) and T(., a) share, through the shorter of the two

Values are numbered, so that the tuples of a value are a range of an array, sorted by the third one. Two lists of about
the same length are merged, otherwise each value of the shorter is looked up in the longer by bisection. It is what
`kernel.join` does, without a probe of a hash table for every step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.adaptive.flat_parts import added, product
from viewlet.runtime.jit import entry

Words = Any
MERGED_BELOW = 16
"""Two lists are merged if one is less than so many times as long as the other."""


def sum_triangles(relations: list[Words], width: int, control: Words) -> tuple[Words, int]:
    """The sums of products over all triangles, and the steps it took.

    The rows of a relation are two values and numbers. One relation stands for three copies of it.
    """
    r, s, t = relations * (3 // len(relations))
    a = _numbered(r[:, 0], t[:, 1])
    b = c = (a[1], a[0])
    if len(relations) == 3:
        b, c = _numbered(r[:, 1], s[:, 0]), _numbered(s[:, 1], t[:, 0])
    by_b, by_a = _lists(b[1], c[0], s[:, 2:]), _lists(a[1], c[1], t[:, 2:])
    totals, steps = np.zeros(width, np.int64), np.zeros(1, np.int64)
    order = np.argsort(a[0])
    numbers = np.ascontiguousarray(r[order, 2:])
    meet_all(a[0][order], b[0][order], numbers, *by_b, *by_a, totals, steps, control)
    return totals, int(steps[0])


def _numbered(left: Words, right: Words) -> tuple[Words, Words]:
    """The values of two columns as numbers from 0 on, equal for equal values."""
    _, codes = np.unique(np.concatenate([left, right]), return_inverse=True)
    return codes[: len(left)], codes[len(left) :]


def _lists(owners: Words, values: Words, numbers: Words) -> tuple[Words, Words, Words]:
    """For each value of one variable a range of sorted values of another, and the numbers of their tuples: where the
    ranges start, the values, the numbers."""
    order = np.argsort(owners * (values.max(initial=0) + 1) + values)
    starts = np.zeros(owners.max(initial=-1) + 2, np.int64)
    np.cumsum(np.bincount(owners), out=starts[1:])
    return starts, np.ascontiguousarray(values[order]), np.ascontiguousarray(numbers[order])


@entry
def meet_all(
    firsts: Any,
    seconds: Any,
    numbers: Any,
    left_starts: Any,
    left: Any,
    left_numbers: Any,
    right_starts: Any,
    right: Any,
    right_numbers: Any,
    totals: Any,
    steps: Any,
    control: Any,
) -> None:
    """Adds the products over the values that the list of each second value shares with that of its first."""
    for row in range(firsts.shape[0]):
        if seconds[row] + 1 >= left_starts.shape[0] or firsts[row] + 1 >= right_starts.shape[0]:
            continue
        i, left_end = left_starts[seconds[row]], left_starts[seconds[row] + 1]
        j, right_end = right_starts[firsts[row]], right_starts[firsts[row] + 1]
        shorter, longer = min(left_end - i, right_end - j), max(left_end - i, right_end - j)
        steps[0] += 1 + shorter
        merged, by_left = longer < MERGED_BELOW * shorter, left_end - i <= right_end - j
        while i < left_end and j < right_end:
            if not merged:  # where the next value of the shorter list is, or would be, in the longer
                low, high = (j, right_end) if by_left else (i, left_end)
                while low < high:
                    middle = (low + high) // 2
                    if (right[middle] < left[i]) if by_left else (left[middle] < right[j]):
                        low = middle + 1
                    else:
                        high = middle
                if by_left:
                    j = low
                else:
                    i = low
                if i >= left_end or j >= right_end:
                    break
            if left[i] == right[j]:
                for k in range(totals.shape[0]):
                    closing = product(left_numbers[i, k], right_numbers[j, k], control)
                    totals[k] = added(totals[k], product(numbers[row, k], closing, control), control)
                i += 1
                j += 1
            elif (left[i] < right[j]) if merged else by_left:
                i += 1
            else:
                j += 1
