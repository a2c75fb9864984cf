"""The contract of back ends: what holds the arrays of a program and computes with them.

The central operation is `sweep`: "P += U V', returning the old P X and P' Y" in one pass over P. The other operations
are on thin arrays, or on whole matrices where a view is recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from viewlet.linalg.machine import Machine
from viewlet.linalg.values import Array, Units
from viewlet.runtime.durable.batch_ids import Ranges

Thin = Array | Units
"""A thin factor: an array of the back end, or unit vectors."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come: its matrices by name, the text of its statements, its updates and the ids of batches."""

    matrices: Mapping[str, Array]
    program: str
    updates: int
    batches: Mapping[str, Ranges] = field(default_factory=dict)


class Recording(Protocol):
    """Work that was recorded with some factors, and is launched with others."""

    def replay(self, factors: Mapping[Any, Thin]) -> None:
        """Does the work with factors of the same shapes."""


class Recorder(Protocol):
    """Records launches, so that a plan runs without Python between its steps."""

    def record(self, work: Callable[[Mapping[Any, Thin]], object], factors: Mapping[Any, Thin]) -> Recording:
        """Records what some work launches, without doing it."""


class Backend(Protocol):
    """Holds the arrays of one run; all of them have the type `dtype`."""

    @property
    def name(self) -> str:
        """What `explain` calls it."""

    @property
    def dtype(self) -> Any:
        """The NumPy type of the numbers."""

    def machine(self) -> Machine:
        """The rates by which plans are compared."""

    def checked(self, value: Any, name: str) -> Any:
        """A matrix of finite numbers that a user gives, as `array` takes it."""

    def is_native(self, value: Any) -> bool:
        """Whether a value is an array of the back end that need not be converted."""

    def index(self, units: Units) -> Any:
        """The places of unit vectors, as arrays are indexed."""

    def thin(self, factor: Any) -> Thin:
        """A factor of an update, from NumPy's array or from one of the back end."""

    def array(self, data: Any, *, copy: bool) -> Array:
        """A matrix that the run owns, from a NumPy array."""

    def numpy(self, array: Array) -> Any:
        """A NumPy array of the same numbers; may share memory."""

    def sweep(
        self, matrix: Array, update: tuple[Thin, Thin] | None, forward: Array | None, backward: Array | None
    ) -> tuple[Array | None, Array | None]:
        """P X and P' Y with the old P, then P += U V'. Where there is an update, all happens or none of it."""

    def multiply(self, left: Thin, right: Thin) -> Array:
        """The product of two arrays, one of which may be unit vectors."""

    def combine(self, terms: Sequence[tuple[float, Thin]]) -> Array:
        """The sum of numbers times arrays."""

    def stack(self, parts: Sequence[Thin], *, vertical: bool) -> Array:
        """Arrays side by side or on top of each other."""

    def identity(self, size: int) -> Array:
        """The identity matrix."""

    def zeros(self, rows: int, columns: int) -> Array:
        """A matrix of zeros."""

    def invert(self, array: Array) -> Array:
        """The inverse; `numpy.linalg.LinAlgError` if there is none."""

    def strengths(self, array: Array) -> tuple[float, float]:
        """The largest and the smallest singular value of a small matrix; infinity and zero if it is not finite."""

    def symmetrise(self, array: Array) -> None:
        """Makes a square matrix equal to its transpose, in place."""

    def norm(self, array: Array) -> float:
        """The Frobenius norm."""

    def copy(self, array: Array) -> Array:
        """The numbers of an array in memory of their own."""

    def is_finite(self, array: Array) -> bool:
        """Whether all numbers are finite."""

    @property
    def is_exact(self) -> bool:
        """Whether arithmetic is exact, on whole numbers: factors are not compressed, and nothing is divided."""

    @property
    def factors(self) -> bool:
        """Whether inverses of positive definite matrices may be kept as Cholesky factors, which are NumPy's arrays."""

    @property
    def is_durable(self) -> bool:
        """Whether matrices outlive the process."""

    @property
    def progress(self) -> Progress | None:
        """What an earlier run has left, for back ends that outlive the process; a run may continue from it."""

    def commit(self, progress: Progress) -> None:
        """Called after every update, and after an evaluation of all views: what a later run may continue from."""

    @property
    def recorder(self) -> Recorder | None:
        """What records launches, for back ends that can."""
