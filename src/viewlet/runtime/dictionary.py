"""One code per distinct string of a connection, so that strings join as integers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.forks import lock_for_forks
from viewlet.runtime.arithmetic import NULL
from viewlet.runtime.durable.files import open_regular

_ADDING = lock_for_forks()


class StringDictionary:
    """Codes of strings, from 0 in the order of first use. Threads may share a dictionary: codes are only added."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self.texts: list[str] = []

    def __len__(self) -> int:
        return len(self.texts)

    def code(self, text: str | None) -> int:
        """The code of a string, assigned on first use; NULL has a reserved code."""
        if text is None:
            return NULL
        code = self._codes.get(text)
        return self._add(text) if code is None else code

    def known(self, text: str) -> int | None:
        """The code of a string that has one."""
        return self._codes.get(text)

    def _add(self, text: str) -> int:
        with _ADDING:
            code = self._codes.get(text)
            if code is None:
                code = len(self.texts)
                self.texts.append(text)  # first: no exception leaves a code without its text
                self._codes[text] = code
            return code

    def text(self, code: int) -> str | None:
        return None if code == NULL else self.texts[code]

    def encode(self, texts: Sequence[str | None]) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array([self.code(text) for text in texts], np.int64)

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
            self._codes.update(zip(texts, range(len(self.texts), len(self.texts) + len(texts)), strict=True))
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


def _part(texts: Sequence[str]) -> bytes:
    encoded = [text.encode() for text in texts]
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
