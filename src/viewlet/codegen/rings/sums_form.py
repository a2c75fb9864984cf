"""Sums of products of variables in flat rows: integers, doubles, decimals, vectors, and records of them.

A row has one word for each sum that differs at its view: below the variables of two sums, both count rows. Where there
are sums of doubles, rows are also counted exactly: the count decides when a row is removed, whatever the rounding
error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from viewlet.codegen.lines import Lines
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.rings.forms import RowPlace, Tables, Term, Words, add_exact, product_of
from viewlet.codegen.rings.plan import Variant
from viewlet.rings.decimals import DecimalRing
from viewlet.rings.floats import FloatRing
from viewlet.rings.integer import IntegerRing
from viewlet.rings.product import ProductRing
from viewlet.rings.ring import largest
from viewlet.rings.vector import VectorRing
from viewlet.types import Kind, SqlType
from viewlet.viewtree.ring_tree import Keys, View

Types = Mapping[str, SqlType]


@dataclass(frozen=True, slots=True)
class Sum:
    """SUM of the product of some variables; without any it counts rows, and then it is exact."""

    exact: bool
    variables: frozenset[str] = frozenset()

    def at(self, variant: Variant) -> Sum:
        """What is left of it at a view."""
        below = self.variables & frozenset(variant.summed)
        return Sum(self.exact, below) if below else COUNT


COUNT = Sum(exact=True)


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive sums that make up a payload, or a field of one."""

    sums: tuple[Sum, ...]
    make: Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class SumsForm:
    parts: tuple[Part, ...]
    whole: Callable[[Sequence[Any]], Any]
    """Makes the payload of its parts."""
    types: Types
    is_zero: Callable[[Any], bool]
    tables: Tables

    @property
    def sums(self) -> tuple[Sum, ...]:
        return tuple(sum for part in self.parts for sum in part.sums)

    def fields(self, variant: Variant) -> tuple[Sum, ...]:
        """The words of a row, integers first; with sums of doubles there is a count."""
        counted = (COUNT,) if any(not sum.exact for sum in self.sums) else ()
        found = dict.fromkeys((*counted, *(sum.at(variant) for sum in self.sums)))
        return tuple(sorted(found, key=lambda sum: not sum.exact))

    @property
    def centred(self) -> Keys:
        return ()

    def groupings(self, view: View) -> Iterable[Keys]:
        return ((),)

    def width(self, variant: Variant) -> int:
        return len(self.fields(variant))

    def integers(self, variant: Variant) -> int:
        return len([sum for sum in self.fields(variant) if sum.exact])

    def lifts(self, variable: str) -> bool:
        return any(variable in sum.variables for sum in self.sums)

    def reach(self, variable: str) -> float:
        factors = [len(sum.variables) for sum in self.sums if variable in sum.variables]
        return largest(max(factors)) if factors else sys.float_info.max

    def value(self, type: SqlType, word: str, is_word: bool) -> str:
        if type.is_float:
            return f"double_of({word})" if is_word else word
        return f"np.int64({word})"

    def add_term(self, lines: Lines, term: Term) -> None:
        for i, sum in enumerate(self.fields(term.target.variant)):
            factors = [term.times] if term.times else []
            factors += [self._field(factor, sum) for factor in term.factors]
            factors += [self._number(sum, name, value) for name, value in term.values.items() if name in sum.variables]
            if sum.exact:
                add_exact(lines, term.target.word(i), factors, term.peak)
            else:
                lines.add(f"{term.target.double(i)} += {product_of(factors, '1.0')}")

    def _field(self, row: RowPlace, sum: Sum) -> str:
        own = sum.at(row.variant)
        at = self.fields(row.variant).index(own)
        return row.word(at) if own.exact else row.double(at)

    def _number(self, sum: Sum, name: str, value: str) -> str:
        """A lifted value: of a DECIMAL the number it stands for where doubles are added, its integer otherwise."""
        type = self.types[name]
        scaled = not sum.exact and type.kind is Kind.DECIMAL and type.scale
        return f"({value} / {10.0**type.scale})" if scaled else value

    def moves(self, source: Variant, target: Variant) -> Sequence[int] | None:
        return None

    def moved(self, variant: Variant, words: Words, before: Mapping[str, float], after: Mapping[str, float]) -> Words:
        return words

    def payloads(
        self, rows: Mapping[Variant, tuple[Words, Sequence[Any]]], keys: int, origins: Mapping[str, float]
    ) -> dict[Any, Any]:
        variant, (words, decoded) = next(item for item in rows.items() if not item[0].group_by)
        fields = self.fields(variant)
        columns: dict[Sum, list[Any]] = {
            sum: (words if sum.exact else words.view(np.float64))[:, len(variant.keys) + i].tolist()
            for i, sum in enumerate(fields)
        }
        made = [self._made(part, [columns[sum.at(variant)] for sum in part.sums]) for part in self.parts]
        payloads = [self.whole(parts) for parts in zip(*made, strict=True)]
        return {key: payload for key, payload in zip(decoded, payloads, strict=True) if not self.is_zero(payload)}

    @staticmethod
    def _made(part: Part, columns: Sequence[Sequence[Any]]) -> list[Any]:
        return [part.make(numbers) for numbers in zip(*columns, strict=True)]


def sums_form(ring: Any, types: Types) -> SumsForm | None:
    """The form of a ring of sums; None for other rings."""
    if isinstance(ring, ProductRing):
        parts = [_part(field, types) for field in ring.fields]
        if any(part is None for part in parts):
            return None
        return SumsForm(tuple(part for part in parts if part is not None), tuple, types, ring.is_zero, {})
    part = _part(ring, types)
    return None if part is None else SumsForm((part,), lambda parts: parts[0], types, ring.is_zero, {})


def _part(ring: Any, types: Types) -> Part | None:
    match ring:
        case IntegerRing(variables=variables):
            _check_exact(ring.name, variables, types)
            return Part((Sum(True, variables),), lambda numbers: int(numbers[0]))
        case DecimalRing(variables=variables):
            _check_exact(ring.name, variables, types)
            scale = sum(types[name].scale for name in variables)
            return Part((Sum(True, variables),), lambda numbers: Decimal(int(numbers[0])).scaleb(-scale))
        case FloatRing(variables=variables):
            return Part((Sum(False, variables),), lambda numbers: float(numbers[0]))
        case VectorRing(factors=factors):
            if repeated := [names for names in factors if len(set(names)) < len(names)]:
                raise NotCompilable(f"a vector of sums with {repeated[0]} multiplied by itself has no compiled form")
            sums = tuple(Sum(False, frozenset(names)) for names in factors)
            return Part(sums, lambda numbers: np.array(numbers, np.float64))
        case _:
            return None


def _check_exact(ring: str, variables: Iterable[str], types: Types) -> None:
    if inexact := [name for name in variables if not types[name].is_exact]:
        raise NotCompilable(f"variable {inexact[0]!r} is a {types[inexact[0]]}, and the {ring} ring is exact")
