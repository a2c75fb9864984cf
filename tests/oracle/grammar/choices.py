"""Where the grammar's decisions come from: Hypothesis, which can shrink them, or a plain random generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choices(Protocol):
    """Decisions; the first of several options is the simplest, to which a failing example shrinks."""

    def integer(self, low: int, high: int) -> int: ...


class DrawnChoices:
    """Decisions drawn by Hypothesis."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        number: int = self._draw(st.integers(low, high))
        return number


class RandomChoices:
    """Decisions of a seeded generator, to look at many queries quickly."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


def pick(choices: Choices, options: Sequence[T]) -> T:
    return options[choices.integer(0, len(options) - 1)]


def chance(choices: Choices, percent: int) -> bool:
    """True in so many percent of the cases; False is the simple outcome."""
    return choices.integer(0, 99) >= 100 - percent


def weighted(choices: Choices, options: Sequence[tuple[int, T]]) -> T:
    """One of the options, each as often as its weight says; the first is the simplest."""
    number = choices.integer(0, sum(weight for weight, _ in options) - 1)
    for weight, option in options:
        if number < weight:
            return option
        number -= weight
    raise AssertionError("weights cover every number")
