"""Merging the rows of a batch changes how many there are, never what they add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewlet.runtime.arithmetic import NULL
from viewlet.runtime.batches import FEW_ROWS, WORTHWHILE, BatchShaper, Column, merge_rows

WORDS = st.sampled_from([0, 1, -1, 7, NULL, 2**63 - 1])
NUMBERS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])
ROWS = st.lists(st.tuples(WORDS, NUMBERS, st.integers(-2, 2)), max_size=200)


def grouped(columns: Sequence[Column], multiplicity: Column) -> dict[tuple[int, ...], int]:
    """The multiplicity of each distinct row, as words."""
    total: Counter[tuple[int, ...]] = Counter()
    for *row, count in zip(*(column.view(np.int64).tolist() for column in columns), multiplicity.tolist(), strict=True):
        total[tuple(row)] += count
    return {row: count for row, count in total.items() if count}


def as_columns(rows: list[tuple[int, float, int]]) -> tuple[tuple[Column, ...], Column]:
    return (
        (np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.float64)),
        np.array([row[2] for row in rows], np.int64),
    )


@given(ROWS)
def test_merged_rows_are_distinct_and_have_the_sums_of_all(rows: list[tuple[int, float, int]]) -> None:
    columns, multiplicity = as_columns(rows)
    merged = merge_rows(columns, multiplicity)
    if merged is not None:
        kept, weights = merged
        expected = grouped(columns, multiplicity)
        assert len(kept) == len(expected)
        assert grouped([column[kept] for column in columns], weights) == expected


@given(st.lists(ROWS, max_size=4))
def test_a_shaped_batch_is_the_same_change(batches: list[list[tuple[int, float, int]]]) -> None:
    shaper = BatchShaper()
    for rows in batches:
        columns, multiplicity = as_columns(rows)
        assert grouped(*shaper.shape(columns, multiplicity)) == grouped(columns, multiplicity)


def test_doubles_are_told_apart_by_their_bits() -> None:
    numbers = np.array([np.nan, np.nan, 0.0, -0.0], np.float64)
    merged = merge_rows([numbers], np.ones(4, np.int64))
    assert merged is not None
    kept, weights = merged
    assert sorted(kept.tolist()) in ([0, 2, 3], [1, 2, 3])
    assert sorted(weights.tolist()) == [1, 1, 2]


@pytest.mark.parametrize("rows", [0, 1, FEW_ROWS - 1])
def test_short_batches_pass_untouched(rows: int) -> None:
    columns, multiplicity = (np.zeros(rows, np.int64),), np.ones(rows, np.int64)
    shaped, weights = BatchShaper().shape(columns, multiplicity)
    assert shaped is columns
    assert weights is multiplicity


@pytest.mark.parametrize("rows", [FEW_ROWS, 1_000, 50_001])
def test_repeated_rows_become_one(rows: int) -> None:
    columns, multiplicity = (np.arange(rows, dtype=np.int64) % 10,), np.ones(rows, np.int64)
    (shaped,), weights = BatchShaper().shape(columns, multiplicity)
    assert sorted(shaped.tolist()) == list(range(10))
    assert weights.sum() == rows


def test_a_change_and_its_opposite_cancel_out() -> None:
    """As when rows are replaced and differ only in columns that no view reads: all deletes, then all inserts."""
    keys = np.arange(5_000, dtype=np.int64)
    signs = np.append(-np.ones(5_000, np.int64), np.ones(5_000, np.int64))
    (shaped,), weights = BatchShaper().shape((np.append(keys, keys),), signs)
    assert len(shaped) == len(weights) == 0


def test_a_batch_of_distinct_rows_is_given_up() -> None:
    assert merge_rows([np.arange(100_000, dtype=np.int64)], np.ones(100_000, np.int64)) is None


def test_a_disappointed_shaper_tries_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bool] = []
    monkeypatch.setattr("viewlet.runtime.batches.merge_rows", lambda columns, multiplicity: tried.append(True))
    shaper, columns, multiplicity = BatchShaper(), (np.arange(100),), np.ones(100, np.int64)
    attempts = []
    for _ in range(5_000):
        before = len(tried)
        shaper.shape(columns, multiplicity)
        attempts.append(len(tried) > before)
    gaps = np.diff(np.flatnonzero(attempts)).tolist()
    assert attempts[0]
    assert gaps == sorted(gaps)
    assert gaps[0] < 10
    assert gaps[-1] > 1_000


def test_success_is_followed_by_the_next_attempt() -> None:
    shaper, columns, multiplicity = BatchShaper(), (np.zeros(100, np.int64),), np.ones(100, np.int64)
    for _ in range(3):
        (shaped,), _weights = shaper.shape(columns, multiplicity)
        assert len(shaped) <= WORTHWHILE * 100
