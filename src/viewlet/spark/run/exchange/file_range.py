"""Bytes in a file of the checkpoint directory, written by one task and read by others.

A task writes one file and tells the driver which ranges of it hold what. Every attempt of a task uses a new file name,
so a repeated task leaves an unreferenced file and no harm.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from viewlet.errors import StateError
from viewlet.runtime.durable.files import Data, Files, Output


@dataclass(frozen=True, slots=True)
class FileRange:
    """Some bytes of a file, and their checksum."""

    file: str
    at: int
    size: int
    checksum: int

    def __len__(self) -> int:
        return self.size

    def read(self, files: Files) -> bytes:
        where = files.path(self.file)
        try:
            data = files.read_part(self.file, self.at, self.size)
        except FileNotFoundError as error:
            raise StateError(f"{where} is missing; restore it from a copy") from error
        except OSError as error:
            raise StateError(f"cannot read {where}: {error.strerror}") from error
        if len(data) != self.size or zlib.crc32(data) != self.checksum:
            raise StateError(f"{where} is damaged: its checksum does not fit")
        return data


class RangeWriter:
    """Appends ranges to a new file."""

    def __init__(self, files: Files, file: str) -> None:
        self.file = file
        self._output: Output = files.create(file)
        self._at = 0

    def append(self, data: Data) -> FileRange:
        self._output.write(data)
        written = FileRange(self.file, self._at, len(data), zlib.crc32(data))
        self._at += len(data)
        return written

    def close(self, keep: bool) -> None:
        try:
            if keep:
                self._output.sync()
        finally:
            self._output.close()
