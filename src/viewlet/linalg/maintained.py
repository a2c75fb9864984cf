"""The matrices of a program that runs: inputs and views, and what keeps them together under checked changes.

Every method leaves the views right or marks them stale: stale views are evaluated from the inputs when they are next
needed. What users call is `viewlet.linalg.run`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viewlet.linalg.backends.contract import Backend, Progress
from viewlet.linalg.backends.numpy_backend import NumpyBackend
from viewlet.linalg.bounds import Bounds
from viewlet.linalg.errors import LinAlgWarning, ProgramError
from viewlet.linalg.execute import Executor, Pending, Put
from viewlet.linalg.expression import Expression, Matrix, shape
from viewlet.linalg.guard import Guards, IllConditioned
from viewlet.linalg.machine import Machine
from viewlet.linalg.program import Statements
from viewlet.linalg.refresh import Refresh
from viewlet.linalg.replay import Replays
from viewlet.linalg.resize import is_square_in, resized
from viewlet.linalg.scalars import degrees
from viewlet.linalg.sizes import dim
from viewlet.linalg.strategy import Plan, choose
from viewlet.linalg.subscribers import Subscribers
from viewlet.linalg.symmetry import symmetric_views
from viewlet.linalg.trust import Audit
from viewlet.linalg.undo import before, keep
from viewlet.linalg.values import Array, Factors, Units
from viewlet.runtime.durable.batch_ids import BatchIds

RESIZED = 1.25
"""A dimension that has grown or shrunk by this factor has new plans made."""
PLANS = 64
"""Plans that a run remembers, one for each set of changed inputs and their ranks."""


@dataclass(slots=True)
class Statistics:
    """What a run has done."""

    updates: int = 0
    operations: float = 0.0
    recomputed: int = 0
    ill_conditioned: int = 0
    seconds: float = 0.0
    """Of the clock, for updates and for what they left to be done on reading."""
    treatments: dict[str, str] = field(default_factory=dict)


class MaintainedMatrices:
    """The inputs and views of some statements on a back end; changes come in as thin factors."""

    def __init__(
        self,
        statements: Statements,
        inputs: Mapping[Matrix, Array],
        sizes: Mapping[str, int],
        backend: Backend,
        machine: Machine,
        strategy: str,
        defer: int,
        refresh: int | float | None,
        bounds: bool,
    ) -> None:
        self.statements = statements
        self.stored = dict(inputs)
        self.sizes = dict(sizes)
        self.backend = backend
        self.strategy = strategy
        self._machine = machine
        self.plans: dict[tuple[tuple[Matrix, int], ...], Plan] = {}
        self._planned_sizes = self.sizes
        """The sizes that plans were made for; they hold for others too, and may then not be the fastest."""
        self.last: Plan | None = None
        self._replays = Replays(backend)
        self._pending = Pending(defer)
        self._refresh = Refresh(refresh)
        self.scalars: dict[Matrix, float] = {}
        """What inputs are still to be multiplied by, and the views with them (see `viewlet.linalg.scalars`)."""
        self._symmetric = symmetric_views(statements)
        self.skewed = set[Matrix]()
        """Symmetric views that updates may have left with rounding errors that are not."""
        self._stale = True
        self._guards = Guards(backend)
        self.statistics = Statistics()
        self.bounds = self._accumulated_bounds() if bounds else None
        self.subscribers = Subscribers()
        self.batches = BatchIds()
        if backend.progress is not None:
            self._continue(backend.progress)
        self.settle()
        self.commit()

    def _accumulated_bounds(self) -> Bounds:
        if self._pending.cap or not isinstance(self.backend, NumpyBackend) or self.backend.is_exact:
            raise ProgramError(
                "bounds=True accumulates errors of updates that are not deferred, on the back ends 'numpy' and "
                "'compiled'; without it, error() computes bounds when it is called"
            )
        unit = float(np.finfo(self.backend.dtype).eps) / 2
        return Bounds(self.statements, self.stored, lambda: self.sizes, unit)

    def _continue(self, earlier: Progress) -> None:
        """Takes over the views of an earlier run, if it had the same statements."""
        self.statistics.updates = earlier.updates
        self.batches = BatchIds(earlier.batches)
        views = [statement.target for statement in self.statements.views]
        if str(self.statements) == earlier.program and all(each.name in earlier.matrices for each in views):
            self.stored |= {each: earlier.matrices[each.name] for each in views}
            self.skewed = set(self._symmetric)
            self._stale = False

    def commit(self) -> None:
        """Tells the back end how far the run is; views that wait with updates are left out."""
        kept = {each.name: array for each, array in self.stored.items() if each not in self._pending.factors}
        done = Progress(kept, str(self.statements), self.statistics.updates, self.batches.ranges)
        self.backend.commit(done)
        self.subscribers.deliver()

    # -- changes -------------------------------------------------------------------------------------------------------

    def follow(self, changes: dict[Matrix, Factors], exact: Mapping[Matrix, Put]) -> None:
        changes = self._divided(changes) if self.scalars else changes
        key = tuple((each, left.shape[1]) for each, (left, _) in changes.items())
        plan = self.plans.get(key)
        if plan is None:
            if len(self.plans) >= PLANS:
                self.plans.pop(next(iter(self.plans)))
                self._replays.clear()
            plan = self.plans[key] = choose(self.statements, dict(key), self.sizes, self._machine, self.strategy)
        begin = time.perf_counter()
        self._run(plan, changes, exact)
        self.statistics.seconds += time.perf_counter() - begin
        self.last = plan
        self.skewed |= {update.view for update in plan.trigger.updates} & self._symmetric
        if self._refresh.is_due(changes, self._worst_error):
            self.refresh()

    def _run(self, plan: Plan, changes: dict[Matrix, Factors], exact: Mapping[Matrix, Put]) -> None:
        saved = {each: before(self.backend, self.stored[each], *change) for each, change in changes.items()}
        executor = self.executor(exact)
        factors = {
            variable: self.backend.thin(factor)
            for each, change in changes.items()
            for variable, factor in zip(plan.trigger.factors[each], change, strict=True)
        }
        try:
            if self.subscribers.views:
                self._tell(plan, executor.run(plan.steps, factors, plan.trigger.guards))
            else:
                self._replays.run(plan, executor, factors)
            self.statistics.updates += 1
        except IllConditioned as found:
            self._restore(saved)
            self._refactor(changes, exact, found.condition)
        except BaseException:
            self._restore(saved)
            raise
        self.statistics.operations += plan.operations

    def _tell(self, plan: Plan, values: Mapping[Any, Any]) -> None:
        """What a trigger has done to the views that somebody listens to."""
        self.subscribers.replaced(statement.target for statement in plan.trigger.recomputed)
        if self.scalars:  # the factors are those of matrices that are still to be multiplied
            self.subscribers.replaced(self.subscribers.views)
            return
        for update in plan.trigger.updates:
            if update.view in self.subscribers.views:
                factors = [values.get(part, part) for part in (update.left, update.right)]
                if any(isinstance(part, Expression) for part in factors):
                    self.subscribers.replaced([update.view])
                else:
                    self.subscribers.changed(update.view, *(self._whole_factor(part) for part in factors))

    def _whole_factor(self, factor: Any) -> Any:
        return self.backend.stack([factor], vertical=False) if isinstance(factor, Units) else factor

    def _restore(self, saved: Mapping[Matrix, Any]) -> None:
        """The inputs as they were; views are evaluated again when they are next needed."""
        self._stale = True
        for each, restore in saved.items():
            restore(self.stored[each])

    def _refactor(self, changes: dict[Matrix, Factors], exact: Mapping[Matrix, Put], condition: float) -> None:
        """Applies changes that Woodbury's formula cannot follow: the views are evaluated from the new inputs."""
        warnings.warn(
            f"an update made an inverse close to singular (condition {condition:.1e} of the capacitance matrix): "
            "all views were evaluated again",
            LinAlgWarning,
            stacklevel=6,
        )
        saved = {each: before(self.backend, self.stored[each], *change) for each, change in changes.items()}
        try:
            for each, change in changes.items():
                left, right = (self.backend.thin(factor) for factor in change)
                self.backend.sweep(self.stored[each], (left, right), None, None)
                exact.get(each, keep)(self.stored[each])
            self.settle()
            self.statistics.ill_conditioned += 1
            self.statistics.updates += 1
        except BaseException:
            self._restore(saved)
            raise

    def settle(self) -> None:
        """Evaluates all views from the inputs if the last update did not end well, and at the start."""
        if not self._stale:
            return
        executor = self.executor()
        for statement in self.statements.views:
            executor.recompute(statement.target, statement.body)
        self.statistics.recomputed += 1
        self.subscribers.replaced(self.subscribers.views)
        self.skewed = set(self._symmetric)
        self._stale = False

    def refresh(self) -> None:
        """Evaluates all views from the inputs."""
        self._stale = True
        self.settle()

    def _worst_error(self) -> float:
        """The largest estimated relative error of an output."""
        audit = self.audit()
        outputs = set(self.statements.outputs.values())
        found = 0.0
        for seed, view in enumerate(each for each in outputs if each in audit.bodies):
            norm = float(np.linalg.norm(audit.stored[view]))
            found = max(found, audit.estimate(view, seed) / norm if norm else 0.0)
        return found

    def executor(self, exact: Mapping[Matrix, Put] | None = None) -> Executor:
        return Executor(
            self.backend,
            self.stored,
            self.sizes,
            self._guards,
            exact or {},
            self._pending,
            self.statements.factored,
            self.bounds,
        )

    # -- numbers that matrices are multiplied by -----------------------------------------------------------------------

    def multiply_now(self, each: Matrix, factor: float) -> None:
        """Multiplies an input, and evaluates the views."""
        self.multiply_in()
        before = self.stored[each]
        try:
            self.stored[each] = self._multiplied(before, factor)
            self.refresh()
        except BaseException:
            self.stored[each] = before
            self._stale = True
            raise

    def multiply_in(self) -> None:
        """Multiplies matrices by the numbers that wait: f(s A) = s^d f(A). Interrupted, views are evaluated again."""
        waited = list(self.scalars.items())
        for changed, factor in waited:
            known, before = degrees(self.statements, changed) or {}, self._stale
            self._stale = True
            self.stored[changed] = self._multiplied(self.stored[changed], factor)
            del self.scalars[changed]
            for each, degree in known.items():
                if degree and each is not changed:
                    self.stored[each] = self._multiplied(self.executor().matrix(each), factor**degree)
            self._stale = before
        if waited and self.bounds is not None:
            self.take_bounds()

    def _multiplied(self, array: Array, factor: float) -> Array:
        return self.backend.array(self.backend.combine([(factor, array)]), copy=False)

    def _divided(self, changes: dict[Matrix, Factors]) -> dict[Matrix, Factors]:
        """The changes of the matrices as they are stored, where a number is still to be multiplied in."""
        found = dict(changes)
        for each, factor in self.scalars.items():
            if each in found:
                left, right = found[each]
                if isinstance(right, Units):
                    found[each] = self.backend.combine([(1.0 / factor, left)]), right
                else:
                    found[each] = left, self.backend.combine([(1.0 / factor, right)])
        return found

    # -- errors --------------------------------------------------------------------------------------------------------

    def audit(self, kind: Any = np.float64) -> Audit:
        self.settle()
        self.multiply_in()
        return Audit(self.statements, self._stored_arrays(), self.sizes, kind)

    def take_bounds(self) -> None:
        """Bounds that are computed, after a change that is not accumulated."""
        assert self.bounds is not None
        audit = Audit(self.statements, self._stored_arrays(), self.sizes)
        self.bounds.replace({view: audit.bound(view) for view in audit.bodies})

    def _stored_arrays(self) -> dict[Matrix, Any]:
        """All matrices as NumPy's arrays; inverses that are kept as factors stay what they are."""
        whole = self.stored.keys() - self.statements.factored
        return {
            each: self.backend.numpy(self.executor().matrix(each)) if each in whole else array
            for each, array in self.stored.items()
        }

    # -- dimensions ----------------------------------------------------------------------------------------------------

    def keeps_zeros(self, dimension: str) -> bool:
        """Whether zeros that come to a dimension stay zeros in every view, so that nothing is evaluated again."""
        return not any(is_square_in(dimension, statement.body) for statement in self.statements.views)

    def change_size(self, dimension: str, size: int, without: Sequence[int]) -> None:
        """Resizes a dimension, or leaves everything as it was if views have no value then."""
        self.settle()
        stored, sizes = dict(self.stored), self.sizes
        try:
            self.resize(dim(dimension), size, without)
        except BaseException:
            self.stored.update(stored)
            self.sizes = sizes
            self.plans.clear()
            self._replays.clear()
            self._stale = True
            raise
        self.commit()

    def resize(self, side: Any, count: int, without: Sequence[int] = ()) -> None:
        """Gives a dimension another size; the rows that come or go are zeros everywhere."""
        ((dimension,), _) = side.terms[0]
        executor = self.executor()
        for each in list(self.stored):
            array = executor.matrix(each)
            for axis, own in enumerate(shape(each)):
                if dimension in own.names and each not in self.statements.factored:
                    array = resized(self.backend, array, axis, count, without)
            self.stored[each] = array
        self.sizes = {**self.sizes, dimension: count}
        resized_views = [each for each in self.subscribers.views if any(dimension in own.names for own in shape(each))]
        self.subscribers.replaced(resized_views)
        planned = self._planned_sizes.get(dimension, 0)
        if not planned / RESIZED <= count <= planned * RESIZED:
            self.plans.clear()
            self._planned_sizes = self.sizes
        self._replays.clear()
        if not self.keeps_zeros(dimension):
            self._stale = True
            self.settle()
