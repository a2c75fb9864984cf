"""An append-only log of records, each with its length and a checksum.

    record ::= length (8 bytes) kind (1) epoch (8) checksum (4) payload

The checksum covers the payload and the fields before it. A manifest says how many bytes of a log are committed. A
defect in these bytes is corruption and an error; the bytes after them were never committed and are not read. It also
has a checksum over the checksums of these records, which the log of another directory does not have. Without a
manifest, a truncated record ends the log.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from viewlet.errors import StateError
from viewlet.runtime.durable.files import Data, Files

HEADER = b"viewlet log 1\n\0\0"
_FIELDS = struct.Struct("<QBQ")
_CHECKSUM = struct.Struct("<I")
OVERHEAD = _FIELDS.size + _CHECKSUM.size
"""Bytes of a record before its payload."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a log; `at` is its offset, once it has been written."""

    kind: int
    epoch: int
    payload: Data
    at: int = -1

    @property
    def size(self) -> int:
        """How many bytes of a log it takes."""
        return OVERHEAD + memoryview(self.payload).nbytes


class LogWriter:
    """The writer of a new log; `length` is the number of synced bytes."""

    def __init__(self, files: Files, name: str) -> None:
        self.name = name
        self.length = self.checksum = 0
        self._output = files.create(name)
        self._pending: list[Data] = [HEADER]

    def append(self, records: Sequence[Record]) -> list[int]:
        """Writes records and waits until they would survive a power failure; returns where they begin."""
        at = self.length + sum(map(len, self._pending))
        begins: list[int] = []
        whole = self.checksum
        for record in records:
            begins.append(at)
            fields, checksum, payload = _pieces(record)
            self._pending += fields, checksum, payload
            whole = zlib.crc32(checksum, whole)
            at += record.size
        data = b"".join(self._pending)
        self._output.write(data)
        self._output.sync()
        self._pending.clear()
        self.length += len(data)
        self.checksum = whole
        return begins

    def close(self) -> None:
        self._output.close()


def read_record(files: Files, name: str, at: int, size: int) -> Record:
    """The record of so many bytes that begins at a position of a log."""
    record, _ = _read(files.read_part(name, at, size), 0, size)
    if record is None:
        raise StateError(f"{files.path(name)} is damaged at byte {at}")
    return record


def read_log(data: bytes, where: str, committed: int | None = None, whole: int | None = None) -> Iterator[Record]:
    """The records of a log: those of its first `committed` bytes, or all up to one that is cut short.

    `whole` is the checksum of all of them, which is compared at the end.
    """
    end = len(data) if committed is None else committed
    if end > len(data):
        raise StateError(f"{where} is damaged: {end} bytes are committed, it has {len(data)}")
    if committed is None and len(data) < len(HEADER) and HEADER.startswith(data):
        return
    if data[: len(HEADER)] != HEADER:
        raise StateError(f"{where} is damaged at byte 0: it does not begin as a log of this version does")
    at, found = len(HEADER), 0
    while at < end:
        record, following = _read(data, at, end)
        if record is None:
            if committed is None and following >= end:
                return
            raise StateError(f"{where} is damaged at byte {at}")
        found = zlib.crc32(data[at + _FIELDS.size : at + OVERHEAD], found)
        yield record
        at = following
    if whole is not None and found != whole:
        raise StateError(f"{where} is damaged, or that of another directory: it has other records than are committed")


def _read(data: bytes, at: int, end: int) -> tuple[Record | None, int]:
    """The record at a position, or None if it is not one; and where the next one would begin."""
    end = min(end, len(data))
    body = at + OVERHEAD
    if body > end:
        return None, body
    length, kind, epoch = _FIELDS.unpack_from(data, at)
    following = body + length
    if following > end:
        return None, following
    (checksum,) = _CHECKSUM.unpack_from(data, at + _FIELDS.size)
    payload = memoryview(data)[body:following]
    if checksum != zlib.crc32(payload, zlib.crc32(data[at : at + _FIELDS.size])):
        return None, following
    return Record(kind, epoch, payload, at), following


def _pieces(record: Record) -> tuple[Data, Data, Data]:
    fields = _FIELDS.pack(memoryview(record.payload).nbytes, record.kind, record.epoch)
    return fields, _CHECKSUM.pack(zlib.crc32(record.payload, zlib.crc32(fields))), record.payload
