"""All arrays of a program behind one argument.

Compiled functions take the state as a table of addresses and make the arrays they need from it, so that a function with
a hundred stores still has a handful of arguments; Numba's compile time grows with their number. As plain Python, the
state is the list of the arrays themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viewlet.runtime.jit import ENABLED, compiled

_ENTRY = 2  # words per array: its address and its length

if ENABLED:
    from numba import carray, types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def _pointer(typing_context: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], cgutils.voidptr_t)

        return types.voidptr(address), codegen

    def bundle(arrays: Sequence[Any]) -> Any:
        """The state over these arrays; valid as long as none of them moves."""
        table = np.empty(_ENTRY * len(arrays), np.int64)
        for i, array in enumerate(arrays):
            table[_ENTRY * i] = array.__array_interface__["data"][0]
            table[_ENTRY * i + 1] = array.shape[0]
        return table

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
        return carray(_pointer(state[_ENTRY * i]), (state[_ENTRY * i + 1], 3), np.int32)

else:

    def bundle(arrays: Sequence[Any]) -> Any:
        """The state over these arrays."""
        return list(arrays)

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
