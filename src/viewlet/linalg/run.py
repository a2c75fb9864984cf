"""A program that runs: its inputs, its views, and the updates that keep them together."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from viewlet.linalg.backends import make_backend
from viewlet.linalg.backends.contract import Backend, Progress
from viewlet.linalg.backends.numpy_backend import NumpyBackend
from viewlet.linalg.backends.sparse_matrix import is_sparse
from viewlet.linalg.errors import MatrixDataError, ProgramError
from viewlet.linalg.execute import Put
from viewlet.linalg.expression import Inverse, Matrix, shape
from viewlet.linalg.inputs import (
    bind_sizes,
    check_symmetric,
    check_symmetric_change,
    common_type,
    finite_factor,
    named,
    number_type,
    place,
    switch,
    whole,
)
from viewlet.linalg.maintained import MaintainedMatrices, Statistics
from viewlet.linalg.program import Program
from viewlet.linalg.refinement import refined
from viewlet.linalg.scalars import degrees
from viewlet.linalg.strategy import check_strategy, plan_statements
from viewlet.linalg.subscribers import Listener
from viewlet.linalg.trust import FAILURE, ErrorReport
from viewlet.linalg.undo import put
from viewlet.linalg.values import (
    Array,
    Entries,
    Factors,
    Units,
    apart,
    checked_matrix,
    compress,
    entries_change,
    frobenius,
    merge,
    outer,
    sparse_change,
)
from viewlet.runtime.durable.batch_ids import BatchMark
from viewlet.visible import described

Floats = npt.NDArray[Any]

BATCHES = "updates"
"""The source of the ids of batches."""

OPTIONS = ("strategy", "copy", "dtype", "backend", "memory", "defer", "refresh", "cholesky", "bounds")


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


Method = TypeVar("Method", bound=Callable[..., Any])


def _one_at_a_time(method: Method) -> Method:
    """Calls of several threads wait for each other."""

    @wraps(method)
    def call(self: Run, *arguments: Any, **options: Any) -> Any:
        with self._lock:
            return method(self, *arguments, **options)

    return cast(Method, call)


def _density(value: Any) -> float:
    rows, columns = value.shape
    return float(value.nnz / max(1, rows * columns))


def _owned(backend: Backend, given: Mapping[Matrix, Any], copy: bool) -> dict[Matrix, Array]:
    """The arrays of the inputs; without `copy` they are the given ones, but one that is given twice is copied."""
    found: dict[Matrix, Array] = {}
    for each, value in given.items():
        array = backend.array(value, copy=copy)
        found[each] = array if copy else apart(array, found.values())
    return found


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
        if not isinstance(program, Program) or not isinstance(inputs, Mapping):
            raise ProgramError("a run has a program and {input: matrix}: call program.start(A=...)")
        self._lock = RLock()
        self.program = program
        self.strategy = check_strategy(strategy)
        if not isinstance(backend, str) and not hasattr(backend, "dtype"):
            raise ProgramError(f"backend is a name such as 'numpy' or a back end, not {described(backend)}")
        kind = number_type(dtype or common_type(inputs.values())) if isinstance(backend, str) else backend.dtype
        if kind not in (np.dtype(np.float64), np.dtype(np.float32)):
            raise ProgramError(f"a program computes in float64 or float32, not in {kind}")
        own: Backend = make_backend(backend, kind) if isinstance(backend, str) else backend
        self._backend = own
        given = {each: own.checked(inputs[each.name], each.name) for each in program.inputs}
        for each in (each for each in program.inputs if each.definite):
            check_symmetric(own.numpy(given[each]), each.name)
        densities = {each.name: _density(value) for each, value in given.items() if is_sparse(value)}
        machine = replace(own.machine(), densities=densities)
        sizes = bind_sizes({each: tuple(value.shape) for each, value in given.items()})
        statements = plan_statements(
            program, sizes, machine, self.strategy, memory, cholesky=switch(cholesky, "cholesky") and own.factors
        )
        self._names = {each.name: each for each in program.inputs}
        self._names |= {statement.target.name: statement.target for statement in statements.views}
        self._matrices = MaintainedMatrices(
            statements,
            _owned(own, given, copy),
            sizes,
            own,
            machine,
            self.strategy,
            whole(defer, "defer"),
            refresh,
            switch(bounds, "bounds"),
        )

    @property
    def statistics(self) -> Statistics:
        """What the run has done."""
        return self._matrices.statistics

    # -- reading -------------------------------------------------------------------------------------------------------

    @_one_at_a_time
    def __getitem__(self, name: str) -> Floats:
        """An input, a view or an output by name: a read-only array that shows the state until the next update."""
        shown: Floats = self._backend.numpy(self.array(name)).view()
        shown.flags.writeable = False
        return shown

    @_one_at_a_time
    def array(self, name: str) -> Array:
        """The array of the back end that holds a matrix, on a GPU a tensor; it changes with the next update."""
        each = self._matrix(name)
        if each not in self.program.inputs:
            self._matrices.settle(each)
        self._matrices.multiply_in()
        begin = time.perf_counter()
        found = self._matrices.executor().matrix(each)
        self._matrices.statistics.seconds += time.perf_counter() - begin
        if each in self._matrices.statements.factored:
            return self._backend.numpy(found)
        if each in self._matrices.skewed:
            self._matrices.skewed.discard(each)
            if self._matrices.bounds is not None:
                self._matrices.bounds.symmetrised(each)
            self._backend.symmetrise(found)
        return found

    @_one_at_a_time
    def subscribe(self, name: str, listener: Listener) -> Callable[[], None]:
        """Calls a function after every update with the change of a view: its factors (u, v), the view being += u v'.

        The function gets None where the view was evaluated again or has other dimensions: then it is to be read. What
        is returned ends the subscription.
        """
        view = self._matrix(name)
        if view in self._matrices.statements.factored:
            raise ProgramError(f"{name} is kept as a Cholesky factor: make it an output to follow its changes")
        if not callable(listener):
            raise ProgramError(f"subscribe() takes a function of a change, not {described(listener)}")
        return self._matrices.subscribers.add(view, listener)

    @_one_at_a_time
    def error(self, name: str) -> ErrorReport:
        """How far a matrix may be from its definition over the inputs as they are.

        The bound always holds. It costs an evaluation of the program, unless it is accumulated (`start(bounds=True)`),
        which makes it larger. The estimate takes a few products with thin matrices, and is too small with a probability
        of at most `failure`.
        """
        view, audit = self._matrix(name), self._matrices.audit()
        norm = frobenius(np.asarray(audit.stored[view]))
        if self._backend.is_exact:
            return ErrorReport(0.0, 0.0, 0.0, norm)
        bound = audit.bound(view) if self._matrices.bounds is None else self._matrices.bounds.bound(view)
        bound = bound if bound < math.inf else math.inf  # what overflows on the way to it may be no number
        return ErrorReport(bound, audit.estimate(view), FAILURE, norm)

    @_one_at_a_time
    def condition(self, name: str) -> float:
        """The condition number, in the 1-norm, of the matrix whose inverse a view is; of any other matrix, its own."""
        view, audit = self._matrix(name), self._matrices.audit()
        body = audit.bodies.get(view)
        if isinstance(body, Inverse) and isinstance(body.body, Matrix):
            inverse, system = np.asarray(audit.stored[view]), audit.stored[body.body]
            return float(np.linalg.norm(inverse, 1) * np.linalg.norm(system, 1))
        array = np.asarray(audit.stored[view])
        if array.shape[0] != array.shape[1]:
            rows, columns = array.shape
            raise ProgramError(
                f"{name} is {rows} × {columns}: only a square matrix has a condition number in the 1-norm"
            )
        return float(np.linalg.cond(array, 1)) if array.size else 0.0

    @_one_at_a_time
    def refine(self, name: str) -> int:
        """Makes the solution of a system, `solve(M, B)`, or an inverse more accurate by iterative refinement.

        Residuals are computed through the definitions of M and B over the inputs, in extended precision. Returns the
        number of steps.
        """
        view = self._matrix(name)
        if self._backend.is_exact or not isinstance(self._backend, NumpyBackend):
            raise ProgramError("refine() needs the back end 'numpy' or 'compiled'")
        if view in self._matrices.statements.factored:
            raise ProgramError(f"{name} is kept as a Cholesky factor: refine the solutions that are computed with it")
        audit = self._matrices.audit(np.longdouble)
        found, steps = refined(audit, view)
        self._matrices.stored[view] = self._backend.array(found, copy=False)
        if self._matrices.bounds is not None:
            self._matrices.take_bounds()
        return steps

    @property
    def names(self) -> list[str]:
        """The names of outputs, inputs and views."""
        return sorted({*self._matrices.statements.outputs, *self._names})

    @_one_at_a_time
    def explain(self) -> str:
        """The sizes, the views with their memory, and what the last update did with its estimated time."""
        from viewlet.linalg.explain import explain_run

        return explain_run(self._matrices)

    # -- changing ------------------------------------------------------------------------------------------------------

    def update(self, name: str, u: Any, v: Any) -> None:
        """Adds u v' to an input; u and v are vectors, or matrices with a column for each outer product."""
        self.apply({named(name): (u, v)})

    def set(self, name: str, row: int, column: int, value: float) -> None:
        """Sets one entry of an input."""
        self.apply({named(name): Entries([row], [column], [value])})

    @_one_at_a_time
    def set_row(self, name: str, row: int, values: Any) -> None:
        """Replaces one row of an input."""
        each, (rows, columns) = self._dynamic(name)
        row = place(row, rows, name, "row")
        new = self._vector(values, f"the row of {name}", columns)
        self._matrices.multiply_in()
        old = self._matrices.stored[each][row, :][:, None]
        with np.errstate(over="ignore"):
            values, is_lossy = new - old, self._is_lossy(old, new)
        change = Units(rows, np.array([row])), values
        self._apply({each: change}, {each: put((row, slice(None)), new[:, 0])}, is_lossy=is_lossy)

    @_one_at_a_time
    def set_column(self, name: str, column: int, values: Any) -> None:
        """Replaces one column of an input."""
        each, (rows, columns) = self._dynamic(name)
        column = place(column, columns, name, "column")
        new = self._vector(values, f"the column of {name}", rows)
        self._matrices.multiply_in()
        old = self._matrices.stored[each][:, column][:, None]
        with np.errstate(over="ignore"):
            values, is_lossy = new - old, self._is_lossy(old, new)
        change = values, Units(columns, np.array([column]))
        self._apply({each: change}, {each: put((slice(None), column), new[:, 0])}, is_lossy=is_lossy)

    def add(self, name: str, change: Any) -> None:
        """Adds a matrix to an input: a SciPy sparse matrix, or an array in which few rows or columns are not zero."""
        self.apply({named(name): change})

    @_one_at_a_time
    def apply(self, changes: Mapping[str, Any], *, batch_id: int | None = None) -> None:
        """Changes several inputs at once: all of them, or none if one is refused.

        A change is a pair (u, v), a matrix to add, or a list of those; `Entries` are set. A batch whose id was applied
        before is ignored, also if that was in an earlier process and the back end outlives it.
        """
        if not isinstance(changes, Mapping):
            raise ProgramError(f"apply() takes {{input: change}}, not {described(changes)}")
        mark = None if batch_id is None else BatchMark(BATCHES, whole(batch_id, "batch_id"))
        if mark is not None and mark in self._matrices.batches:
            return
        found: dict[Matrix, Factors] = {}
        exact: dict[Matrix, Put] = {}
        is_lossy = False
        for name, change in changes.items():
            each, sides = self._dynamic(name)
            if isinstance(change, Entries):
                if not len(change.values):
                    continue
                found[each], exact[each], lossy = self._entries(each, change, sides)
                is_lossy = is_lossy or lossy
                continue
            parts = [self._factors(part, name, sides) for part in (change if isinstance(change, list) else [change])]
            if kept := [part for part in parts if part is not None]:
                found[each] = merge(kept) if self._backend.is_exact else compress(*merge(kept))
        if found or mark is not None:
            self._apply(found, exact, is_lossy=is_lossy, mark=mark)

    @_one_at_a_time
    def scale(self, name: str, factor: float) -> None:
        """Multiplies an input by a number that is not zero: with `update`, A := λ A + u v', which forgets the past.

        Where every view is homogeneous in the input, no matrix is touched before one is read.
        """
        each, _ = self._dynamic(name)
        factor = finite_factor(factor)
        if each.definite and factor < 0:
            raise MatrixDataError(f"{name} is declared positive definite, and would not be if multiplied by {factor}")
        known = degrees(self._matrices.statements, each)
        if known is None or self._backend.is_exact or self._backend.is_durable:
            self._matrices.multiply_now(each, factor)
        else:
            self._matrices.multiply_later(each, factor, known)
            self._matrices.subscribers.replaced(self._matrices.subscribers.views)
        self._matrices.commit()

    @_one_at_a_time
    def append_row(self, name: str, row: Any, **others: Any) -> None:
        """Adds a row at the end of an input, and of every other input with the same dimension, given by name."""
        given = self._rows({named(name): row, **others}, name)
        side, last = self._names[name].rows, self._row_count(name)
        units = Units(last + 1, np.array([last]))
        with self._matrices.resizing():
            self._matrices.resize(side, last + 1)
            self._follow({each: (units, values.T) for each, values in given.items()})
        self._matrices.commit()

    @_one_at_a_time
    def delete_row(self, name: str, row: int) -> None:
        """Removes a row of an input, and of every other input with the same dimension; later rows move up."""
        count = self._row_count(name)
        row = place(row, count, name, "row")
        side = self._names[name].rows
        given = [each for each in self.program.inputs if side.names & each.rows.names]
        found = {each: np.array(self._backend.numpy(self.array(each.name)[row, :])) for each in given}
        self._rows({each.name: values for each, values in found.items()}, name)
        units = Units(count, np.array([row]))
        with self._matrices.resizing():
            if self._matrices.keeps_zeros(next(iter(side.names))):
                self._follow({each: (units, -values[:, None]) for each, values in found.items()})
                self._matrices.resize(side, count - 1, without=[row])
            else:
                self._matrices.resize(side, count - 1, without=[row])
                self._matrices.settle()
        self._matrices.commit()

    @_one_at_a_time
    def grow(self, dimension: str, size: int) -> None:
        """Gives a dimension a larger size; the rows and columns that come are zeros in every input that has it."""
        known = self._size(dimension)
        if size < known:
            raise ProgramError(f"dimension {dimension} has {known} places and cannot grow to {size}: see shrink")
        if size > known:
            self._matrices.change_size(dimension, size, ())

    @_one_at_a_time
    def shrink(self, dimension: str, places: Sequence[int]) -> None:
        """Takes places out of a dimension, where every input that has it has zeros; later places move up."""
        known = self._size(dimension)
        gone = sorted({place(given, known, dimension, "place") for given in places})
        for each in self.program.inputs:
            for axis, own in enumerate(shape(each)):
                if dimension in own.names:
                    self._check_zeros(each, axis, gone)
        if gone:
            self._matrices.change_size(dimension, known - len(gone), gone)

    def keeps_zeros(self, dimension: str) -> bool:
        """Whether zeros that come to a dimension stay zeros in every view, so that nothing is evaluated again."""
        return self._matrices.keeps_zeros(named(dimension, "dimension"))

    @_one_at_a_time
    def refresh(self) -> None:
        """Evaluates all views from the inputs."""
        self._matrices.refresh()

    # -- the rest ------------------------------------------------------------------------------------------------------

    @property
    def _dtype(self) -> Any:
        return self._backend.dtype

    def _matrix(self, name: str) -> Matrix:
        name = named(name)
        found = self._matrices.statements.outputs.get(name) or self._names.get(name)
        if found is None:
            raise ProgramError(f"the program has no matrix {name!r}, only {', '.join(self.names)}")
        return found

    def _dynamic(self, name: str) -> tuple[Matrix, tuple[int, int]]:
        each = self._names.get(named(name))
        if each is None or each not in self.program.inputs:
            inputs = ", ".join(sorted(one.name for one in self.program.inputs if one.dynamic))
            raise ProgramError(f"{name!r} is not an input of the program; updates go to {inputs or 'none'}")
        if not each.dynamic:
            raise ProgramError(
                f"input {name!r} is static: declare it with dynamic=True, or `input` instead of `static`"
            )
        rows, columns = self._matrices.stored[each].shape
        return each, (int(rows), int(columns))

    def _factors(self, change: Any, name: str, sides: tuple[int, int]) -> Factors | None:
        if isinstance(change, tuple):
            if len(change) != 2:
                raise MatrixDataError(f"a change of {name} is a pair (u, v), not {len(change)} arrays")
            if all(self._backend.is_native(part) for part in change):
                return self._native_factors(*change, name, sides)
            left, right = outer(*change, name, self._dtype, sides)
            return (self._apart(left), self._apart(right)) if left.shape[1] else None
        return sparse_change(change, name, self._dtype, sides)

    def _entries(self, each: Matrix, given: Entries, sides: tuple[int, int]) -> tuple[Factors, Put, bool]:
        """The change that sets some entries, what writes them, and whether a difference would not do."""
        name, (row_count, column_count) = each.name, sides
        if not len(given.rows) == len(given.columns) == len(given.values):
            lengths = f"{len(given.rows)} rows, {len(given.columns)} columns and {len(given.values)} values"
            raise MatrixDataError(f"Entries of {name} have a row, a column and a value each, not {lengths}")
        wanted = checked_matrix(given.values, f"the value of {name}", self._dtype, (None, 1))
        wanted = self._backend.checked(wanted, f"the value of {name}")
        values: dict[tuple[int, int], Any] = {
            (place(row, row_count, name, "row"), place(column, column_count, name, "column")): value
            for row, column, value in zip(given.rows, given.columns, wanted[:, 0], strict=True)
        }
        self._matrices.multiply_in()
        stored = self._matrices.stored[each]
        rows, columns = np.array(list(values), np.int64).reshape(-1, 2).T
        new = np.array(list(values.values()), self._dtype)
        if isinstance(stored, np.ndarray):
            old = stored[rows, columns]
        else:
            old = np.array([float(stored[row, column]) for row, column in values], self._dtype)
        with np.errstate(over="ignore"):
            factors, is_lossy = entries_change(rows, columns, new - old, sides), self._is_lossy(old, new, each=True)
        if len(values) == 1:
            return factors, put((int(rows[0]), int(columns[0])), float(new[0])), is_lossy
        return factors, put((rows, columns), new), is_lossy

    def _is_lossy(self, old: Any, new: Any, *, each: bool = False) -> bool:
        """Whether the old numbers and a difference have less than half of the digits of the new ones, all or each."""
        if not isinstance(old, np.ndarray) or self._backend.is_exact:
            return False
        error, size = np.abs((old + (new - old)) - new), np.abs(new)
        if not each:
            error, size = error.max(initial=0.0), size.max(initial=0.0)
        return not (error <= size * np.finfo(self._dtype).eps ** 0.5).all()

    def _native_factors(self, u: Any, v: Any, name: str, sides: tuple[int, int]) -> Factors:
        left, right = self._backend.checked(u, f"u of {name}"), self._backend.checked(v, f"v of {name}")
        if (len(left), len(right)) != sides or left.shape[1] != right.shape[1]:
            raise MatrixDataError(f"u and v of {name} are {tuple(left.shape)} and {tuple(right.shape)} for {sides}")
        return self._backend.copy(left), self._backend.copy(right)  # they may be slices of the run's own arrays

    def _apart(self, factor: Any) -> Any:
        return apart(factor, self._matrices.stored.values())

    def _vector(self, values: Any, what: str, length: int) -> Array:
        """A row or column that a user gives, as a column of the back end."""
        if self._backend.is_native(values):
            found = self._backend.checked(values.reshape(-1, 1), what)
            if len(found) != length:
                raise MatrixDataError(f"{what} has {len(found)} numbers where {length} are expected")
            return self._backend.copy(self._backend.thin(found))
        found = checked_matrix(np.reshape(values, (-1, 1)), what, self._dtype, (length, 1))
        return self._backend.thin(self._apart(found))

    def _apply(
        self,
        changes: dict[Matrix, Factors],
        exact: Mapping[Matrix, Put] | None = None,
        *,
        is_lossy: bool = False,
        mark: BatchMark | None = None,
    ) -> None:
        """Applies checked changes. `exact` puts entries in place that a sum would have rounded."""
        self._follow(changes, exact or {}, is_lossy=is_lossy)
        if mark is not None:
            self._matrices.batches = self._matrices.batches.adding(mark)
        self._matrices.commit()

    def _follow(
        self, changes: dict[Matrix, Factors], exact: Mapping[Matrix, Put] | None = None, *, is_lossy: bool = False
    ) -> None:
        for each in (each for each in changes if each.definite):
            left, right = (part if isinstance(part, Units) else self._backend.numpy(part) for part in changes[each])
            check_symmetric_change(left, right, each.name)
        if changes:
            self._matrices.follow(changes, exact or {}, is_lossy=is_lossy)

    # -- rows that come and go -----------------------------------------------------------------------------------------

    def _size(self, dimension: str) -> int:
        known = self._matrices.sizes.get(named(dimension, "dimension"))
        if known is None:
            dimensions = ", ".join(sorted(self._matrices.sizes))
            raise ProgramError(f"the program has no dimension {dimension!r}, only {dimensions}")
        return known

    def _check_zeros(self, each: Matrix, axis: int, places: Sequence[int]) -> None:
        array = self.array(each.name)
        for given in places:
            values = self._backend.numpy(array[given, :] if axis == 0 else array[:, given])
            if np.any(values):
                what = ("row", "column")[axis]
                raise MatrixDataError(f"{what} {given} of {each.name} is not zero: set it to zero before it is removed")

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
            columns = self._matrices.stored[each].shape[1]
            row = np.reshape(given[each.name], (1, -1))
            found[each] = checked_matrix(row, f"the row of {each.name}", self._dtype, (1, columns))
        return found
