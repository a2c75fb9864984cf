"""Bounds of errors, accumulated with every update from norms alone: `start(bounds=True)`.

    thin values     products, sums and inverses of factors: how rounding and errors of operands spread
    P += U V'       error of P + errors of U and V + rounding
    W = M⁻¹         how far W⁻¹ is from M: Woodbury's formula, exactly applied, leaves that as it is, and only the
                    rounding of a step is added; W is then off by at most |W|² e / (1 - |W| e)
    chol(M)         how far R'R is from M; rotations add rounding
    inputs          A += u v' is rounded as well, and views are views of what A is then: a change that no trigger saw

All norms are Frobenius norms. Bounds hold whatever the numbers are and may become infinite; they cost little beside an
update of large matrices. Rounding is bounded by γ_k = k ε / (1 - k ε) (Higham, *Accuracy and Stability*, 3.1 and 10.1),
that of rotations by 6 n^1.5 ε (Bojanczyk, Brent, van Dooren and de Hoog).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.errors import InternalError
from viewlet.linalg.associate import Sizes
from viewlet.linalg.backends.cholesky_inverse import CholeskyInverse
from viewlet.linalg.backends.sparse_matrix import SparseMatrix
from viewlet.linalg.cholesky import signed_vectors
from viewlet.linalg.expression import (
    Expression,
    Identity,
    Inverse,
    Matrix,
    Named,
    Product,
    Recurrence,
    Scale,
    Stack,
    Sum,
    Transpose,
    Zero,
    identity,
    matrices,
    postorder,
    shape,
)
from viewlet.linalg.program import Statements
from viewlet.linalg.trigger import Update
from viewlet.linalg.values import Units, dense, frobenius

REMEASURED = 16
"""Updates of a matrix after which its norm is measured; until then the norms of its changes are added."""


@dataclass(frozen=True, slots=True)
class NormBound:
    """An upper bound of the norm of a computed matrix, and of its distance from the exact one."""

    norm: float
    error: float = 0.0


class Bounds:
    """The bounds of all matrices of a run; an executor tells it of every step."""

    def __init__(
        self, source: Statements, stored: Mapping[Matrix, Any], sizes: Callable[[], Sizes], unit: float
    ) -> None:
        self._source = source
        self._stored = stored
        self._bodies = {statement.target: statement.body for statement in source.views}
        self._sizes = sizes
        self._unit = unit
        self._norms: dict[Matrix, float] = {}
        self._errors: dict[Matrix, float] = dict.fromkeys(source.inputs, 0.0)
        self._distances: dict[Matrix, float] = {}
        """Of inverses: how far the inverse of the view is from the matrix."""
        self._ages: dict[Matrix, int] = {}
        self._values: Mapping[Expression, Any] = {}
        """What the expressions of a trigger are."""
        self._thin: dict[Expression, NormBound] = {}
        self._definitions: dict[Expression, Expression] = {}
        """The bodies of the variables of a trigger."""
        self._grown = 0.0
        """The norm of the change of an inverse whose factor is about to be rotated."""
        self._rounded: dict[Matrix, float] = {}
        """Of inputs: how far their change may be from its factors."""

    def bound(self, view: Matrix) -> float:
        """How far a matrix may be from its definition over the inputs as they are."""
        if isinstance(self._bodies.get(view), Inverse):
            return _moved_inverse(self._norms[view], self._distances[view])
        return self._errors[view]

    def measure(self, each: Matrix) -> None:
        """The norm of a stored matrix; of a Cholesky factor, that of the inverse."""
        array = self._stored[each]
        self._norms[each] = _inverse_norm(array, self._unit) if isinstance(array, CholeskyInverse) else _norm(array)
        self._ages[each] = 0

    # -- the steps of a trigger ----------------------------------------------------------------------------------------

    def begin(self, values: Mapping[Expression, Any]) -> None:
        """An update whose factors are what they are; `values` is filled by its steps."""
        self._values = values
        self._thin = {variable: NormBound(_norm(factor)) for variable, factor in values.items()}
        self._definitions = {}
        self._rounded = {}
        for each in self._source.inputs:
            if each not in self._norms or self._ages[each] >= REMEASURED:
                self.measure(each)

    def assigned(self, variable: Expression, body: Expression) -> None:
        """A variable holds what an expression is."""
        self._definitions[variable] = body
        self._thin[variable] = self._of(body)

    def computed(self, node: Expression) -> None:
        """A thin expression was computed from values that are there."""
        self._thin[node] = self._node(node, _norm(self._values[node]), self._of)

    def announced(self, update: Update, left: Any, right: Any) -> None:
        """A matrix is about to get a change."""
        if update.factor_of is not None:
            self._grown = self._inverse_change(update.view, dense(left), dense(right))

    def updated(self, update: Update, left: Any, right: Any, *, is_exact: bool) -> None:
        """A matrix has got a change; an input whose numbers were put into place is exact."""
        view, first, second = update.view, self._of(update.left), self._of(update.right)
        size = first.norm * second.norm
        rounding = self._gamma(update.rank.at(self._sizes()) + 1) * (self._norms[view] + size)
        body = self._bodies.get(view)
        if body is None:
            by_rows = isinstance(left, Units) or isinstance(right, Units)
            self._rounded[view] = 2 * self._unit * size if by_rows and is_exact else rounding
        elif update.factor_of is not None:
            self._follow_factor(view, left, right, _spread(first, second))
            return
        elif isinstance(body, Inverse):
            self._follow_inverse(view, body, update, rounding)
        else:
            self._errors[view] += _spread(first, second) + rounding
        self._norms[view] += size
        self._ages[view] += 1

    def settle(self) -> None:
        """Before views are recomputed: what the rounding of inputs does to all views."""
        changed = dict(self._rounded)
        self._rounded = {}
        if not any(changed.values()):
            return
        for statement in self._source.views:
            view, body = statement.target, statement.body
            if not matrices(body) & changed.keys():
                continue
            inner = body.body if isinstance(body, Inverse) else body
            _, moved = self._moved(inner, changed)
            if isinstance(body, Inverse):
                before = self.bound(view)
                self._distances[view] += moved
                changed[view] = self.bound(view) + before
            else:
                self._errors[view] += moved
                changed[view] = moved

    def recomputed(self, view: Matrix, body: Expression, values: Mapping[Expression, Any]) -> None:
        """A view was evaluated over the stored matrices; `values` has what its expression was computed from."""
        self._values, self._thin = values, {}
        for each in matrices(body) | {view}:
            if each is view or each not in self._bodies or self._ages.get(each, REMEASURED) >= REMEASURED:
                self.measure(each)
        if isinstance(body, Inverse):
            self._distances[view] = self._residual(_whole(self._value(body.body)), self._stored[view])
            self._distances[view] += self._of(body.body).error
            return
        for node in postorder([body]):
            if not isinstance(node, Matrix):
                self.computed(node)
        error = self._of(body).error
        if isinstance(body, Matrix) and body in self._source.factored:
            error += self._solve_error(body) * self._norms[view]
        self._errors[view] = error + self._unit * self._norms[view]

    def symmetrised(self, view: Matrix) -> None:
        """A view is about to be made equal to its transpose, which does not move it away from one that is symmetric."""
        array = self._stored[view]
        if isinstance(body := self._bodies.get(view), Inverse):
            change = _norm(array - array.T) / 2 + self._unit * self._norms[view]
            self._distances[view] += _moved_inverse(self._size_of(body, view), change)
        else:
            self._errors[view] += self._unit * self._norms[view]

    def replace(self, errors: Mapping[Matrix, float]) -> None:
        """Takes over bounds that were found otherwise."""
        for each in self._stored:
            self.measure(each)
        for view, body in self._bodies.items():
            if isinstance(body, Inverse):
                self._distances[view] = _moved_inverse(self._size_of(body, view, 0.0), errors[view])
            else:
                self._errors[view] = errors[view]

    # -- how errors spread ---------------------------------------------------------------------------------------------

    def _of(self, node: Expression) -> NormBound:
        if node in self._thin:
            return self._thin[node]
        if isinstance(node, Transpose):
            return self._of(node.body)
        if isinstance(node, Matrix):
            return NormBound(self._norms[node], self.bound(node))
        if isinstance(node, Identity | Zero):
            return self._node(node, 0.0, self._of)
        raise InternalError(f"the bound of {node} is not there")

    def _value(self, node: Expression) -> Any:
        return self._values[node] if node in self._values else self._stored[node]  # type: ignore[index]

    def _node(self, node: Expression, norm: float, of: Callable[[Expression], NormBound]) -> NormBound:
        """The bound of a computed node, which has this norm, from those of its operands."""
        match node:
            case Matrix() | Named():
                raise InternalError(f"{node} is not computed")
            case Identity():
                return NormBound(math.sqrt(node.size.at(self._sizes())))
            case Zero():
                return NormBound(0.0)
            case Scale():
                return NormBound(norm, abs(node.factor) * of(node.body).error + self._unit * norm)
            case Sum():
                parts = [of(term) for term in node.terms]
                rounding = self._gamma(len(parts)) * sum(part.norm for part in parts)
                return NormBound(norm, rounding + sum(part.error for part in parts))
            case Transpose():
                return of(node.body)
            case Stack():
                return NormBound(norm, math.hypot(*(of(block).error for block in node.blocks)))
            case Product():
                return self._product(node, norm, of)
            case Recurrence():
                base = of(node.operands[0])
                return NormBound(norm, self._power(base, node.steps, shape(node)[0].at(self._sizes())))
            case Inverse():
                return NormBound(norm, self._small_inverse(of(node.body), self._value(node.body), self._value(node)))

    def _product(self, node: Product, norm: float, of: Callable[[Expression], NormBound]) -> NormBound:
        first, second = of(node.left), of(node.right)
        spread = _spread(first, second)
        for part in (node.left, node.right):
            bare = _bare(part)
            if isinstance(bare, Matrix) and bare in self._source.factored:
                return NormBound(norm, spread + self._solve_error(bare) * norm)
        inner = shape(node.left)[1].at(self._sizes())
        return NormBound(norm, spread + self._gamma(inner) * first.norm * second.norm)

    def _solve_error(self, view: Matrix) -> float:
        """How far the solution of a system with a factor may be off by rounding, relative to itself."""
        upper = self._stored[view].upper
        return self._gamma(3 * len(upper) + 1) * self._norms[view] * _norm(upper) * _norm(upper)

    def _power(self, base: NormBound, steps: int, inner: float) -> float:
        try:
            exact = (base.norm + base.error) ** steps
            return exact - base.norm**steps + exact * math.expm1(steps * math.log1p(self._gamma(inner)))
        except OverflowError:
            return math.inf

    def _small_inverse(self, body: NormBound, value: Any, inverse: Any) -> float:
        size = _norm(inverse)
        residual = _norm(np.eye(len(value)) - value @ inverse)
        residual += (self._gamma(len(value) + 2) * _norm(value) + body.error) * size
        return _ratio(size * residual, residual)

    def _residual(self, system: Any, inverse: Any) -> float:
        """How far the inverse of a computed inverse is from the matrix; of a factor, how far R'R is."""
        count = len(system)
        if isinstance(inverse, CholeskyInverse):
            upper = inverse.upper
            rounding = self._gamma(count + 1) * (_square(_norm(upper)) + _norm(system))
            return _norm(upper.T @ upper - system) + rounding
        residual = _norm(np.eye(count) - system @ inverse)
        residual += self._gamma(count + 2) * (_norm(system) * _norm(inverse) + math.sqrt(count))
        return _ratio(residual * _norm(system), residual)

    # -- inverses ------------------------------------------------------------------------------------------------------

    def _size_of(self, body: Inverse, view: Matrix, distance: float | None = None) -> float:
        """The norm of the inverse of a view, which is close to the matrix."""
        system = self._of(body.body)
        return system.norm + system.error + (self._distances[view] if distance is None else distance)

    def _follow_inverse(self, view: Matrix, body: Inverse, update: Update, rounding: float) -> None:
        """Woodbury's formula with the view and the change as they are: what the step itself has rounded."""
        lefts: list[Expression] = []
        rights: list[Expression] = []
        own = _spread(self._local(update.left, view, lefts), self._local(update.right, view, rights)) + rounding
        change = max((_spread(self._of(u), self._of(v)) for u in lefts for v in rights), default=math.inf)
        self._distances[view] += change + _moved_inverse(self._size_of(body, view), own)

    def _local(self, node: Expression, view: Matrix, operands: list[Expression]) -> NormBound:
        """The bound of a value, with the view and all that does not depend on it taken as exact.

        `operands` collects the factors of the change of the matrix: what the view is multiplied with.
        """
        if node in self._definitions:
            return self._local(self._definitions[node], view, operands)
        if not self._depends(node, view):
            return NormBound(self._of(node).norm)
        if _bare(node) is view:
            operands.append(identity(view.rows))
            return NormBound(self._norms[view])
        if isinstance(node, Product) and view in (_bare(node.left), _bare(node.right)):
            operand = node.right if _bare(node.left) is view else node.left
            operands.append(operand)
            size = self._norms[view] * self._of(operand).norm
            return NormBound(self._of(node).norm, self._gamma(view.rows.at(self._sizes())) * size)
        return self._node(node, self._of(node).norm, lambda part: self._local(part, view, operands))

    def _depends(self, node: Expression, view: Matrix) -> bool:
        return any(
            each is view or (each in self._definitions and self._depends(self._definitions[each], view))
            for each in matrices(node)
        )

    def _follow_factor(self, view: Matrix, left: Any, right: Any, spread: float) -> None:
        """R'R ± x x': rounding of the rotations and of the vectors, and how much larger the inverse may get."""
        factor: CholeskyInverse = self._stored[view]
        first, second = (dense(part).astype(np.float64) for part in (left, right))
        _, signs, skew = signed_vectors(first, second)
        count, size = len(factor.upper), _norm(first) * _norm(second)
        rotation = len(signs) * 6 * count**1.5 * self._unit * (_square(_norm(factor.upper)) + size)
        vectors = self._gamma(16 * (count + len(signs))) * size + skew * size
        self._distances[view] += spread + rotation + vectors
        if (signs < 0).any():
            self._norms[view] += self._grown
        moved = rotation + vectors
        self._norms[view] = _ratio(self._norms[view], self._norms[view] * moved)

    def _inverse_change(self, view: Matrix, left: Any, right: Any) -> float:
        """The norm of the change of the inverse, by Woodbury's formula."""
        factor: CholeskyInverse = self._stored[view]
        ahead, behind = (factor @ part.astype(factor.dtype) for part in (left, right))
        off = self._solve_error(view)
        first, second = (NormBound(_norm(part), off * _norm(part)) for part in (ahead, behind))
        capacitance = np.eye(left.shape[1]) + right.T @ ahead
        rounding = self._gamma(len(left) + 1) * (1 + _norm(right) * first.norm)
        given = NormBound(_norm(capacitance), _spread(NormBound(_norm(right)), first) + rounding)
        try:
            inverse = np.linalg.inv(capacitance)
        except np.linalg.LinAlgError:
            return math.inf
        size = _norm(inverse) + self._small_inverse(given, capacitance, inverse)
        return (first.norm + first.error) * size * (second.norm + second.error)

    # -- changes that no trigger saw -----------------------------------------------------------------------------------

    def _moved(self, body: Expression, changed: Mapping[Matrix, float]) -> tuple[float, float]:
        """The norm of an expression, and how far it moves where matrices move so far."""
        done: dict[Expression, tuple[float, float]] = {}
        for node in postorder([body]):
            done[node] = self._moved_node(node, changed, done)
        return done[body]

    def _moved_node(
        self, node: Expression, changed: Mapping[Matrix, float], done: Mapping[Expression, tuple[float, float]]
    ) -> tuple[float, float]:
        match node:
            case Matrix():
                known = self._of(node)
                return known.norm + known.error, changed.get(node, 0.0)
            case Identity() | Zero():
                return self._of(node).norm, 0.0
            case Scale():
                size, moved = done[node.body]
                return abs(node.factor) * size, abs(node.factor) * moved
            case Transpose() | Named():
                return done[node.body]
            case Sum() | Stack():
                parts = [done[part] for part in (node.terms if isinstance(node, Sum) else node.blocks)]
                return sum(size for size, _ in parts), sum(moved for _, moved in parts)
            case Product():
                (first, one), (second, other) = done[node.left], done[node.right]
                return first * second, one * second + first * other + one * other
            case Recurrence():
                size, moved = done[node.operands[0]]
                return self._power_moved(size, moved, node.steps)
            case Inverse():
                raise InternalError(f"{node} is a statement of its own")

    def _power_moved(self, size: float, moved: float, steps: int) -> tuple[float, float]:
        try:
            return size**steps, steps * moved * (size + moved) ** (steps - 1)
        except OverflowError:
            return math.inf, math.inf

    def _gamma(self, count: float) -> float:
        return _ratio((count + 2) * self._unit, (count + 2) * self._unit)


