"""Files mapped into memory as arrays.

A mapping needs no open file. Python's `mmap` keeps one all the same before 3.13, and a process may have far fewer open
files than mappings; there the mapping is made by the C library.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import numpy as np


def map_file(file: int, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """A part of an open file as an array that changes it; the mapping lives as long as the array."""
    size = prod(shape) * int(np.dtype(dtype).itemsize)
    if not size:
        return np.zeros(shape, dtype)
    return np.ndarray(shape, dtype, _bytes_of(file, offset + size), offset)


def _bytes_of(file: int, length: int) -> Any:
    if sys.version_info >= (3, 13):
        return mmap.mmap(file, length, trackfd=False)
    return np.asarray(_Mapping(file, length)) if os.name == "posix" else mmap.mmap(file, length)


class _Mapping:
    """A mapping by the C library, which ends when nothing refers to it."""

    def __init__(self, file: int, length: int) -> None:
        map_memory, self._unmap = _library()
        self._length, self._address = length, 0
        if os.fstat(file).st_size < length:
            raise ValueError("mmap length is greater than file size")  # as `mmap` says; reading it would be a signal
        address = map_memory(None, length, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, 0)
        if address is None or address == ctypes.c_void_p(-1).value:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        self._address = address

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "shape": (self._length,), "typestr": "|u1", "data": (self._address, False)}

    def __del__(self) -> None:
        if self._address:
            self._unmap(self._address, self._length)


@cache
def _library() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The functions `mmap` and `munmap` of the C library."""
    library = ctypes.CDLL(None, use_errno=True)
    map_memory, unmap = library.mmap, library.munmap
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    map_memory.restype, map_memory.argtypes = address, (address, size, number, number, number, ctypes.c_long)
    unmap.restype, unmap.argtypes = number, (address, size)
    return map_memory, unmap
