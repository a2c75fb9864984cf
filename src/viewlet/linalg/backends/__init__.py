"""Where the arrays of a program are: NumPy with BLAS, compiled kernels beside it, or a GPU."""

from __future__ import annotations

from typing import Any

from viewlet.linalg.backends.contract import Backend
from viewlet.linalg.errors import ProgramError
from viewlet.linalg.machine import can_compile

BACKENDS = ("auto", "numpy", "compiled", "torch")


def make_backend(name: str, dtype: Any) -> Backend:
    """The back end of a name; "auto" is compiled where Numba is there, and NumPy else."""
    if name not in BACKENDS:
        raise ProgramError(f"backend {name!r} is not one of {', '.join(repr(each) for each in BACKENDS)}")
    if name == "torch":
        from viewlet.linalg.backends.torch_backend import TorchBackend

        return TorchBackend(dtype)
    if name == "compiled" or (name == "auto" and can_compile()):
        from viewlet.linalg.backends.compiled_backend import CompiledBackend

        return CompiledBackend(dtype)
    from viewlet.linalg.backends.numpy_backend import NumpyBackend

    return NumpyBackend(dtype)
