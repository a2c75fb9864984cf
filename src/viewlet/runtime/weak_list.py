"""Objects that are alive, to be found again without keeping them alive."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

from viewlet.forks import lock_for_forks

T = TypeVar("T")
_FEW = 1_000
_ADDING = lock_for_forks()


class WeakList(Generic[T]):
    """The objects added that are still alive. Unlike a `WeakSet` it has no callbacks, in which Ctrl-C would be lost."""

    def __init__(self) -> None:
        self._references: list[weakref.ref[T]] = []
        self._most = _FEW

    def add(self, thing: T) -> None:
        with _ADDING:
            if len(self._references) >= self._most:
                self._references = [each for each in self._references if each() is not None]
                self._most = _FEW + 2 * len(self._references)
            self._references.append(weakref.ref(thing))

    def __iter__(self) -> Iterator[T]:
        with _ADDING:
            references = list(self._references)
        for reference in references:
            if (thing := reference()) is not None:
                yield thing