def _spread(left: NormBound, right: NormBound) -> float:
    """(L + δ)(R + η)' - L R' from the computed L + δ and R + η: |δ| |R| + |L| |η| + |δ| |η|."""
    first = left.error * right.norm if left.error else 0.0
    second = left.norm * right.error if right.error else 0.0
    return (first + second + (left.error * right.error if first and second else 0.0)) * (1 + 1e-12)


def _moved_inverse(size: float, change: float) -> float:
    """How far W⁻¹ moves, which has this norm, where W does: |W⁻¹|² δ / (1 - |W⁻¹| δ)."""
    return _ratio(size * (size * change), size * change)  # in an order that overflows only with the result


def _ratio(value: float, share: float) -> float:
    """value / (1 - share), infinite where there is nothing left."""
    return value / (1 - share) * (1 + 1e-12) if share < 1 else math.inf


def _square(size: float) -> float:
    """Infinite where `size ** 2` would raise."""
    return size * size


def _inverse_norm(factor: CholeskyInverse, unit: float) -> float:
    """An upper bound of the norm of (R'R)⁻¹ from a computed inverse of R."""
    upper = factor.upper.astype(np.float64)
    inverse = np.linalg.inv(upper)
    residual = _norm(np.eye(len(upper)) - upper @ inverse)
    residual += (len(upper) + 2) * unit * _norm(upper) * _norm(inverse)
    return _square(_ratio(_norm(inverse), residual)) if residual < 1 else math.inf


def _bare(node: Expression) -> Expression:
    return node.body if isinstance(node, Transpose) else node


def _whole(value: Any) -> Any:
    return value.toarray() if isinstance(value, SparseMatrix) else value


def _norm(value: Any) -> float:
    """An upper bound of the Frobenius norm."""
    units = getattr(value, "units", value)
    if isinstance(units, Units):
        return math.sqrt(len(units.places)) * (1 + 1e-12)
    entries = value.value.data if isinstance(value, SparseMatrix) else value
    return frobenius(np.asarray(entries, np.float64)) * (1 + 1e-10)
