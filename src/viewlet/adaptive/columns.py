"""How columns of words become tuples of a relation of a triangle, without a look at single rows.

Columns, constants, casts between integers, products and comparisons of these can be read so. A relation that is
defined by anything else takes rows (`plan.SideReader`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from viewlet.adaptive.plan import SideReader
from viewlet.algebra.nodes import Call, Const, Scalar, Var
from viewlet.algebra.traverse import variable_set
from viewlet.changes import ColumnChange
from viewlet.changes.word_codec import NULL
from viewlet.errors import DataError
from viewlet.types import Kind, SqlType, Table

LIMIT = 4.6e18
TOO_WIDE = "a sum overflows its type: numbers of adaptive views fit 62 bits in the compiled engine"
Words = Mapping[int, Any]
Read = Callable[[Words], Any]
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
)


class ColumnReader:
    """Reads one relation from columns of its table; `positions` is None if it has to be read row by row."""

    def __init__(self, reader: SideReader, table: Table) -> None:
        side = reader.side
        self.table = table
        self._places = {column: i for i, column in enumerate(side.columns)}
        variables = [self._word(scalar, keys=True) for scalar in side.variables]
        conditions = [self._condition(scalar) for scalar in side.conditions]
        numbers = [[self._number(scalar) for scalar in number] for number in side.numbers]
        self._variables = [read for read in variables if read is not None]
        self._conditions = [read for read in conditions if read is not None]
        self._numbers = [[read for read in number if read is not None] for number in numbers]
        self.positions: tuple[int, ...] | None = None
        if None not in (*variables, *conditions, *(read for number in numbers for read in number)):
            scalars = (*side.variables, *side.conditions, *(scalar for number in side.numbers for scalar in number))
            used = frozenset[Var]().union(*map(variable_set, scalars))
            self.positions = tuple(sorted(self._places[var] for var in used))

    def read(self, change: ColumnChange) -> tuple[Any, Any, Any]:
        """First values, second values, and a row of numbers for each tuple."""
        words, rows = change.words, change.multiplicity.shape
        firsts, seconds = (np.ascontiguousarray(np.broadcast_to(read(words), rows)) for read in self._variables)
        kept = (firsts != NULL) & (seconds != NULL) & (change.multiplicity != 0)
        for holds in self._conditions:
            kept &= holds(words)
        payloads = np.empty((len(firsts), len(self._numbers)), np.int64)
        for i, factors in enumerate(self._numbers):
            payloads[:, i] = _multiplied([change.multiplicity, *(read(words) for read in factors)])
        kept &= payloads.any(axis=1)
        if kept.all():
            return firsts, seconds, payloads
        return firsts[kept], seconds[kept], payloads[kept]

    def _word(self, scalar: Scalar, keys: bool = False) -> Read | None:
        """A column of integers, codes, or NULLs."""
        match scalar:
            case Var() if scalar in self._places and _is_word(scalar.type, keys):
                place = self._places[scalar]
                return lambda words: words[place]
            case Const(value, type) if isinstance(value, int) and not isinstance(value, bool) and type.is_exact:
                number = value
                return (lambda words: np.int64(number)) if abs(value) < LIMIT else None
            case Call("cast", (Var() as inner,), type) if inner.type.is_integer and type.kind is Kind.BIGINT:
                return self._word(inner)
            case _:
                return None

    def _number(self, scalar: Scalar) -> Read | None:
        """A column of numbers, in which NULL is 0; or 1 where a column is not NULL."""
        match scalar:
            case Call("case", (Call("is_not_null", (inner,), _), Const(1, _), Const(0, _)), _):
                tested = self._word(inner, keys=True)
                return None if tested is None else lambda words: (tested(words) != NULL).astype(np.int64)
            case _:
                word = self._word(scalar)
                return None if word is None else lambda words: np.where(word(words) == NULL, 0, word(words))

    def _condition(self, scalar: Scalar) -> Read | None:
        match scalar:
            case Call(op, (left, right), _) if op in _COMPARISONS and left.type.same_representation(right.type):
                compare, mine, other = _COMPARISONS[op], self._word(left), self._word(right)
                if mine is None or other is None:
                    return None
                return lambda words: compare(mine(words), other(words)) & (mine(words) != NULL) & (other(words) != NULL)
            case _:
                return None


def _is_word(type: SqlType, keys: bool) -> bool:
    """The words of a type are the numbers that it stands for; those of keys need only be equal for equal values."""
    if keys:
        return not type.is_float and not type.is_wide
    return (type.is_exact and not type.is_wide) or type.kind in (Kind.DATE, Kind.TIMESTAMP)


def _multiplied(factors: list[Any]) -> Any:
    product, size = factors[0], np.abs(factors[0].astype(np.float64))
    for factor in factors[1:]:
        product = product * factor
        size = size * np.abs(np.asarray(factor, np.float64))
    if len(size) and float(size.max()) > LIMIT:
        raise DataError(TOO_WIDE)
    return product
