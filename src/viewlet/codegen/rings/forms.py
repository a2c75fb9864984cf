"""Forms: the layout of the payloads of a ring in the rows of stores, and the code that multiplies and adds them.

A form is the compiled side of a ring. The payload of a variant is a stretch of 64-bit words after the key; some hold
integers, others doubles. Its main operation adds the product of some rows, of the lifts of some values and of a
multiplicity to a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from viewlet.codegen.lines import Lines
from viewlet.codegen.rings.plan import Variant
from viewlet.types import SqlType
from viewlet.viewtree.ring_tree import Keys, View

Words = npt.NDArray[np.int64]
Tables = dict[str, npt.NDArray[Any]]
"""Constant arrays and scratch space that generated code opens by name."""
LIMIT = 2.0**61
"""Integers beyond this are refused: the sum of two within it, and the test of a product in doubles, are safe."""


@dataclass(frozen=True, slots=True)
class RowPlace:
    """A row as generated code names it: the arrays of its store, its slot, and where its payload begins."""

    variant: Variant
    words: str
    floats: str
    slot: str

    @property
    def start(self) -> int:
        return len(self.variant.keys)

    def word(self, at: int) -> str:
        return f"{self.words}[{self.slot}, {self.start + at}]"

    def double(self, at: int) -> str:
        return f"{self.floats}[{self.slot}, {self.start + at}]"


@dataclass(frozen=True, slots=True)
class Term:
    """target += times * the product of the factors * the lifts of the values."""

    target: RowPlace
    factors: tuple[RowPlace, ...]
    times: str | None
    values: Mapping[str, str]
    peak: str
    """The local variable with the largest size of an integer, and of a product of integers, so far."""


class Form(Protocol):
    """The compiled side of a ring; `types` are those of all variables."""

    @property
    def tables(self) -> Tables: ...

    @property
    def centred(self) -> Keys:
        """The variables whose sums may be about origins."""
        ...

    def groupings(self, view: View) -> Iterable[Keys]:
        """The variables by which the sums of a view are grouped, in each of its variants."""
        ...

    def width(self, variant: Variant) -> int:
        """Words of a payload."""
        ...

    def integers(self, variant: Variant) -> int:
        """How many of them are integers; they come first, and where all are zero there is no row."""
        ...

    def lifts(self, variable: str) -> bool:
        """Whether a variable's value matters when it is summed away."""
        ...

    def reach(self, variable: str) -> float:
        """The largest double that a variable may have."""
        ...

    def value(self, type: SqlType, word: str, is_word: bool) -> str:
        """The expression for a variable's value, given that for its word, or for the number in a column of doubles."""
        ...

    def add_term(self, lines: Lines, term: Term) -> None:
        """Code that adds a product to a row."""
        ...

    def moves(self, source: Variant, target: Variant) -> Sequence[int] | None:
        """Where the words of a payload go in one over the same variables, summed in another order; None if they stay.

        A product has those of its values first, then those of its factors in order.
        """
        ...

    def payloads(
        self, rows: Mapping[Variant, tuple[Words, Sequence[Any]]], keys: int, origins: Mapping[str, float]
    ) -> dict[Any, Any]:
        """The payloads of a node by key, from the rows of its variants and their decoded keys."""
        ...

    def moved(self, variant: Variant, words: Words, before: Mapping[str, float], after: Mapping[str, float]) -> Words:
        """The words of rows, their keys first, with sums about other origins."""
        ...


def is_empty(row: RowPlace, integers: int) -> str:
    """The condition under which there is no row."""
    return " and ".join(f"{row.word(i)} == 0" for i in range(integers))


def note_peak(lines: Lines, number: str, peak: str) -> None:
    """Notes how large a number is."""
    lines.add(f"{peak} = max({peak}, abs({number}))")


def product_of(factors: Sequence[str], one: str) -> str:
    return " * ".join(factors) if factors else one


def add_exact(lines: Lines, place: str, factors: Sequence[str], peak: str) -> None:
    """Adds a product of integers to one, and notes how large they get."""
    lines.add(f"{place} += {product_of(factors, '1')}")
    if len(factors) > 1:
        note_peak(lines, product_of([f"float({factor})" for factor in factors], "1.0"), peak)
    note_peak(lines, f"float({place})", peak)
