"""The matrices of a program that runs: inputs and views, and what keeps them together under checked changes.

Every method leaves the views right or marks them stale: stale views are evaluated from the inputs when they are next
needed. What is refused leaves the inputs and all views but the stale ones as they were. What users call is
`viewlet.linalg.run`.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viewlet.linalg.backends.contract import Backend, Progress
from viewlet.linalg.backends.numpy_backend import NumpyBackend
from viewlet.linalg.bounds import Bounds
from viewlet.linalg.errors import LinAlgWarning, MatrixDataError, ProgramError
from viewlet.linalg.execute import Executor, Pending, Put
from viewlet.linalg.expression import Expression, Matrix, matrices, shape
from viewlet.linalg.guard import Guards, IllConditioned
from viewlet.linalg.machine import Machine, physical_memory
from viewlet.linalg.magnitudes import Magnitudes, Overflow
from viewlet.linalg.program import Statements
from viewlet.linalg.refresh import Refresh
from viewlet.linalg.replay import Replays
from viewlet.linalg.resize import keeps_zeros, resized
from viewlet.linalg.scalars import degrees, largest_scalar
from viewlet.linalg.sizes import dim
from viewlet.linalg.strategy import Plan, choose
from viewlet.linalg.subscribers import Subscribers
from viewlet.linalg.symmetry import symmetric_views
from viewlet.linalg.trust import Audit
from viewlet.linalg.undo import Undo, keep
from viewlet.linalg.values import Array, Factors, Units, frobenius
from viewlet.runtime.durable.batch_ids import BatchIds

RESIZED = 1.25
"""A dimension that has grown or shrunk by this factor has new plans made."""
ROOM = 0.75
"""The part of the memory of a machine that the matrices of a run may take."""
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
        self._stale = {statement.target for statement in statements.views}
        """Views that have to be evaluated before they are read."""
        self._guards = Guards(backend)
        self._magnitudes = Magnitudes(backend, self.stored, self._pending)
        self.statistics = Statistics()
        self.bounds = self._accumulated_bounds() if bounds else None
        self.subscribers = Subscribers()
        self.batches = BatchIds()
        self._check_memory(self.sizes)
        if backend.progress is not None:
            self._continue(backend.progress)
        self.settle()
        self.commit()

    def _check_memory(self, sizes: Mapping[str, int]) -> None:
        """Refuses matrices that this machine has no room for, before anything is filled with zeros."""
        if not isinstance(self.backend, NumpyBackend):
            return
        kept = [each for each in self.statements.inputs if each.name not in self._machine.densities]
        kept += [statement.target for statement in self.statements.views]
        entries = {each: each.rows.at(sizes) * each.columns.at(sizes) for each in kept}
        needed, most = sum(entries.values()) * self.backend.dtype.itemsize, ROOM * physical_memory()
        if needed > most:
            largest = max(kept, key=entries.__getitem__)
            rows, columns = (side.whole(sizes) for side in shape(largest))
            raise MatrixDataError(
                f"the matrices would take {needed / 1e9:,.0f} GB, where {most / 1e9:,.0f} GB may be used; "
                f"{largest.name} is {rows:,} × {columns:,}"
            )

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
            self._stale.clear()

    def commit(self) -> None:
        """Tells the back end how far the run is; views that wait with updates are left out."""
        kept = {each.name: array for each, array in self.stored.items() if each not in self._pending.factors}
        done = Progress(kept, str(self.statements), self.statistics.updates, self.batches.ranges)
        self.backend.commit(done)
        self.subscribers.deliver()

    # -- changes -------------------------------------------------------------------------------------------------------

    def follow(self, changes: dict[Matrix, Factors], exact: Mapping[Matrix, Put], *, is_lossy: bool = False) -> None:
        """Applies changes to the inputs and brings the views along; `exact` writes entries that a sum would round.

        If it fails, the inputs are what they were. The views are evaluated from the inputs where factors cannot be
        followed: they are not finite or `is_lossy`, an inverse is close to singular, or digits of a view would be lost.
        """
        begin = time.perf_counter()
        changes = self._divided(changes) if self.scalars else changes
        undo = Undo(self.backend, self.stored, changes)
        plan, executor = self._plan(changes), self.executor(exact)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                if not self._can_settle() or not self._run(plan, executor, changes, undo):
                    self._evaluate(changes, exact)
                if self._magnitudes.have_lost() or is_lossy or self._refresh.is_due(changes, self._worst_error):
                    self.refresh()
        except BaseException:
            undo.inputs()
            undo.views(self.stored)
            self._stale |= executor.touched
            raise
        self.statistics.updates += 1
        self.statistics.seconds += time.perf_counter() - begin
        self.last = plan

    def _plan(self, changes: Mapping[Matrix, Factors]) -> Plan:
        key = tuple((each, left.shape[1]) for each, (left, _) in changes.items())
        plan = self.plans.get(key)
        if plan is None:
            if len(self.plans) >= PLANS:
                self.plans.pop(next(iter(self.plans)))
                self._replays.clear()
            plan = self.plans[key] = choose(self.statements, dict(key), self.sizes, self._machine, self.strategy)
        return plan

    def _run(self, plan: Plan, executor: Executor, changes: Mapping[Matrix, Factors], undo: Undo) -> bool:
        """Runs a trigger; if its factors cannot be followed, the inputs are brought back."""
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
        except (IllConditioned, Overflow, MatrixDataError) as reason:
            self._stale |= executor.touched
            undo.inputs()
            if isinstance(reason, IllConditioned):
                self._warn(reason.condition)
            return False
        self.skewed |= {update.view for update in plan.trigger.updates} & self._symmetric
        self.statistics.operations += plan.operations
        return True

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

    def _evaluate(self, changes: Mapping[Matrix, Factors], exact: Mapping[Matrix, Put]) -> None:
        """Applies changes to the inputs alone, and evaluates the views from them."""
        for each, change in changes.items():
            left, right = (self.backend.thin(factor) for factor in change)
            self.backend.sweep(self.stored[each], (left, right), None, None)
            exact.get(each, keep)(self.stored[each])
            if not self.backend.is_finite(self.stored[each]):
                raise MatrixDataError(f"the change of {each.name} is refused: its numbers would overflow")
        self.refresh()

    def _warn(self, condition: float) -> None:
        self.statistics.ill_conditioned += 1
        warnings.warn(
            f"an update made an inverse close to singular (condition {condition:.1e} of the capacitance matrix): "
            "all views were evaluated again",
            LinAlgWarning,
            stacklevel=7,
        )

    def settle(self, wanted: Matrix | None = None) -> None:
        """Evaluates the stale views from the inputs. One that has no value stays stale: an error if it is wanted, or
        if none is named."""
        if not self._stale:
            return
        executor, failed = self.executor(), dict[Matrix, MatrixDataError]()
        evaluated = set[Matrix]()
        with np.errstate(over="ignore", invalid="ignore"):
            for statement in self.statements.views:
                target = statement.target
                if target not in self._stale:
                    continue
                if reasons := [failed[each] for each in matrices(statement.body) if each in failed]:
                    failed[target] = reasons[0]
                    continue
                try:
                    executor.recompute(target, statement.body)
                except MatrixDataError as reason:
                    failed[target] = reason
                    continue
                self._stale.discard(target)
                evaluated.add(target)
        self.statistics.recomputed += 1
        self.subscribers.replaced(evaluated)
        self.skewed |= evaluated & self._symmetric
        if wanted is None and failed:
            raise next(iter(failed.values()))
        if wanted in failed:
            raise failed[wanted]

    def _can_settle(self) -> bool:
        try:
            self.settle()
        except MatrixDataError:
            return False
        return True

    def refresh(self) -> None:
        """Evaluates all views from the inputs; where one has no value, all stay what they were."""
        undo, stale = Undo(self.backend, self.stored, {}), set(self._stale)
        self._stale = {statement.target for statement in self.statements.views}
        try:
            self.settle()
        except BaseException:
            undo.views(self.stored)
            self._stale = stale
            raise

    def _worst_error(self) -> float:
        """The largest estimated relative error of an output."""
        audit = self.audit()
        outputs = set(self.statements.outputs.values())
        found = 0.0
        for seed, view in enumerate(each for each in outputs if each in audit.bodies):
            norm = frobenius(np.asarray(audit.stored[view]))
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
            self._magnitudes,
        )

    # -- numbers that matrices are multiplied by -----------------------------------------------------------------------

    def multiply_now(self, each: Matrix, factor: float) -> None:
        """Multiplies an input, and evaluates the views."""
        self.multiply_in()
        before = self.stored[each]
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                self.stored[each] = self._multiplied(before, factor)
            if not self.backend.is_finite(self.stored[each]):
                raise MatrixDataError(f"{each.name} cannot be multiplied by {factor}: its numbers would overflow")
            self.refresh()
        except BaseException:
            self.stored[each] = before
            raise

    def multiply_later(self, each: Matrix, factor: float, known: Mapping[Matrix, int]) -> None:
        """Remembers a number that an input, and the views by their degrees, are to be multiplied by."""
        most = max(abs(degree) for degree in known.values())
        large = largest_scalar(self.backend.dtype)
        if abs(math.log(abs(self.scalars.get(each, 1.0))) + math.log(abs(factor))) * most > math.log(large):
            self.multiply_in()
        if abs(math.log(abs(factor))) * most > math.log(large) or not self._magnitudes.are_moderate(known):
            self.multiply_now(each, factor)
        else:
            self.scalars[each] = self.scalars.get(each, 1.0) * factor

    def multiply_in(self) -> None:
        """Multiplies matrices by the numbers that wait: f(s A) = s^d f(A). Interrupted, views are evaluated again."""
        waited = list(self.scalars.items())
        for changed, factor in waited:
            known, stale = degrees(self.statements, changed) or {}, self._stale
            self._stale = {statement.target for statement in self.statements.views}
            self.stored[changed] = self._multiplied(self.stored[changed], factor)
            del self.scalars[changed]
            for each, degree in known.items():
                if degree and each is not changed:
                    self.stored[each] = self._multiplied(self.executor().matrix(each), factor**degree)
                if degree:
                    self._magnitudes.multiplied(each, abs(factor) ** degree)
            self._stale = stale
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
        return all(keeps_zeros(dimension, statement.body) for statement in self.statements.views)

    def change_size(self, dimension: str, size: int, without: Sequence[int]) -> None:
        """Resizes a dimension, or leaves everything as it was if views have no value then."""
        with self.resizing():
            self.resize(dim(dimension), size, without)
            self.settle()
        self.commit()

    @contextmanager
    def resizing(self) -> Iterator[None]:
        """Brings matrices and sizes back if what follows fails."""
        undo, sizes, stale = Undo(self.backend, self.stored, {}), self.sizes, set(self._stale)
        try:
            yield
        except BaseException:
            undo.views(self.stored)
            self.sizes = sizes
            self.plans.clear()
            self._replays.clear()
            self._magnitudes.clear()
            self._stale |= stale
            raise

    def resize(self, side: Any, count: int, without: Sequence[int] = ()) -> None:
        """Gives a dimension another size, with zeros that come; views that do not keep zeros are to be evaluated."""
        ((dimension,), _) = side.terms[0]
        self._check_memory({**self.sizes, dimension: count})
        executor, keeps = self.executor(), self.keeps_zeros(dimension)
        for each in [each for each in self.stored if keeps or each in self.statements.inputs]:
            array = executor.matrix(each)
            for axis, own in enumerate(shape(each)):
                if dimension in own.names and own != side:
                    raise ProgramError(f"{each.name} has {own} places: only a dimension of its own grows or shrinks")
                if dimension in own.names:
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
        self._magnitudes.clear()
        if not keeps:
            self._stale = {statement.target for statement in self.statements.views}
