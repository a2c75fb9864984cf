"""Matrix programs whose results follow their inputs: linear algebra under low-rank updates (LINVIEW).

>>> import numpy as np
>>> from viewlet import linalg
>>> n = linalg.dim("n")
>>> A = linalg.matrix("A", n, n, dynamic=True)
>>> run = linalg.program(C=(A @ A) @ (A @ A)).start(A=np.eye(3))
>>> run.set("A", 0, 1, 2.0)
>>> run["C"][0]
array([1., 8., 0.])
"""

from __future__ import annotations

from viewlet.errors import MissingExtraError

try:
    import scipy as _scipy  # noqa: F401 - only to say how to get it
except ImportError as error:
    raise MissingExtraError("viewlet.linalg needs SciPy: pip install 'viewlet[linalg]'") from error

from viewlet.linalg.backends.array_api_backend import ArrayApiBackend
from viewlet.linalg.backends.modular_backend import ModularBackend
from viewlet.linalg.errors import LinAlgWarning, MatrixDataError, NotationError, ProgramError, ShapeError
from viewlet.linalg.expression import hstack, identity, inv, matrix, solve, vstack
from viewlet.linalg.program import Program, program
from viewlet.linalg.recurrences import iterate, matrix_power, power_sum
from viewlet.linalg.run import Run
from viewlet.linalg.sizes import dim
from viewlet.linalg.values import Entries

__all__ = [
    "ArrayApiBackend",
    "Entries",
    "LinAlgWarning",
    "MatrixDataError",
    "ModularBackend",
    "NotationError",
    "Program",
    "ProgramError",
    "Run",
    "ShapeError",
    "dim",
    "hstack",
    "identity",
    "inv",
    "iterate",
    "matrix",
    "matrix_power",
    "power_sum",
    "program",
    "solve",
    "vstack",
]
