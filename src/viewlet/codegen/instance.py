"""A generated module in a process: its functions, its stores, and the state through which the functions find them.

Trigger programs, blocks of distributed programs and view trees run on it. Each rolls back in its own way, by what it
has. Triggers are called with the rows of a change: `engine` calls them again with the opposite sign, which costs
nothing until it is needed. Blocks gather what they add to a view: `node` subtracts it. View trees merge scratch stores
into views in a kernel that they all share: `rings.compiled_tree` has it log the rows before their change. As plain
Python, calls are not atomic, and copies of all arrays (`images`) are put back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.codegen.arrays import StateArray, StoreArray
from viewlet.codegen.module_cache import is_cached, load_source
from viewlet.runtime.control import CONTROL_WORDS
from viewlet.runtime.flat import POOL, FlatStore, Image, Part
from viewlet.runtime.jit import ENABLED
from viewlet.runtime.moves import TIME
from viewlet.runtime.state import bundle, put


def _no_version() -> int:
    return 0


class ModuleInstance:
    """The code of a module over some stores.

    `named` has the arrays that belong to no store; it is asked again when `version` has changed, which has to `tick`.
    """

    def __init__(
        self,
        source: str,
        arrays: Sequence[StateArray],
        stores: Mapping[str, FlatStore],
        named: Callable[[], Mapping[str, Any]],
        version: Callable[[], int] = _no_version,
        control: Any = None,
    ) -> None:
        self.stores = stores
        """May be replaced by others between two calls, in which some stores are those of other modules."""
        self.control = np.zeros(CONTROL_WORDS, np.int64) if control is None else control
        self._arrays = arrays
        self._places: dict[StateArray, int] = {array: i for i, array in enumerate(arrays)}
        self._code = load_source(source)
        self._named, self._version = named, version
        self._state: Any = None
        self._versions: tuple[int, ...] = ()
        self._known_at = -1
        """The time of `runtime.moves` at which the state was right last."""
        self._bundled: Mapping[str, FlatStore] | None = None
        """The stores that the state was made of."""

    def call(self, name: str, *given: Any) -> Any:
        """Calls a generated function with the state as it is now."""
        function = getattr(self._code, name)
        return function(*given, self.state(), self.control) if ENABLED else self.run(function, *given)

    def run(self, function: Any, *given: Any) -> Any:
        """Calls a compiled function with the state as it is now; numbers of plain Python wrap around silently, too."""
        if ENABLED:
            return function(*given, self.state(), self.control)
        with np.errstate(over="ignore", invalid="ignore"):
            return function(*given, self.state(), self.control)

    def function(self, name: str) -> Any:
        return getattr(self._code, name)

    @property
    def path(self) -> Path:
        """The file of the module."""
        assert self._code.__file__ is not None
        return Path(self._code.__file__)

    def is_cached(self, name: str) -> bool:
        """Whether the disk cache has a compiled version of a function."""
        return is_cached(self._code, name)

    def place(self, store: str, part: Part = POOL) -> int:
        """Where an array of a store is in the state; its pool is the first."""
        return self._places[StoreArray(store, part)]

    def state(self) -> Any:
        """The state as compiled functions take it, valid until an array moves."""
        stores = self.stores
        if self._known_at != (now := TIME[0]) or self._bundled is not stores:
            if self._bundled is not stores:
                self._state = None
            versions = (self._version(), *[store.version for store in stores.values()])
            if self._state is None or versions != self._versions:
                self._update(versions)
            self._known_at, self._bundled = now, stores
        return self._state

    def _update(self, versions: tuple[int, ...]) -> None:
        """Tells the state where the arrays are that have moved."""
        named = self._named()
        if self._state is None:
            self._state = bundle([self._array(array, named) for array in self._arrays])
        else:
            pairs = zip((None, *self.stores), self._versions, versions, strict=True)
            moved = {store for store, old, new in pairs if old != new}
            for i, array in enumerate(self._arrays):
                if (array.store if isinstance(array, StoreArray) else None) in moved:
                    put(self._state, i, self._array(array, named))
        self._versions = versions

    def _array(self, array: StateArray, named: Mapping[str, Any]) -> Any:
        return self.stores[array.store].array(array.part) if isinstance(array, StoreArray) else named[array.name]

    # Rolling back

    def repair(self) -> None:
        """Completes what an exception cut short in the arrays of the stores."""
        for store in self.own_stores().values():
            store.repair()

    def own_stores(self) -> Mapping[str, FlatStore]:
        """The stores that this module changes."""
        return self.stores

    def images(self) -> dict[str, Image]:
        """A copy of all stores that this module changes, for `put_back`."""
        return {name: store.image() for name, store in self.own_stores().items()}

    def put_back(self, images: Mapping[str, Image]) -> None:
        """Makes all stores what they were when their images were made."""
        for name, image in images.items():
            self.stores[name].put_back(image)
