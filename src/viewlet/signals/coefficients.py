"""Arguments of operators, checked and as the tuples that nodes have."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from viewlet.signals.errors import SignalError
from viewlet.signals.nodes import Number
from viewlet.visible import described


def checked_choice(value: object, known: Collection[str | None], what: str) -> None:
    """One of some words."""
    if not isinstance(value, str | None) or value not in known:
        raise SignalError(f"{what} is one of {', '.join(map(repr, known))}, not {described(value)}")


MOST = 2**31 - 1
"""No factor or hop is larger."""
LONGEST = 2**27
"""No array that is kept for each group is longer: it has a gigabyte."""


def positive(number: object, what: str) -> int:
    """A whole number of at least 1."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 1 <= number <= MOST:
        raise SignalError(f"{what} takes a whole number of at least 1 and at most {MOST}, not {described(number)}")
    return int(number)


def length(number: object, what: str) -> int:
    """The length of an array that is kept for each group."""
    found = positive(number, what)
    if found > LONGEST:
        raise SignalError(f"{what} keeps at most {LONGEST} samples of each group, not {found}: downsample() first")
    return found


def complex_or_real(number: object, what: str) -> Number:
    """A finite number, real if it is one."""
    if isinstance(number, bool) or not isinstance(number, int | float | complex | Fraction | np.number):
        raise SignalError(f"{what} takes a number, not {described(number)}")
    if isinstance(number, int | Fraction):
        if abs(Fraction(number)) > Fraction(sys.float_info.max):
            raise SignalError(f"{what} takes a number that a DOUBLE can hold")
        return float(number)
    if not np.isfinite(number):
        raise SignalError(f"{what} takes a finite number, not {described(number)}")
    return complex(number) if np.iscomplexobj(number) else float(np.real(number))


def real(number: object, what: str) -> float:
    """A finite real number."""
    found = complex_or_real(number, what)
    if isinstance(found, complex):
        raise SignalError(f"{what} takes a real number, not {described(number)}")
    return found


def rate_of(rate: object) -> Fraction:
    """Samples a second, as an exact fraction."""
    found = Fraction(rate if isinstance(rate, Fraction | int) else real(rate, "rate="))
    if isinstance(rate, bool) or found <= 0:
        raise SignalError(f"rate= is a positive number of samples a second, not {described(rate)}")
    return found


def gap_of(gap: Fraction) -> Fraction:
    """How far references of an interpolation may be apart."""
    if gap < 0:
        raise SignalError(f"max_gap is a duration of at least 0, not {gap} ticks")
    return gap


def taps_of(values: Any, what: str) -> tuple[Number, ...]:
    """Coefficients of a filter: at least one, all finite."""
    array = np.atleast_1d(np.asarray(values))
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iufc" or not np.isfinite(array).all():
        raise SignalError(f"{what}: a filter has a list of finite numbers, not {described(values)}")
    return tuple(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64).tolist())


def sections_of(sos: Any) -> tuple[tuple[float, ...], ...]:
    """Second-order sections, as `scipy.signal` designs them."""
    array = np.asarray(sos)
    if array.ndim != 2 or array.shape[1] != 6 or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise SignalError("sosfilt() takes an array of shape (sections, 6), as scipy.signal.butter(..., output='sos')")
    if not array[:, 3].all():
        raise SignalError("sosfilt(): a0 of a section is 0")
    return tuple(tuple(row) for row in array.astype(np.float64).tolist())


def weights_of(window: Any, size: int) -> tuple[float, ...]:
    """The weights of a window by its name, or as they are given; none for a rectangle."""
    if window is None:
        return ()
    if isinstance(window, str | tuple) and not (isinstance(window, tuple) and len(window) == size):
        from scipy.signal import get_window

        try:
            window = get_window(window, size)
        except ValueError as error:
            raise SignalError(f"window(): {error}") from error
    array = np.asarray(window)
    if array.shape != (size,) or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise SignalError(f"window() takes a name such as 'hann' or {size} finite weights")
    return tuple(array.astype(np.float64).tolist())


def column_names(given: object, what: str) -> tuple[str, ...]:
    """One name of a column, or several."""
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    for name in names:
        if not isinstance(name, str):
            raise SignalError(f"{what}= names columns by strings, not by {described(name)}")
    return names
