"""Cholesky factors that follow changes of a matrix: M = R'R with R upper triangular, R'R ± x x' in n² operations.

    symmetric change U V'   =   Σ ± x x'        by its eigenvectors, which lie in the span of U

Sums come before differences, so that nothing between is further from positive definite than the outcome.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.linalg.machine import can_compile

Floats = npt.NDArray[Any]

COMPILED_FROM = 64
"""The size from which rotations are compiled."""
TINY = 1e-30
"""What factors of a change are divided by, if they are smaller."""
FEW = 4
"""The columns up to which systems are solved one by one: each reads the factor once."""


def factor(system: Floats) -> Floats:
    """The upper triangular R with R'R = M; `numpy.linalg.LinAlgError` if M is not positive definite."""
    return np.ascontiguousarray(np.linalg.cholesky(system).T)


def solve(upper: Floats, right: Floats) -> Floats:
    """The solution of R'R X = B, by triangular systems."""
    from scipy.linalg import blas

    if not right.size:
        return np.zeros_like(right)
    single = upper.dtype == np.float32
    lower = upper.T  # in the order of Fortran, so that nothing is copied
    if right.ndim == 1:
        one = blas.strsv if single else blas.dtrsv
        return np.asarray(one(lower, one(lower, right, lower=1), lower=1, trans=1))
    if right.shape[1] <= FEW:
        return np.stack([solve(upper, column) for column in right.T], axis=1)
    many = blas.strsm if single else blas.dtrsm
    return np.asarray(many(1.0, lower, many(1.0, lower, right, lower=1), lower=1, trans_a=1))


def update(upper: Floats, row: Any) -> None:
    """R'R + x x' = S'S: makes R the factor S, in place."""
    _rotate(upper, np.array(row, upper.dtype)[None], np.ones(1), _least(upper))


def downdate(upper: Floats, row: Any) -> None:
    """R'R - x x' = S'S; `numpy.linalg.LinAlgError`, and R unchanged, if that is not positive definite."""
    trial = upper.copy()
    _rotate(trial, np.array(row, upper.dtype)[None], -np.ones(1), _least(upper))
    upper[:] = trial


def change(upper: Floats, vectors: Floats, signs: Floats, least: float) -> None:
    """Adds ± x x' for the columns x of `vectors`, in place.

    `numpy.linalg.LinAlgError`, and R of no use, where the square of a diagonal entry shrinks by more than `least`.
    """
    order = np.argsort(-signs, kind="stable")
    _rotate(upper, np.ascontiguousarray(vectors[:, order].T), signs[order].astype(upper.dtype), least)


def signed_vectors(left: Floats, right: Floats) -> tuple[Floats, Floats, float]:
    """The vectors and signs with U V' = Σ ± x x', and how far U V' is from its transpose, relative to itself."""
    first, second = (max(float(np.abs(factor).max(initial=0.0)), TINY) for factor in (left, right))
    left, right = left / left.dtype.type(first), right / right.dtype.type(second)  # no square of them overflows
    basis, upper = np.linalg.qr(left)
    core = upper @ (right.T @ basis)
    size = float(np.linalg.norm(upper @ right.T))
    skew = float(np.linalg.norm(upper @ right.T - core.T @ basis.T)) / size if size else 0.0
    values, inner = np.linalg.eigh((core + core.T) / 2)
    kept = np.abs(values) > np.finfo(left.dtype).eps * size
    lengths = np.sqrt(np.abs(values[kept])) * left.dtype.type(first**0.5 * second**0.5)
    return (basis @ inner[:, kept]) * lengths, np.sign(values[kept]), skew


def _least(upper: Floats) -> float:
    return float(np.finfo(upper.dtype).eps)


def _rotate(upper: Floats, vectors: Floats, signs: Floats, least: float) -> None:
    rotate = _rotate_rows
    if len(upper) >= COMPILED_FROM and can_compile():
        from viewlet.runtime.cholesky_rotations import rotate_rows as rotate
    if rotate(upper, vectors, signs, least) >= 0:
        raise np.linalg.LinAlgError("the matrix without these rows is not positive definite")


def _rotate_rows(upper: Floats, vectors: Floats, signs: Floats, least: float) -> int:
    """What `viewlet.runtime.cholesky_rotations.rotate_rows` does, by operations of NumPy on rows."""
    for k in range(len(upper)):
        for x, sign in zip(vectors, signs, strict=True):
            old = upper[k, k]
            square = old * old + sign * x[k] * x[k]
            if not square > least * old * old:
                return k
            new = np.sqrt(square)
            cosine, sine = new / old, x[k] / old
            row, rest = upper[k, k + 1 :], x[k + 1 :]
            upper[k, k] = new
            row += sign * sine * rest
            row /= cosine
            rest *= cosine
            rest -= sine * row
    return -1
