"""When views are evaluated again to shed rounding errors: every so many updates, or when an error is too large."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from viewlet.linalg.errors import ProgramError
from viewlet.linalg.values import Factors, Units, frobenius
from viewlet.visible import described

EVERY = 64
"""Updates between two looks at the error."""
UNUSUAL = 1e4
"""An update that is this many times larger than the usual ones is looked at at once: it may cancel."""


class Refresh:
    """Counts updates and remembers their usual size; `limit` is a number of updates, a relative error, or None."""

    def __init__(self, limit: int | float | None) -> None:
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0):
            raise ProgramError(f"refresh is a number of updates, as 1000, or an error, as 1e-9, not {described(limit)}")
        self.limit = limit
        self.count = 0
        self.usual: float | None = None

    def is_due(self, changes: Mapping[Any, Factors], error: Callable[[], float]) -> bool:
        """Whether views have to be evaluated after an update; `error` estimates how far they are off."""
        if self.limit is None:
            return False
        self.count += 1
        if isinstance(self.limit, int):
            return self.count % self.limit == 0
        return (self._is_unusual(changes) or self.count % EVERY == 0) and not error() <= self.limit

    def _is_unusual(self, changes: Mapping[Any, Factors]) -> bool:
        size = sum(_length(left) * _length(right) for left, right in changes.values())
        usual = size if self.usual is None else self.usual
        unusual = size > UNUSUAL * usual
        self.usual = usual if unusual else 0.9 * usual + 0.1 * size
        return unusual


def _length(factor: Any) -> float:
    return float(len(factor.places) ** 0.5) if isinstance(factor, Units) else frobenius(_host(factor))


def _host(factor: Any) -> Any:
    return factor if isinstance(factor, np.ndarray) else factor.detach().cpu().numpy()
