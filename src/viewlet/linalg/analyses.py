"""Analyses as expressions, which a program keeps up to date: least squares, gradient descent, chains, exponentials.

>>> from viewlet import linalg
>>> from viewlet.linalg.analyses import ridge
>>> m, n = linalg.dim("m"), linalg.dim("n")
>>> X, y = linalg.matrix("X", m, n, dynamic=True), linalg.matrix("y", m, 1, dynamic=True)
>>> print(linalg.program(beta=ridge(X, y, alpha=0.5)))
input X(m, n);
input y(m, 1);
M := X' * X + 0.5 * I(n);
W := inv(M);
beta := W * (X' * y);
output beta;
"""

from __future__ import annotations

import math

from viewlet.linalg.errors import ProgramError, ShapeError
from viewlet.linalg.expression import Expression, add, identity, product, scale, shape, solve, transpose
from viewlet.linalg.recurrences import iterate, matrix_power, power_sum
from viewlet.visible import described


def least_squares(x: Expression, y: Expression) -> Expression:
    """The weights with the smallest squared error: (X'X)⁻¹ X'Y."""
    return solve(product(transpose(x), x), product(transpose(x), y))


def ridge(x: Expression, y: Expression, *, alpha: float) -> Expression:
    """Least squares with a penalty alpha on squared weights: (X'X + alpha I)⁻¹ X'Y."""
    gram = add((product(transpose(x), x), scale(_positive(alpha, "alpha"), identity(shape(x)[1]))))
    return solve(gram, product(transpose(x), y))


def gradient_descent(
    x: Expression, y: Expression, start: Expression, *, rate: float, steps: int, model: str = "auto"
) -> Expression:
    """Weights after some steps of batch gradient descent, w := w - rate X'(X w - Y)."""
    rate = _positive(rate, "rate")
    step = add((identity(shape(x)[1]), scale(-rate, product(transpose(x), x))))
    return iterate(step, scale(rate, product(transpose(x), y)), start, steps=steps, model=model)


def stationary_iteration(
    system: Expression,
    right: Expression,
    start: Expression,
    *,
    steps: int,
    rate: float = 1.0,
    preconditioner: Expression | None = None,
    model: str = "auto",
) -> Expression:
    """An iterative solver of `system @ x = right`: steps of x := x + rate P (right - system x).

    Without a preconditioner P that is Richardson's iteration; with the inverse of the diagonal of the system it is
    Jacobi's, with that of its lower triangle Gauss and Seidel's.
    """
    rate = _positive(rate, "rate")
    scaled, load = (
        (system, right) if preconditioner is None else (product(preconditioner, each) for each in (system, right))
    )
    step = add((identity(shape(system)[1]), scale(-rate, scaled)))
    return iterate(step, scale(rate, load), start, steps=steps, model=model)


def markov_chain(transitions: Expression, start: Expression, *, steps: int, model: str = "auto") -> Expression:
    """The distribution over states after some steps; rows of `transitions` add up to one, `start` is a column."""
    return iterate(transpose(transitions), None, start, steps=steps, model=model)


def power_iteration(matrix: Expression, start: Expression, *, steps: int, model: str = "auto") -> Expression:
    """A^k x, whose direction tends to the dominant eigenvector; scale it when you read it."""
    return iterate(matrix, None, start, steps=steps, model=model)


def path_counts(edges: Expression, *, steps: int, model: str = "auto") -> Expression:
    """The number of paths of at most so many steps between any two nodes; exact while counts stay below 2^53.

    An entry that is not zero says that one node reaches the other. Larger counts are exact modulo a number on the back
    end `linalg.ModularBackend`.
    """
    return power_sum(edges, steps + 1, model=model)


def expm(matrix: Expression, *, terms: int = 12, squarings: int = 4) -> Expression:
    """The exponential of a matrix by scaling and squaring: (Taylor polynomial of A / 2^s)^(2^s).

    The relative error is about |A / 2^s|^(terms + 1) / (terms + 1)! where |A / 2^s| is at most one.
    """
    rows, columns = shape(matrix)
    if rows != columns:
        raise ShapeError(f"only a square matrix has an exponential, and {matrix} is {rows} × {columns}")
    if terms < 1 or squarings < 0:
        raise ProgramError("expm takes at least one term, and a number of squarings that is not negative")
    small = scale(2.0**-squarings, matrix)
    total = identity(rows)
    for term in range(terms, 0, -1):
        total = add((identity(rows), product(scale(1.0 / term, small), total)))
    return matrix_power(total, 2**squarings, model="exponential") if squarings else total


def _positive(value: float, name: str) -> float:
    if not (isinstance(value, int | float) and value > 0 and math.isfinite(value)):
        raise ProgramError(f"{name} is a positive number, not {described(value)}")
    return float(value)
