"""Pre-aggregation of batches: rows that agree in every column that a trigger reads are merged.

    (custkey 7, +1), (custkey 8, +1), (custkey 7, +1), (custkey 8, -1)   ->   (custkey 7, +2)

A trigger depends on nothing but these columns and the multiplicity, and is exact for any multiplicity, so the merged
batch leads to the same state. Whether merging pays depends on the data: a sample of the rows predicts the number of
distinct ones. After a failed attempt, the shaper skips an increasing number of batches before it tries again.

Filters are not applied here: a generated trigger tests its conditions first, row by row, and skips a row at the first
that fails. A vectorised pass would read the same columns and would have to write the remaining rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Any

import numpy as np

from viewlet.runtime.jit import compiled, entry
from viewlet.runtime.probe import mix, settle
from viewlet.runtime.state import bundle, numbers

Column = Any

FEW_ROWS = 64
"""Batches shorter than this are never merged."""

WORTHWHILE = 0.5
"""The share of the rows that may be left for merging to have paid."""

_SHORTEST_PAUSE, _LONGEST_PAUSE = 7, 1023
_TRIAL_SHARE = 16
_SHORTEST_TRIAL = 64

_START = np.uint64(0)
_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)


class BatchShaper:
    """Merges the rows of the batches of one table, as long as that makes them much shorter."""

    def __init__(self) -> None:
        self._pause = 0  # batches to let pass after the next disappointment
        self._passing = 0  # batches still to let pass

    def shape(self, columns: tuple[Column, ...], multiplicity: Column) -> tuple[tuple[Column, ...], Column]:
        """The same change in fewer rows, in any order; the batch itself where that does not pay."""
        rows = len(multiplicity)
        if rows < FEW_ROWS:
            return columns, multiplicity
        if self._passing:
            self._passing -= 1
            return columns, multiplicity
        merged = merge_rows(columns, multiplicity)
        if merged is None or len(merged[0]) > WORTHWHILE * rows:
            self._pause = min(2 * self._pause + _SHORTEST_PAUSE, _LONGEST_PAUSE)
            self._passing = self._pause
            return columns, multiplicity
        self._pause = 0
        kept, weights = merged
        return tuple(column[kept] for column in columns), weights


def merge_rows(columns: Sequence[Column], multiplicity: Column, always: bool = False) -> tuple[Column, Column] | None:
    """One row number for each distinct row and the sum of its multiplicities, zero left out.

    None if most rows are distinct, unless the rows are `always` merged. Columns hold 64-bit integers or
    doubles; doubles are the same if their bits are.
    """
    rows = len(multiplicity)
    words = [np.ascontiguousarray(column).view(np.int64) for column in columns]
    table = np.zeros(1 << (2 * rows).bit_length(), np.uint64)
    kept, weights = np.empty(rows, np.int64), np.empty(rows, np.int64)
    trial = rows if always else max(_SHORTEST_TRIAL, rows // _TRIAL_SHARE)
    found = _merge(bundle(words), len(words), np.ascontiguousarray(multiplicity), table, kept, weights, trial)
    return None if found < 0 else (kept[:found], weights[:found])


def net_rows(columns: Sequence[Column], multiplicity: Column) -> tuple[Column, Column]:
    """The numbers of the distinct rows in the order of their first occurrence, and the sums of their multiplicities."""
    merged = merge_rows(columns, multiplicity, always=True)
    assert merged is not None
    rows, weights = merged
    order = np.argsort(rows)
    return rows[order], weights[order]


def repeated_rows(columns: Sequence[Column]) -> Column:
    """The numbers of the rows that occur more than once; nearly none of them if these are columns of a key."""
    rows = len(columns[0])
    words = [np.ascontiguousarray(column).view(np.int64) for column in columns]
    table = np.zeros(1 << (2 * rows).bit_length(), np.uint64)
    flags = np.zeros(rows, np.bool_)
    _mark_repeated(bundle(words), len(words), table, flags)
    return np.flatnonzero(flags)


@compiled
def _row_hash(state: Any, width: Any, row: Any) -> Any:
    h = _START
    for j in range(width):
        h = mix(h, numbers(state, j)[row])
    return settle(h)


@compiled
def _are_equal(state: Any, width: Any, row: Any, other: Any) -> Any:
    for j in range(width):
        column = numbers(state, j)
        if column[row] != column[other]:
            return False
    return True


@entry
def _mark_repeated(state: Any, width: Any, table: Any, flags: Any) -> None:
    mask = np.uint64(table.shape[0] - 1)
    for row in range(flags.shape[0]):
        h = _row_hash(state, width, row)
        i = h & mask
        while True:
            entry = table[i]
            if entry == 0:
                table[i] = (h << _SHIFT) | np.uint64(row + 1)
                break
            if entry >> _SHIFT == h:
                known = np.int64(entry & _LOW) - 1
                if _are_equal(state, width, row, known):
                    flags[row] = flags[known] = True
                    break
            i = (i + _ONE) & mask


@compiled
def _expected(rows: Any, distinct: Any, of: Any) -> Any:
    """How many of `of` rows are distinct if `distinct` of the first `rows` were: each value as likely as any other.

    Of n rows drawn from d values, about n * n / 2d are repeats, and d * (1 - exp(-n / d)) are distinct.
    """
    if distinct == rows:
        return np.float64(of)
    values = max(rows * rows / (2.0 * (rows - distinct)), np.float64(distinct))
    return values * (1.0 - exp(-of / values))


@entry
def _merge(state: Any, width: Any, multiplicity: Any, table: Any, kept: Any, weights: Any, trial: Any) -> Any:
    """Finds the distinct rows with an open-addressing table; -1 if after `trial` rows there seem to be too many.

    It takes rows from the halves of the batch in turn, so that a trial sees both neighbours that are alike and batches
    that delete first and then insert.
    """
    rows, mask, groups = multiplicity.shape[0], np.uint64(table.shape[0] - 1), 0
    half = (rows + 1) // 2
    for turn in range(rows):
        if turn == trial and _expected(turn, groups, rows) > WORTHWHILE * rows:
            return -1
        row = turn // 2 + (turn % 2) * half
        h = _row_hash(state, width, row)
        i = h & mask
        while True:
            entry = table[i]
            if entry == 0:
                table[i] = (h << _SHIFT) | np.uint64(groups + 1)
                kept[groups] = row
                weights[groups] = multiplicity[row]
                groups += 1
                break
            if entry >> _SHIFT == h:
                known = np.int64(entry & _LOW) - 1
                if _are_equal(state, width, row, kept[known]):
                    weights[known] += multiplicity[row]
                    break
            i = (i + _ONE) & mask
    left = 0
    for group in range(groups):
        if weights[group] != 0:
            kept[left] = kept[group]
            weights[left] = weights[group]
            left += 1
    return left
