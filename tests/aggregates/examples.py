"""Exact aggregates that tests compare with plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


class BitXor:
    """x1 ^ x2 ^ ...: every value is its own inverse."""

    arguments = ("BIGINT",)
    returns = "BIGINT"
    state = "int64"

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        return state ^ value

    remove = add

    def result(self, state: int) -> int:
        return state

    @staticmethod
    def oracle(values: Iterable[int]) -> int:
        total = 0
        for value in values:
            total ^= value
        return total


class Moments:
    """The sum of squares, by lift, merge and inverse; NULL for no values."""

    arguments = ("BIGINT",)
    returns = "BIGINT"
    state = ("int64", 2)

    def zero(self) -> Any:
        return np.zeros(2, np.int64)

    def lift(self, value: int) -> Any:
        return np.array([1, value * value])

    def merge(self, left: Any, right: Any) -> Any:
        return left + right

    def inverse(self, state: Any) -> Any:
        return -state

    def result(self, state: Any) -> int | None:
        return int(state[1]) if state[0] else None

    @staticmethod
    def oracle(values: Iterable[int]) -> int | None:
        squares = [value * value for value in values]
        return sum(squares) if squares else None


class Weighted:
    """The sum of products of two arguments, many rows at once."""

    arguments = ("BIGINT", "BIGINT")
    returns = "DECIMAL(38,0)"
    state = "int64"

    def zero(self) -> int:
        return 0

    def add(self, state: int, left: int, right: int) -> int:
        return state + left * right

    def remove(self, state: int, left: int, right: int) -> int:
        return state - left * right

    def update(self, state: int, left: Any, right: Any, counts: Any) -> int:
        return state + int((left * right * counts).sum())

    def result(self, state: int) -> int:
        return state


class Largest:
    """An aggregate that cannot take rows out: it has no remove()."""

    arguments = ("BIGINT",)
    returns = "BIGINT"
    state = ("int64", 2)

    def zero(self) -> Any:
        return np.zeros(2, np.int64)

    def add(self, state: Any, value: int) -> Any:
        state[1] = value if not state[0] else max(int(state[1]), value)
        state[0] = 1
        return state

    def result(self, state: Any) -> int | None:
        return int(state[1]) if state[0] else None


ALL = {"bit_mix": BitXor, "squares": Moments, "weighted": Weighted, "largest": Largest}
