"""Allocators for the arrays of a store: the heap, or any other memory in which arrays can be created and grown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np


class Memory(Protocol):
    """The protocol of allocators: arrays by name. Allocating a name again releases its old array."""

    is_new: bool
    """Whether `first` makes arrays of zeros, and does not find any."""

    def first(self, part: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """The array as it was left with as many rows as it had, or zeros of this shape."""

    def zeros(self, part: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """A new array in the place of the one there is; that one can be read until it is dropped."""

    def grown(self, part: str, array: Any, rows: int) -> Any:
        """The array with more rows, the new ones all zero; the one given is void afterwards, and so are its views."""


class Heap:
    is_new = True

    def first(self, part: str, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.zeros(shape, dtype)

    zeros = first

    def grown(self, part: str, array: Any, rows: int) -> Any:
        """Without a copy where the allocator can help it."""
        array.resize((rows, *array.shape[1:]), refcheck=False)
        return array


HEAP = Heap()
Memories = Callable[[str], Memory]
"""Where the arrays of each store live, by its name."""


def on_heap(store: str) -> Memory:
    """The arrays of all stores on the heap."""
    return HEAP
