"""Two signals, where both have a sample: arithmetic, or the values of both side by side (section 7.4.3).

A sample waits until the other signal has one with its index, or one of its group with a larger index.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from viewlet.signals.backlog import Backlog
from viewlet.signals.batches import Array, Batch, Samples, real_parts, runs
from viewlet.signals.form import arithmetic_of, form_of
from viewlet.signals.nodes import Combine
from viewlet.signals.operators import join_kernels as kernels
from viewlet.signals.operators.contract import Stateless
from viewlet.signals.state import NEVER, Field, State

OPERATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "join": lambda left, right: np.concatenate((left, right), axis=1),
}
SIDES = ("left", "right")
ADDITIVE = {"+": kernels.ADD, "-": kernels.SUBTRACT}
"""Operations that treat the parts of complex numbers alike: the kernel does them."""


class Combination(Stateless):
    """x op y by key and index."""

    fields = (Field("left", (), "i8", NEVER), Field("right", (), "i8", NEVER))

    def __init__(self, node: Combine) -> None:
        self._operation = OPERATIONS[node.operation]
        form = form_of(node)
        self._kind = np.complex128 if form.is_complex else np.float64
        self._adds = ADDITIVE.get(node.operation, kernels.BOTH)
        if form.payload:
            own, self._adds = arithmetic_of(form), kernels.BOTH
            self._operation = {"+": own.plus, "-": own.minus, "*": own.times}[node.operation]

    def run(self, state: State, *inputs: Any) -> Batch:
        backlogs = list(state.waiting or (Backlog(), Backlog()))
        sides: list[Array] = []
        # Of the samples that wait, those are looked at that the other signal reaches now.
        for side, new in enumerate(inputs):
            first, slots = runs(inputs[1 - side].slot)
            before, now = state[SIDES[1 - side]][slots], inputs[1 - side].index[first[1:] - 1]
            waited, backlogs[side] = backlogs[side].between(slots, before, now, new.take(slice(0)))
            sides += [_columns(waited), _columns(new)]
        for name, new in zip(SIDES, inputs, strict=True):
            first, slots = runs(new.slot)
            state[name][slots] = new.index[first[1:] - 1]
        rows = [len(each[0]) + len(new[0]) for each, new in (sides[:2], sides[2:])]
        waits = [_room(count, side) for count, side in zip(rows, (sides[1], sides[3]), strict=True)]
        kinds = [each.value.dtype for each in inputs]
        widths = [sides[1][2].shape[1], sides[3][2].shape[1]]
        operation = self._adds if kinds[0] == kinds[1] and widths[0] == widths[1] else 0
        slot, index = np.empty(min(rows), np.int64), np.empty(min(rows), np.int64)
        value = np.empty((min(rows), widths[0] if operation else sum(widths)))
        reached = state["left"], state["right"]
        found: Any = (*sides, *reached, operation, (slot, index, value), *waits)
        count, *waiting = kernels.match_samples(*found)
        for side, (each, number, kind) in enumerate(zip(waits, waiting, kinds, strict=True)):
            kept = Samples(each[0][:number].copy(), each[1][:number].copy(), each[2][:number].copy().view(kind))
            reached = state[SIDES[1 - side]]
            backlogs[side] = backlogs[side].pruned(partial(_behind, reached)).add(kept)
        state.waiting = tuple(backlogs)
        value = value[:count]
        if operation:
            return Samples(slot[:count], index[:count], value.view(kinds[0]))
        left, right = value[:, : widths[0]], value[:, widths[0] :]
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self._operation(*(_as(each, kind) for each, kind in zip((left, right), kinds, strict=True)))
        return Samples(slot[:count], index[:count], value.astype(self._kind, copy=False))


def _behind(reached: Array, batch: Batch) -> Array:
    """The samples that the other signal has not reached."""
    return batch.position > reached[batch.slot]


def _as(parts: Array, kind: Any) -> Array:
    """Real numbers as values of a type."""
    return parts if kind == np.float64 else np.ascontiguousarray(parts).view(kind)


def _columns(batch: Any) -> tuple[Array, Array, Array]:
    return batch.slot, batch.index, real_parts(batch.value)


def _room(rows: int, like: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    return np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty((rows, like[2].shape[1]))
