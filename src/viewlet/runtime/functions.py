"""Scalar functions of words for generated code, and the way back to Python for all others.

A function without code here is computed by the interpreter's implementation: `ask` passes the words of the arguments in
the array `calls` and calls back into Python. `recall` caches the results, so that Python is called once per distinct
arguments. Functions with code here call `ask` too if a value leaves its range: the interpreter then raises the error.

    calls = [address of the callback, status of the call, result, arguments...]

An interrupt must not change a result, because a batch that is rolled back by running it again has to see the same
results. Python records the interrupt, to be raised when the generated code has returned, and still returns the result.
An interrupt before Python has read the arguments leaves the call open, and it is repeated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from viewlet.runtime.arithmetic import NULL, add_product, total_of
from viewlet.runtime.control import FAILURE, NOT_FINITE, OVERFLOW
from viewlet.runtime.jit import compiled
from viewlet.runtime.probe import hash_key
from viewlet.runtime.state import call_back
from viewlet.runtime.wide import bits_of, fused

ADDRESS, ANSWERED, ANSWER, ARGUMENTS = range(4)
"""Words of `calls`: the function of Python to call, whether it has answered, its answer, the arguments from here on."""
OPEN, YES, FAILED, AGAIN = range(4)
"""What has become of a question."""
UNKNOWN = -(2**63) + 1
"""An entry of a table of answers that has not been asked for yet. As an answer it is asked for every time."""

_NULL, _UNKNOWN = np.int64(NULL), np.int64(UNKNOWN)
_HALF = 1 << 62
_SINGLE_LIMIT = 3.4028235677973366e38  # from here on a double rounds to an infinite single


@compiled
def ask(calls: Any, number: Any, key: Any, control: Any) -> Any:
    """The answer of Python to one question; NULL, and a note in `control`, if it has failed."""
    for i in range(len(key)):
        calls[ARGUMENTS + i] = key[i]
    calls[ANSWERED] = OPEN
    call_back(calls[ADDRESS], number)
    while calls[ANSWERED] == OPEN or calls[ANSWERED] == AGAIN:
        calls[ANSWERED] = AGAIN
        call_back(calls[ADDRESS], number)
    if calls[ANSWERED] == FAILED:
        control[FAILURE] = OVERFLOW
        return _NULL
    return calls[ANSWER]


@compiled
def recall(memo: Any, calls: Any, number: Any, key: Any, control: Any) -> Any:
    """The answer to a question that may have been asked before.

    The memo is a cache: each question has one place, where the last one that belongs there is kept.
    """
    width = len(key) + 2
    places = memo.shape[0] // width
    at = (np.int64(hash_key(key)) & (places - 1)) * width
    same = memo[at] == 1
    for i in range(len(key)):
        same = same and memo[at + 2 + i] == key[i]
    if same:
        return memo[at + 1]
    answer = ask(calls, number, key, control)
    if calls[ANSWERED] == YES:
        memo[at] = 1
        memo[at + 1] = answer
        for i in range(len(key)):
            memo[at + 2 + i] = key[i]
    return answer


@compiled
def look_up(table: Any, code: Any, calls: Any, number: Any, control: Any) -> Any:
    """The answer for one string, kept in a table by the string's code; strings may be newer than the table."""
    place = code + 1 if code >= 0 else 0
    if place < table.shape[0]:
        if table[place] == _UNKNOWN:
            answer = ask(calls, number, (code,), control)
            if calls[ANSWERED] == YES:
                table[place] = answer
            return answer
        return table[place]
    return ask(calls, number, (code,), control)


@compiled
def is_before(ranks: Any, a: Any, b: Any, calls: Any, number: Any, control: Any) -> Any:
    """Whether one string comes before another; strings may be newer than the ranks."""
    if a < ranks.shape[0] and b < ranks.shape[0] and ranks[a] >= 0 and ranks[b] >= 0:
        return ranks[a] < ranks[b]
    return ask(calls, number, (a, b), control) == 1


@compiled
def keep(answers: Any, place: Any, value: Any) -> Any:
    """Keeps a value for its use; whether it is not NULL."""
    answers[place] = value
    return value != _NULL


@compiled
def keep_double(answers: Any, place: Any, value: Any) -> Any:
    """Keeps a double for its use; whether it is not NULL."""
    answers[place] = bits_of(value)
    return value == value


# Ranges


@compiled
def ranged(value: Any, low: Any, high: Any, calls: Any, number: Any, control: Any) -> Any:
    """The value, which must be within its type."""
    if low <= value <= high:
        return value
    return ask(calls, number, (value,), control)


@compiled
def finite(value: Any, control: Any) -> Any:
    """The value, which must be finite."""
    if not (abs(value) <= 1.7976931348623157e308):
        control[FAILURE] = NOT_FINITE
        return 0.0
    return value


@compiled
def single(value: Any, calls: Any, number: Any, control: Any) -> Any:
    """The nearest single-precision number, which must be finite."""
    if not (abs(value) < _SINGLE_LIMIT):
        ask(calls, number, (bits_of(value),), control)
        return 0.0
    return float(np.float32(value))


# Numbers


@compiled
def quotient(a: Any, b: Any) -> Any:
    """a // b toward zero; NULL for b = 0."""
    if b == 0:
        return _NULL
    magnitude = abs(a) // abs(b)
    return magnitude if (a < 0) == (b < 0) else -magnitude


