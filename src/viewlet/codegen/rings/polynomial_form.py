"""Cofactors of degree 3 and 4 in flat rows: sums of all monomials, multiplied by tables of places.

    1 | x y | xx xy yy | xxx xxy xyy yyy

The order is that of `rings.monomials`. Each monomial of a product comes from one pair of monomials of its factors, and
a table says which; values are raised to monomials in the same way, each from a lower one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.codegen.lines import Lines
from viewlet.codegen.rings.cofactor_form import COUNT, SUMS, CofactorForm, Multiplication
from viewlet.codegen.rings.forms import RowPlace, Term
from viewlet.codegen.rings.plan import Variant
from viewlet.rings.monomials import count_monomials, powers, product_of
from viewlet.viewtree.ring_tree import Keys

SCRATCH = ("first", "second", "third")


@dataclass(frozen=True)
class PolynomialForm(CofactorForm):
    def __post_init__(self) -> None:
        super().__post_init__()
        count = len(self.ring.continuous)
        width = count_monomials(count, self.ring.degree)
        tables = {"values": np.zeros((1, max(1, count))), **{name: np.zeros((1, width)) for name in SCRATCH}}
        object.__setattr__(self, "tables", tables)

    def numbers(self, variant: Variant) -> Keys:
        return tuple(sorted(super().numbers(variant), key=self.ring.continuous.index))

    def width(self, variant: Variant) -> int:
        return count_monomials(len(self.numbers(variant)), self.degree(variant))

    def add_term(self, lines: Lines, term: Term) -> None:
        _TableProduct(self, lines, term).write()

    def places(self, variant: Variant) -> tuple[tuple[int, ...], Any]:
        names = tuple(self.ring.continuous.index(name) for name in self.numbers(variant))
        return names, np.arange(self.width(variant))

    def table(self, places: Any) -> str:
        """The name of a table with these places, shared by all that need the same."""
        wanted = np.array([places], np.int64)
        for name, table in self.tables.items():
            if table.dtype == wanted.dtype and np.array_equal(table, wanted):
                return name
        name = f"places{len(self.tables)}"
        self.tables[name] = wanted
        return name


class _TableProduct(Multiplication):
    """Code for one product: the values raised to monomials, then one factor after another."""

    form: PolynomialForm

    def write(self) -> None:
        self.write_count()
        if not self.degree or not (self.factors or self.values):
            return
        names, rest = self._start()
        done, other, spare = SCRATCH
        for factor in rest:
            own = self._names(factor)
            rule = product_of(names, own, self.degree)
            self._copy(other, factor, own)
            left, right, width = self.form.table(rule.left), self.form.table(rule.right), self._width(rule.variables)
            self.lines.add(f"multiply({spare}, {done}, {other}, {left}, {right}, {width})")
            done, spare, names = spare, done, rule.variables
        row = f"{self.target.floats}, {self.target.slot}, {self.target.start + SUMS}"
        self.lines.add(f"add_scaled({row}, {done}, 0, {SUMS}, {self._width(names) - 1}, {self.before[0]})")

    def _start(self) -> tuple[tuple[int, ...], list[RowPlace]]:
        """Puts the values, or the first factor where there are none, into the first scratch row."""
        if not self.values:
            names = self._names(self.factors[0])
            self._copy(SCRATCH[0], self.factors[0], names)
            return names, self.factors[1:]
        self.write_values()
        own = [name for name in self.form.numbers(self.target.variant) if name in self.term.values]
        names = tuple(self.form.ring.continuous.index(name) for name in own)
        self._raise(names)
        return names, self.factors

    def _width(self, names: tuple[int, ...]) -> int:
        return count_monomials(len(names), self.degree)

    def _names(self, factor: RowPlace) -> tuple[int, ...]:
        return tuple(self.form.ring.continuous.index(name) for name in self.form.numbers(factor.variant))

    def _raise(self, names: tuple[int, ...]) -> None:
        width = self._width(names)
        before, last = np.zeros(width, np.int64), np.zeros(width, np.int64)
        for places, lower, variable in powers(len(names), self.degree):
            before[places], last[places] = lower, variable
        self.lines.add(
            f"raise_values({SCRATCH[0]}, values, {self.form.table(before)}, {self.form.table(last)}, {width})"
        )

    def _copy(self, scratch: str, factor: RowPlace, names: tuple[int, ...]) -> None:
        length = self._width(names) - 1
        self.lines.add(f"{scratch}[0, 0] = float({factor.word(COUNT)})")
        source = f"{factor.floats}, {factor.slot}, {factor.start + SUMS}"
        self.lines.add(f"set_scaled({scratch}, 0, {SUMS}, {source}, {length}, 1.0)")
