"""Who is told how a view changes: by the factors u and v of view += u v', or that it was evaluated again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from viewlet.linalg.expression import Matrix

Change: TypeAlias = tuple[Any, Any] | None
"""The factors of a change; None if the view was evaluated again, or has other dimensions."""
Listener: TypeAlias = Callable[[Change], object]


class Subscribers:
    """The listeners of the views of a run, and what they are to be told when an update is complete."""

    def __init__(self) -> None:
        self._listeners: dict[Matrix, list[Listener]] = {}
        self._waiting: dict[Matrix, Change] = {}

    @property
    def views(self) -> tuple[Matrix, ...]:
        """The views that somebody listens to."""
        return tuple(self._listeners)

    def add(self, view: Matrix, listener: Listener) -> Callable[[], None]:
        """Adds a listener; what is returned removes it."""
        self._listeners.setdefault(view, []).append(listener)

        def remove() -> None:
            known = self._listeners.get(view, [])
            if listener in known:
                known.remove(listener)
            if not known:
                self._listeners.pop(view, None)

        return remove

    def changed(self, view: Matrix, left: Any, right: Any) -> None:
        """A view got a change in factors."""
        self._waiting[view] = None if view in self._waiting else (left, right)

    def replaced(self, views: Iterable[Matrix]) -> None:
        """Views were evaluated again."""
        self._waiting |= {view: None for view in views if view in self._listeners}

    def deliver(self) -> None:
        """Tells everybody; the update stands whatever a listener raises."""
        waiting, self._waiting = self._waiting, {}
        for view, change in waiting.items():
            for listener in tuple(self._listeners.get(view, ())):
                listener(change)
