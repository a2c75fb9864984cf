"""Types of conditions of MATCH_RECOGNIZE that read a match: they are evaluated in Python, which compares likes only.

DEFINE b AS b.ts > a.x        a TIMESTAMP and a BIGINT are not compared
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viewlet.streams.matching.definition import (
    Aggregate,
    Condition,
    Constant,
    MatchNumber,
    Navigation,
    Operand,
    Operation,
    RowTest,
    RowValue,
)
from viewlet.types import SqlType

NUMBER, INTERVAL, BOOLEAN = "a number", "an interval", "a BOOLEAN"
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_ARITHMETIC = ("+", "-", "*", "/", "%", "NEGATE", "ABS")


class MistypedError(Exception):
    """Operands that an operator does not take."""


def check_condition(condition: Condition, values: Sequence[SqlType]) -> None:
    """Refuses a condition that is none, or compares what cannot be; `values` are the types of what it reads of rows."""
    if condition is not None and _kind(condition, values) not in (BOOLEAN, None):
        raise MistypedError(f"a condition is expected, not {_kind(condition, values)}")


def _kind(node: Operand | RowTest, values: Sequence[SqlType]) -> str | None:
    """What a value is; None if it is NULL."""
    match node:
        case RowTest():
            return BOOLEAN
        case MatchNumber() | Aggregate("COUNT"):
            return NUMBER
        case Navigation(None):
            return "a VARCHAR"
        case Aggregate("SUM" | "AVG" as function, int(column)):
            return _numeric(function, [_of_type(values[column])])
        case Navigation(int(column)) | RowValue(column) | Aggregate(_, int(column)):
            return _of_type(values[column])
        case Constant():
            return INTERVAL
        case Operation(name, operands):
            return _result(name, [_kind(each, values) for each in operands])
        case _:
            raise AssertionError(node)


def _of_type(type: SqlType) -> str:
    if type.is_numeric:
        return NUMBER
    return f"a {type.kind.value.upper()}"


def _result(name: str, kinds: list[str | None]) -> str | None:
    if name == "IS NULL":
        return BOOLEAN
    if name in _COMPARISONS:
        _alike(kinds, lambda a, b: f"{a} is not compared with {b}")
        return BOOLEAN
    if name in ("AND", "OR", "NOT"):
        _alike([*kinds, BOOLEAN], lambda a, b: f"{name} takes conditions, not {a if b == BOOLEAN else b}")
        return BOOLEAN
    if (name in ("+", "-") and INTERVAL in kinds) or (name == "-" and kinds == ["a TIMESTAMP", "a TIMESTAMP"]):
        return _shifted(name, kinds)
    if name in _ARITHMETIC:
        return _numeric(name, kinds)
    if name == "CASE":
        _alike([*kinds[:-1:2], BOOLEAN], lambda a, b: f"WHEN takes a condition, not {a if b == BOOLEAN else b}")
        kinds = [*kinds[1::2], kinds[-1]]
    return _alike(kinds, lambda a, b: f"{name} has {a} and {b}")


def _alike(kinds: Sequence[str | None], message: Callable[[str, str], str]) -> str | None:
    known = list(dict.fromkeys(kind for kind in kinds if kind is not None))
    if len(known) > 1:
        raise MistypedError(message(known[0], known[1]))
    return known[0] if known else None


def _numeric(name: str, kinds: Sequence[str | None]) -> str:
    for kind in kinds:
        if kind not in (NUMBER, None):
            raise MistypedError(f"{name} takes numbers, not {kind}")
    return NUMBER


def _shifted(name: str, kinds: list[str | None]) -> str | None:
    """A time and an interval, or two intervals; the difference of two times is an interval."""
    if kinds == ["a TIMESTAMP", "a TIMESTAMP"]:
        return INTERVAL
    for kind in kinds:
        if kind not in (INTERVAL, "a TIMESTAMP", None):
            raise MistypedError(f"{name} takes a TIMESTAMP and an interval, not {kind}")
    if name == "-" and kinds[0] == INTERVAL and kinds[1] != INTERVAL:
        raise MistypedError("a TIMESTAMP is not subtracted from an interval")
    return "a TIMESTAMP" if "a TIMESTAMP" in kinds else INTERVAL
