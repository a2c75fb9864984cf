"""The strings of a table as their bytes, one behind the other.

    "red", NULL, "green"   ->   bytes  r e d g r e e n      words  (0, 3)  NULL  (3, 5)

A word is where a string begins, and its length in the lowest bits. Equal strings may be there many times: nothing is
looked up when they are added, which is why a table keeps the strings of its rows this way, and not as codes of a
dictionary. Bytes behind those that are in use are free to be written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from viewlet.runtime.arithmetic import NULL
from viewlet.runtime.jit import compiled, entry
from viewlet.runtime.memory import HEAP

LENGTH_BITS = 25
LONGEST = (1 << LENGTH_BITS) - 1
"""Bytes of the longest string that has a word."""
MOST_BYTES = 1 << (62 - LENGTH_BITS)
_FIRST_BYTES = 1 << 10

Texts = Any
"""Strings, some of them NULL: a list, or an Arrow array in one piece."""


class TextHeap:
    """Bytes of strings; who uses it knows how many of them are in use."""

    def __init__(self) -> None:
        self.bytes = np.zeros(_FIRST_BYTES, np.uint8)

    def write(self, texts: Texts, at: int) -> tuple[Any, int]:
        """Puts strings behind the bytes in use, which end at `at`: their words, and where they end.

        Raises OverflowError if a string has no word.
        """
        if isinstance(texts, list):
            return self._write_values(texts, at)
        return self._write_arrow(texts, at)

    def _write_values(self, texts: Sequence[str | None], at: int) -> tuple[Any, int]:
        encoded = [b"" if text is None else text.encode() for text in texts]
        ends = list(accumulate(map(len, encoded), initial=at))
        if ends[-1] > MOST_BYTES or any(len(text) > LONGEST for text in encoded):
            raise OverflowError
        self.reserve(ends[-1])
        self.bytes[at : ends[-1]] = np.frombuffer(b"".join(encoded), np.uint8)
        words = [
            NULL if text is None else begin << LENGTH_BITS | len(held)
            for text, held, begin in zip(texts, encoded, ends, strict=False)
        ]
        return np.array(words, np.int64), ends[-1]

    def _write_arrow(self, texts: Any, at: int) -> tuple[Any, int]:
        import pyarrow as pa

        _, offsets, data = texts.buffers()
        kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
        held: Any = np.frombuffer(offsets, kind, len(texts) + texts.offset + 1)[texts.offset :]
        first, last = int(held[0]), int(held[-1])
        begins = held[:-1].astype(np.int64)
        lengths = held[1:] - begins
        end = at + last - first
        if end > MOST_BYTES or int(lengths.max()) > LONGEST:
            raise OverflowError
        self.reserve(end)
        if last > first:
            self.bytes[at:end] = np.frombuffer(data, np.uint8, last - first, first)
        words = (begins + (at - first) << LENGTH_BITS) | lengths
        if texts.null_count:
            words[texts.is_null().to_numpy(zero_copy_only=False)] = NULL
        return words, end

    def reserve(self, size: int) -> None:
        """Grows the heap to hold this number of bytes in total."""
        if size > len(self.bytes):
            self.bytes = HEAP.grown("texts", self.bytes, max(size, len(self.bytes) * 5 // 4))

    def arrow(self, words: Any) -> Any:
        """The strings of words as an Arrow array."""
        import pyarrow as pa

        absent = words == NULL
        lengths = np.where(absent, 0, words & LONGEST)
        offsets = np.zeros(len(words) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        contents = np.empty(int(offsets[-1]), np.uint8)
        gather(self.bytes, words, offsets, contents)
        valid = pa.array(~absent).buffers()[1] if absent.any() else None
        if len(contents) < 2**31:
            return pa.Array.from_buffers(
                pa.string(), len(words), [valid, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(contents)]
            )
        return pa.Array.from_buffers(
            pa.large_string(), len(words), [valid, pa.py_buffer(offsets), pa.py_buffer(contents)]
        )


@compiled
def same_text(heap: Any, first: Any, second: Any) -> Any:
    """Whether two words stand for the same string, or both for NULL."""
    if first == second:
        return True
    if first == NULL or second == NULL or (first ^ second) & LONGEST:
        return False
    at, other, same = first >> LENGTH_BITS, second >> LENGTH_BITS, True
    for i in range(first & LONGEST):
        same = same and heap[at + i] == heap[other + i]
    return same


@compiled
def text_length(word: Any) -> Any:
    """The bytes that a word stands for."""
    return np.int64(0) if word == NULL else word & LONGEST


@entry
def gather(heap: Any, words: Any, offsets: Any, contents: Any) -> None:
    """The bytes of strings behind each other, each from its offset on."""
    for row in range(words.shape[0]):
        at = words[row] >> LENGTH_BITS
        for i in range(offsets[row + 1] - offsets[row]):
            contents[offsets[row] + i] = heap[at + i]
