"""Conditions that read the match so far, as functions of its bindings, in SQL's logic of three values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, assert_never

from viewlet.streams.matching.definition import (
    Aggregate,
    Constant,
    MatchNumber,
    MatchQuery,
    Navigation,
    Operand,
    Operation,
    RowTest,
    RowValue,
    Term,
)

Values = Sequence[Sequence[Any]]
Evaluator = Callable[["Bindings", int], Any]
"""The value of an expression for the row that was bound last."""


@dataclass(slots=True)
class Bindings:
    """Which variable every row of a run is bound to, and what conditions need of them.

    Rows follow each other without gaps, so that the run is its first row and a list of variables.
    """

    values: Values
    names: Sequence[str]
    sets: tuple[tuple[int, ...], ...]
    totals: tuple[Aggregate, ...]
    first: int = 0
    """The first row of the group, and the end of its rows."""
    end: int = 0
    start: int = 0
    number: int = 1
    reach: int = -1
    """The furthest row that was looked at."""
    labels: list[int] = field(default_factory=list)
    places: list[list[int]] = field(default_factory=list)
    """For every set of variables, its rows."""
    sums: list[list[Any]] = field(default_factory=list)
    """For every aggregate, its value after each of its rows."""

    def begin(self, start: int, number: int) -> None:
        self.start, self.number = start, number
        self.labels = []
        self.places = [[] for _ in self.sets]
        self.sums = [[] for _ in self.totals]

    def push(self, variable: int, row: int) -> None:
        self.labels.append(variable)
        for rows, members in zip(self.places, self.sets, strict=True):
            if variable in members:
                rows.append(row)
        for stack, total in zip(self.sums, self.totals, strict=True):
            if variable in total.variables:
                before = stack[-1] if stack else None
                value = 1 if total.column is None else self.values[total.column][row]
                stack.append(_added(total.function, before, value))

    def cut(self, length: int) -> None:
        """Takes back bindings until `length` are left."""
        while len(self.labels) > length:
            variable = self.labels.pop()
            for rows, members in zip(self.places, self.sets, strict=True):
                if variable in members:
                    rows.pop()
            for stack, total in zip(self.sums, self.totals, strict=True):
                if variable in total.variables:
                    stack.pop()


def _added(function: str, before: Any, value: Any) -> Any:
    """An aggregate after one more value: (count, sum), or the extreme."""
    if function in ("MIN", "MAX"):
        if before is None or value is None:
            return value if before is None else before
        return (min if function == "MIN" else max)(before, value)
    count, total = before or (0, None)
    if value is None:
        return count, total
    if function == "COUNT":
        return count + 1, None
    return count + 1, value if total is None else total + value


def new_bindings(query: MatchQuery, values: Values) -> Bindings:
    """Bindings with room for what the conditions of a query read."""
    terms = [term for condition in query.conditions for term in terms_of(condition)]
    sets = dict.fromkeys(term.variables for term in terms if isinstance(term, Navigation))
    totals = dict.fromkeys(term for term in terms if isinstance(term, Aggregate))
    return Bindings(values, query.variables, tuple(sets), tuple(totals))


def terms_of(node: Any) -> list[Term]:
    """The terms of a condition."""
    if isinstance(node, Navigation | Aggregate | MatchNumber):
        return [node]
    return [term for each in node.operands for term in terms_of(each)] if isinstance(node, Operation) else []


def compile_condition(node: Operand | RowTest, bindings: Bindings) -> Evaluator:
    """The function that computes a condition or an operand."""
    match node:
        case RowTest():
            raise TypeError("a test of rows is no function of bindings")
        case Constant(value, _):
            return lambda bound, row: value
        case RowValue(column):
            return lambda bound, row: bound.values[column][row]
        case MatchNumber():
            return lambda bound, row: bound.number
        case Navigation():
            return _navigation(node, bindings.sets.index(node.variables))
        case Aggregate():
            return _aggregate(node, bindings.totals.index(node))
        case Operation(name, operands):
            return _operation(name, [compile_condition(each, bindings) for each in operands])
        case _:
            assert_never(node)


def _navigation(node: Navigation, place: int) -> Evaluator:
    column, offset, physical = node.column, node.offset, node.physical

    def value(bound: Bindings, row: int) -> Any:
        rows = bound.places[place]
        if offset >= len(rows):
            return None
        target = (rows[offset] if node.is_first else rows[-1 - offset]) + physical
        bound.reach = max(bound.reach, target)
        if not bound.first <= target < bound.end:
            return None
        if column is not None:
            return bound.values[column][target]
        at = target - bound.start
        return bound.names[bound.labels[at]] if 0 <= at < len(bound.labels) else None

    return value


def _aggregate(node: Aggregate, place: int) -> Evaluator:
    def value(bound: Bindings, row: int) -> Any:
        found = bound.sums[place][-1] if bound.sums[place] else None
        if node.function in ("MIN", "MAX"):
            return found
        count, total = found or (0, None)
        if node.function == "COUNT":
            return count
        return float(total) / count if node.function == "AVG" and total is not None else total

    return value


# -- operators --------------------------------------------------------------------------------------------------------


def _operation(name: str, operands: list[Evaluator]) -> Evaluator:
    if name in _LAZY:
        return _LAZY[name](operands)
    function = OPERATORS[name]

    def value(bound: Bindings, row: int) -> Any:
        given = [each(bound, row) for each in operands]
        return None if any(each is None for each in given) else function(*given)

    return value


def _and(operands: list[Evaluator]) -> Evaluator:
    def value(bound: Bindings, row: int) -> Any:
        unknown = False
        for each in operands:
            found = each(bound, row)
            if found is None:
                unknown = True
            elif not found:
                return False
        return None if unknown else True

    return value


def _or(operands: list[Evaluator]) -> Evaluator:
    def value(bound: Bindings, row: int) -> Any:
        unknown = False
        for each in operands:
            found = each(bound, row)
            if found:
                return True
            unknown = unknown or found is None
        return None if unknown else False

    return value


def _coalesce(operands: list[Evaluator]) -> Evaluator:
    def value(bound: Bindings, row: int) -> Any:
        return next((found for each in operands if (found := each(bound, row)) is not None), None)

    return value


def _case(operands: list[Evaluator]) -> Evaluator:
    """condition, value, condition, value, ..., default"""
    pairs = list(zip(operands[:-1:2], operands[1::2], strict=True))

    def value(bound: Bindings, row: int) -> Any:
        for condition, result in pairs:
            if condition(bound, row):
                return result(bound, row)
        return operands[-1](bound, row)

    return value


_LAZY: dict[str, Callable[[list[Evaluator]], Evaluator]] = {
    "AND": _and,
    "OR": _or,
    "COALESCE": _coalesce,
    "CASE": _case,
    "IS NULL": lambda operands: lambda bound, row: operands[0](bound, row) is None,
}


def _numbers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of two numbers, of which one may be a decimal and the other a double."""

    def value(left: Any, right: Any) -> Any:
        if isinstance(left, float) and isinstance(right, Decimal):
            right = float(right)
        elif isinstance(left, Decimal) and isinstance(right, float):
            left = float(left)
        return function(left, right)

    return value


def _divided(left: Any, right: Any) -> float | None:
    return float(left) / float(right) if right else None


def _remainder(left: Any, right: Any) -> Any:
    """What is left after division towards zero."""
    if not right:
        return None
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


OPERATORS: dict[str, Callable[..., Any]] = {
    "=": _numbers(lambda a, b: a == b),
    "<>": _numbers(lambda a, b: a != b),
    "<": _numbers(lambda a, b: a < b),
    "<=": _numbers(lambda a, b: a <= b),
    ">": _numbers(lambda a, b: a > b),
    ">=": _numbers(lambda a, b: a >= b),
    "+": _numbers(lambda a, b: a + b),
    "-": _numbers(lambda a, b: a - b),
    "*": _numbers(lambda a, b: a * b),
    "/": _divided,
    "%": _numbers(_remainder),
    "NOT": lambda a: not a,
    "NEGATE": lambda a: -a,
    "ABS": abs,
}
