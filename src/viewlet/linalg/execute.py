"""Runs the steps of a trigger on a back end, and evaluates expressions over whole matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from viewlet.errors import InternalError
from viewlet.linalg.associate import Sizes
from viewlet.linalg.backends.cholesky_inverse import CholeskyInverse
from viewlet.linalg.backends.contract import Backend, Thin
from viewlet.linalg.bounds import Bounds
from viewlet.linalg.errors import MatrixDataError
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
    children,
    postorder,
)
from viewlet.linalg.guard import Guards, IllConditioned, norm_of
from viewlet.linalg.magnitudes import Magnitudes
from viewlet.linalg.schedule import Assign, Compute, Recompute, Step, Sweep
from viewlet.linalg.trigger import Guard
from viewlet.linalg.values import Array, Units

Put = Callable[[Array], None]
"""Writes entries of a stored matrix."""


class Executor:
    """Runs steps over the stored matrices."""

    def __init__(
        self,
        backend: Backend,
        stored: dict[Matrix, Array],
        sizes: Sizes,
        guards: Guards,
        exact: Mapping[Matrix, Put],
        pending: Pending | None = None,
        factored: frozenset[Matrix] = frozenset(),
        bounds: Bounds | None = None,
        magnitudes: Magnitudes | None = None,
    ) -> None:
        self.backend = backend
        self.stored = stored
        self.sizes = sizes
        self.guards = guards
        self.exact = exact
        self.pending = pending or Pending(0)
        self.factored = factored
        self.bounds = bounds
        self.magnitudes = magnitudes
        self.touched: set[Matrix] = set()
        """The views that were changed in place."""

    def run(
        self,
        steps: tuple[Step, ...],
        factors: Mapping[Any, Thin],
        guards: Mapping[Expression, Guard] | None = None,
    ) -> dict[Expression, Any]:
        """All steps of a trigger, with its guards; returns the values of its thin expressions."""
        values: dict[Expression, Any] = {**factors}
        if self.bounds is not None:
            self.bounds.begin(values)
        for step in steps:
            match step:
                case Compute():
                    if isinstance(step.node, Inverse):
                        self._guard(step.node, values, (guards or {}).get(step.node))
                    values[step.node] = self._compute(step.node, values)
                    if self.bounds is not None:
                        self.bounds.computed(step.node)
                case Assign():
                    values[step.variable] = self._assigned(step.body, values)
                    if self.bounds is not None:
                        self.bounds.assigned(step.variable, step.body)
                case Sweep():
                    self._sweep(step, values)
                case Recompute():
                    if self.bounds is not None:
                        self.bounds.settle()
                    self.recompute(step.statement.target, step.statement.body)
        if self.bounds is not None:
            self.bounds.settle()
        return values

    def recompute(self, target: Matrix, body: Expression) -> None:
        """Evaluates a statement over the stored matrices, as they are now."""
        if target in self.factored and isinstance(body, Inverse):
            self._factor(target, body)
            return
        values: dict[Expression, Any] = {}
        try:
            for node in postorder([body]):
                if not isinstance(node, Matrix):
                    values[node] = self._compute(node, values)
        except np.linalg.LinAlgError:
            raise MatrixDataError(f"{target.name} := {body}; has no value: the matrix is singular") from None
        self.pending.forget(target)
        self.guards.forget(target)
        stored = isinstance(body.body if isinstance(body, Transpose) else body, Matrix)
        found = self.backend.copy(self._value(body, values)) if stored else values[body]
        if not self.backend.is_finite(found):
            raise MatrixDataError(f"{target.name} := {body} is not finite: its numbers overflow")
        self.stored[target] = self.backend.array(found, copy=False)
        self._evaluated(target)
        if self.bounds is not None:
            self.bounds.recomputed(target, body, values)

    def _evaluated(self, target: Matrix) -> None:
        if self.magnitudes is not None:
            self.magnitudes.evaluated(target)

    def _factor(self, target: Matrix, body: Inverse) -> None:
        try:
            system = self.backend.numpy(self._value(body.body, {}))
            self.stored[target] = CholeskyInverse.of(system)
            self._evaluated(target)
            if self.bounds is not None:
                self.bounds.recomputed(target, body, {})
        except np.linalg.LinAlgError:
            raise MatrixDataError(
                f"{target.name} := {body}; has no value: the matrix is singular, or not positive definite"
            ) from None

    def matrix(self, node: Matrix) -> Array:
        """A stored matrix with all its updates."""
        self.pending.flush(node, self.backend, self.stored[node])
        return self.stored[node]

    # -- thin values ---------------------------------------------------------------------------------------------------

    def _value(self, node: Expression, values: Mapping[Expression, Any]) -> Any:
        if node in values:
            return values[node]
        if isinstance(node, Transpose):
            return self._flip(self._value(node.body, values))
        if isinstance(node, Matrix):
            return self.matrix(node)
        raise InternalError(f"the value of {node} is not there")

    def _assigned(self, body: Expression, values: Mapping[Expression, Any]) -> Any:
        found = self._value(body, values)
        return found if body in values else self.backend.copy(found)

    def _compute(self, node: Expression, values: Mapping[Expression, Any]) -> Any:
        parts = [self._value(child, values) for child in children(node)]
        match node:
            case Product():
                return self._multiply(*parts)
            case Sum():
                return self.backend.combine([self._term(term, values) for term in node.terms])
            case Scale():
                return self.backend.combine([(node.factor, self._dense(parts[0]))])
            case Transpose():
                return self._flip(parts[0])
            case Stack():
                return self.backend.stack([self._dense(part) for part in parts], vertical=node.vertical)
            case Identity():
                return self.backend.identity(int(node.size.at(self.sizes)))
            case Zero():
                return self.backend.zeros(int(node.rows.at(self.sizes)), int(node.columns.at(self.sizes)))
            case Inverse():
                return self.backend.invert(parts[0])
            case Recurrence():
                return self._power(parts[0], node.steps)
            case Matrix() | Named():
                raise InternalError(f"{node} has no value of its own")

    def _guard(self, node: Inverse, values: Mapping[Expression, Any], guard: Guard | None) -> None:
        """A thin inverse is that of a capacitance matrix I + R' W L."""
        smallest = self.guards.check(self._value(node.body, values))
        if guard is not None and guard.inverse not in self.factored:
            factors = self._value(guard.left, values), self._value(guard.right, values)
            self.guards.check_noise(smallest, guard.inverse, self.stored, factors, lambda: self._norm(guard.system))

    def _norm(self, node: Expression) -> float:
        return norm_of(node, self.sizes, lambda each: self.backend.norm(self.stored[each]))

    def _term(self, term: Expression, values: Mapping[Expression, Any]) -> tuple[float, Any]:
        return 1.0, self._dense(self._value(term, values))

    def _multiply(self, left: Any, right: Any) -> Any:
        if isinstance(left, _Flipped):
            right = self.backend.stack([right], vertical=False) if isinstance(right, Units) else self._dense(right)
            return self._flip(self.backend.multiply(self._flip(right), left.units))
        if isinstance(left, Units):
            return self.backend.multiply(self.backend.stack([left], vertical=False), self._dense(right))
        return self.backend.multiply(left, right if isinstance(right, Units) else self._dense(right))

    def _dense(self, value: Any) -> Any:
        if isinstance(value, _Flipped):
            return self._flip(self.backend.stack([value.units], vertical=False))
        return value

    def _flip(self, value: Any) -> Any:
        if isinstance(value, Units):
            return _Flipped(value)
        return value.units if isinstance(value, _Flipped) else value.T

    def _power(self, base: Any, steps: int) -> Any:
        """A^k by repeated squaring."""
        total: Any = None
        while steps:
            if steps & 1:
                total = base if total is None else self.backend.multiply(total, base)
            steps >>= 1
            if steps:
                base = self.backend.multiply(base, base)
        return total

    # -- passes over matrices ------------------------------------------------------------------------------------------

    def _sweep(self, step: Sweep, values: dict[Expression, Any]) -> None:
        ahead = [read for read in step.reads if not read.transposed]
        behind = [read for read in step.reads if read.transposed]
        update: tuple[Any, Any] | None = None
        if step.update is not None:
            left, right = (self._value(part, values) for part in (step.update.left, step.update.right))
            update = self._dense(left), self._dense(right)
        forward, backward = self._operand(ahead, values), self._operand(behind, values)
        if self.bounds is not None and step.update is not None and update is not None:
            self.bounds.announced(step.update, *update)
        if update is not None and not step.matrix.dynamic and step.matrix not in self.factored:
            self.touched.add(step.matrix)
        try:
            found = self._pass(step.matrix, update, forward, backward)
        except np.linalg.LinAlgError:
            raise IllConditioned(math.inf) from None
        if update is not None and step.matrix in self.exact:
            self.exact[step.matrix](self.stored[step.matrix])
        if update is not None and self.magnitudes is not None and step.update is not None:
            self.magnitudes.added(step.matrix, *update, step.update.factor_of)
        outcome: Any
        for reads, outcome in zip((ahead, behind), found, strict=True):
            first = 0
            for read in reads:
                width = self._width(read.operand, read.flipped)
                part = outcome if len(reads) == 1 else outcome[:, first : first + width]
                values[read.node] = self._flip(part) if read.flipped else part
                first += width
                if self.bounds is not None:
                    self.bounds.computed(read.node)
        if self.bounds is not None and step.update is not None and update is not None:
            self.bounds.updated(step.update, *update, is_exact=step.matrix in self.exact)

    def _pass(self, each: Matrix, update: Any, forward: Any, backward: Any) -> tuple[Any, Any]:
        if each.dynamic or not self.pending.cap or each in self.factored:
            return self.backend.sweep(self.stored[each], update, forward, backward)
        return self.pending.sweep(each, self.backend, self.stored[each], update, forward, backward)

    def _operand(self, reads: list[Any], values: Mapping[Expression, Any]) -> Any:
        if not reads:
            return None
        parts = []
        for read in reads:
            value = self._value(read.operand, values)
            value = self._flip(value) if read.flipped else value
            parts.append(value if isinstance(value, Units) else self._dense(value))
        return parts[0] if len(parts) == 1 else self.backend.stack(parts, vertical=False)

    def _width(self, operand: Expression, flipped: bool) -> int:
        return int(operand.shape[0 if flipped else 1].at(self.sizes))


