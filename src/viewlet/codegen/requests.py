"""The requirements of a module on its stores: indexes, ordered indexes, and scratch stores.

They are collected while the code is written; the layouts are complete afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from viewlet.codegen.not_compilable import NotCompilable
from viewlet.runtime.flat import Layout, Ordered

T = TypeVar("T")

Order = tuple[tuple[int, ...], str]
"""An ordered index: positions of key words, and the field whose number comes last, if any."""


@dataclass(slots=True)
class Requests:
    slices: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    orders: dict[str, list[Order]] = field(default_factory=dict)
    watched: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    scratches: list[Layout] = field(default_factory=list)

    def slice(self, view: str, positions: tuple[int, ...]) -> int:
        """The number of the index of a view over a part of its key."""
        return _number(self.slices.setdefault(view, []), positions)

    def order(self, view: str, positions: tuple[int, ...], field: str) -> int:
        """The number of the ordered index over these words of the key, and then over the number in a field."""
        return _number(self.orders.setdefault(view, []), (positions, field))

    def watch(self, view: str, number: int, field: str) -> None:
        """An ordered index is to know whether a field is negative anywhere."""
        self.watched.setdefault((view, number), set()).add(field)

    def scratch(self, keys: int, kind: str) -> Layout:
        """A new store for one number per key."""
        return self.add_scratch(Layout(f"scratch {len(self.scratches) + 1}", keys, ("number",), (kind,), scratch=True))

    def add_scratch(self, layout: Layout) -> Layout:
        self.scratches.append(layout)
        return layout

    def layouts(self, stores: Mapping[str, Layout]) -> dict[str, Layout]:
        """The layouts of stores with the indexes that were requested, and the scratch stores."""
        complete = {
            name: replace(layout, slices=tuple(self.slices.get(name, ())), ordered=self._ordered(name))
            for name, layout in stores.items()
        }
        if taken := [layout.name for layout in self.scratches if layout.name in stores]:
            raise NotCompilable(f"a view called {taken[0]!r}, which is the name of a scratch store")
        return complete | {layout.name: layout for layout in self.scratches}

    def _ordered(self, view: str) -> tuple[Ordered, ...]:
        return tuple(
            Ordered(positions, field, frozenset(self.watched.get((view, j), ())))
            for j, (positions, field) in enumerate(self.orders.get(view, ()))
        )


def _number(known: list[T], wanted: T) -> int:
    if wanted not in known:
        known.append(wanted)
    return known.index(wanted)
