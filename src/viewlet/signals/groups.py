"""Groups: the keys of a signal, each with a slot, the row of its state in every operator.

Keys are words (`changes/word_codec.py`). Those of one column are looked up in a sorted array; of several columns, the
codes of the first are paired with those of the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
    """The keys that have come so far: `words` of each column by slot. Never changed in place.

    A key that has been idle comes back with another slot, as a new group.
    """

    columns: tuple[Codes, ...]
    """The codes of the words of each column, and from the second on, of pairs."""
    pairs: tuple[Codes, ...]
    words: tuple[Array, ...]
    count: int
    latest: Array | None = None
    """The slot of each key by its code, where those differ; and the code of each slot."""
    codes: Array | None = None

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
            slot = 0 if self.latest is None else self.latest[0]
            return np.full(rows, slot, np.int64), self
        columns, pairs = list(self.columns), list(self.pairs)
        codes, columns[0] = columns[0].find(keys[0])
        for number, key in enumerate(keys[1:]):
            more, columns[number + 1] = columns[number + 1].find(key)
            codes, pairs[number] = pairs[number].find(codes << 32 | more)
        found = len(pairs[-1] if pairs else columns[0])
        known = self.count if self.latest is None else len(self.latest)
        if found == known:
            return codes if self.latest is None else self.latest[codes], self
        fresh = np.flatnonzero(codes >= known)
        new, first = np.unique(codes[fresh], return_index=True)
        assert len(new) == found - known
        words = tuple(np.concatenate((held, key[fresh[first]])) for held, key in zip(self.words, keys, strict=True))
        count = self.count + len(new)
        grown = replace(self, columns=tuple(columns), pairs=tuple(pairs), words=words, count=count)
        if self.latest is None or self.codes is None:
            return codes, grown
        latest = np.concatenate((self.latest, np.arange(self.count, count)))
        return latest[codes], replace(grown, latest=latest, codes=np.concatenate((self.codes, new)))

    def renewed(self, slots: Array) -> Groups:
        """With one more slot for the key of each of some slots, which is that of the key from now on."""
        whole = np.arange(self.count)
        codes = (whole if self.codes is None else self.codes)[slots]
        latest = whole.copy() if self.latest is None else self.latest.copy()
        fresh = np.arange(self.count, self.count + len(slots))
        np.maximum.at(latest, codes, fresh)
        return replace(
            self,
            words=tuple(np.concatenate((held, held[slots])) for held in self.words),
            count=self.count + len(slots),
            latest=latest,
            codes=np.concatenate((whole if self.codes is None else self.codes, codes)),
        )

    def only(self, slots: Array) -> Groups:
        """Some groups, by their slots in ascending order; their slots are then 0, 1 and so on."""
        return Groups.numbered(tuple(held[slots] for held in self.words), len(slots))

    @classmethod
    def numbered(cls, words: tuple[Array, ...], count: int) -> Groups:
        """The groups with these keys by slot; the last slot of a key is that of its events."""
        codes, made = cls.of(len(words)).find(words, count)
        latest = np.zeros(len(codes) and int(codes.max()) + 1, np.int64)
        np.maximum.at(latest, codes, np.arange(count))
        if len(latest) == count:
            return made
        return replace(made, words=words, count=count, latest=latest, codes=codes)
