"""Bounds of numbers, derived from types and constants, so that fewer overflow checks are needed at run time."""

from __future__ import annotations

import math

from viewlet.algebra.nodes import Call, Const, Scalar
from viewlet.types import INTEGER_BITS, Kind, SqlType

WORD = 1 << 63


def reach(scalar: Scalar) -> int:
    """A bound of the absolute value of an exact scalar's word."""
    match scalar:
        case Const(value, _):
            return abs(value) if isinstance(value, int) else 0
        case Call("+" | "-", (left, right), _):
            return reach(left) + reach(right)
        case Call("*", (left, right), _):
            return reach(left) * reach(right)
        case Call("neg" | "abs", (arg,), _):
            return reach(arg)
        case Call("case", args, _):
            return max(reach(arg) for arg in (*args[1::2], args[-1]))
        case Call("cast", (arg,), type) if (
            arg.type.is_exact and type.kind is Kind.DECIMAL and type.scale >= arg.type.scale
        ):
            return int(reach(arg) * 10 ** (type.scale - arg.type.scale))
        case _:
            kind = scalar.type.kind
            if kind is Kind.DECIMAL:
                return int(min(10**scalar.type.precision, WORD))
            return {Kind.SMALLINT: 1 << 15, Kind.INTEGER: 1 << 31, Kind.DATE: 1 << 32, Kind.BOOLEAN: 1}.get(kind, WORD)


FAR_FROM_INFINITE = 1e300


def magnitude(scalar: Scalar) -> float:
    """A bound of the absolute value of a double, infinite where there is none."""
    match scalar:
        case Const(value, _):
            return abs(float(value)) if isinstance(value, int | float) else 0.0
        case Call("+" | "-", (left, right), _):
            return magnitude(left) + magnitude(right)
        case Call("*", (left, right), _):
            return magnitude(left) * magnitude(right)
        case Call("/", (left, right), _):
            least = _least(right)
            return magnitude(left) / least if least else math.inf
        case Call("avg", (total, _), _) if total.type.is_exact:
            return float(WORD)
        case Call("cast", (arg,), _) if arg.type.is_exact:
            return float(WORD)
        case Call("case", args, _):
            return max(magnitude(arg) for arg in (*args[1::2], args[-1]))
        case _:
            return math.inf


def _least(scalar: Scalar) -> float:
    """A bound below the absolute value of a double that is not 0; 0 where there is none."""
    match scalar:
        case Const(value, _) if isinstance(value, int | float):
            return abs(float(value))
        case Call("cast", (arg,), _) if arg.type.is_exact:
            return float(10.0**-arg.type.scale)
        case _:
            return 0.0


def limits(type: SqlType) -> tuple[int, int] | None:
    """The least and the greatest word of an exact type; None where every word is one."""
    if type.kind is Kind.DECIMAL:
        greatest = 10**type.precision - 1
        return None if greatest >= WORD else (-greatest, greatest)
    if type.kind in (Kind.SMALLINT, Kind.INTEGER):
        half = 1 << (INTEGER_BITS[type.kind] - 1)
        return -half, half - 1
    return None
