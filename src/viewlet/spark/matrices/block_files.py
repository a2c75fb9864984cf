"""Blocks of matrices in the checkpoint directory, a folder for each version that is written and a file for each block.

A file is complete or not there: it is written under a name of its own and renamed, and it ends in a checksum.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.errors import StateError
from viewlet.runtime.durable.files import Files, files_at
from viewlet.spark.matrices.history import Layout, Stored

FOLDERS = "matrix-"
_CHECKSUM_BYTES = 4


def folder_of(token: str) -> str:
    """The folder with the blocks of a version."""
    return f"{FOLDERS}{token}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where tasks find things: the checkpoint directory, and the folder of cached state on their machine."""

    checkpoint: str
    state: str
    """Empty if each machine has its own."""
    sync: bool = True

    @property
    def files(self) -> Files:
        """The checkpoint directory."""
        return files_at(self.checkpoint, self.sync)


def write_block(files: Files, token: str, part: int, block: Any) -> None:
    """Writes a block of a version; what another attempt has written is replaced by the same."""
    whole: Any = np.ascontiguousarray(block)
    data = memoryview(whole).cast("B") if whole.size else memoryview(b"")
    checksum = zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "little")
    folder = folder_of(token)
    name = f"{folder}/{part:05}"
    if not files.appends:
        files.put(name, bytes(data) + checksum)
        return
    files.make_folder(folder)
    draft = f"{name}-{uuid.uuid4().hex[:8]}"
    with closing(files.create(draft)) as output:
        output.write(data)
        output.write(checksum)
        output.sync()
    files.rename(draft, name)
    files.sync_folder(folder)


def read_block(files: Files, token: str, layout: Layout, dtype: str, part: int) -> Any:
    """A block of a version that was written."""
    begin, end = layout.range(part)
    name = f"{folder_of(token)}/{part:05}"
    try:
        data = files.read(name)
    except FileNotFoundError as error:
        raise StateError(f"{files.path(name)} is missing; restore it from a copy") from error
    body = memoryview(data)[:-_CHECKSUM_BYTES]
    wanted = (end - begin) * layout.columns * np.dtype(dtype).itemsize
    if len(body) != wanted or zlib.crc32(body) != int.from_bytes(data[-_CHECKSUM_BYTES:], "little"):
        raise StateError(f"{files.path(name)} is damaged; restore it from a copy")
    return np.frombuffer(body, dtype).reshape(end - begin, layout.columns)


@dataclass(frozen=True, slots=True)
class BlockReader:
    """Reads matrices whose last version is in files."""

    files: Files

    def blocks(self, matrix: Stored) -> Iterator[tuple[int, int, Any]]:
        """The blocks one after the other, each with its rows."""
        for part, (begin, end) in enumerate(matrix.layout.ranges):
            yield begin, end, read_block(self.files, matrix.history.base, matrix.layout, matrix.dtype, part)

    def rows(self, matrix: Stored, begin: int, end: int) -> Any:
        """Some rows."""
        found = []
        for part, (first, last) in enumerate(matrix.layout.ranges):
            if first < end and last > begin:
                block = read_block(self.files, matrix.history.base, matrix.layout, matrix.dtype, part)
                found.append(block[max(begin, first) - first : min(end, last) - first])
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else np.zeros((0, matrix.layout.columns), matrix.dtype)
