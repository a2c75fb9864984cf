"""Operators on one sample at a time: scale, offset, shift, select, where, downsample."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.signals.batches import Batch, Events, Samples, no_samples, with_value
from viewlet.signals.errors import SignalError
from viewlet.signals.form import arithmetic_of, form_of
from viewlet.signals.nodes import Downsample, Offset, Scale, Select, Shift, Where
from viewlet.signals.notation import resolve
from viewlet.signals.operators.contract import Stateless
from viewlet.signals.state import State
from viewlet.signals.user_code import calling, numbers_of


class Scaling(Stateless):
    """y = factor * x."""

    def __init__(self, node: Scale) -> None:
        self._factor = node.factor
        form = form_of(node)
        self._arithmetic = arithmetic_of(form) if form.payload else None

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        if self._arithmetic is not None:
            return with_value(batch, self._arithmetic.scale(batch.value, self._factor.real))
        return with_value(batch, batch.value * self._factor)


class Addition(Stateless):
    """y = x + constant."""

    def __init__(self, node: Offset) -> None:
        self._constant = node.constant

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        return with_value(batch, batch.value + self._constant)


class Delay(Stateless):
    """y(t) = x(t - ticks): other times, or other indexes of a shifted grid."""

    def __init__(self, node: Shift) -> None:
        grid = form_of(node.source).grid
        self._ticks = int(node.ticks)
        self._beats = 0 if grid is None else grid.shifted(node.ticks)[1]

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        if isinstance(batch, Samples):
            return Samples(batch.slot, batch.index + self._beats, batch.value)
        end = None if batch.end is None else batch.end + self._ticks
        return Events(batch.slot, batch.start + self._ticks, batch.value, end)


class Selection(Stateless):
    """y = f(x). The function gets an array of values, or of rows of components, and treats each on its own."""

    def __init__(self, node: Select) -> None:
        self._name = node.function
        self._function = resolve(node.function)
        self._wide = form_of(node.source).width > 1
        self._width = form_of(node).width
        self._is_complex = form_of(node).is_complex

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        given = batch.value if self._wide else batch.value[:, 0]
        if not len(batch):
            return with_value(batch, no_samples(self._width, self._is_complex).value)
        what = f"select({self._name})"
        with calling(what):
            found = self._function(given)
        found = numbers_of(found, self._is_complex, what, "say is_complex=True")
        value = found.reshape(len(batch), -1) if found.shape[:1] == (len(batch),) else None
        if value is None or value.shape[1] != self._width:
            raise SignalError(
                f"{what} gave an array of shape {found.shape} for {given.shape}: it has to give "
                f"{self._width} number(s) for each row, or say width="
            )
        return with_value(batch, value)


class Condition(Stateless):
    """The rows whose values satisfy a function on arrays."""

    def __init__(self, node: Where) -> None:
        self._name = node.function
        self._function = resolve(node.function)
        self._wide = form_of(node.source).width > 1

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        if not len(batch):
            return batch  # type: ignore[no-any-return]
        with calling(f"where({self._name})"):
            kept = np.asarray(self._function(batch.value if self._wide else batch.value[:, 0]))
        if kept.shape != (len(batch),) or kept.dtype != np.bool_:
            raise SignalError(f"where({self._name}) has to give true or false for each row")
        return batch.take(kept)  # type: ignore[no-any-return]


class Thinning(Stateless):
    """The samples whose index is a multiple of the factor, by their indexes on the coarser grid."""

    def __init__(self, node: Downsample) -> None:
        self._factor = node.factor

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        kept = batch.index % self._factor == 0
        return Samples(batch.slot[kept], batch.index[kept] // self._factor, batch.value[kept])
