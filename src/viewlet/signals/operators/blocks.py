"""Long convolutions by FFT: samples come in blocks of the grid, each when it is complete (overlap-save).

Block b has the indexes from b * L to (b + 1) * L - 1. Where blocks begin does not depend on the group or on batches, so
that every output is computed from the same numbers by the same transform. A block is complete when its last sample, or
one of a later block, has come: an output is at most L - 1 samples late.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.jit import entry
from viewlet.signals.batches import Array, Batch, Samples, Stretch, runs, stretch_start, together
from viewlet.signals.form import form_of
from viewlet.signals.nodes import Fir
from viewlet.signals.operators.filters import number_type, values_of
from viewlet.signals.operators.windows import ARRAYS
from viewlet.signals.state import NEVER, Field, State


@entry
def fill_blocks(
    length: int,
    history: int,
    first: Array,
    slots: Array,
    index: Array,
    x: Array,
    held: Array,
    present: Array,
    block: Array,
    frames: Array,
    frame_slot: Array,
    frame_block: Array,
    frame_present: Array,
) -> int:
    """Puts samples into the blocks of their groups; blocks that are complete are copied to `frames`."""
    width, done = x.shape[1], 0
    for run in range(slots.shape[0]):
        slot = slots[run]
        for row in range(first[run], first[run + 1]):
            at = index[row] // length
            if block[slot] != at:
                if block[slot] != NEVER and present[slot].any():
                    frames[done] = held[slot]
                    frame_slot[done], frame_block[done] = slot, block[slot]
                    frame_present[done] = present[slot]
                    done += 1
                follows = block[slot] == at - 1
                for i in range(history + length):
                    for c in range(width):
                        held[slot, i, c] = held[slot, i + length, c] if follows and i < history else 0.0
                present[slot] = False
                block[slot] = at
            place = index[row] - at * length
            for c in range(width):
                held[slot, history + place, c] = x[row, c]
            present[slot, place] = True
            if place == length - 1:
                frames[done] = held[slot]
                frame_slot[done], frame_block[done] = slot, at
                frame_present[done] = present[slot]
                done += 1
                present[slot] = False
    return done


class BlockConvolution:
    """A finite impulse response in blocks."""

    takes_stretches = True

    def __init__(self, node: Fir) -> None:
        import scipy.fft

        form = form_of(node)
        self._length, self._history, self._width = node.block, len(node.taps) - 1, form.width
        self._kind = number_type(form.is_complex)
        self._is_complex = form.is_complex
        size = self._length + self._history
        taps = np.array(node.taps, self._kind)
        self._response = scipy.fft.fft(taps, size) if form.is_complex else scipy.fft.rfft(taps, size)
        self.fields = (
            Field("held", (size, form.width), self._kind),
            Field("present", (self._length,), "?"),
            Field("block", (), "i8", NEVER),
        )

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        length = self._length
        first = stretch_start(batch) if self._width == 1 and len(batch) >= 4 * length else None
        if first is None:
            return self._filled(state, batch.take(slice(None)))
        # One long stretch of one group: behind the first whole block, frames are views of the samples themselves.
        begin = (-(-first // length) + 1) * length - first
        end = begin + (len(batch) - begin) // length * length
        found = [self._filled(state, batch.take(slice(0, begin)))]
        x = values_of(batch, self._kind)[:, 0]
        frames = np.lib.stride_tricks.sliding_window_view(x, length + self._history)
        frames = frames[begin - self._history : end - self._history - length + 1 : length]
        value = np.empty((end - begin, 1), x.dtype)
        step = max(1, ARRAYS // (length + self._history))
        for at in range(0, len(frames), step):
            part = self._products(frames[at : at + step])
            value[at * length : at * length + part.size, 0] = part.reshape(-1)
        found.append(Stretch(batch.slot[begin:end], first + begin, value).take(slice(None)))
        slot = batch.slot[0]
        state["held"][slot] = x[end - length - self._history : end].reshape(-1, 1)
        state["present"][slot] = False
        state["block"][slot] = (first + end) // length - 1
        found.append(self._filled(state, batch.take(slice(end, None))))
        return together(found)  # type: ignore[no-any-return]

    def _products(self, frames: Array) -> Array:
        """The outputs of frames, each of a block with the samples before it, along the last axis."""
        import scipy.fft

        size = self._length + self._history
        if self._is_complex:
            return scipy.fft.ifft(scipy.fft.fft(frames) * self._response, size)[..., self._history :]
        return scipy.fft.irfft(scipy.fft.rfft(frames) * self._response, size)[..., self._history :]

    def _filled(self, state: State, batch: Samples) -> Samples:
        """Samples of any groups, into the blocks of each."""
        first, slots = runs(batch.slot)
        x = values_of(batch, self._kind)
        blocks = batch.index // self._length
        changes = (blocks[1:] != blocks[:-1]) | (batch.slot[1:] != batch.slot[:-1])
        most = int(np.count_nonzero(changes)) + len(slots) + 1
        size = self._length + self._history
        frames = np.empty((most, size, self._width), x.dtype)
        frame_slot, frame_block = np.empty(most, np.int64), np.empty(most, np.int64)
        frame_present = np.empty((most, self._length), np.bool_)
        held = state["held"], state["present"], state["block"]
        count = fill_blocks(
            self._length,
            self._history,
            first,
            slots,
            batch.index,
            x,
            *held,
            frames,
            frame_slot,
            frame_block,
            frame_present,
        )
        return self._convolved(frames[:count], frame_slot[:count], frame_block[:count], frame_present[:count])

    def _convolved(self, frames: Array, slot: Array, block: Array, present: Array) -> Samples:
        size = self._length + self._history
        found = [Samples(slot[:0], slot[:0], np.zeros((0, self._width), self._kind))]
        step = max(1, ARRAYS // (size * self._width))
        for begin in range(0, len(frames), step):
            part = slice(begin, begin + step)
            rows = np.ascontiguousarray(np.moveaxis(frames[part], 1, 2))
            value = self._products(rows)
            at, place = np.nonzero(present[part])
            index = block[part][at] * self._length + place
            found.append(Samples(slot[part][at], index, value[at, :, place]))
        return together(found)  # type: ignore[no-any-return]

    def flush(self, state: State) -> Batch | None:
        """The blocks that are not complete."""
        slots = np.flatnonzero((state["block"] != NEVER) & state["present"].any(axis=1))
        found = self._convolved(state["held"][slots], slots, state["block"][slots], state["present"][slots])
        state["present"][slots] = False
        return found
