"""Users' functions with ordinary numbers, before a view is declared.

What no values can mend is refused at once, and not with the first batch that reaches the function: complex numbers
where a signal has real ones, another shape, another number of arguments. A function may still fail for some values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from viewlet.signals.batches import Batch, Events, Samples
from viewlet.signals.form import Form, form_of
from viewlet.signals.nodes import Filter, Sample, Select, Signal, Where, Window, inputs, walk
from viewlet.signals.operators import operator_of
from viewlet.signals.state import State
from viewlet.signals.user_code import UserCodeError

COUNT = 8
"""Samples that an operator gets."""
LARGEST = 1 << 16
"""The most samples of a window that is tried."""
MISTAKES = (TypeError, AttributeError, NameError, ImportError, NotImplementedError)
"""Errors that are not about values."""


def rehearse(query: Signal) -> None:
    """Runs every operator that calls a user's function once, with numbers between 0.5 and 1.5."""
    for node in dict.fromkeys(walk(query)):
        if _calls_users(node):
            _run(node)


def _calls_users(node: Signal) -> bool:
    match node:
        case Select() | Where() | Filter():
            return True
        case Sample(source, _, interpolation) if form_of(source).is_functional or (
            interpolation and interpolation.name
        ):
            return True
        case Window(size=size, stages=stages):
            return size <= LARGEST and any(stage.operation in ("select", "user") for stage in stages)
    return any(form_of(each).payload for each in inputs(node))


def _run(node: Signal) -> None:
    operator = operator_of(node)
    state = State(operator.fields)
    state.reserve(1)
    count = node.size if isinstance(node, Window) else COUNT
    given = [_ordinary(form_of(each), node, count) for each in inputs(node)]
    try:
        with np.errstate(all="ignore"):
            operator.run(state, *given)
    except UserCodeError as failed:
        if isinstance(failed.__cause__, MISTAKES):
            raise


def _ordinary(form: Form, node: Signal, count: int) -> Batch:
    """Samples, or events at and between the beats of the grid that they are sampled on."""
    random, slot, index = np.random.default_rng(0), np.zeros(count, np.int64), np.arange(count)
    width = len(form.source.values) if form.is_functional else form.width
    value: Any = random.uniform(0.5, 1.5, (count, width))
    if form.is_complex:
        value = value + 1j * random.uniform(0.5, 1.5, (count, width))
    if form.grid is not None:
        return Samples(slot, index, value)
    if "=" in form.source.function:  # the first column is the number of the function of an event
        numbers = [int(each.partition("=")[0]) for each in form.source.function.split(",")]
        value[:, 0] = np.resize(numbers, count)
    grid = node.grid if isinstance(node, Sample) else None
    period, offset = (grid.period, grid.offset) if grid is not None else (1, 0)
    start = np.array([math.floor(offset + 3 * place * period / 2) for place in range(count)], np.int64)
    return Events(slot, start, value, start + math.ceil(period) if form.has_end else None)
