"""Cofactors of degree up to 2 in flat rows: a count, sums, and the upper triangle of products, nothing more.

    count | x y | xx xy yy        of a view that has summed x and y

A view has places for the continuous variables summed at it and below it, in the order of the tree: those of a child are
next to each other, so that products of payloads are made of ranges. The sums of a categorical variable are rows of
another variant of the view, by category and of one degree less.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from viewlet.codegen.lines import Lines
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.rings.forms import Tables, Term, Words, note_peak, product_of
from viewlet.codegen.rings.plan import Variant, bound_below
from viewlet.errors import InternalError
from viewlet.rings.cofactor import Cofactor, CofactorRing
from viewlet.rings.monomials import Variables
from viewlet.rings.monomials import places as places_of
from viewlet.rings.moves import Floats, Origins, moved, normal
from viewlet.rings.ring import largest
from viewlet.types import Kind, Row, SqlType
from viewlet.viewtree.ring_tree import Keys, View

COUNT, SUMS = 0, 1


@dataclass(frozen=True)
class CofactorForm:
    ring: CofactorRing
    tables: Tables = field(init=False)

    def __post_init__(self) -> None:
        if self.ring.exact:
            raise NotCompilable("an exact cofactor ring computes with Python's numbers: use one of doubles")
        room = max(1, len(self.ring.continuous))
        object.__setattr__(self, "tables", {"values": np.zeros((1, room)), "suffix": np.zeros((1, room * room))})

    @cached_property
    def _continuous(self) -> frozenset[str]:
        return frozenset(self.ring.continuous)

    @property
    def centred(self) -> Keys:
        return self.ring.centred

    def groupings(self, view: View) -> Iterable[Keys]:
        categorical = [name for name in bound_below(view) if name in self.ring.categorical]
        return [group_by for size in range(self.ring.degree + 1) for group_by in combinations(categorical, size)]

    def degree(self, variant: Variant) -> int:
        return self.ring.degree - len(variant.group_by)

    def numbers(self, variant: Variant) -> Keys:
        """The variables whose sums a row has, in the order of the tree."""
        return tuple(name for name in variant.summed if name in self._continuous)

    def width(self, variant: Variant) -> int:
        count = len(self.numbers(variant))
        return (
            1 + (count if self.degree(variant) else 0) + (count * (count + 1) // 2 if self.degree(variant) > 1 else 0)
        )

    def integers(self, variant: Variant) -> int:
        return 1

    def lifts(self, variable: str) -> bool:
        return variable in self._continuous

    def reach(self, variable: str) -> float:
        return largest(self.ring.degree) if variable in self._continuous else sys.float_info.max

    def value(self, type: SqlType, word: str, is_word: bool) -> str:
        if type.is_float:
            return f"double_of({word})" if is_word else word
        return f"float({word})" + (f" / {10.0**type.scale}" if type.kind is Kind.DECIMAL and type.scale else "")

    def add_term(self, lines: Lines, term: Term) -> None:
        _RangeProduct(self, lines, term).write()

    def moves(self, source: Variant, target: Variant) -> Sequence[int] | None:
        (_, before), (_, after) = self.places(source), self.places(target)
        found = np.zeros(len(before), np.int64)
        found[before] = after
        return None if (before == after).all() else found.tolist()

    def payloads(
        self, rows: Mapping[Variant, tuple[Words, Sequence[Any]]], keys: int, origins: Mapping[str, float]
    ) -> dict[Any, Any]:
        found: dict[Any, Cofactor] = {}
        for variant, (words, decoded) in rows.items():
            names = self.places(variant)[0]
            about = self._origins(names, origins)
            kinds = [self.ring.categorical.index(name) for name in variant.group_by]
            for row, key in zip(self._sums(variant, words), decoded, strict=True):
                payload = found.setdefault(key[:keys], Cofactor(names, {}, about))
                payload.blocks[tuple(sorted(zip(kinds, key[keys:], strict=True)))] = row
        return found

    def _sums(self, variant: Variant, words: Words) -> Floats:
        """The sums of rows in the order of the ring."""
        order = self.places(variant)[1]
        numbers: Floats = words.view(np.float64)[:, order + len(variant.keys)]
        numbers[:, 0] = words[:, len(variant.keys)]
        return numbers

    def _origins(self, names: Variables, origins: Mapping[str, float]) -> Origins:
        return normal([origins.get(self.ring.continuous[i], 0.0) for i in names])

    def moved(self, variant: Variant, words: Words, before: Mapping[str, float], after: Mapping[str, float]) -> Words:
        names, order = self.places(variant)
        sums = self._sums(variant, words)
        found = words.copy()
        found.view(np.float64)[:, order + len(variant.keys)] = moved(
            sums, self._origins(names, before), self._origins(names, after), len(names), self.degree(variant)
        )
        found[:, len(variant.keys)] = words[:, len(variant.keys)]
        return found

    def unpack(self, variant: Variant, payloads: Mapping[Row, Cofactor]) -> Iterator[tuple[Row, Words]]:
        """The rows of a variant in payloads: what `payloads` makes payloads of."""
        names, order = self.places(variant)
        kinds = [self.ring.categorical.index(name) for name in variant.group_by]
        for key, payload in payloads.items():
            if payload.variables != names:
                raise InternalError(f"{variant}: the payload of {key} is over other variables")
            for categories, sums in payload.blocks.items():
                if [kind for kind, _ in categories] != sorted(kinds):
                    continue
                values, numbers = dict(categories), np.zeros(len(order))
                numbers[order] = sums
                words = numbers.view(np.int64)
                words[COUNT] = int(sums[COUNT])
                yield (*key, *(values[kind] for kind in kinds)), words

    def places(self, variant: Variant) -> tuple[Variables, Any]:
        """The variables of a payload as the ring numbers them, and for each of its monomials the place in a row."""
        own = [self.ring.continuous.index(name) for name in self.numbers(variant)]
        names = tuple(sorted(own))
        order = np.zeros(self.width(variant), np.intp)
        size = len(own)
        for monomial, place in places_of(names, self.degree(variant)).items():
            a, *more = sorted(own.index(name) for name in monomial) if monomial else [-1]
            if more:
                order[place] = SUMS + size + a * size - a * (a - 1) // 2 + more[0] - a
            else:
                order[place] = SUMS + a
        return names, order


@dataclass(frozen=True, slots=True)
class _Range:
    """Doubles next to each other, as arguments of the functions that read them."""

    array: str
    row: str
    start: int
    length: int

    def __str__(self) -> str:
        return f"{self.array}, {self.row}, {self.start}, {self.length}"


class Multiplication:
    """Code for one product: what all degrees have in common."""

    def __init__(self, form: CofactorForm, lines: Lines, term: Term) -> None:
        self.form, self.lines, self.term, self.target = form, lines, term, term.target
        self.degree = form.degree(term.target.variant)
        with_numbers = [bool(form.numbers(factor.variant)) and self.degree > 0 for factor in term.factors]
        self.factors = [factor for factor, has in zip(term.factors, with_numbers, strict=True) if has]
        self.scalars = [factor for factor, has in zip(term.factors, with_numbers, strict=True) if not has]
        self.sizes = [len(form.numbers(factor.variant)) for factor in self.factors]
        self.values = [term.values[name] for name in form.numbers(term.target.variant) if name in term.values]
        self.values = self.values if self.degree else []
        self.after: list[str] = []
        self.before: list[str] = []

    def write_values(self) -> None:
        """The values to be lifted, next to each other."""
        for i, value in enumerate(self.values):
            self.lines.add(f"values[0, {i}] = {value}")

    def write_count(self) -> None:
        """How many rows: exactly, and as doubles, before and after each factor."""
        lines, fresh = self.lines, self.lines.fresh
        counts = [*([self.term.times] if self.term.times else []), *(factor.word(COUNT) for factor in self.scalars)]
        n, weight = fresh("n"), fresh("w")
        lines.add(f"{n} = {product_of(counts, 'np.int64(1)')}")
        lines.add(f"{weight} = {product_of([f'float({count})' for count in counts], '1.0')}")
        own = [fresh("c") for _ in self.factors]
        weights = [f"float({name})" for name in own]
        for name, factor in zip(own, self.factors, strict=True):
            lines.add(f"{name} = {factor.word(COUNT)}")
        self.before = [weight]
        for number in weights:
            self.before.append(fresh("b"))
            lines.add(f"{self.before[-1]} = {self.before[-2]} * {number}")
        self.after = ["1.0"]
        for number in reversed(weights):
            self.after.insert(0, number if self.after[0] == "1.0" else fresh("a"))
            if self.after[0] != number:
                lines.add(f"{self.after[0]} = {number} * {self.after[1]}")
        lines.add(f"{self.target.word(COUNT)} += {product_of([n, *own], '1')}")
        if len(counts) + len(own) > 1:
            note_peak(lines, self.before[-1], self.term.peak)
        note_peak(lines, f"float({self.target.word(COUNT)})", self.term.peak)


class _RangeProduct(Multiplication):
    """Suffixes of the sums from the last factor to the first, then the triangle row by row."""

    def write(self) -> None:
        self.write_count()
        if not self.degree or not (self.factors or self.values):
            return
        self.write_values()
        suffixes = self._suffixes()
        self._sums(suffixes)
        if self.degree > 1:
            self._triangle(suffixes)

    def _own(self, i: int) -> _Range:
        factor = self.factors[i]
        return _Range(factor.floats, factor.slot, factor.start + SUMS, self.sizes[i])

    def _suffixes(self) -> list[_Range]:
        """For each factor the sums of the product of those after it; the first is that of all factors."""
        nothing = _Range(self.target.floats, self.target.slot, 0, 0)
        found, free = [nothing], 0
        for i in reversed(range(len(self.factors))):
            own, rest = self._own(i), found[0]
            if not rest.length:
                found.insert(0, own)
                continue
            whole = _Range("suffix", "0", free, own.length + rest.length)
            free += whole.length
            self._scaled("set_scaled", "suffix, 0", whole.start, own, self.after[i + 1])
            self._scaled("set_scaled", "suffix, 0", whole.start + own.length, rest, self._count_of(i))
            found.insert(0, whole)
        return found

    def _count_of(self, i: int) -> str:
        return f"float({self.factors[i].word(COUNT)})"

    def _scaled(self, call: str, target: str, at: int, source: _Range, weight: str) -> None:
        self.lines.add(f"{call}({target}, {at}, {source}, {weight})")

    def _sums(self, suffixes: list[_Range]) -> None:
        """Sums of the values, then those of all factors; with one factor alone, its triangle follows its sums."""
        row, at, weight = f"{self.target.floats}, {self.target.slot}", self.target.start + SUMS, self.before[0]
        if self.values:
            own = _Range("values", "0", 0, len(self.values))
            self._scaled("add_scaled", row, at, own, self.before[-1])
        if self.factors:
            rest = suffixes[0]
            if len(self.factors) == 1 and not self.values and self.degree > 1:
                rest = _Range(rest.array, rest.row, rest.start, rest.length + rest.length * (rest.length + 1) // 2)
            self._scaled("add_scaled", row, at + len(self.values), rest, weight)

    def _triangle(self, suffixes: list[_Range]) -> None:
        if len(self.factors) == 1 and not self.values:
            return
        row, whole = f"{self.target.floats}, {self.target.slot}", len(self.values) + sum(self.sizes)
        at, weight = self.target.start + SUMS + whole, self.before[0]
        if self.values:
            count = len(self.values)
            self.lines.add(f"add_values({row}, {at}, values, {count}, {self.before[-1]}, {suffixes[0]}, {weight})")
            at += count * (count + 1) // 2 + count * suffixes[0].length
        for i, size in enumerate(self.sizes):
            own, rest = self._own(i), suffixes[i + 1]
            if rest.length:
                scale = self.lines.fresh("o")
                self.lines.add(f"{scale} = {self.before[i]} * {self.after[i + 1]}")
                source = f"{own.array}, {own.row}, {own.start}, {size}"
                self.lines.add(f"add_factor({row}, {at}, {source}, {scale}, {rest}, {self.before[i]})")
            else:
                triangle = _Range(own.array, own.row, own.start + size, size * (size + 1) // 2)
                self._scaled("add_scaled", row, at, triangle, self.before[i])
            at += size * (size + 1) // 2 + size * rest.length