@compiled
def remainder(a: Any, b: Any) -> Any:
    """a - b * (a // b), with the sign of a; NULL for b = 0."""
    if b == 0:
        return _NULL
    magnitude = abs(a) % abs(b)
    return magnitude if a >= 0 else -magnitude


@compiled
def double_remainder(a: Any, b: Any) -> Any:
    """The remainder with the sign of a; NULL for b = 0."""
    return np.nan if b == 0.0 else np.fmod(a, b)


@compiled
def sign_of(a: Any) -> Any:
    return 1 if a > 0 else -1 if a < 0 else 0


@compiled
def floor_double(a: Any) -> Any:
    """The greatest whole number not above; never a negative zero."""
    return np.floor(a) + 0.0


@compiled
def ceil_double(a: Any) -> Any:
    """The least whole number not below; never a negative zero."""
    return np.ceil(a) + 0.0


@compiled
def in_units(value: Any, unit: Any) -> Any:
    """value / unit to the nearest whole number, halves away from zero."""
    magnitude = abs(value) // unit
    if 2 * (abs(value) - magnitude * unit) >= unit:
        magnitude += 1
    return magnitude if value >= 0 else -magnitude


@compiled
def round_to(value: Any, unit: Any, factor: Any, calls: Any, number: Any, control: Any) -> Any:
    """The nearest multiple of a unit, in units of unit / factor."""
    if -_HALF < value < _HALF:
        return in_units(value, unit) * factor
    return ask(calls, number, (value,), control)


@compiled
def round_double(value: Any, factor: Any) -> Any:
    """The nearest multiple of 1 / factor, halves away from zero."""
    scaled = value * factor
    if not (abs(scaled) <= 1.7976931348623157e308):
        return value
    return math.copysign(np.floor(abs(scaled) + 0.5) / factor, value)


@compiled
def square_root(value: Any, calls: Any, number: Any, control: Any) -> Any:
    if value < 0.0:
        ask(calls, number, (bits_of(value),), control)
        return 0.0
    return math.sqrt(value)


@compiled
def greater(a: Any, b: Any) -> Any:
    """The greater of two words; NULL only if both are."""
    return b if a == _NULL or (b != _NULL and b > a) else a


@compiled
def lesser(a: Any, b: Any) -> Any:
    """The lesser of two words; NULL only if both are."""
    return b if a == _NULL or (b != _NULL and b < a) else a


@compiled
def greater_double(a: Any, b: Any) -> Any:
    """The greater of two doubles; NULL only if both are."""
    return b if a != a or b > a else a


@compiled
def lesser_double(a: Any, b: Any) -> Any:
    """The lesser of two doubles; NULL only if both are."""
    return b if a != a or b < a else a


@compiled
def square(value: Any, control: Any) -> Any:
    """The square of a double, which must be finite."""
    return finite(value * value, control)


@compiled
def square_error(value: Any) -> Any:
    """What the square of a number leaves when it is rounded."""
    return fused(value, value, -(value * value))


@compiled
def variance(n: Any, s: Any, s_rest: Any, q: Any, q_rest: Any, e: Any, e_rest: Any, freedom: Any) -> Any:
    """The variance of n doubles, or NULL if n <= freedom.

    Given are their sum, the sum of their rounded squares, and that of what rounding leaves of these, in two parts each.
    The numerator n * squares - sum * sum is computed to the last digit, over numbers scaled to the size of 1.
    """
    if n <= freedom:
        return np.nan
    if q == 0.0:
        return 0.0
    half = math.frexp(q)[1] // 2
    rows = float(n)
    found = (0.0, 0.0, 0.0, 0.0)
    for part in (q, q_rest, float(e), float(e_rest)):  # of constants the code has a whole number, 0
        found = add_product(found, rows, math.ldexp(part, -2 * half))
    s, s_rest = math.ldexp(s, -half), math.ldexp(s_rest, -half)
    found = add_product(add_product(add_product(found, -s, s), -2.0 * s, s_rest), -s_rest, s_rest)
    return math.ldexp(max(total_of(found), 0.0) / (rows * (rows - freedom)), 2 * half)


@compiled
def only_row(rows: Any, value: Any, calls: Any, number: Any, control: Any) -> Any:
    """The value of a subquery of one row."""
    return value if rows <= 1 else ask(calls, number, (rows, value), control)


# Casts


@compiled
def integer_of(value: Any, calls: Any, number: Any, control: Any) -> Any:
    """A double as an integer, halves to the even neighbour."""
    if -9.2e18 < value < 9.2e18:
        return np.int64(np.rint(value))
    return ask(calls, number, (bits_of(value),), control)


@compiled
def units_of(value: Any, factor: Any, calls: Any, number: Any, control: Any) -> Any:
    """A double in units of 1 / factor, halves away from zero."""
    scaled = value * factor
    if -9.2e18 < scaled < 9.2e18:
        floor = np.floor(abs(scaled))
        magnitude = np.int64(floor) + (1 if abs(scaled) - floor >= 0.5 else 0)
        return magnitude if scaled >= 0 else -magnitude
    return ask(calls, number, (bits_of(value),), control)
