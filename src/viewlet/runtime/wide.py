"""Exact sums in 128 bits: an integer as a high and a low 64-bit word, both held as int64.

    value = high * 2**64 + (low as unsigned)

With Numba the operations are LLVM's own i128 arithmetic; without it, Python's integers.
"""

from __future__ import annotations

from typing import Any

from viewlet.runtime.jit import ENABLED

_MASK = (1 << 64) - 1
LIMIT_HIGH = (10**38) >> 64
"""A high word beyond this is past the 38 digits a DECIMAL can hold."""


def to_words(value: int) -> tuple[int, int]:
    """The two words of an integer."""
    low = value & _MASK
    return value >> 64, low - (1 << 64) if low >> 63 else low


def from_words(high: int, low: int) -> int:
    """The integer of two words."""
    return (int(high) << 64) | (int(low) & _MASK)


if ENABLED:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    _I128 = ir.IntType(128)
    _PAIR = types.UniTuple(types.int64, 2)

    def _join(builder: Any, high: Any, low: Any) -> Any:
        top = builder.shl(builder.sext(high, _I128), ir.Constant(_I128, 64))
        return builder.or_(top, builder.zext(low, _I128))

    def _split(context: Any, builder: Any, wide: Any) -> Any:
        word = ir.IntType(64)
        high = builder.trunc(builder.ashr(wide, ir.Constant(_I128, 64)), word)
        return context.make_tuple(builder, _PAIR, (high, builder.trunc(wide, word)))

    @intrinsic
    def wide_add(typing_context: Any, high: Any, low: Any, other_high: Any, other_low: Any) -> Any:
        """(high, low) + (other_high, other_low)."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            total = builder.add(_join(builder, args[0], args[1]), _join(builder, args[2], args[3]))
            return _split(context, builder, total)

        return _PAIR(types.int64, types.int64, types.int64, types.int64), codegen

    @intrinsic
    def wide_mul(typing_context: Any, high: Any, low: Any, factor: Any) -> Any:
        """(high, low) * factor, modulo 2**128."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            product = builder.mul(_join(builder, args[0], args[1]), builder.sext(args[2], _I128))
            return _split(context, builder, product)

        return _PAIR(types.int64, types.int64, types.int64), codegen

    @intrinsic
    def wide_product(typing_context: Any, high: Any, low: Any, other_high: Any, other_low: Any) -> Any:
        """(high, low) * (other_high, other_low), modulo 2**128."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            product = builder.mul(_join(builder, args[0], args[1]), _join(builder, args[2], args[3]))
            return _split(context, builder, product)

        return _PAIR(types.int64, types.int64, types.int64, types.int64), codegen

    @intrinsic
    def bits_of(typing_context: Any, number: Any) -> Any:
        """The 64 bits of a double as an integer."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], ir.IntType(64))

        return types.int64(types.float64), codegen

    @intrinsic
    def double_of(typing_context: Any, bits: Any) -> Any:
        """The double with these 64 bits."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], ir.DoubleType())

        return types.float64(types.int64), codegen

    del cgutils
else:
    import struct

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
