"""Which views a few rows may change, where many views over one table ask for a value each.

1,000 views   SELECT ... FROM t WHERE customer = 17      the row (17, ...) goes to one of them, and to every
                                                        view over t that asks for nothing
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import itemgetter

from viewlet.engine.maintained_view import MaintainedView
from viewlet.types import Datum, Row

MANY_VIEWS = 8
"""Views of their own rows from which on looking at the rows pays."""
ROUTED_ROWS = 64


class Route:
    """From the rows of one table or view to the views that read it."""

    def __init__(self, source: str, views: Iterable[MaintainedView]) -> None:
        self.guarded = 0
        """Views that some rows do not concern."""
        self._by_column: dict[int, dict[Datum, list[int]]] = {}
        self._views = tuple(views)
        self._unguarded: list[int] = []
        for place, view in enumerate(self._views):
            guard = view.maintainer.guard(source)
            if guard is None:
                self._unguarded.append(place)
                continue
            self.guarded += 1
            wanted = self._by_column.setdefault(guard.position, {})
            for value in guard.values:
                wanted.setdefault(value, []).append(place)

    def views_for(self, rows: Collection[Row]) -> tuple[MaintainedView, ...]:
        """The views that some rows may change, in the order of their declaration."""
        places = set(self._unguarded)
        for position, wanted in self._by_column.items():
            for value in set(map(itemgetter(position), rows)):
                places.update(wanted.get(value, ()))
        return tuple([self._views[place] for place in sorted(places)])
