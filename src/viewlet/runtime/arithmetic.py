"""Double-double sums and calendar arithmetic for generated code, as functions Numba compiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.control import BY_OPPOSITES, FAILURE, LARGE, LARGEST, OVERFLOW
from viewlet.runtime.jit import compiled
from viewlet.runtime.wide import bits_of, fused, wide_add, wide_mul

NULL = -(2**63)
"""The word that stands for NULL in an integer column."""
SMALL = np.int64(np.float64(2.0**900).view(np.int64))
"""The bits of 2**900. No batch has so many summands of at most this size that a finite sum becomes infinite."""


@compiled
def dd_add(high: Any, low: Any, other_high: Any, other_low: Any) -> Any:
    """The sum of two double-doubles."""
    total = high + other_high
    part = total - high
    error = (high - (total - part)) + (other_high - part)
    low_total = low + other_low
    low_part = low_total - low
    low_error = (low - (low_total - low_part)) + (other_low - low_part)
    error += low_total
    first = total + error
    error = (error - (first - total)) + low_error
    second = first + error
    return second, error - (second - first)


@compiled
def dd_mul(high: Any, low: Any, other_high: Any, other_low: Any) -> Any:
    """The product of two double-doubles."""
    product = high * other_high
    error = fused(high, other_high, -product)
    error += high * other_low + low * other_high
    first = product + error
    return first, error - (first - product)


@compiled
def large_sum(high: Any, low: Any, summand: Any, first: Any, second: Any, control: Any) -> Any:
    """What (high, low) becomes by a large summand: (first, second), or itself where that has to be refused.

    A sum never stops being finite, for it could not be brought back.
    """
    control[LARGEST] = max(control[LARGEST], bits_of(abs(summand)))
    if control[BY_OPPOSITES] != 0:
        control[FAILURE] = LARGE
        return high, low
    if abs(first) <= 1.7976931348623157e308:
        return first, second
    control[FAILURE] = OVERFLOW
    return high, low


@compiled
def two_sum(a: Any, b: Any) -> Any:
    """A sum rounded, and what that leaves."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@compiled
def add_product(found: Any, a: Any, b: Any) -> Any:
    """Adds a product to a sum of four doubles, each of which takes what rounding the one before it leaves."""
    product = a * b
    for part in (product, fused(a, b, -product)):
        first, left = two_sum(found[0], part)
        second, left = two_sum(found[1], left)
        third, left = two_sum(found[2], left)
        found = (first, second, third, found[3] + left)
    return found


@compiled
def total_of(found: Any) -> Any:
    """The double nearest to a sum of four doubles, however much of it cancels."""
    first, second, third, fourth = found
    for _ in range(3):
        first, second = two_sum(first, second)
        second, third = two_sum(second, third)
        third, fourth = two_sum(third, fourth)
    return first + (second + (third + fourth))


@compiled
def dd_of_int(number: Any) -> Any:
    """A 64-bit integer as a double-double."""
    high = float(number)
    if high >= 9.2233720368547748e18:
        return high, 0.0
    return high, float(number - int(high))


@compiled
def dd_of_wide(high: Any, low: Any) -> Any:
    """A 128-bit integer as a double-double."""
    top_high, top_low = dd_of_int(high)
    unsigned_high, unsigned_low = dd_of_int(low)
    if low < 0:
        unsigned_high, unsigned_low = dd_add(unsigned_high, unsigned_low, 18446744073709551616.0, 0.0)
    return dd_add(top_high * 18446744073709551616.0, top_low * 18446744073709551616.0, unsigned_high, unsigned_low)


@compiled
def wide_size(high: Any, low: Any) -> Any:
    """A 128-bit integer as a double."""
    return high * 18446744073709551616.0 + low + (18446744073709551616.0 if low < 0 else 0.0)


@compiled
def checked_add(a: Any, b: Any, failure: Any, control: Any) -> Any:
    """a + b; a sum beyond 64 bits, or one that would read as NULL, is reported as a `failure`, not wrapped."""
    high, low = wide_add(a >> 63, a, b >> 63, b)
    if high != low >> 63 or low == NULL:
        control[FAILURE] = failure
    return low


@compiled
def checked_mul(a: Any, b: Any, failure: Any, control: Any) -> Any:
    """a * b; a product beyond 64 bits, or one that would read as NULL, is reported as a `failure`, not wrapped."""
    high, low = wide_mul(a >> 63, a, b)
    if high != low >> 63 or low == NULL:
        control[FAILURE] = failure
    return low


@compiled
def year_of(days: Any) -> Any:
    """The civil year of a day number since 1970-01-01."""
    z = days + 719468
    era = z // 146097
    day_of_era = z - era * 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    return year_of_era + era * 400 + (1 if month >= 10 else 0)


@compiled
def month_of(days: Any) -> Any:
    """The civil month of a day number since 1970-01-01."""
    z = days + 719468
    era = z // 146097
    day_of_era = z - era * 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    return month + 3 if month < 10 else month - 9
