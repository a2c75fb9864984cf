"""A program that runs: its inputs, its views, and the updates that keep them together."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.linalg.backends import make_backend
from viewlet.linalg.backends.contract import Backend, Progress
from viewlet.linalg.backends.numpy_backend import NumpyBackend
from viewlet.linalg.backends.sparse_matrix import is_sparse
from viewlet.linalg.bounds import Bounds
from viewlet.linalg.errors import LinAlgWarning, MatrixDataError, ProgramError
from viewlet.linalg.execute import Executor, Pending, Put
from viewlet.linalg.expression import Expression, Inverse, Matrix, shape
from viewlet.linalg.guard import Guards, IllConditioned
from viewlet.linalg.inputs import (
    bind_sizes,
    check_symmetric,
    check_symmetric_change,
    common_type,
    place,
    whole,
)
from viewlet.linalg.machine import Machine
from viewlet.linalg.program import Program, Statements
from viewlet.linalg.refinement import refined
from viewlet.linalg.refresh import Refresh
from viewlet.linalg.replay import Replays
from viewlet.linalg.resize import is_square_in, resized
from viewlet.linalg.scalars import LARGEST, degrees
from viewlet.linalg.sizes import dim
from viewlet.linalg.strategy import Plan, check_strategy, choose, plan_statements
from viewlet.linalg.subscribers import Listener, Subscribers
from viewlet.linalg.symmetry import symmetric_views
from viewlet.linalg.trust import FAILURE, Audit, ErrorReport
from viewlet.linalg.undo import before, keep, put
from viewlet.linalg.values import Array, Factors, Units, checked_matrix, compress, merge, outer, sparse_change
from viewlet.runtime.durable.batch_ids import BatchIds, BatchMark

Floats = npt.NDArray[Any]

BATCHES = "updates"
"""The source of the ids of batches."""
RESIZED = 1.25
"""A dimension that has grown or shrunk by this factor has new plans made."""
PLANS = 64
"""Plans that a run remembers, one for each set of changed inputs and their ranks."""

OPTIONS = ("strategy", "copy", "dtype", "backend", "memory", "defer", "refresh", "cholesky", "bounds")


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


def start(program: Program, options: dict[str, Any]) -> Run:
    """Runs a program; `options` are its inputs by name, and the settings of `Run`."""
    names = {each.name for each in program.inputs}
    settings = {name: options.pop(name) for name in OPTIONS if name in options and name not in names}
    if unknown := [name for name in options if name not in names]:
        raise ProgramError(f"the program has no input {unknown[0]!r}, only {', '.join(sorted(names))}")
    earlier = getattr(settings.get("backend"), "progress", None)
    if earlier is not None:
        return Run(program, _continued(earlier, names, options), **settings)
    if missing := [name for name in names if name not in options]:
        raise ProgramError(f"start() needs a matrix for input {sorted(missing)[0]!r}")
    return Run(program, options, **settings)


def _density(value: Any) -> float:
    rows, columns = value.shape
    return float(value.nnz / max(1, rows * columns))


def _continued(earlier: Progress, names: set[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs as an earlier run has left them."""
    if given:
        raise ProgramError(
            "the back end has the matrices of an earlier run: start without inputs to continue with them"
        )
    if missing := [name for name in names if name not in earlier.matrices]:
        raise ProgramError(f"the earlier run had no input {sorted(missing)[0]!r}: it ran another program")
    return {name: earlier.matrices[name] for name in names}


