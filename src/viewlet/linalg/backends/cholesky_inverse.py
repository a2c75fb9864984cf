"""The inverse of a symmetric positive definite matrix, kept as a Cholesky factor: M = R'R, and W X solves R'R Y = X.

It is more accurate than an inverse that follows by Woodbury's formula, whose errors multiply: a rotation of the factor
is exact for a matrix that differs from M by rounding, however close to singular M is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.linalg import cholesky

Floats = npt.NDArray[Any]

NOISE = 16.0
"""Rounding errors, for each root of the size, below which what is left of a column beside the others counts as zero."""


class CholeskyInverse:
    """W = M⁻¹, which is never formed unless it is read as a whole."""

    def __init__(self, upper: Floats) -> None:
        self.upper = upper

    @classmethod
    def of(cls, system: Floats) -> CholeskyInverse:
        """The inverse of a matrix; `numpy.linalg.LinAlgError` if that is not positive definite, up to rounding."""
        upper = cholesky.factor(system)
        noise = NOISE * len(system) ** 0.5 * np.finfo(upper.dtype).eps * np.diagonal(system)
        if not (np.diagonal(upper) ** 2 > noise).all():
            raise np.linalg.LinAlgError("what is left of a column beside the earlier ones is rounding")
        return cls(upper)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        rows, columns = self.upper.shape
        return rows, columns

    @property
    def dtype(self) -> Any:
        """The type of the numbers."""
        return self.upper.dtype

    @property
    def T(self) -> CholeskyInverse:  # noqa: N802
        """It is symmetric."""
        return self

    def __matmul__(self, right: Floats) -> Floats:
        return cholesky.solve(self.upper, right)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return self.toarray().astype(dtype or self.dtype)

    def astype(self, dtype: Any) -> CholeskyInverse:
        """This inverse with numbers of another type."""
        return CholeskyInverse(self.upper.astype(dtype))

    def toarray(self) -> Floats:
        """All entries."""
        found = cholesky.solve(self.upper, np.eye(len(self.upper), dtype=self.dtype))
        return (found + found.T) / 2

    def scaled(self, factor: float) -> CholeskyInverse | None:
        """The inverse of M / c is c W; None if c is not positive."""
        return CholeskyInverse(self.upper / self.dtype.type(factor**0.5)) if factor > 0 else None

    def follow(self, left: Floats, right: Floats) -> None:
        """The inverse after M += U V', which is symmetric; `numpy.linalg.LinAlgError` if a difference costs half of the
        digits, or leaves nothing that is positive definite."""
        vectors, signs, _ = cholesky.signed_vectors(left, right)
        upper = self.upper.copy()
        cholesky.change(upper, vectors, signs, float(np.finfo(self.dtype).eps) ** 0.5)
        self.upper = upper