class Pending:
    """Deferred updates: a view is its stored matrix plus factors, added on reading or when there are `cap` of them.

    Until then a step reads the matrix and does not write it.
    """

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.factors: dict[Matrix, tuple[Any, Any]] = {}

    def sweep(
        self, each: Matrix, backend: Backend, stored: Array, update: Any, forward: Any, backward: Any
    ) -> tuple[Any, Any]:
        """The pass of a back end, with the factors that wait: (P + L R') X = P X + L (R' X)."""
        ahead, behind = (
            backend.sweep(stored, None, forward, backward)
            if (forward is not None or backward is not None)
            else (None, None)
        )
        if each in self.factors:
            left, right = self.factors[each]
            if ahead is not None:
                ahead = backend.combine(
                    [(1.0, ahead), (1.0, backend.multiply(left, backend.multiply(right.T, forward)))]
                )
            if behind is not None:
                own = backend.multiply(right, backend.multiply(left.T, backward))
                behind = backend.combine([(1.0, behind), (1.0, own)])
        if update is not None:
            self._add(each, backend, *update)
            if self.factors[each][0].shape[1] >= self.cap:
                self.flush(each, backend, stored)
        return ahead, behind

    def flush(self, each: Matrix, backend: Backend, stored: Array) -> None:
        """Adds the factors that wait to the matrix."""
        if each in self.factors:
            backend.sweep(stored, self.factors.pop(each), None, None)

    def forget(self, each: Matrix) -> None:
        """Leaves out the factors of a view that is computed again."""
        self.factors.pop(each, None)

    def _add(self, each: Matrix, backend: Backend, left: Any, right: Any) -> None:
        known = self.factors.get(each)
        parts = [[part] for part in (left, right)] if known is None else [[known[0], left], [known[1], right]]
        self.factors[each] = tuple(backend.stack(part, vertical=False) for part in parts)


class _Flipped:
    """Transposed unit vectors."""

    __slots__ = ("units",)

    def __init__(self, units: Units) -> None:
        self.units = units

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        rows, columns = self.units.shape
        return columns, rows
