"""Which partition rows belong to, for whole columns at once: `spark.plan.hashing.partition_of` in NumPy.

Columns are Arrow arrays as Spark SQL gives them: integers, decimals without a fraction, doubles, booleans and strings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

Words = Any
NULL_WORD = np.uint64(0x9E3779B97F4A7C15)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def partitions_of_words(columns: Iterable[Words], rows: int, count: int) -> Words:
    """The partition of each row among `count`, from the words that stand for the values of its key."""
    state = np.zeros(rows, np.uint64)
    with np.errstate(over="ignore"):
        for words in columns:
            state = _mix(state ^ _mix(words))
    return (state % np.uint64(count)).astype(np.int64)


def partitions_of_arrow(columns: Iterable[Any], rows: int, count: int) -> Words:
    """The partition of each row, from the Arrow columns of its key.

    >>> from viewlet.spark.plan.hashing import partition_of
    >>> partitions_of_arrow([pa.array([1, None]), pa.array(["a", "b"])], 2, 7).tolist() == [
    ...     partition_of(key, 7) for key in ((1, "a"), (None, "b"))
    ... ]
    True
    """
    return partitions_of_words((_words(column) for column in columns), rows, count)


def text_word(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def decimal_words(column: Any) -> tuple[Words, Words]:
    """The integers behind an array of decimals, as high and low words of 64 bits."""
    words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
    return words[1::2], words[0::2]


def _mix(words: Words) -> Words:
    words = words + NULL_WORD
    words = (words ^ (words >> _SHIFTS[0])) * _FACTORS[0]
    words = (words ^ (words >> _SHIFTS[1])) * _FACTORS[1]
    return words ^ (words >> _SHIFTS[2])


def _words(column: Any) -> Words:
    found = _present_words(column)
    if not column.null_count:
        return found
    return np.where(column.is_null().to_numpy(zero_copy_only=False), NULL_WORD, found)


def _present_words(column: Any) -> Words:
    """The words of all values; what stands for NULLs does not matter."""
    if pa.types.is_decimal(column.type):
        return decimal_words(column)[1].view(np.uint64)
    if pa.types.is_floating(column.type):
        numbers = column.fill_null(0.0).to_numpy(zero_copy_only=False)
        return (numbers + 0.0).view(np.uint64)  # -0.0 equals 0.0
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        coded = column.dictionary_encode()
        hashes = np.array([text_word(text) for text in coded.dictionary.to_pylist()] or [0], np.uint64)
        return hashes[coded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    return column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
