"""Calls of functions and methods of users: an error names the function, and what comes back is checked.

A batch in which a function fails is refused as a whole. Complex numbers where a signal has real ones are an error, so
that no imaginary part is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from viewlet.errors import ViewletError
from viewlet.signals.errors import SignalError

Array = Any


class UserCodeError(SignalError):
    """A user's function has failed."""


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Around calls of a user's function, which `what` names, as in `select(module:function)`."""
    try:
        yield
    except (ViewletError, MemoryError):
        raise
    except Exception as error:
        raise UserCodeError(f"{what} failed: {type(error).__name__}: {error}") from error


def numbers_of(found: object, is_complex: bool, what: str, remedy: str) -> Array:
    """What a user's function gave, as an array of numbers; `remedy` says how complex ones are asked for."""
    try:
        array = np.asarray(found)
    except ValueError as error:
        raise SignalError(f"{what} gave no array of numbers: {error}") from error
    if array.dtype.kind == "O":  # None, Decimal and the like: numbers if NumPy can convert them all
        with suppress(TypeError, ValueError):
            array = array.astype(np.float64)
    if array.dtype.kind not in "biufc":
        raise SignalError(f"{what} has to give numbers, not {array.dtype} as in {array.reshape(-1)[:1].tolist()!r:.60}")
    if array.dtype.kind == "c" and not is_complex:
        raise SignalError(f"{what} gave complex numbers, and its result is real: {remedy}, or return .real or .imag")
    return array.astype(np.complex128 if is_complex else np.float64, copy=False)
