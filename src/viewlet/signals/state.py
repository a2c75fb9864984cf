"""The state of an operator: flat arrays with a row for every slot, and what waits for later samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.signals.backlog import Backlog
from viewlet.signals.batches import Array

NEVER = -(2**62)
"""The index of a sample that has not been."""


@dataclass(frozen=True, slots=True)
class Field:
    """An array of the state: what it has for each slot, and what that is for a new group."""

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = "f8"
    initial: float = 0


@dataclass(frozen=True, slots=True)
class Saved:
    """What an operator knew of some slots."""

    slots: Array
    arrays: dict[str, Array]
    waiting: tuple[Backlog, ...]


class State:
    """The arrays of one operator by name. `waiting` is replaced as a whole."""

    __slots__ = ("arrays", "fields", "waiting")

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self.arrays: dict[str, Array] = {each.name: _new(each, 0) for each in self.fields}
        self.waiting: tuple[Backlog, ...] = ()

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def reserve(self, slots: int) -> None:
        """Makes room for so many slots."""
        for each in self.fields:
            held = self.arrays[each.name]
            if len(held) < slots:
                room = max(slots, 2 * len(held), 16) if len(held) else slots
                self.arrays[each.name] = np.concatenate((held, _new(each, room - len(held))))

    def reset(self, slots: Array) -> None:
        """Makes the groups of some slots new."""
        for each in self.fields:
            self.arrays[each.name][slots] = each.initial
        self.waiting = tuple(each.without(slots) for each in self.waiting)

    def only(self, slots: Array) -> None:
        """Keeps some slots, in ascending order: they are then 0, 1 and so on."""
        for name, held in self.arrays.items():
            self.arrays[name] = held[slots]
        kept = (each.of_slots(slots) for each in self.waiting)
        self.waiting = tuple(each.renumbered(lambda slot: np.searchsorted(slots, slot)) for each in kept)

    def save(self, slots: Array) -> Saved:
        """What is known of some slots, to be restored."""
        return Saved(slots, {name: held[slots] for name, held in self.arrays.items()}, self.waiting)

    def restore(self, saved: Saved) -> None:
        """Takes back what has happened to the slots since `save`; may be called again."""
        for name, held in saved.arrays.items():
            self.arrays[name][saved.slots] = held
        self.waiting = saved.waiting


def _new(field: Field, slots: int) -> Any:
    return np.full((slots, *field.shape), field.initial, field.dtype)
