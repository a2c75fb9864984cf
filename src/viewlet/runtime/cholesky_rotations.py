"""R'R ± x x' = S'S: makes an upper triangular factor R the factor S, by rotations of its rows, in one pass over R.

A row of R and what is left of every x are rotated until x has a zero in the column of the diagonal. Rotations of sums
are orthogonal, those of differences hyperbolic, in the mixed form, where the new row is computed first and x from it
(Bojanczyk, Brent, van Dooren and de Hoog, *A note on downdating the Cholesky factorization*).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.jit import entry


@entry
def rotate_rows(upper: Any, vectors: Any, signs: Any, least: float) -> int:
    """Adds and subtracts vectors, the rows of `vectors`, which are overwritten; -1 if all went well.

    Where the square of a diagonal entry would shrink by more than the factor `least`, it stops and says at which row;
    the factor is then of no use.
    """
    size = upper.shape[0]
    for k in range(size):
        for which in range(vectors.shape[0]):
            sign = signs[which]
            old = upper[k, k]
            head = vectors[which, k]
            square = old * old + sign * head * head
            if not square > least * old * old:
                return k
            new = np.sqrt(square)
            cosine, sine = new / old, head / old
            pull, inverse = sign * sine, old / new
            upper[k, k] = new
            for j in range(k + 1, size):
                value = (upper[k, j] + pull * vectors[which, j]) * inverse
                upper[k, j] = value
                vectors[which, j] = cosine * vectors[which, j] - sine * value
    return -1
