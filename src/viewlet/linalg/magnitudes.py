"""How large the numbers were that views were made of, and how large they are: what cancels leaves rounding errors.

    P += U V'       rounds every entry by ε times the largest numbers that it has to do with
    peak            the largest numbers in P and in the changes of P, since P was evaluated
    P has lost      its largest number is less than peak / LOST: rounding errors of up to ε peak are left in it

An outlier that comes and goes is such a change: X'X has had its square. The size of a large view is looked at through
its product with a random vector, which follows in the time of a thin product; only if that is small is the view read.
Numbers that overflow are found here too: the bounds of changes add up to a bound of the view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from viewlet.linalg.backends.contract import Backend
from viewlet.linalg.backends.numpy_backend import NumpyBackend
from viewlet.linalg.expression import Expression, Matrix
from viewlet.linalg.values import Array, Units

LOST = 1e3
"""A view is evaluated again where it has lost so much: three digits."""
SMALL = 4096
"""The most entries of a view whose largest number is simply looked up."""
ROOM = 1e-8
"""Bounds up to this part of the largest number of a type cannot overflow, whatever is added up to get them."""


class Overflow(Exception):  # noqa: N818
    """A view has numbers that are not finite."""


class Deferred(Protocol):
    """Changes that views wait with."""

    @property
    def factors(self) -> Mapping[Matrix, Any]:
        """By view."""

    def flush(self, each: Matrix, backend: Backend, stored: Array) -> None:
        """Adds them to a view."""


class Magnitudes:
    """Watches the views of a run in this process; what back ends elsewhere hold is not looked at."""

    def __init__(self, backend: Backend, stored: Mapping[Matrix, Array], pending: Deferred) -> None:
        self._backend = backend
        self._stored = stored
        self._pending = pending
        self._is_on = isinstance(backend, NumpyBackend) and not backend.is_exact
        self._huge = float(np.finfo(backend.dtype).max) * ROOM
        self._peaks: dict[Matrix, float] = {}
        self._sizes: dict[Matrix, float] = {}
        """The largest number that a view was seen to have since it was evaluated."""
        self._cancelling: dict[Matrix, float] = {}
        """The peaks of views whose changes cancel in themselves, such as those of A B - B A."""
        self._bounds: dict[Matrix, float] = {}
        """Of the largest numbers of matrices."""
        self._sketches: dict[Matrix, Any] = {}
        """The products of large matrices with a random vector."""
        self._probes: dict[int, Any] = {}
        self._shown: dict[Matrix, Matrix] = {}
        """The matrices that show how large views are: themselves, or what a Cholesky factor is of."""
        self._changed: dict[Matrix, Matrix] = {}
        """The same of the views that the update has changed."""

    def clear(self) -> None:
        """Matrices have other sizes."""
        self._sketches.clear()
        self._bounds.clear()

    def evaluated(self, view: Matrix) -> None:
        """A view was evaluated."""
        self._bounds.pop(view, None)
        self._sketches.pop(view, None)
        self._changed.pop(view, None)
        self._peaks.pop(view, None)
        self._sizes.pop(view, None)
        if view in self._cancelling:
            self._sizes[view] = self._measured(self._shown[view])

    def multiplied(self, each: Matrix, factor: float) -> None:
        """A matrix was multiplied by a number."""
        for known in (self._peaks, self._sizes, self._cancelling):
            if each in known:
                known[each] *= factor
        self._bounds.pop(each, None)
        self._sketches.pop(each, None)

    def are_moderate(self, views: Iterable[Matrix]) -> bool:
        """Whether no number of some matrices is so large that it could overflow when it is multiplied."""
        return not self._is_on or all(self._bound(each) < self._huge**0.5 for each in views)

    def added(self, view: Matrix, left: Any, right: Any, factor_of: Expression | None) -> None:
        """A matrix has got a change; raises `Overflow` if its numbers are not finite any more."""
        if not self._is_on:
            return
        change = float(_largest(left) @ _largest(right))
        if factor_of is None:
            self._check(view, change)
            if view.dynamic:
                return
        sketch = self._sketches.get(view)
        if sketch is not None:
            probe = self._probe(right.shape[0])
            sketch += self._backend.multiply(left, probe[right.places] if isinstance(right, Units) else right.T @ probe)
        self._peaks[view] = max(self._peaks.get(view, 0.0), change)
        self._changed[view] = self._shown[view] = factor_of if isinstance(factor_of, Matrix) else view

    def have_lost(self) -> bool:
        """Whether a view of the update has lost digits."""
        changed, self._changed = self._changed, {}
        return any(self._has_lost(view, shown) for view, shown in changed.items())

    def _check(self, view: Matrix, change: float) -> None:
        known = self._bounds.get(view)
        known = self._measured(view) if known is None else known + change
        if not known < self._huge:
            known = self._measured(view)
            if not np.isfinite(known) or view in self._pending.factors:
                raise Overflow
        self._bounds[view] = known

    def _bound(self, view: Matrix) -> float:
        if view not in self._bounds:
            self._bounds[view] = self._measured(view)
        return self._bounds[view]

    def _has_lost(self, view: Matrix, shown: Matrix) -> bool:
        peak, size = self._peaks[view], 0.0
        if self._is_large(shown):
            size = self._sketched(shown) / ROUGH
        if not size * LOST >= peak:
            size = self._measured(shown)
        self._peaks[view] = max(peak, size)
        self._sizes[view] = seen = max(self._sizes.get(view, 0.0), size)
        if size * LOST >= peak:
            return False
        if seen * LOST < peak:  # it never was as large as its changes: an evaluation may help once, and not every time
            if peak <= 2 * self._cancelling.get(view, 0.0):
                return False
            self._cancelling[view] = peak
        return True

    def _is_large(self, view: Matrix) -> bool:
        rows, columns = self._stored[view].shape
        return rows * columns > SMALL or view in self._pending.factors

    def _sketched(self, view: Matrix) -> float:
        if view.dynamic:
            return 0.0  # inputs have no sketch
        if view not in self._sketches:
            array = self._whole(view)
            self._sketches[view] = self._backend.multiply(array, self._probe(array.shape[1]))
        return float(np.abs(self._sketches[view]).max(initial=0.0))

    def _probe(self, size: int) -> Any:
        if size not in self._probes:
            self._probes[size] = np.random.default_rng(size).standard_normal((size, 1)).astype(self._backend.dtype)
        return self._probes[size]

    def _measured(self, view: Matrix) -> float:
        """The largest number of a matrix."""
        array = self._whole(view)
        if not isinstance(array, np.ndarray):
            array = getattr(getattr(array, "value", array), "data", array)
        if not isinstance(array, np.ndarray):
            array = self._backend.numpy(self._stored[view])
        if not array.size:
            return 0.0
        if array.size <= SMALL:
            return float(np.abs(array).max())
        return max(float(array.max()), -float(array.min()))

    def _whole(self, view: Matrix) -> Array:
        if view in self._pending.factors:
            self._pending.flush(view, self._backend, self._stored[view])
        return self._stored[view]


ROUGH = 32.0
"""A product with a random vector is hardly ever so many times longer than the rows of the matrix."""


def _largest(factor: Any) -> Any:
    """The largest number of every column."""
    if isinstance(factor, Units):
        return np.ones(len(factor.places))
    array = factor if isinstance(factor, np.ndarray) else factor.toarray()
    return np.abs(array).max(axis=0, initial=0.0)
