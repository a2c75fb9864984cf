"""How far a view is from its definition in exact arithmetic: a bound that holds, and an estimate that is quick.

    bound      recomputes every statement, and adds up how far the views are from that, how much rounding the
               recomputation may have, and how errors of the operands spread. Always true; costs an evaluation.
    estimate   applies the whole definition to a few random vectors, which takes thin products only, and compares with
               the view applied to them. Too small with a probability of at most `failure`.

What the definition gives has rounding errors itself, which an inverse in it makes larger. They are sampled: beside
every vector another one is carried through the definition, to which each product adds random numbers as large as its
rounding may be. Where these samples are larger than the difference, the estimate is made again in extended precision;
where a system cannot be solved, it is infinite.

Both are Frobenius norms. Rounding is bounded by γ_k = k ε / (1 - k ε) (Higham, *Accuracy and Stability*, 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.linalg.associate import Sizes
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
    postorder,
    shape,
    transpose,
)
from viewlet.linalg.program import Statements
from viewlet.linalg.values import frobenius

PROBES = 8
MARGIN = 10.0
"""The estimate is this many times the root of the mean square over the probes."""
FAILURE = (math.e / MARGIN**2) ** (PROBES / 2)
"""The chance that all probes of an error of rank one, the worst case, are so short: the tail of a χ² distribution."""
REFINEMENTS = 40
STALLED = 0.9
"""A correction of a solution is the last one if the next would not be this much smaller."""
DOUBTFUL = 3.0
"""Rounding that is this many times the difference that was found is looked at in extended precision."""
UNSURE = 1e-3
"""A system whose condition leaves less than this part of a solution to rounding can be solved."""
EXTENDED = 1 << 17
"""The most entries of all matrices for that."""


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """The distance of a view from its exact value, as Frobenius norms, beside the norm of the view itself."""

    bound: float
    estimate: float
    failure: float
    norm: float

    @property
    def relative_bound(self) -> float:
        """The bound, relative to the view."""
        return self.bound / self.norm if self.norm else math.inf

    @property
    def relative_estimate(self) -> float:
        """The estimate, relative to the view."""
        return self.estimate / self.norm if self.norm else math.inf


class Audit:
    """Looks at the stored matrices of a run, as NumPy arrays; inputs are what they are."""

    def __init__(
        self, source: Statements, stored: Mapping[Matrix, Any], sizes: Sizes, kind: type[np.floating[Any]] = np.float64
    ) -> None:
        self._source = source
        self.bodies = {statement.target: statement.body for statement in source.views}
        self.stored = stored
        self.sizes = sizes
        self.kind = kind
        """The type that definitions are applied to vectors in."""
        self._bounds: dict[Matrix, float] = {}
        self._norms: dict[Matrix, float] = {}
        self._random: np.random.Generator | None = None
        """Where the samples of rounding errors come from, while the second half of the columns are those."""

    # -- estimates -----------------------------------------------------------------------------------------------------

    def estimate(self, view: Matrix, seed: int = 0) -> float:
        """MARGIN times the length that the error of the view, and rounding in looking at it, give to random vectors."""
        found, doubt = self._difference(view, seed)
        entries = sum(array.shape[0] * array.shape[1] for array in self.stored.values())
        if not doubt <= DOUBTFUL * found and self.kind is np.float64 and entries <= EXTENDED:
            finer = Audit(self._source, self.stored, self.sizes, np.longdouble)
            other = finer._difference(view, seed)
            found, doubt = other if math.isfinite(other[1]) else (found, doubt)
        total = MARGIN * (found + doubt) / math.sqrt(PROBES)
        return total if math.isfinite(total) else math.inf

    def _difference(self, view: Matrix, seed: int) -> tuple[float, float]:
        """How far the view and its definition are apart on random vectors, and the rounding in saying so."""
        self._random = np.random.default_rng(seed)
        columns = view.columns.whole(self.sizes)
        probes = self._random.standard_normal((columns, PROBES)).astype(self.kind)
        both = np.hstack([probes, np.zeros_like(probes)])
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                error = self._times(view, self.stored[view].astype(self.kind), both) - self.apply(view, both)
        finally:
            self._random = None
        return frobenius(error[:, :PROBES]), frobenius(error[:, PROBES:])

    def _times(self, node: Matrix, array: Any, x: Any) -> Any:
        """The product with a stored matrix, with samples of its rounding where those are carried along."""
        found = array @ x
        if self._random is not None and found.size:
            if node not in self._norms:
                self._norms[node] = frobenius(np.asarray(self.stored[node]))
            unit = float(np.finfo(self.kind).eps) / 2
            size = unit * self._norms[node] / math.sqrt(len(found))
            lengths = np.array([frobenius(column) for column in x[:, :PROBES].T])
            found[:, PROBES:] += size * lengths * self._random.standard_normal((len(found), PROBES))
        return found

    def apply(self, node: Expression, x: Any) -> Any:
        """The product of the exact value of an expression and a thin x, through its definition."""
        match node:
            case Matrix():
                body = self.bodies.get(node)
                stored = self.stored[node].astype(self.kind) if body is None else None
                return self.apply(body, x) if body is not None else self._times(node, stored, x)
            case Identity():
                return x
            case Zero():
                return np.zeros((node.rows.whole(self.sizes), x.shape[1]), self.kind)
            case Scale():
                return node.factor * self.apply(node.body, x)
            case Sum():
                return sum(self.apply(term, x) for term in node.terms)
            case Product():
                return self.apply(node.left, self.apply(node.right, x))
            case Transpose():
                return self._apply_transposed(node.body, x)
            case Inverse():
                return self._solve(node, x)
            case Stack():
                return self._apply_stack(node, x)
            case Recurrence():
                for _ in range(node.steps):
                    x = self.apply(node.operands[0], x)
                return x
            case Named():
                return self.apply(node.body, x)

    def _apply_transposed(self, body: Expression, x: Any) -> Any:
        if isinstance(body, Matrix) and body not in self.bodies:
            return self._times(body, self.stored[body].astype(self.kind).T, x)
        if isinstance(body, Matrix):
            return self.apply(transpose(self.bodies[body]), x)
        if isinstance(body, Inverse):
            return self._solve(body, x, transposed=True)
        if isinstance(body, Recurrence):
            for _ in range(body.steps):
                x = self.apply(transpose(body.operands[0]), x)
            return x
        return self.apply(transpose(body), x)

    def _apply_stack(self, node: Stack, x: Any) -> Any:
        if node.vertical:
            return np.vstack([self.apply(block, x) for block in node.blocks])
        cuts = np.cumsum([shape(block)[1].whole(self.sizes) for block in node.blocks])[:-1]
        return sum(self.apply(block, part) for block, part in zip(node.blocks, np.split(x, cuts), strict=True))

    def _solve(self, node: Inverse, x: Any, *, transposed: bool = False) -> Any:
        """Z⁻¹ x by refinement with the stored inverse, which may be off by more than rounding.

        Where residuals do not get as small as rounding leaves them, nothing is known of the solution.
        """
        view = next(target for target, body in self.bodies.items() if body is node)
        known = self.stored[view].astype(self.kind)
        known, system = (known.T, transpose(node.body)) if transposed else (known, node.body)
        bare = system.body if isinstance(system, Transpose) else system
        size = frobenius(np.asarray(self.stored[bare])) if isinstance(bare, Matrix) else math.inf
        longest = max(max(array.shape) for array in self.stored.values())
        unit = 8 * math.sqrt(longest) * float(np.finfo(self.kind).eps)
        width = x.shape[1] if self._random is None else PROBES
        found, earlier = known @ x, math.inf
        for _ in range(REFINEMENTS):
            residual = x - self.apply(system, found)
            correction = known @ residual
            length = frobenius(correction[:, :width])
            if not length < STALLED * earlier:
                break
            found, earlier = found + correction, length
            if length <= unit * frobenius(found[:, :width]):
                break
        if self._random is None:
            return found
        columns = [tuple(frobenius(each[:, i]) for each in (residual, found, x)) for i in range(PROBES)]
        if all(
            left <= unit * (size * own + given) and unit * size * own <= UNSURE * given for left, own, given in columns
        ):
            found[:, PROBES:] += correction[:, :PROBES] / (1 - STALLED)
        else:
            found[:, PROBES:] = math.inf
        return found

    # -- bounds --------------------------------------------------------------------------------------------------------

    def bound(self, view: Matrix) -> float:
        """An upper bound of the error of a view; infinity where nothing can be said."""
        if view not in self._bounds:
            body = self.bodies.get(view)
            with np.errstate(over="ignore", invalid="ignore"):
                self._bounds[view] = 0.0 if body is None else self._statement(view, body)
        return self._bounds[view]

    def _statement(self, view: Matrix, body: Expression) -> float:
        own = np.asarray(self.stored[view], np.float64)
        if isinstance(body, Inverse):
            return self._inverse(own, body.body)
        value, error = self._evaluate(body)
        return (frobenius(own - value) + error) * (1 + 1e-10)

    def _inverse(self, own: Any, body: Expression) -> float:
        """‖W - Z⁻¹‖ ≤ ‖W‖ r / (1 - r) with r = ‖I - Z W‖ < 1."""
        system, error = self._evaluate(body)
        residual = frobenius(np.eye(len(own)) - system @ own)
        residual += (self._gamma(len(own) + 1) * frobenius(system) + error) * frobenius(own)
        return frobenius(own) * residual / (1 - residual) * (1 + 1e-10) if residual < 1 else math.inf

    def _evaluate(self, body: Expression) -> tuple[Any, float]:
        """The value over stored operands in double precision, and how far it may be from the exact value."""
        done: dict[Expression, tuple[Any, float]] = {}
        for node in postorder([body]):
            done[node] = self._node(node, done)
        return done[body]

    def _node(self, node: Expression, done: Mapping[Expression, tuple[Any, float]]) -> tuple[Any, float]:
        match node:
            case Matrix():
                return np.asarray(self.stored[node], np.float64), self.bound(node)
            case Identity():
                return np.eye(node.size.whole(self.sizes)), 0.0
            case Zero():
                return np.zeros((node.rows.whole(self.sizes), node.columns.whole(self.sizes))), 0.0
            case Scale():
                value, error = done[node.body]
                found = node.factor * value
                return found, abs(node.factor) * error + self._gamma(1) * frobenius(found)
            case Sum():
                parts = [done[term] for term in node.terms]
                rounding = self._gamma(len(parts)) * sum(frobenius(value) for value, _ in parts)
                return sum(value for value, _ in parts), rounding + sum(error for _, error in parts)
            case Product():
                return self._product(done[node.left], done[node.right])
            case Transpose():
                value, error = done[node.body]
                return value.T, error
            case Stack():
                parts = [done[block] for block in node.blocks]
                joined = np.concatenate([value for value, _ in parts], axis=0 if node.vertical else 1)
                return joined, math.hypot(*(error for _, error in parts))
            case Recurrence():
                found = base = done[node.operands[0]]
                for _ in range(node.steps - 1):
                    found = self._product(found, base)
                return found
            case Inverse():
                value, error = done[node.body]
                inverse = np.linalg.inv(value)
                residual = frobenius(np.eye(len(value)) - value @ inverse)
                residual += (self._gamma(len(value) + 1) * frobenius(value) + error) * frobenius(inverse)
                return inverse, frobenius(inverse) * residual / (1 - residual) if residual < 1 else math.inf
            case Named():
                return done[node.body]

    def _product(self, left: tuple[Any, float], right: tuple[Any, float]) -> tuple[Any, float]:
        """(A + δ)(B + η) = A B + δ B + A η + δ η, and the rounding of the product."""
        (first, one), (second, other) = left, right
        sizes = frobenius(first), frobenius(second)
        rounding = self._gamma(first.shape[1]) * sizes[0] * sizes[1]
        return first @ second, rounding + one * sizes[1] + sizes[0] * other + one * other

    def _gamma(self, count: int) -> float:
        unit = float(np.finfo(np.float64).eps) / 2
        return (count + 2) * unit / (1 - (count + 2) * unit)
