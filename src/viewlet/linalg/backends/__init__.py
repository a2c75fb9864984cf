"""Where the arrays of a program are: NumPy with BLAS, compiled kernels beside it, or a GPU."""

from __future__ import annotations

from typing import Any

from viewlet.linalg.backends.contract import Backend
from viewlet.linalg.errors import ProgramError

BACKENDS = ("auto", "numpy")


def make_backend(name: str, dtype: Any) -> Backend:
    """The back end of a name; "auto" is the fastest one in this process."""
    if name not in BACKENDS:
        raise ProgramError(f"backend {name!r} is not one of {', '.join(repr(each) for each in BACKENDS)}")
    from viewlet.linalg.backends.numpy_backend import NumpyBackend

    return NumpyBackend(dtype)
