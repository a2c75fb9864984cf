"""One code per distinct string of a connection, so that strings join as integers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from viewlet.forks import lock_for_forks
from viewlet.runtime.arithmetic import NULL
from viewlet.runtime.durable.files import open_regular
from viewlet.runtime.flat import stores_in_memory
from viewlet.runtime.weak_list import WeakList

if TYPE_CHECKING:
    from viewlet.changes import ColumnChange

_ADDING = lock_for_forks()
_FEW = 20_000
"""Strings that a dictionary may have in vain before it looks for those that nobody uses."""
_WORDS_PER_STRING = 16
"""Words of state that are searched for each of those strings, at most."""


class Holder(Protocol):
    """Keeps codes of a dictionary outside the stores: constants of a program, and strings computed from strings."""

    def held_codes(self) -> Any:
        """Codes that stay in use, as an array; others among its numbers do no harm."""

    def derived_codes(self) -> Iterable[Any]:
        """Arrays that have, at the place after each code, the code of the string computed from it, or less than 0."""


class StringDictionary:
    """Codes of strings: a new string gets the lowest code that is free. Threads may share a dictionary.

    Strings that nothing uses any longer are removed between two batches (`sweep`). Then their codes are free, so only
    stores, changes and holders may keep codes from one batch to the next.
    """

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self.texts: list[str | None] = []
        """The string of each code; None if the code is free."""
        self.sweeps = 0
        """Grows whenever codes become free."""
        self._free: list[int] = []
        self._assigned: list[int] = []
        """The codes that were assigned since the last sweep, in this order."""
        self._forgotten = self._swept_at = 0
        """Values of `changes`: of the first code in `_assigned`, and when the last sweep began."""
        self._next_sweep = _FEW
        self._holders: WeakList[Holder] = WeakList()
        self._columns: WeakList[ColumnChange] = WeakList()

    def __len__(self) -> int:
        """How many strings have a code."""
        return len(self._codes)

    def code(self, text: str | None) -> int:
        """The code of a string, assigned on first use; NULL has a reserved code."""
        if text is None:
            return NULL
        code = self._codes.get(text)
        return int(self._add_all((text,))[0]) if code is None else code

    def known(self, text: str) -> int | None:
        """The code of a string that has one."""
        return self._codes.get(text)

    def _add_all(self, texts: Iterable[str]) -> list[int]:
        """The codes of strings; those that are new get one."""
        with _ADDING:
            codes, known, free = list[int](), self._codes, self._free
            for text in texts:
                code = known.get(text)
                if code is None:
                    if free:
                        code = free.pop()
                        self.texts[code] = text
                    else:
                        code = len(self.texts)
                        self.texts.append(text)  # first: no exception leaves a code without its text
                    self._assigned.append(code)
                    known[text] = code
                codes.append(code)
            return codes

    def text(self, code: int) -> str | None:
        return None if code == NULL else self.texts[code]

    def encode(self, texts: Sequence[str | None]) -> np.ndarray[Any, np.dtype[np.int64]]:
        get = self._codes.get
        codes = [NULL if text is None else get(text) for text in texts]
        if None in codes:
            new = [i for i, code in enumerate(codes) if code is None]
            for i, code in zip(new, self._add_all(texts[i] for i in new), strict=True):  # type: ignore[misc]
                codes[i] = code
        return np.array(codes, np.int64)

    def restore(self, texts: Sequence[str | None]) -> None:
        """Gives strings the codes that they had, which are their places; None has a free code."""
        with _ADDING:
            self.texts = list(texts)
            self._free = [code for code, text in enumerate(texts) if text is None]
            self._codes = {text: code for code, text in enumerate(texts) if text is not None}
            self._assigned = self.in_use()
            self._forgotten += 1

    def encode_arrow(self, column: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Codes of an Arrow string column, looking up each distinct value once."""
        import pyarrow.compute as pc

        if hasattr(column, "combine_chunks"):
            column = column.combine_chunks()
        encoded = pc.dictionary_encode(column)
        own = self.encode(encoded.dictionary.to_pylist())
        positions = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        codes = np.append(own, NULL)[positions]
        return np.ascontiguousarray(codes, np.int64)

    # -- what has changed -------------------------------------------------------------------------------------------

    @property
    def changes(self) -> int:
        """Grows with every code that is assigned, and with every sweep; exact where no other thread sweeps."""
        return self._forgotten + len(self._assigned)

    def changes_since(self, changes: int) -> tuple[int, Sequence[int]]:
        """What `changes` is now, and the codes that may have come to stand for another string since it was this."""
        with _ADDING:
            if changes >= self._forgotten:
                codes: Sequence[int] = self._assigned[changes - self._forgotten :]
            elif changes == self._swept_at:
                codes = list(self._assigned)
            else:
                codes = self.in_use()
            return self.changes, codes

    def in_use(self) -> list[int]:
        """The codes that stand for a string."""
        return [code for code, text in enumerate(self.texts) if text is not None]

    # -- strings that nothing uses ------------------------------------------------------------------------------------

    def add_holder(self, holder: Holder) -> None:
        """Codes of this holder stay in use while it lives."""
        self._holders.add(holder)

    def add_change(self, change: ColumnChange) -> None:
        """Codes in this change stay in use while it lives."""
        self._columns.add(change)

    def sweep_if_due(self) -> None:
        """Between two batches: removes unused strings if there may be many, so that memory follows what is in use."""
        if len(self._codes) >= self._next_sweep:
            self.sweep()

    def sweep(self) -> None:
        """Removes the strings whose codes are in no store of this process, no change and no holder.

        Any word of a store counts as a code, whatever it means: a number can save a string, never lose one. May be
        interrupted anywhere: then some strings have lost their code, which is free from the next sweep on.
        """
        with _ADDING:
            used = np.zeros(len(self.texts), np.bool_)
            words = sum(_mark(used, each) for each in self._roots())
            self._mark_derived(used)
            texts, swept_at = self.texts, self.changes
            kept = np.flatnonzero(used).tolist()
            codes = {text: code for code in kept if (text := texts[code]) is not None}
            end = kept[-1] + 1 if kept else 0
            free = np.flatnonzero(~used[:end])[::-1].tolist()
            self.sweeps += 1
            self._free, self._codes = [], codes
            self._swept_at, self._forgotten, self._assigned = swept_at, swept_at + 1, []
            for code in free:
                texts[code] = None
            del texts[end:]
            self._free = free
            self._next_sweep = len(codes) + max(_FEW, len(codes), words // _WORDS_PER_STRING)

    def _roots(self) -> Iterator[Any]:
        for store in stores_in_memory():
            yield from store.words_in_use()
        for change in self._columns:
            yield from (words for words in change.words.values() if words.dtype == np.int64)
        for holder in self._holders:
            yield holder.held_codes()

    def _mark_derived(self, used: Any) -> None:
        holders, count = list(self._holders), -1
        while count != (count := int(np.count_nonzero(used))):
            for table in (table for holder in holders for table in holder.derived_codes()):
                _mark(used, table[1:][: len(used)][used[: len(table) - 1]])


def _mark(used: Any, words: Any) -> int:
    """Marks the codes among some words; returns the number of words."""
    some = words.reshape(-1)
    used[some[(some >= 0) & (some < len(used))]] = True
    return int(words.size)


class FileDictionary(StringDictionary):
    """A dictionary whose strings are in a file, in the order of their codes: other processes give the same codes.

    The file is a mark, then a part for each time that strings were added: their number, their lengths, all their bytes.
    A process has exclusive access to the file while it uses it. It first reads the strings of other processes with
    `catch_up`, and appends its own with `save`.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._read = self._known = 0
        self.at_first = 0
        """How many strings the file had when it was made."""
        self.mark = b""
        """Tells this file from another one that is made in its place."""

    @property
    def size(self) -> int:
        """Bytes of the file that count."""
        return self._read

    def catch_up(self) -> bool:
        """Learns the strings that others have added; False if the file is not the one it was."""
        if not self._path.exists():
            return not self._read
        with os.fdopen(open_regular(self._path, os.O_RDONLY), "rb") as file:
            mark = file.read(_MARK)
            if self._read and mark != self.mark:
                return False
            file.seek(max(self._read, _MARK))
            data = file.read()
        self.mark, self._read = mark, max(self._read, _MARK)
        at = 0
        while (part := _read_part(data, at)) is not None:
            texts, at = part
            self.at_first = self.at_first or len(texts)
            codes = range(len(self.texts), len(self.texts) + len(texts))
            self._codes.update(zip(texts, codes, strict=True))
            self._assigned += codes
            self.texts += texts
        self._read += at
        self._known = len(self.texts)
        return True

    def save(self) -> None:
        if self._known == len(self.texts):
            return
        data = _part(self.texts[self._known :])
        if not self._read:
            self.mark, self._read = os.urandom(_MARK), _MARK
            with os.fdopen(open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
                file.write(self.mark)
        with os.fdopen(open_regular(self._path, os.O_RDWR), "r+b") as file:
            file.truncate(self._read)
            file.seek(self._read)
            file.write(data)
        self._read += len(data)
        self._known = len(self.texts)
        self.at_first = self.at_first or self._known


def _part(texts: Sequence[str | None]) -> bytes:
    encoded = [(text or "").encode() for text in texts]
    lengths = np.fromiter(map(len, encoded), _LENGTHS, len(encoded))
    return b"".join((len(texts).to_bytes(_COUNT, "little"), lengths.tobytes(), *encoded))


def _read_part(data: bytes, at: int) -> tuple[list[str], int] | None:
    """The strings of the part at a position, and its end; None if the part is incomplete."""
    import pyarrow as pa

    count = int.from_bytes(data[at : at + _COUNT], "little")
    begin = at + _COUNT + count * _LENGTHS.itemsize
    if begin > len(data) or not count:
        return None
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.frombuffer(data, _LENGTHS, count, at + _COUNT), out=offsets[1:])
    end = begin + int(offsets[-1])
    if end > len(data):
        return None
    contents = pa.py_buffer(data).slice(begin, end - begin)
    texts = pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), contents)
    return texts.to_pylist(), end


_MARK, _COUNT = 16, 4
_LENGTHS = np.dtype("<i4")
