"""Two signals, where both have a sample: arithmetic, or the values of both side by side (section 7.4.3).

A sample waits until the other signal has one with its index, or one of its group with a larger index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from viewlet.signals.batches import Array, Batch, Samples, in_order, runs
from viewlet.signals.form import form_of
from viewlet.signals.nodes import Combine
from viewlet.signals.operators.contract import Stateless
from viewlet.signals.state import NEVER, Field, State

OPERATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "join": lambda left, right: np.concatenate((left, right), axis=1),
}


class Combination(Stateless):
    """x op y by key and index."""

    fields = (Field("left", (), "i8", NEVER), Field("right", (), "i8", NEVER))

    def __init__(self, node: Combine) -> None:
        self._operation = OPERATIONS[node.operation]
        self._kind = np.complex128 if form_of(node).is_complex else np.float64

    def run(self, state: State, *inputs: Any) -> Batch:
        given: list[Samples] = []
        for number, (name, new) in enumerate(zip(("left", "right"), inputs, strict=True)):
            first, slots = runs(new.slot)
            state[name][slots] = new.index[first[1:] - 1]
            old = state.waiting[number] if state.waiting else new.take(slice(0))
            given.append(_after(old, new))
        left, right = given
        rows = _matches(left, right)
        state.waiting = (_still(left, state["right"], rows[0]), _still(right, state["left"], rows[1]))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self._operation(left.value[rows[0]], right.value[rows[1]])
        return Samples(left.slot[rows[0]], left.index[rows[0]], value.astype(self._kind, copy=False))


def _after(old: Any, new: Samples) -> Samples:
    """Samples that waited, with the new ones, sorted."""
    if not len(old):
        return new
    if not len(new):
        return old  # type: ignore[no-any-return]
    parts = (np.concatenate((getattr(old, name), getattr(new, name))) for name in ("slot", "index", "value"))
    return in_order(Samples(*parts))


def _matches(left: Samples, right: Samples) -> tuple[Array, Array]:
    """The rows of both with equal slot and index."""
    if len(left) == len(right) and np.array_equal(left.index, right.index) and np.array_equal(left.slot, right.slot):
        return np.arange(len(left)), np.arange(len(right))
    slot = np.concatenate((left.slot, right.slot))
    index = np.concatenate((left.index, right.index))
    order = np.lexsort((index, slot))
    is_pair = np.flatnonzero((slot[order[1:]] == slot[order[:-1]]) & (index[order[1:]] == index[order[:-1]]))
    return order[is_pair], order[is_pair + 1] - len(left)


def _still(samples: Samples, reached: Array, matched: Array) -> Samples:
    """The samples that the other signal may still meet: those after its last index."""
    waits = samples.index > reached[samples.slot]
    waits[matched] = False
    return samples.take(waits)
