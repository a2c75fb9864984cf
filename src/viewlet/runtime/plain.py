"""The functions of `intrinsics` as plain Python, for debugging and for platforms without Numba."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

_MASK = (1 << 64) - 1


def to_words(value: int) -> tuple[int, int]:
    """The two words of an integer."""
    low = value & _MASK
    return value >> 64, low - (1 << 64) if low >> 63 else low


def from_words(high: int, low: int) -> int:
    """The integer of two words."""
    return (int(high) << 64) | (int(low) & _MASK)


def _wrap(value: int) -> tuple[int, int]:
    value &= (1 << 128) - 1
    return to_words(value - (1 << 128) if value >> 127 else value)


def wide_add(high: int, low: int, other_high: int, other_low: int) -> tuple[int, int]:
    """(high, low) + (other_high, other_low)."""
    return _wrap(from_words(high, low) + from_words(other_high, other_low))


def wide_mul(high: int, low: int, factor: int) -> tuple[int, int]:
    """(high, low) * factor, modulo 2**128."""
    return _wrap(from_words(high, low) * int(factor))


def wide_product(high: int, low: int, other_high: int, other_low: int) -> tuple[int, int]:
    """(high, low) * (other_high, other_low), modulo 2**128."""
    return _wrap(from_words(high, low) * from_words(other_high, other_low))


def bits_of(number: float) -> int:
    """The 64 bits of a double as an integer."""
    bits: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return bits


def double_of(bits: int) -> float:
    """The double with these 64 bits."""
    number: float = struct.unpack("<d", struct.pack("<q", int(bits)))[0]
    return number


def fused(a: float, b: float, c: float) -> float:
    """a * b + c of doubles, rounded once."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)


_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64)


def call_back(address: int, number: int) -> None:
    """Calls the function at an address with a number."""
    _CALLBACK(int(address))(int(number))


def bundle(arrays: Sequence[Any]) -> Any:
    """The state over these arrays."""
    return list(arrays)


def bundle_lines(matrix: Any) -> Any:
    """The state over the lines of a matrix."""
    return list(matrix)


def put(state: Any, i: int, array: Any) -> None:
    """Makes array i of the state another one."""
    state[i] = array


def words(state: Any, i: int, width: int) -> Any:
    """Array i: rows of 64-bit words."""
    return state[i]


def floats(state: Any, i: int, width: int) -> Any:
    """Array i: rows of doubles."""
    return state[i]


def numbers(state: Any, i: int) -> Any:
    """Array i: 64-bit words."""
    return state[i]


hashes = flags = chains = numbers
