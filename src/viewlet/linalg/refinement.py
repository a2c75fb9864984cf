"""Iterative refinement of the solutions of systems, X = M⁻¹ B, over the definitions of M and B.

    R = B - M X      through the definitions over the inputs, in extended precision
    X := X + M⁻¹ R   with the inverse that is kept, or its Cholesky factor

For least squares, M X is X'(X b): nothing that has lost digits in X'X is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.linalg.errors import ProgramError
from viewlet.linalg.expression import Expression, Inverse, Matrix, Product, identity
from viewlet.linalg.trust import Audit
from viewlet.linalg.values import frobenius

STEPS = 10
"""The most steps; one that does not halve the correction is the last."""


def refined(audit: Audit, view: Matrix) -> tuple[Any, int]:
    """A more accurate value of a view that solves a system, and the number of steps."""
    inverse, system, right = _parts(audit, view)
    known = np.asarray(audit.stored[view], np.longdouble)
    wanted = audit.apply(right, np.eye(known.shape[1], dtype=np.longdouble))
    size = float("inf")
    for step in range(1, STEPS + 1):
        residual = (wanted - audit.apply(system, known)).astype(np.float64)
        correction = audit.stored[inverse].astype(np.float64) @ residual
        length = frobenius(correction)
        if not length < size / 2:
            return known.astype(np.float64), step
        known, size = known + correction, length
    return known.astype(np.float64), STEPS


def _parts(audit: Audit, view: Matrix) -> tuple[Matrix, Expression, Expression]:
    """The inverse, the matrix that it is of, and the right-hand side."""
    body = audit.bodies.get(view)
    if isinstance(body, Inverse):
        return view, body.body, identity(view.rows)
    if isinstance(body, Product) and isinstance(body.left, Matrix):
        inner = audit.bodies.get(body.left)
        if isinstance(inner, Inverse):
            return body.left, inner.body, body.right
    raise ProgramError(f"{view.name} is not the solution of a system, such as solve(M, B): there is nothing to refine")