class Run:
    """The inputs and views of a program, kept together by updates.

    `strategy` is "auto", "incremental", "hybrid" or "reevaluate". `copy=False` takes over the given arrays, which are
    then changed in place. `dtype` is float64 or float32; the default is that of the inputs. `backend` is "auto",
    "numpy", "compiled" or "torch". `defer=64` lets views wait with updates until there are that many factors or the
    view is read. `memory` limits the bytes of all matrices when a model of iteration is chosen. `refresh=1000`
    evaluates all views again after every 1,000 updates; `refresh=1e-9` does so when the estimated relative error of an
    output is larger, which is looked at every 64 updates and after unusually large ones. `cholesky=False` keeps
    inverses of positive definite matrices as they are, by Woodbury's formula, instead of their Cholesky factors.
    `bounds=True` accumulates the bound of every view's error from norms, with every update.

    A back end that outlives the process, such as `viewlet.spark.matrices.SparkMatrices`, is given as an object. What an
    earlier run has left there is continued with.
    """

    def __init__(
        self,
        program: Program,
        inputs: Mapping[str, Any],
        *,
        strategy: str = "auto",
        copy: bool = True,
        dtype: Any = None,
        backend: str | Backend = "auto",
        memory: float = math.inf,
        defer: int = 0,
        refresh: int | float | None = None,
        cholesky: bool = True,
        bounds: bool = False,
    ) -> None:
        self.program = program
        self.strategy = check_strategy(strategy)
        kind = np.dtype(dtype or common_type(inputs.values())) if isinstance(backend, str) else backend.dtype
        if kind not in (np.dtype(np.float64), np.dtype(np.float32)):
            raise ProgramError(f"a program computes in float64 or float32, not in {kind}")
        self._backend: Backend = make_backend(backend, kind) if isinstance(backend, str) else backend
        self._machine: Machine = self._backend.machine()
        given = {each: self._backend.checked(inputs[each.name], each.name) for each in program.inputs}
        for each in (each for each in program.inputs if each.definite):
            check_symmetric(self._backend.numpy(given[each]), each.name)
        densities = {each.name: _density(value) for each, value in given.items() if is_sparse(value)}
        self._machine = replace(self._machine, densities=densities)
        self._sizes = bind_sizes({each: tuple(value.shape) for each, value in given.items()})
        self._statements: Statements = plan_statements(
            program, self._sizes, self._machine, self.strategy, memory, cholesky=cholesky and self._backend.factors
        )
        self._stored: dict[Matrix, Array] = {
            each: self._backend.array(value, copy=copy) for each, value in given.items()
        }
        self._names = {each.name: each for each in program.inputs}
        self._names |= {statement.target.name: statement.target for statement in self._statements.views}
        self._plans: dict[tuple[tuple[Matrix, int], ...], Plan] = {}
        self._planned_sizes = self._sizes
        """The sizes that plans were made for; they hold for others too, and may then not be the fastest."""
        self._last: Plan | None = None
        self._replays = Replays(self._backend)
        self._pending = Pending(whole(defer, "defer"))
        self._refresh = Refresh(refresh)
        self._scalars: dict[Matrix, float] = {}
        """What inputs are still to be multiplied by, and the views with them (see `viewlet.linalg.scalars`)."""
        self._symmetric = symmetric_views(self._statements)
        self._skewed = set[Matrix]()
        self._stale = True
        self._guards = Guards(self._backend)
        self.statistics = Statistics()
        self._bounds: Bounds | None = None
        if bounds:
            self._check_bounds()
            unit = float(np.finfo(kind).eps) / 2
            self._bounds = Bounds(self._statements, self._stored, lambda: self._sizes, unit)
        self._subscribers = Subscribers()
        self._batches = BatchIds()
        if self._backend.progress is not None:
            self._continue(self._backend.progress)
        self._settle()
        self._commit()

    def _continue(self, earlier: Progress) -> None:
        """Takes over the views of an earlier run, if it had the same statements."""
        self.statistics.updates = earlier.updates
        self._batches = BatchIds(earlier.batches)
        views = [statement.target for statement in self._statements.views]
        if str(self._statements) == earlier.program and all(each.name in earlier.matrices for each in views):
            self._stored |= {each: earlier.matrices[each.name] for each in views}
            self._skewed = set(self._symmetric)
            self._stale = False

    def _commit(self) -> None:
        """Tells the back end how far the run is; views that wait with updates are left out."""
        kept = {each.name: array for each, array in self._stored.items() if each not in self._pending.factors}
        done = Progress(kept, str(self._statements), self.statistics.updates, self._batches.ranges)
        self._backend.commit(done)
        self._subscribers.deliver()

    # -- reading -------------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Floats:
        """An input, a view or an output by name: a read-only array that shows the state until the next update."""
        shown: Floats = self._backend.numpy(self.array(name)).view()
        shown.flags.writeable = False
        return shown

    def array(self, name: str) -> Array:
        """The array of the back end that holds a matrix, on a GPU a tensor; it changes with the next update."""
        self._settle()
        self._multiply_in()
        each = self._matrix(name)
        begin = time.perf_counter()
        found = self._executor().matrix(each)
        self.statistics.seconds += time.perf_counter() - begin
        if each in self._statements.factored:
            return self._backend.numpy(found)
        if each in self._skewed:
            self._skewed.discard(each)
            if self._bounds is not None:
                self._bounds.symmetrised(each)
            self._backend.symmetrise(found)
        return found

    def subscribe(self, name: str, listener: Listener) -> Callable[[], None]:
        """Calls a function after every update with the change of a view: its factors (u, v), the view being += u v'.

        The function gets None where the view was evaluated again or has other dimensions: then it is to be read. What
        is returned ends the subscription.
        """
        view = self._matrix(name)
        if view in self._statements.factored:
            raise ProgramError(f"{name} is kept as a Cholesky factor: make it an output to follow its changes")
        return self._subscribers.add(view, listener)

    def error(self, name: str) -> ErrorReport:
        """How far a matrix may be from its definition over the inputs as they are.

        The bound always holds. It costs an evaluation of the program, unless it is accumulated (`start(bounds=True)`),
        which makes it larger. The estimate takes a few products with thin matrices, and is too small with a probability
        of at most `failure`.
        """
        view, audit = self._matrix(name), self._audit()
        norm = float(np.linalg.norm(np.asarray(audit.stored[view])))
        if self._backend.is_exact:
            return ErrorReport(0.0, 0.0, 0.0, norm)
        bound = audit.bound(view) if self._bounds is None else self._bounds.bound(view)
        return ErrorReport(bound, audit.estimate(view), FAILURE, norm)

    def _check_bounds(self) -> None:
        if self._pending.cap or not isinstance(self._backend, NumpyBackend) or self._backend.is_exact:
            raise ProgramError(
                "bounds=True accumulates errors of updates that are not deferred, on the back ends 'numpy' and "
                "'compiled'; without it, error() computes bounds when it is called"
            )

    def condition(self, name: str) -> float:
        """The condition number, in the 1-norm, of the matrix whose inverse a view is; of any other matrix, its own."""
        view, audit = self._matrix(name), self._audit()
        body = audit.bodies.get(view)
        if isinstance(body, Inverse) and isinstance(body.body, Matrix):
            inverse, system = np.asarray(audit.stored[view]), audit.stored[body.body]
            return float(np.linalg.norm(inverse, 1) * np.linalg.norm(system, 1))
        return float(np.linalg.cond(audit.stored[view], 1))

    def refresh(self) -> None:
        """Evaluates all views from the inputs."""
        self._stale = True
        self._settle()

    def refine(self, name: str) -> int:
        """Makes the solution of a system, `solve(M, B)`, or an inverse more accurate by iterative refinement.

        Residuals are computed through the definitions of M and B over the inputs, in extended precision. Returns the
        number of steps.
        """
        view = self._matrix(name)
        if self._backend.is_exact or not isinstance(self._backend, NumpyBackend):
            raise ProgramError("refine() needs the back end 'numpy' or 'compiled'")
        if view in self._statements.factored:
            raise ProgramError(f"{name} is kept as a Cholesky factor: refine the solutions that are computed with it")
        audit = self._audit(np.longdouble)
        found, steps = refined(audit, view)
        self._stored[view] = self._backend.array(found, copy=False)
        if self._bounds is not None:
            self._take_bounds()
        return steps

    def _take_bounds(self) -> None:
        """Bounds that are computed, after a change that is not accumulated."""
        assert self._bounds is not None
        audit = Audit(self._statements, self._stored_arrays(), self._sizes)
        self._bounds.replace({view: audit.bound(view) for view in audit.bodies})

    def _audit(self, kind: Any = np.float64) -> Audit:
        self._settle()
        self._multiply_in()
        return Audit(self._statements, self._stored_arrays(), self._sizes, kind)

    def _stored_arrays(self) -> dict[Matrix, Any]:
        """All matrices as NumPy's arrays; inverses that are kept as factors stay what they are."""
        whole = self._stored.keys() - self._statements.factored
        return {
            each: self._backend.numpy(self._executor().matrix(each)) if each in whole else array
            for each, array in self._stored.items()
        }

    @property
    def names(self) -> list[str]:
        """The names of outputs, inputs and views."""
        return sorted({*self._statements.outputs, *self._names})

    def explain(self) -> str:
        """The sizes, the views with their memory, and what the last update did with its estimated time."""
        from viewlet.linalg.explain import explain_run

        return explain_run(self)

    # -- changing ------------------------------------------------------------------------------------------------------

    def update(self, name: str, u: Any, v: Any) -> None:
        """Adds u v' to an input; u and v are vectors, or matrices with a column for each outer product."""
        self.apply({name: (u, v)})

    def set(self, name: str, row: int, column: int, value: float) -> None:
        """Sets one entry of an input."""
        each, (rows, columns) = self._dynamic(name)
        row, column = place(row, rows, name, "row"), place(column, columns, name, "column")
        wanted = checked_matrix([[value]], f"the value of {name}", self._dtype, (1, 1))
        wanted = self._backend.checked(wanted, f"the value of {name}")
        self._multiply_in()
        change = np.zeros((columns, 1), self._dtype)
        change[column] = wanted[0, 0] - float(self._stored[each][row, column])
        self._apply({each: (Units(rows, np.array([row])), change)}, {each: put((row, column), float(wanted[0, 0]))})

    def set_row(self, name: str, row: int, values: Any) -> None:
        """Replaces one row of an input."""
        each, (rows, columns) = self._dynamic(name)
        row = place(row, rows, name, "row")
        new = self._vector(values, f"the row of {name}", columns)
        self._multiply_in()
        change = Units(rows, np.array([row])), new - self._stored[each][row, :][:, None]
        self._apply({each: change}, {each: put((row, slice(None)), new[:, 0])})

    def set_column(self, name: str, column: int, values: Any) -> None:
        """Replaces one column of an input."""
        each, (rows, columns) = self._dynamic(name)
        column = place(column, columns, name, "column")
        new = self._vector(values, f"the column of {name}", rows)
        self._multiply_in()
        change = new - self._stored[each][:, column][:, None], Units(columns, np.array([column]))
        self._apply({each: change}, {each: put((slice(None), column), new[:, 0])})

    def add(self, name: str, change: Any) -> None:
        """Adds a matrix to an input: a SciPy sparse matrix, or an array in which few rows or columns are not zero."""
        self.apply({name: change})

    def apply(self, changes: Mapping[str, Any], *, batch_id: int | None = None) -> None:
        """Changes several inputs at once: all of them, or none if one is refused.

        A change is a pair (u, v), a matrix to add, or a list of those. A batch whose id was applied before is ignored,
        also if that was in an earlier process and the back end outlives it.
        """
        mark = None if batch_id is None else BatchMark(BATCHES, whole(batch_id, "batch_id"))
        if mark is not None and mark in self._batches:
            return
        found: dict[Matrix, Factors] = {}
        for name, change in changes.items():
            each, sides = self._dynamic(name)
            parts = [self._factors(part, name, sides) for part in (change if isinstance(change, list) else [change])]
            if kept := [part for part in parts if part is not None]:
                found[each] = merge(kept) if self._backend.is_exact else compress(*merge(kept))
        if found or mark is not None:
            self._apply(found, mark=mark)

    def scale(self, name: str, factor: float) -> None:
        """Multiplies an input by a number that is not zero: with `update`, A := λ A + u v', which forgets the past.

        Where every view is homogeneous in the input, no matrix is touched before one is read.
        """
        each, _ = self._dynamic(name)
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not math.isfinite(factor) or not factor:
            raise ProgramError(f"an input is multiplied by a finite number that is not zero, not by {factor!r}")
        if each.definite and factor < 0:
            raise MatrixDataError(f"{name} is declared positive definite, and would not be if multiplied by {factor}")
        known = degrees(self._statements, each)
        if known is None or self._backend.is_exact or self._backend.is_durable:
            self._multiply_now(each, factor)
        else:
            self._scalars[each] = self._scalars.get(each, 1.0) * factor
            most = max(abs(degree) for degree in known.values())
            if abs(math.log(abs(self._scalars[each]))) * most > math.log(LARGEST):
                self._multiply_in()
            self._subscribers.replaced(self._subscribers.views)
        self._commit()

    def append_row(self, name: str, row: Any, **others: Any) -> None:
        """Adds a row at the end of an input, and of every other input with the same dimension, given by name."""
        given = self._rows({name: row, **others}, name)
        side = self._names[name].rows
        self._resize(side, self._row_count(name) + 1)
        last = self._row_count(name) - 1
        units = Units(last + 1, np.array([last]))
        try:
            self._apply({each: (units, values.T) for each, values in given.items()})
        except BaseException:
            self._resize(side, last, without=[last])
            raise

    def delete_row(self, name: str, row: int) -> None:
        """Removes a row of an input, and of every other input with the same dimension; later rows move up."""
        count = self._row_count(name)
        row = place(row, count, name, "row")
        side = self._names[name].rows
        given = [each for each in self.program.inputs if side.names & each.rows.names]
        found = {each: self._backend.numpy(self.array(each.name)[row, :]) for each in given}
        self._rows({each.name: values for each, values in found.items()}, name)
        units = Units(count, np.array([row]))
        self._follow({each: (units, -values[:, None]) for each, values in found.items()}, {})
        self._resize(side, count - 1, without=[row])
        self._commit()

    def grow(self, dimension: str, size: int) -> None:
        """Gives a dimension a larger size; the rows and columns that come are zeros in every input that has it."""
        known = self._size(dimension)
        if size < known:
            raise ProgramError(f"dimension {dimension} has {known} places and cannot grow to {size}: see shrink")
        if size > known:
            self._change_size(dimension, size, ())

    def shrink(self, dimension: str, places: Sequence[int]) -> None:
        """Takes places out of a dimension, where every input that has it has zeros; later places move up."""
        known = self._size(dimension)
        gone = sorted({place(given, known, dimension, "place") for given in places})
        for each in self.program.inputs:
            for axis, own in enumerate(shape(each)):
                if dimension in own.names:
                    self._check_zeros(each, axis, gone)
        if gone:
            self._change_size(dimension, known - len(gone), gone)

    def keeps_zeros(self, dimension: str) -> bool:
        """Whether zeros that come to a dimension stay zeros in every view, so that nothing is evaluated again."""
        return not any(is_square_in(dimension, statement.body) for statement in self._statements.views)

    # -- the rest ------------------------------------------------------------------------------------------------------

    @property
    def _dtype(self) -> Any:
        return self._backend.dtype

    def _matrix(self, name: str) -> Matrix:
        found = self._statements.outputs.get(name) or self._names.get(name)
        if found is None:
            raise ProgramError(f"the program has no matrix {name!r}, only {', '.join(self.names)}")
        return found

    def _dynamic(self, name: str) -> tuple[Matrix, tuple[int, int]]:
        each = self._names.get(name)
        if each is None or each not in self.program.inputs:
            inputs = ", ".join(sorted(one.name for one in self.program.inputs if one.dynamic))
            raise ProgramError(f"{name!r} is not an input of the program; updates go to {inputs or 'none'}")
        if not each.dynamic:
            raise ProgramError(
                f"input {name!r} is static: declare it with dynamic=True, or `input` instead of `static`"
            )
        self._settle()
        rows, columns = self._stored[each].shape
        return each, (int(rows), int(columns))

    def _factors(self, change: Any, name: str, sides: tuple[int, int]) -> Factors | None:
        if isinstance(change, tuple):
            if len(change) != 2:
                raise MatrixDataError(f"a change of {name} is a pair (u, v), not {len(change)} arrays")
            if all(self._backend.is_native(part) for part in change):
                return self._native_factors(*change, name, sides)
            return outer(*change, name, self._dtype, sides)
        return sparse_change(change, name, self._dtype, sides)

    def _native_factors(self, u: Any, v: Any, name: str, sides: tuple[int, int]) -> Factors:
        left, right = self._backend.checked(u, f"u of {name}"), self._backend.checked(v, f"v of {name}")
        if (len(left), len(right)) != sides or left.shape[1] != right.shape[1]:
            raise MatrixDataError(f"u and v of {name} are {tuple(left.shape)} and {tuple(right.shape)} for {sides}")
        return left, right

    def _vector(self, values: Any, what: str, length: int) -> Array:
        """A row or column that a user gives, as a column of the back end."""
        if self._backend.is_native(values):
            found = self._backend.checked(values.reshape(-1, 1), what)
            if len(found) != length:
                raise MatrixDataError(f"{what} has {len(found)} numbers where {length} are expected")
            return self._backend.thin(found)
        found = checked_matrix(np.reshape(values, (-1, 1)), what, self._dtype, (length, 1))
        return self._backend.thin(found)

    def _apply(
        self,
        changes: dict[Matrix, Factors],
        exact: Mapping[Matrix, Put] | None = None,
        mark: BatchMark | None = None,
    ) -> None:
        """Applies checked changes. `exact` puts entries in place that a sum would have rounded."""
        for each in (each for each in changes if each.definite):
            left, right = (part if isinstance(part, Units) else self._backend.numpy(part) for part in changes[each])
            check_symmetric_change(left, right, each.name)
        if changes:
            self._follow(changes, exact or {})
        if mark is not None:
            self._batches = self._batches.adding(mark)
        self._commit()

    def _multiply_now(self, each: Matrix, factor: float) -> None:
        """Multiplies an input, and evaluates the views."""
        self._multiply_in()
        before = self._stored[each]
        try:
            self._stored[each] = self._multiplied(before, factor)
            self.refresh()
        except BaseException:
            self._stored[each] = before
            self._stale = True
            raise

    def _multiply_in(self) -> None:
        """Multiplies matrices by the numbers that wait: f(s A) = s^d f(A). Interrupted, views are evaluated again."""
        waited = list(self._scalars.items())
        for changed, factor in waited:
            known, before = degrees(self._statements, changed) or {}, self._stale
            self._stale = True
            self._stored[changed] = self._multiplied(self._stored[changed], factor)
            del self._scalars[changed]
            for each, degree in known.items():
                if degree and each is not changed:
                    self._stored[each] = self._multiplied(self._executor().matrix(each), factor**degree)
            self._stale = before
        if waited and self._bounds is not None:
            self._take_bounds()

    def _multiplied(self, array: Array, factor: float) -> Array:
        return self._backend.array(self._backend.combine([(factor, array)]), copy=False)

    def _divided(self, changes: dict[Matrix, Factors]) -> dict[Matrix, Factors]:
        """The changes of the matrices as they are stored, where a number is still to be multiplied in."""
        found = dict(changes)
        for each, factor in self._scalars.items():
            if each in found:
                left, right = found[each]
                if isinstance(right, Units):
                    found[each] = self._backend.combine([(1.0 / factor, left)]), right
                else:
                    found[each] = left, self._backend.combine([(1.0 / factor, right)])
        return found

    def _follow(self, changes: dict[Matrix, Factors], exact: Mapping[Matrix, Put]) -> None:
        changes = self._divided(changes) if self._scalars else changes
        key = tuple((each, left.shape[1]) for each, (left, _) in changes.items())
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= PLANS:
                self._plans.pop(next(iter(self._plans)))
                self._replays.clear()
            plan = self._plans[key] = choose(self._statements, dict(key), self._sizes, self._machine, self.strategy)
        begin = time.perf_counter()
        self._run(plan, changes, exact)
        self.statistics.seconds += time.perf_counter() - begin
        self._last = plan
        self._skewed |= {update.view for update in plan.trigger.updates} & self._symmetric
        if self._refresh.is_due(changes, self._worst_error):
            self.refresh()

    def _worst_error(self) -> float:
        """The largest estimated relative error of an output."""
        audit = self._audit()
        outputs = set(self._statements.outputs.values())
        found = 0.0
        for seed, view in enumerate(each for each in outputs if each in audit.bodies):
            norm = float(np.linalg.norm(audit.stored[view]))
            found = max(found, audit.estimate(view, seed) / norm if norm else 0.0)
        return found

    def _run(self, plan: Plan, changes: dict[Matrix, Factors], exact: Mapping[Matrix, Put]) -> None:
        saved = {each: before(self._backend, self._stored[each], *change) for each, change in changes.items()}
        executor = self._executor(exact)
        factors = {
            variable: self._backend.thin(factor)
            for each, change in changes.items()
            for variable, factor in zip(plan.trigger.factors[each], change, strict=True)
        }
        try:
            if self._subscribers.views:
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
        self._subscribers.replaced(statement.target for statement in plan.trigger.recomputed)
        if self._scalars:  # the factors are those of matrices that are still to be multiplied
            self._subscribers.replaced(self._subscribers.views)
            return
        for update in plan.trigger.updates:
            if update.view in self._subscribers.views:
                factors = [values.get(part, part) for part in (update.left, update.right)]
                if any(isinstance(part, Expression) for part in factors):
                    self._subscribers.replaced([update.view])
                else:
                    self._subscribers.changed(update.view, *(self._whole_factor(part) for part in factors))

    def _whole_factor(self, factor: Any) -> Any:
        return self._backend.stack([factor], vertical=False) if isinstance(factor, Units) else factor

    def _restore(self, saved: Mapping[Matrix, Any]) -> None:
        """The inputs as they were; views are evaluated again when they are next needed."""
        self._stale = True
        for each, restore in saved.items():
            restore(self._stored[each])

    def _refactor(self, changes: dict[Matrix, Factors], exact: Mapping[Matrix, Put], condition: float) -> None:
        """Applies changes that Woodbury's formula cannot follow: the views are evaluated from the new inputs."""
        warnings.warn(
            f"an update made an inverse close to singular (condition {condition:.1e} of the capacitance matrix): "
            "all views were evaluated again",
            LinAlgWarning,
            stacklevel=6,
        )
        saved = {each: before(self._backend, self._stored[each], *change) for each, change in changes.items()}
        try:
            for each, change in changes.items():
                left, right = (self._backend.thin(factor) for factor in change)
                self._backend.sweep(self._stored[each], (left, right), None, None)
                exact.get(each, keep)(self._stored[each])
            self._settle()
            self.statistics.ill_conditioned += 1
            self.statistics.updates += 1
        except BaseException:
            self._restore(saved)
            raise

    def _settle(self) -> None:
        """Evaluates all views from the inputs if the last update did not end well, and at the start."""
        if not self._stale:
            return
        executor = self._executor()
        for statement in self._statements.views:
            executor.recompute(statement.target, statement.body)
        self.statistics.recomputed += 1
        self._subscribers.replaced(self._subscribers.views)
        self._skewed = set(self._symmetric)
        self._stale = False

    def _executor(self, exact: Mapping[Matrix, Put] | None = None) -> Executor:
        return Executor(
            self._backend,
            self._stored,
            self._sizes,
            self._guards,
            exact or {},
            self._pending,
            self._statements.factored,
            self._bounds,
        )

    # -- rows that come and go -----------------------------------------------------------------------------------------

    def _size(self, dimension: str) -> int:
        known = self._sizes.get(dimension)
        if known is None:
            raise ProgramError(f"the program has no dimension {dimension!r}, only {', '.join(sorted(self._sizes))}")
        return known

    def _check_zeros(self, each: Matrix, axis: int, places: Sequence[int]) -> None:
        array = self.array(each.name)
        for given in places:
            values = self._backend.numpy(array[given, :] if axis == 0 else array[:, given])
            if np.any(values):
                what = ("row", "column")[axis]
                raise MatrixDataError(f"{what} {given} of {each.name} is not zero: set it to zero before it is removed")

    def _change_size(self, dimension: str, size: int, without: Sequence[int]) -> None:
        """Resizes a dimension, or leaves everything as it was if views have no value then."""
        self._settle()
        stored, sizes = dict(self._stored), self._sizes
        try:
            self._resize(dim(dimension), size, without)
        except BaseException:
            self._stored.update(stored)
            self._sizes = sizes
            self._plans.clear()
            self._replays.clear()
            self._stale = True
            raise
        self._commit()

    def _row_count(self, name: str) -> int:
        _, (rows, _) = self._dynamic(name)
        return rows

    def _rows(self, given: Mapping[str, Any], name: str) -> dict[Matrix, Floats]:
        """A row for each input that shares the dimension of the rows of `name`, which only rows may have."""
        side = self._dynamic(name)[0].rows
        if len(side.terms) != 1 or not side.names or side.terms[0][1] != 1:
            raise ProgramError(f"the rows of {name} are {side}: only a named dimension grows or shrinks")
        sharing = [each for each in self.program.inputs if side.names & (each.rows.names | each.columns.names)]
        for each in sharing:
            if each.columns.names & side.names or each.rows != side:
                raise ProgramError(f"{each.name} is {each.rows} × {each.columns}: rows of {name} cannot be added alone")
            if each.name not in given:
                raise ProgramError(f"{each.name} has as many rows as {name}: give its row as well, {each.name}=...")
            self._dynamic(each.name)
        if unknown := given.keys() - {each.name for each in sharing}:
            raise ProgramError(f"{sorted(unknown)[0]!r} is not an input with the rows of {name}")
        found = {}
        for each in sharing:
            columns = self._stored[each].shape[1]
            row = np.reshape(given[each.name], (1, -1))
            found[each] = checked_matrix(row, f"the row of {each.name}", self._dtype, (1, columns))
        return found

    def _resize(self, side: Any, count: int, without: Sequence[int] = ()) -> None:
        """Gives a dimension another size; the rows that come or go are zeros everywhere."""
        ((dimension,), _) = side.terms[0]
        executor = self._executor()
        for each in list(self._stored):
            array = executor.matrix(each)
            for axis, own in enumerate(shape(each)):
                if dimension in own.names and each not in self._statements.factored:
                    array = resized(self._backend, array, axis, count, without)
            self._stored[each] = array
        self._sizes = {**self._sizes, dimension: count}
        resized_views = [each for each in self._subscribers.views if any(dimension in own.names for own in shape(each))]
        self._subscribers.replaced(resized_views)
        planned = self._planned_sizes.get(dimension, 0)
        if not planned / RESIZED <= count <= planned * RESIZED:
            self._plans.clear()
            self._planned_sizes = self._sizes
        self._replays.clear()
        if not self.keeps_zeros(dimension):
            self._stale = True
            self._settle()
