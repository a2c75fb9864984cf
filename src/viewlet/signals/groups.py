"""Groups: the keys of a signal, each with a slot, the row of its state in every operator.

Keys are words (`changes/word_codec.py`). Those of one column are looked up in a sorted array; of several columns, the
codes of the first are paired with those of the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = Any


def _no_words() -> Array:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Codes:
    """Distinct words, numbered as they first occur; never changed in place."""

    words: Array = field(default_factory=_no_words)
    """In ascending order."""
    numbers: Array = field(default_factory=_no_words)
    """The number of each of them."""

    def __len__(self) -> int:
        return len(self.words)

    def find(self, words: Array) -> tuple[Array, Codes]:
        """The numbers of some words, and the codes with those that are new."""
        held = self.words
        place = np.searchsorted(held, words)
        inside = np.minimum(place, max(len(held) - 1, 0))
        is_known = held[inside] == words if len(held) else np.zeros(len(words), np.bool_)
        if is_known.all():
            return self.numbers[inside], self
        fresh, occurs = np.unique(words[~is_known], return_index=True)
        numbers = np.empty(len(fresh), np.int64)
        numbers[np.argsort(occurs)] = np.arange(len(self.words), len(self.words) + len(fresh))
        at = np.searchsorted(self.words, fresh)
        grown = Codes(np.insert(self.words, at, fresh), np.insert(self.numbers, at, numbers))
        return grown.numbers[np.searchsorted(grown.words, words)], grown


@dataclass(frozen=True, slots=True)
class Groups:
    """The keys that have come so far: `words` of each column by slot. Never changed in place."""

    columns: tuple[Codes, ...]
    """The codes of the words of each column, and from the second on, of pairs."""
    pairs: tuple[Codes, ...]
    words: tuple[Array, ...]
    count: int

    @classmethod
    def of(cls, columns: int) -> Groups:
        """No groups yet; without a key there is one."""
        empty = tuple(Codes() for _ in range(columns))
        return cls(
            empty, tuple(Codes() for _ in range(columns - 1)), tuple(_no_words() for _ in empty), int(not columns)
        )

    def find(self, keys: tuple[Array, ...], rows: int) -> tuple[Array, Groups]:
        """The slots of some keys, and the groups with those that are new."""
        if not keys:
            return np.zeros(rows, np.int64), self
        columns, pairs = list(self.columns), list(self.pairs)
        slots, columns[0] = columns[0].find(keys[0])
        for number, key in enumerate(keys[1:]):
            codes, columns[number + 1] = columns[number + 1].find(key)
            slots, pairs[number] = pairs[number].find(slots << 32 | codes)
        count = len(pairs[-1] if pairs else columns[0])
        if count == self.count:
            return slots, self
        fresh = np.flatnonzero(slots >= self.count)
        new, first = np.unique(slots[fresh], return_index=True)
        assert len(new) == count - self.count
        words = tuple(np.concatenate((held, key[fresh[first]])) for held, key in zip(self.words, keys, strict=True))
        return slots, Groups(tuple(columns), tuple(pairs), words, count)
