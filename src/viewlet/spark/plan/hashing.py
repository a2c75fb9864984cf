"""The partition of a key, by a hash that is the same in every process and version of Python.

Integers (also dates, timestamps, decimals and booleans, which are held as integers) go through the finaliser of
SplitMix64, which vectorises well; doubles by their bits; strings by BLAKE2. NULL has a fixed hash.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

from viewlet.types import Datum

_MASK = (1 << 64) - 1
_NULL = 0x9E3779B97F4A7C15


def partition_of(values: Iterable[Datum], partitions: int) -> int:
    """The partition of a key among so many.

    >>> partition_of((1, "a"), 7) == partition_of((1, "a"), 7) and 0 <= partition_of((None,), 7) < 7
    True
    """
    state = 0
    for value in values:
        state = _mix(state ^ _mix(_word(value)))
    return state % partitions


def _word(value: Datum) -> int:
    if value is None:
        return _NULL
    if isinstance(value, str):
        return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8).digest(), "little")
    if isinstance(value, float):
        return int.from_bytes(struct.pack("<d", value + 0.0), "little")  # -0.0 equals 0.0
    return int(value) & _MASK


def _mix(word: int) -> int:
    word = (word + _NULL) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)
