"""Numbers of the calculus as SQL: what a row contributes, and how contributions add up.

As in compiled triggers there are three measures: counts of rows (64 bits), exact sums of values (38 digits) and
doubles. A product takes the widest measure among its factors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import assert_never

from viewlet.algebra.nodes import Add, Cond, Exists, Expr, Mul, Neg, Scalar, Sum, Value
from viewlet.algebra.traverse import walk
from viewlet.errors import InternalError
from viewlet.sqlgen.dialects import Dialect
from viewlet.sqlgen.scalars import term_of
from viewlet.sqlgen.terms import Term, in_units
from viewlet.types import MAX_DECIMAL_DIGITS, Kind, SqlType

_DIGITS = {Kind.BOOLEAN: 1, Kind.SMALLINT: 5, Kind.INTEGER: 10, Kind.BIGINT: 19, Kind.DATE: 7}


class Measure(IntEnum):
    COUNT = 0
    EXACT = 1
    DOUBLE = 2

    def type_name(self, dialect: Dialect) -> str:
        return {Measure.COUNT: "BIGINT", Measure.EXACT: dialect.sums, Measure.DOUBLE: "DOUBLE"}[self]


@dataclass(frozen=True, slots=True)
class Number:
    """SQL text of a number; `digits` bounds an exact one."""

    sql: str
    measure: Measure = Measure.COUNT
    digits: int = _DIGITS[Kind.BIGINT]


def column_number(sql: str, measure: Measure) -> Number:
    """A sum that is a column by now."""
    return Number(sql, measure, MAX_DECIMAL_DIGITS if measure is Measure.EXACT else _DIGITS[Kind.BIGINT])


def widened(number: Number, measure: Measure, dialect: Dialect) -> str:
    """The text of the number as one of a measure at least as wide."""
    match measure:
        case Measure.COUNT:
            return number.sql
        case Measure.EXACT:
            return dialect.exact(number.sql, number.digits)
        case Measure.DOUBLE:
            return f"CAST({number.sql} AS DOUBLE)"
        case _:
            assert_never(measure)


def product(numbers: Sequence[Number], dialect: Dialect) -> Number:
    if not numbers:
        return Number("1")
    if len(numbers) == 1:
        return numbers[0]
    measure = max(number.measure for number in numbers)
    digits = min(sum(number.digits for number in numbers), MAX_DECIMAL_DIGITS)
    return Number("(" + " * ".join(widened(number, measure, dialect) for number in numbers) + ")", measure, digits)


DIGITS_OF_ROWS = 12
"""More rows than that many digits tell are not added up anywhere."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A sum over the rows of a group, in which NULL counts as 0, and what one row adds to it.

    The latter is None where sums of many rows may have more digits than there are.
    """

    sql: str
    of_row: str | None
    measure: Measure


def total(numbers: Sequence[Number], dialect: Dialect) -> Aggregate:
    """The aggregate that adds up the product of `numbers`."""
    if not numbers:
        return Aggregate("COUNT(*)", "1", Measure.COUNT)
    number = product(numbers, dialect)
    measure = number.measure
    summand = f"CAST({number.sql} AS BIGINT)" if measure is Measure.COUNT else widened(number, measure, dialect)
    sql, of_row = (
        f"CAST(COALESCE({each}, 0) AS {measure.type_name(dialect)})" for each in (f"SUM({summand})", summand)
    )
    never_overflows = measure is not Measure.EXACT or number.digits + DIGITS_OF_ROWS <= MAX_DECIMAL_DIGITS
    return Aggregate(sql, of_row if never_overflows else None, measure)


def value_number(scalar: Scalar, bound: Mapping[str, Term], dialect: Dialect) -> Number:
    """The number of a value, NULL where the value is."""
    term = term_of(scalar, bound, dialect)
    sql = in_units(term, dialect)
    match scalar.type.kind:
        case Kind.REAL | Kind.DOUBLE:
            return Number(sql, Measure.DOUBLE)
        case Kind.BOOLEAN:
            return Number(f"CAST({sql} AS INTEGER)", Measure.EXACT, 1)
        case Kind.DATE:
            return Number(dialect.days(sql), Measure.EXACT, _digits(scalar.type))
        case Kind.TIMESTAMP:
            return Number(dialect.microseconds(sql), Measure.EXACT)
        case Kind.VARCHAR:
            raise InternalError(f"a string has no place in a sum: {sql}")
        case _:
            return Number(sql, Measure.EXACT, _digits(scalar.type))


def _digits(type: SqlType) -> int:
    return type.precision if type.kind is Kind.DECIMAL else _DIGITS.get(type.kind, MAX_DECIMAL_DIGITS)


def is_computed(expr: Expr) -> bool:
    """It is one number, computed from bound variables alone."""
    return all(isinstance(node, Value | Cond | Mul | Add | Neg | Sum | Exists) for node in walk(expr))


def computed(expr: Expr, bound: Mapping[str, Term], dialect: Dialect) -> Number:
    """The number of such an expression, never NULL."""
    match expr:
        case Value(scalar):
            number = value_number(scalar, bound, dialect)
            return Number(f"COALESCE({number.sql}, 0)", number.measure, number.digits)
        case Cond(scalar):
            return _indicator(term_of(scalar, bound, dialect).sql)
        case Mul(factors):
            return product([computed(factor, bound, dialect) for factor in factors], dialect)
        case Add(terms):
            numbers = [computed(term, bound, dialect) for term in terms]
            measure = max(number.measure for number in numbers)
            sql = " + ".join(widened(number, measure, dialect) for number in numbers)
            return Number(f"({sql})", measure, MAX_DECIMAL_DIGITS)
        case Neg(body):
            number = computed(body, bound, dialect)
            return Number(f"(-{number.sql})", number.measure, number.digits)
        case Sum(_, body):
            return computed(body, bound, dialect)
        case Exists(body):
            return _indicator(f"{computed(body, bound, dialect).sql} <> 0")
        case _:
            raise InternalError(f"not a computed number: {expr}")


def _indicator(condition: str) -> Number:
    return Number(f"(CASE WHEN {condition} THEN 1 ELSE 0 END)", Measure.COUNT, 1)
