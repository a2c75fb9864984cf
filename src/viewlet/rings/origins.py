"""Origins: sums of a variable are kept about a number near its values, so that a large offset costs no digits.

    7e12 + 5, 7e12 + 7    about 7e12 + 6:  -1, 1     their squares sum to 2; those of the values end beyond a double

An origin serves the values up to half its size away from it. Their distance from it is a double without rounding, and
not larger than they are, so sums about it are never less accurate than sums about zero. Where a variable has other
values too, its sums are about zero.
"""

from __future__ import annotations

from typing import Any

NARROW = 8
"""Values have an origin if they spread over at most this part of their distance from zero."""
LIMIT = 2.0**900
"""Values beyond this have no origin."""


def choose_origin(low: float, high: float) -> float:
    """The origin for values between two: their middle, or zero where they are not far from it.

    >>> choose_origin(7, 9), choose_origin(100.0, 102.0), choose_origin(-5, 200)
    (0.0, 101.0, 0.0)
    """
    middle = (low + high) // 2 if isinstance(low, int) and isinstance(high, int) else low + (high - low) / 2
    return float(middle) if (high - low) * NARROW <= abs(middle) else 0.0


def serves(origin: float, low: float, high: float) -> bool:
    """Whether sums of values between two may be about an origin.

    >>> serves(7e12, 4e12, 8e12), serves(7e12, 0, 8e12), serves(-7, -9, -4), serves(0.0, -1, 1)
    (True, False, True, True)
    """
    middle = int(origin) if isinstance(low, int) and float(origin).is_integer() else origin
    return not origin or (2 * abs(low - middle) <= abs(middle) and 2 * abs(high - middle) <= abs(middle))


def shared_origin(left: float, right: float) -> float:
    """An origin for all values that two others serve: the one nearer to zero, or zero between them.

    >>> shared_origin(7.0, 5.0), shared_origin(-7.0, 5.0)
    (5.0, 0.0)
    """
    return min(left, right, key=abs) if left * right > 0 else 0.0


def distance(value: Any, number: float, origin: float) -> float:
    """A value, whose double is `number`, less an origin: of integers exactly."""
    if origin and isinstance(value, int) and origin.is_integer():
        return float(value - int(origin))
    return number - origin


def next_origin(known: float | None, low: float, high: float) -> float | None:
    """The origin of a variable when values between two arrive; None as long as it has had none."""
    if not (-LIMIT < low <= high < LIMIT):
        return known
    if known is None:
        return choose_origin(low, high)
    return known if serves(known, low, high) else 0.0
