"""Low-level operations of generated code, with Numba: 128-bit and fused arithmetic, bit casts, arrays from addresses.

`plain` has the same functions without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from viewlet.runtime.jit import compiled

# Numba and llvmlite carry no usable type information.
ir: Any = import_module("llvmlite.ir")
types: Any = import_module("numba").types
carray: Any = import_module("numba").carray
voidptr_t: Any = import_module("numba.core.cgutils").voidptr_t
intrinsic: Callable[[Callable[..., Any]], Any] = import_module("numba.extending").intrinsic

_ENTRY = 2  # words of the state per array: its address and its length
_I128: Any = ir.IntType(128)
_PAIR: Any = types.UniTuple(types.int64, 2)


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


@intrinsic
def fused(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c of doubles, rounded once."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), codegen


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], voidptr_t)

    return types.voidptr(address), codegen


@intrinsic
def call_back(typing_context: Any, address: Any, number: Any) -> Any:
    """Calls the function at an address with a number; where it is Python's, it takes the lock it needs."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = ir.FunctionType(ir.VoidType(), [ir.IntType(64)])
        builder.call(builder.inttoptr(args[0], function.as_pointer()), [args[1]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


def bundle(arrays: Sequence[Any]) -> Any:
    """The state over these arrays; valid as long as none of them moves."""
    table = np.empty(_ENTRY * len(arrays), np.int64)
    for i, array in enumerate(arrays):
        put(table, i, array)
    return table


def bundle_lines(matrix: Any) -> Any:
    """The state over the lines of a matrix of 64-bit words; valid as long as it does not move."""
    table = np.empty((len(matrix), _ENTRY), np.int64)
    table[:, 0] = matrix.ctypes.data + np.arange(len(matrix)) * matrix.strides[0]
    table[:, 1] = matrix.shape[1]
    return table.reshape(-1)


def put(state: Any, i: int, array: Any) -> None:
    """Makes array i of the state another one, or the same one at another place."""
    state[_ENTRY * i] = array.ctypes.data
    state[_ENTRY * i + 1] = array.shape[0]


@compiled
def words(state: Any, i: Any, width: Any) -> Any:
    """Array i: rows of 64-bit words."""
    return carray(_pointer(state[_ENTRY * i]), (state[_ENTRY * i + 1], width), np.int64)


@compiled
def floats(state: Any, i: Any, width: Any) -> Any:
    """Array i: rows of doubles."""
    return carray(_pointer(state[_ENTRY * i]), (state[_ENTRY * i + 1], width), np.float64)


@compiled
def numbers(state: Any, i: Any) -> Any:
    """Array i: 64-bit words."""
    return carray(_pointer(state[_ENTRY * i]), (state[_ENTRY * i + 1],), np.int64)


@compiled
def hashes(state: Any, i: Any) -> Any:
    """Array i: entries of an index."""
    return carray(_pointer(state[_ENTRY * i]), (state[_ENTRY * i + 1],), np.uint64)


@compiled
def flags(state: Any, i: Any) -> Any:
    """Array i: one byte per row."""
    return carray(_pointer(state[_ENTRY * i]), (state[_ENTRY * i + 1],), np.uint8)


@compiled
def chains(state: Any, i: Any) -> Any:
    """Array i: links of a slice."""
    return carray(_pointer(state[_ENTRY * i]), (state[_ENTRY * i + 1], 2), np.int32)
