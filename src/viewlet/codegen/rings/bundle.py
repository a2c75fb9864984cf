"""Stores in the form that generated functions take: one state, updated when arrays have moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from viewlet.runtime.flat import FlatStore
from viewlet.runtime.jit import ENABLED
from viewlet.runtime.state import bundle, put


class Bundle:
    """The arrays of some stores, and others with names of their own, as compiled functions take them."""

    def __init__(
        self, arrays: Sequence[tuple[str, str]], stores: Mapping[str, FlatStore], named: Mapping[str, Any]
    ) -> None:
        self._arrays, self._stores, self._named = arrays, stores, named
        self._versions: dict[str, int] = {}
        self.state: Any = None

    def refresh(self) -> None:
        """Tells the state where the arrays are that have moved."""
        versions = {name: store.version for name, store in self._stores.items()}
        if self.state is None:
            self.state = bundle([self._array(*place) for place in self._arrays])
        else:
            for i, (store, part) in enumerate(self._arrays):
                if store and versions[store] != self._versions[store]:
                    put(self.state, i, self._array(store, part))
        self._versions = versions

    def _array(self, store: str, part: str) -> Any:
        return self._stores[store].array(part) if store else self._named[part]


def call(function: Any, *given: Any) -> Any:
    """Calls a compiled function, or a plain one without the warnings of what wraps around."""
    if ENABLED:
        return function(*given)
    with np.errstate(over="ignore", invalid="ignore"):
        return function(*given)
