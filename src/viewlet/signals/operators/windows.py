"""Windows: samples as overlapping arrays, a pipeline of array operators, and samples again (sections 7.4.4 and 7.4.6).

The samples of a group are in a ring of one window. A batch lays them in a line, new ones behind old ones, and windows
are read from the line some at a time: overlapping windows are never all in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from viewlet.signals.batches import (
    Array,
    Batch,
    Samples,
    real_parts,
    runs,
    stretch_start,
    together,
)
from viewlet.signals.form import form_of
from viewlet.signals.nodes import Aggregate, Window
from viewlet.signals.operators import window_kernels as kernels
from viewlet.signals.operators.contract import Stateless
from viewlet.signals.operators.filters import LAST, number_type, values_of
from viewlet.signals.rows import all_finite
from viewlet.signals.stages import (
    AGGREGATES,
    FRESH,
    MAGNITUDES,
    ArrayForm,
    array_form,
    array_function,
    is_updated,
    squares,
    updater,
)
from viewlet.signals.state import NEVER, Field, State

LINE = 1 << 20
"""Samples that are laid in a line together, unless one group has more."""
ARRAYS = 1 << 17
"""Numbers in the windows that run through the pipeline together, so that they stay in the cache."""

REFRESH = 256
"""Of so many outputs that are updated, one is recomputed."""

SUMS = {"sum": 0, "energy": 0, "mean": 1, "power": 1, "count": 2}
"""Operations of the kernel."""


@dataclass(frozen=True, slots=True)
class _Line:
    """Samples side by side, and where the windows are: their starts, slots and last indexes."""

    samples: Array
    starts: Array
    slot: Array
    index: Array


@dataclass(slots=True)
class _Sums:
    """The sums of overlapping windows that no later window can reach, as they are computed."""

    slot: Array
    index: Array
    value: Array
    """As real numbers."""
    weight: Array
    is_complex: bool
    count: int = 0

    def samples(self) -> list[Samples]:
        value = self.value[: self.count].view(number_type(self.is_complex))
        return [Samples(self.slot[: self.count], self.index[: self.count], value)]


class WindowPipeline:
    """Windows of the samples of each group, through array operators."""

    takes_stretches = True

    def __init__(self, node: Window) -> None:
        given = form_of(node.source)
        self._node, self._width = node, given.width
        self._kind = number_type(given.is_complex)
        self._weights = np.array(node.window) if node.window else None
        self._functions = []
        array, is_fresh = ArrayForm(node.size, given.is_complex), bool(node.window)
        for stage in node.stages:
            self._functions.append(array_function(stage, array, in_place=is_fresh))
            array, is_fresh = array_form(stage, array), stage.operation in FRESH
        self._array = array
        self._slides = is_updated(node)
        self._history = node.size - 1 + (node.hop if self._slides else 0)
        self._turns = np.exp(2j * np.pi * np.arange(node.size // 2 + 1) / node.size)
        self._adds = node.finish is not None and node.finish.operation == "overlap_add"
        self._is_dual = self._adds and node.finish is not None and node.finish.arguments == ("dual",)
        self.fields: tuple[Field, ...] = (
            Field("held", (self._history, self._width), self._kind),
            Field("count", (), "i8"),
            LAST,
        )
        if self._slides:
            samples = ArrayForm(node.size, given.is_complex)
            first = array_form(node.stages[0], samples)
            self._update = updater(node.stages[0], samples)
            self.fields += (
                Field("output", (self._width, first.size), number_type(first.is_complex)),
                Field("output_index", (), "i8", NEVER),
            )
        if self._adds:
            self.fields += (
                Field("total", (self._width, array.size), number_type(array.is_complex)),
                Field("weight", (array.size,)),
                Field("start", (), "i8", NEVER),
            )

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        found: list[Batch] = [self._nothing()]
        end = 0
        if self._is_long_stretch(state, batch):
            begin, end = self._inside(state, batch)
            found += self._windows(state, batch.take(slice(0, begin)))
            found += self._whole_windows(state, batch, begin, end)
        return together(found + self._windows(state, batch.take(slice(end, None))))  # type: ignore[no-any-return]

    def _windows(self, state: State, batch: Samples) -> list[Samples]:
        """The windows that end in a batch, some at a time."""
        found: list[Samples] = []
        if not len(batch):
            return found
        for line in self._lines(state, batch):
            windows = np.lib.stride_tricks.sliding_window_view(line.samples, self._node.size, axis=0)
            sums = self._sums(line.slot, line.index)
            for part in self._parts(line):
                starts = line.starts[part]
                is_even = bool((np.diff(starts) == self._node.hop).all())
                arrays = windows[starts[0] : starts[-1] + 1 : self._node.hop] if is_even else windows[starts]
                if self._slides:
                    arrays = self._slid(state, line, part, arrays)
                found += self._through(state, line.slot[part], line.index[part], arrays, sums)
            found += sums.samples() if sums else []
        return found

    def _slid(self, state: State, line: _Line, part: slice, windows: Array) -> Array:
        """The first operator for some windows by what changes between them; some are recomputed, as are first ones."""
        slot, index, last = line.slot[part], line.index[part], state["output_index"]
        before = np.concatenate((last[slot[:1]], index[:-1]))
        is_first = np.concatenate(([True], slot[1:] != slot[:-1]))
        before[is_first] = last[slot[is_first]]
        fresh = (before != index - self._node.hop) | ((index // self._node.hop) % REFRESH == 0)
        held = state["output"]
        found = np.empty((len(slot), *held.shape[1:]), held.dtype)
        if fresh.any():
            found[fresh] = self._functions[0](windows[fresh])
        starts, size, hop = line.starts[part], self._node.size, self._node.hop
        if self._update is None:
            kernels.slide_spectra(size, hop, self._turns, line.samples, starts, slot, index, fresh, found, held, last)
            if not all_finite(real_parts(found)):  # a sum overflowed: until it is recomputed, windows are transformed
                lost = ~np.isfinite(found).all(axis=(1, 2))
                found[lost] = self._functions[0](windows[lost])
        else:
            self._updated(held, line.samples, starts, slot, fresh, found)
            last[slot] = index
        return found

    def _updated(self, held: Array, samples: Array, starts: Array, slot: Array, fresh: Array, found: Array) -> None:
        """Updates the outputs of an operator of the user's, one window after the other."""
        size, hop = self._node.size, self._node.hop
        for n, (begin, where) in enumerate(zip(starts.tolist(), slot.tolist(), strict=True)):
            for c in range(self._width if not fresh[n] else 0):
                old, window = samples[begin - hop : begin, c], samples[begin : begin + size, c]
                updated = self._update(held[where, c].copy(), old, window[size - hop :], window)  # type: ignore[misc]
                found[n, c] = updated if all_finite(updated) else self._functions[0](window)
            held[where] = found[n]

    def _parts(self, line: _Line) -> Iterator[slice]:
        """The windows that run through the pipeline together.

        Windows that are a hop apart are a view of the line. If most are, parts end where some are not, because copies
        of windows cost more than calls; otherwise they are copied.
        """
        step = max(1, ARRAYS // (self._node.size * self._width))
        cuts = np.flatnonzero(np.diff(line.starts) != self._node.hop) + 1
        if len(cuts) * 16 > len(line.starts):
            cuts = cuts[:0]
        edges = [0, *cuts.tolist(), len(line.starts)]
        for first, last in pairwise(edges):
            for begin in range(first, last, step):
                yield slice(begin, min(begin + step, last))

    # -- one long stretch of one group: windows are views of the samples themselves ------------------------------------

    def _is_long_stretch(self, state: State, batch: Samples) -> bool:
        if self._slides or len(batch) < 4 * self._node.size + self._node.hop:
            return False
        first = stretch_start(batch)
        last = int(state["last"][batch.slot[0]])
        return first is not None and last in (NEVER, first - 1)

    def _inside(self, state: State, batch: Samples) -> tuple[int, int]:
        """The rows between which windows lie in the batch as a whole: the first ends behind `begin`, at `end` one may.

        They begin and end where a window has just ended, so that what is left is as if a batch ended there.
        """
        node = self._node
        seen = int(state["count"][batch.slot[0]])
        end = node.size - seen if seen < node.size else node.hop - (seen - node.size) % node.hop
        while end < node.size:
            end += node.hop
        begin = end - node.hop if end >= node.hop else end
        return begin, begin + (len(batch) - begin) // node.hop * node.hop

    def _whole_windows(self, state: State, batch: Samples, begin: int, end: int) -> list[Samples]:
        node, slot = self._node, batch.slot[0]
        first = stretch_start(batch)
        assert first is not None
        x = values_of(batch, self._kind)
        windows = np.lib.stride_tricks.sliding_window_view(x, node.size, axis=0)
        windows = windows[begin + node.hop - node.size : end - node.size + 1 : node.hop]
        index = np.arange(first + begin + node.hop - 1, first + end, node.hop)
        passes = len(self._functions) + (self._weights is not None) + (node.finish is not None)
        step = max(1, ARRAYS // (node.size * self._width)) if passes > 1 else max(1, len(index))
        found: list[Samples] = []
        slots = np.full(len(index), slot)
        sums = self._sums(slots, index)
        for start in range(0, len(index), step):
            part = slice(start, start + step)
            found += self._through(state, slots[part], index[part], windows[part], sums)
        found += sums.samples() if sums else []
        state["held"][slot] = x[end - node.size + 1 : end]
        state["count"][slot] += end - begin
        state["last"][slot] = first + end - 1
        return found

    def _through(self, state: State, slot: Array, index: Array, arrays: Array, sums: _Sums | None) -> list[Samples]:
        """Windows through the pipeline; what is added up goes to `sums`."""
        if self._weights is not None:
            arrays = arrays * self._weights
        for function in self._functions[self._slides :]:
            arrays = function(arrays)
        if sums is not None:
            self._add_up(state, slot, index, arrays, sums)
            return []
        finish = self._node.finish
        if finish is None:
            return [Samples(slot, index, arrays if arrays.flags.owndata else arrays.copy())]
        return [Samples(slot, index, AGGREGATES[finish.operation](arrays))]

    def _nothing(self) -> Samples:
        none = np.zeros(0, np.int64)
        shape = (0, self._width) if self._node.finish is not None else (0, self._width, self._array.size)
        return Samples(none, none, np.zeros(shape, number_type(form_of(self._node).is_complex)))

    def _lines(self, state: State, batch: Samples) -> Iterator[_Line]:
        """The groups of a batch in lines, as many groups in each as fit."""
        node = self._node
        first, slots = runs(batch.slot)
        x = values_of(batch, self._kind)
        fills = node.missing == "zero"
        zeros = 0 if not fills else _gaps(batch, first, slots, state["last"], node.size)
        lengths = np.diff(first) + self._history + zeros
        begin = 0
        while begin < len(slots):
            fits = int(np.searchsorted(np.cumsum(lengths[begin:]), LINE, "right"))
            end = begin + max(1, fits)
            room = int(lengths[begin:end].sum())
            line = np.empty((max(room, node.size), self._width), x.dtype)
            # Behind a gap the first window needs `size` samples, others `hop` more.
            most = room // min(node.hop, node.size) + end - begin + 1
            starts, slot, index = (np.empty(most, np.int64) for _ in range(3))
            count = kernels.lay_out(
                node.size,
                node.hop,
                self._history,
                fills,
                begin,
                end,
                first,
                slots,
                batch.index,
                x,
                state["held"],
                state["count"],
                state["last"],
                line,
                starts,
                slot,
                index,
            )
            yield _Line(line, starts[:count], slot[:count], index[:count])
            begin = end

    def _sums(self, slot: Array, index: Array) -> _Sums | None:
        """Room for the sums of windows that end at some indexes; None if nothing is added up."""
        if not self._adds:
            return None
        size, parts = self._array.size, 2 if self._array.is_complex else 1
        same = slot[1:] == slot[:-1]
        room = size * int(np.count_nonzero(~same) + 2) + int(np.minimum(np.diff(index), size)[same].sum())
        value = np.empty((room, self._width * parts))
        weight = np.empty(room if self._is_dual else 0)
        return _Sums(np.empty(room, np.int64), np.empty(room, np.int64), value, weight, self._array.is_complex)

    def _add_up(self, state: State, slot: Array, index: Array, arrays: Array, sums: _Sums) -> None:
        sums.count = kernels.add_up(
            np.ones(self._array.size) if self._weights is None else self._weights,
            self._is_dual,
            2 if self._array.is_complex else 1,
            slot,
            index,
            real_parts(np.ascontiguousarray(arrays, number_type(self._array.is_complex))),
            real_parts(state["total"]),
            state["weight"],
            state["start"],
            sums.count,
            sums.slot,
            sums.index,
            sums.value,
            sums.weight,
        )

    def flush(self, state: State) -> Batch | None:
        """What the last arrays of every group add up to."""
        if not self._adds:
            return None
        slots = np.flatnonzero(state["start"] != NEVER)
        size = self._array.size
        total, weight = state["total"][slots], state["weight"][slots]
        if self._is_dual:
            total = total / np.where(weight > 1e-10, weight, 1.0)[:, None, :]
        index = state["start"][slots][:, None] + np.arange(size)
        value = np.moveaxis(total, 1, 2).reshape(-1, self._width)
        state["start"][slots] = NEVER
        state["total"][slots] = 0
        state["weight"][slots] = 0
        return Samples(np.repeat(slots, size), index.reshape(-1), value)


def _gaps(batch: Samples, first: Array, slots: Array, last: Array, most: int, longer: int = 0) -> Array:
    """How many beats are missing in each group; of gaps with more than `most`, `longer` count."""
    if not len(batch):
        return 0
    before = np.concatenate(([NEVER], batch.index[:-1]))
    before[first[:-1]] = last[slots]
    gap = batch.index - before - 1
    filled = np.where(before == NEVER, 0, np.where(gap > most, longer, gap))
    return np.add.reduceat(filled, first[:-1])


class SlidingSum(Stateless):
    """Sums, means, power and energy over hopping windows of the grid."""

    def __init__(self, node: Aggregate) -> None:
        form = form_of(node.source)
        self._node, self._width = node, form.width
        self._squares = node.operation in MAGNITUDES
        self._kind = number_type(form_of(node).is_complex)
        self.fields = (
            Field("held", (node.size, form.width), self._kind),
            Field("present", (node.size,), "?"),
            Field("total", (form.width,), self._kind),
            Field("count", (), "i8"),
            LAST,
        )

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        node = self._node
        first, slots = runs(batch.slot)
        x = np.ones(batch.value.shape) if node.operation == "count" else batch.value
        with np.errstate(over="ignore"):
            x = np.ascontiguousarray(squares(x) if self._squares else x, self._kind)
        most = len(batch) + int(np.sum(_gaps(batch, first, slots, state["last"], node.size, node.size)) // node.hop)
        most += 2 * len(batch)
        slot, index, value = np.empty(most, np.int64), np.empty(most, np.int64), np.empty((most, self._width), x.dtype)
        count = kernels.slide(
            SUMS[node.operation],
            node.size,
            node.hop,
            node.least,
            first,
            slots,
            batch.index,
            x,
            state["held"],
            state["present"],
            state["total"],
            state["count"],
            state["last"],
            slot,
            index,
            value,
        )
        return Samples(slot[:count], index[:count], value[:count])
