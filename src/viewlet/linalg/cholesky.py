"""Cholesky factors that follow rows which are added to and removed from X'X: L L' ± x x' in n² operations a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def update(lower: Floats, row: Any) -> None:
    """L L' + x x' = M M': makes L the factor M, in place."""
    _rotate(lower, np.array(row, np.float64), 1.0)


def downdate(lower: Floats, row: Any) -> None:
    """L L' - x x' = M M'; `numpy.linalg.LinAlgError`, and L unchanged, if that is not positive definite."""
    trial = lower.copy()
    _rotate(trial, np.array(row, np.float64), -1.0)
    lower[:] = trial


def _rotate(lower: Floats, x: Floats, sign: float) -> None:
    for k in range(len(x)):
        old = lower[k, k]
        square = old * old + sign * x[k] * x[k]
        if not square > np.finfo(np.float64).eps * old * old:
            raise np.linalg.LinAlgError("the matrix without this row is not positive definite")
        new = np.sqrt(square)
        cosine, sine = new / old, x[k] / old
        lower[k, k] = new
        below = lower[k + 1 :, k]
        below += sign * sine * x[k + 1 :]
        below /= cosine
        x[k + 1 :] = cosine * x[k + 1 :] - sine * below
