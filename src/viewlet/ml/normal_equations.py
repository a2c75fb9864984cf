"""Least squares from sums and products: the normal equations, solved at once or by descending their gradient.

    minimise  |y - X w - b|² + alpha |w|²       (C + alpha I) w = c,   b = mean(y) - mean(X) w

with C = XᵀX and c = Xᵀy of centred columns, which follow from the sums and products that cofactors have. Columns and
label may be taken less numbers near their values, their origins: then b is the prediction at these, less that of the
label, and loses no digits to large means.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from viewlet.linalg.errors import LinAlgWarning
from viewlet.ml.estimator import Floats
from viewlet.rings.cofactor_table import CofactorTable

EPSILON = float(np.finfo(np.float64).eps)
SLACK = 64.0
"""A centred product below this many rounding errors of the largest product counts as zero."""
LOSS = 1e-6
"""Variances that rounding may have changed by more than this part of them are warned of."""
MOST_CANCELLED = 2.0**13
"""Weights are refused where their effects cancel each other to less than one part in this many."""
WITHOUT_ROUNDING = 2.0**49
"""Whole sums below this are exact, and a variance of zero that is computed from them is one."""


@dataclass(frozen=True, slots=True)
class NormalEquations:
    """Centred products of features and label; `squares` are the numbers whose differences those of features are.

    Means are those of columns less their origins.
    """

    count: int
    means: Floats
    label_mean: float
    gram: Floats
    cross: Floats
    label_square: float
    squares: Floats

    def residual_square(self, weights: Floats, level: float) -> float:
        """The sum of squared errors of a prediction that is `level` at the origins, computed without rows."""
        offset = self.label_mean - level - float(self.means @ weights)
        spread = self.label_square - 2 * float(weights @ self.cross) + float(weights @ self.gram @ weights)
        return max(0.0, self.count * offset * offset + spread)


def normal_equations(
    table: CofactorTable, features: Sequence[int], label: int, intercept: bool = True, origins: Floats | None = None
) -> NormalEquations:
    """The normal equations of some columns of a table and a label; without an intercept nothing is centred."""
    places = np.asarray(features, dtype=np.intp)
    means = table.means(origins) if intercept else np.zeros(len(table.sums))
    own = means[places]
    products = table.centred if intercept else table.matrix
    squares = (table.subtracted if intercept else np.diagonal(table.matrix))[places]
    gram, cross = products[np.ix_(places, places)], products[places, label]
    return NormalEquations(table.count, own, float(means[label]), gram, cross, float(products[label, label]), squares)


def warn_of_lost_digits(names: Sequence[str], variations: Floats, squares: Floats) -> None:
    """Warns of columns whose `variations` around their means are lost in the rounding of the sums of their squares.

    Fitting is correct arithmetic on such sums, but what comes of it has little to do with the rows.
    """
    exact = (squares < WITHOUT_ROUNDING) & (squares == np.rint(squares))
    lost = (EPSILON * squares > LOSS * np.maximum(variations, 0.0)) & ~(exact & (variations == 0.0))
    if lost.any():
        columns = ", ".join(repr(name) for name, is_lost in zip(names, lost, strict=True) if is_lost)
        warnings.warn(
            f"the values of {columns} vary so little beside their size that sums of squares in doubles lose it: "
            f"subtract a constant near the mean in the query, keep the cofactors with exact => true, "
            f"or leave out columns that are constant",
            LinAlgWarning,
            stacklevel=5,
        )


def solve(equations: NormalEquations, alpha: float, basis: Floats | None = None) -> tuple[Floats, int]:
    """The weights and the rank of the features; `basis` times the weights, if it is given, is what `alpha` penalises.

    Where features depend on each other and alpha is 0, of all best weights those where that has the smallest norm,
    unless so much would cancel in predictions that digits are lost.
    """
    if alpha > 0:
        system = equations.gram + alpha * _penalty(equations, basis)
        scale: Floats = 1 / np.sqrt(np.diagonal(system))
        try:
            lower = np.linalg.cholesky(system * np.outer(scale, scale))
            found: Floats = scale * np.linalg.solve(lower.T, np.linalg.solve(lower, scale * equations.cross))
            return found, len(scale)
        except np.linalg.LinAlgError:  # an alpha too small to tell dependent features apart
            if basis is not None:
                warnings.warn(
                    f"the values are so far from zero that a penalty of {alpha} on weights of their products is lost "
                    f"in rounding: subtract constants near the means in the query, or leave the penalty out",
                    LinAlgWarning,
                    stacklevel=6,
                )
    return _smallest(equations, basis)


def _penalty(equations: NormalEquations, basis: Floats | None) -> Floats:
    return np.eye(len(equations.cross)) if basis is None else basis.T @ basis


def _smallest(equations: NormalEquations, basis: Floats | None) -> tuple[Floats, int]:
    """By the eigenvectors of the correlations: scaling first makes units of measurement irrelevant to the rank."""
    variance = np.diagonal(equations.gram)
    varies = variance > SLACK * EPSILON * equations.squares
    weights = np.zeros(len(variance))
    if not varies.any():
        return weights, 0
    scale = 1 / np.sqrt(variance[varies])
    values, vectors = np.linalg.eigh(equations.gram[np.ix_(varies, varies)] * np.outer(scale, scale))
    cancelled = float(np.max(equations.squares[varies] / variance[varies]))
    kept = values > SLACK * EPSILON * len(scale) * max(1.0, cancelled)
    inside = vectors[:, kept]
    found = scale * (inside @ ((inside.T @ (scale * equations.cross[varies])) / values[kept]))
    if not kept.all():
        free, _ = np.linalg.qr(vectors[:, ~kept] * scale[:, None])  # directions that change no prediction
        own = free if basis is None else basis[:, varies] @ free
        smallest = found - free @ np.linalg.lstsq(own, found if basis is None else basis[:, varies] @ found)[0]
        if np.abs(smallest / scale).max() <= MOST_CANCELLED * np.abs(found / scale).max(initial=0.0):
            found = smallest
    weights[varies] = found
    return weights, int(kept.sum())


def descend(
    equations: NormalEquations, alpha: float, basis: Floats | None, start: Floats, tolerance: float, most: int
) -> tuple[Floats, int, bool]:
    """Batch gradient descent from given weights: the weights, the steps it took, and whether it converged.

    Columns are scaled to the same curvature, and the length of a step follows from the last one (Barzilai and Borwein).
    """
    system = equations.gram + alpha * _penalty(equations, basis)
    curvature = np.diagonal(system)
    flat = curvature <= SLACK * EPSILON * equations.squares
    scale = np.where(flat, 0.0, 1 / np.sqrt(np.where(flat, 1.0, curvature)))
    system, target = system * np.outer(scale, scale), scale * equations.cross
    weights = np.where(flat, 0.0, start * np.sqrt(np.where(flat, 0.0, curvature)))
    goal = tolerance * float(np.max(np.abs(target), initial=0.0))
    gradient = system @ weights - target
    step = 1 / max(1, len(target))
    for steps in range(most + 1):
        if float(np.max(np.abs(gradient), initial=0.0)) <= goal:
            return scale * weights, steps, True
        moved = -step * gradient
        weights = weights + moved
        change = system @ moved
        gradient = gradient + change if steps % 50 else system @ weights - target
        bend = float(moved @ change)
        step = float(moved @ moved) / bend if bend > 0 else step
    return scale * weights, most, False
