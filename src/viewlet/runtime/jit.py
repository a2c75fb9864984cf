"""Numba, or with `VIEWLET_JIT=0` the same functions as plain Python.

Plain Python lets a debugger step through generated triggers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from viewlet.errors import MissingExtraError
from viewlet.interrupts import DeferredInterrupt

F = TypeVar("F", bound=Callable[..., Any])

ENABLED = os.environ.get("VIEWLET_JIT", "1") != "0"

numba: Any = None
if ENABLED:
    try:
        numba = import_module("numba")
    except ImportError as error:
        remedy = "pip install --upgrade numba brings one that fits the NumPy installed"
        raise MissingExtraError(f"Numba cannot be imported ({error}): {remedy}") from error


def entry(function: F) -> F:
    """A function called from Python: compiled on first call, kept in the on-disk cache."""
    if not ENABLED:
        return function
    wrapped: F = numba.njit(function, cache=True, error_model="numpy", nogil=True)
    return compiled_whole(wrapped)


def compiled_whole(dispatcher: F) -> F:
    """Ctrl-C waits until a function is compiled: a callback of LLVM would lose the exception."""
    compile_for = dispatcher._compile_for_args  # type: ignore[attr-defined]

    def compile_whole(*args: Any, **kwargs: Any) -> Any:
        with DeferredInterrupt():
            return compile_for(*args, **kwargs)

    dispatcher._compile_for_args = compile_whole  # type: ignore[attr-defined]
    return dispatcher


def compiled(function: F) -> F:
    """A function called from compiled code only: it needs no way in from Python."""
    if not ENABLED:
        return function
    wrapped: F = numba.njit(
        function, cache=True, error_model="numpy", nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True
    )
    return wrapped
