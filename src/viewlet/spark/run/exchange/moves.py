"""Moves of contents between stages: through the driver while they are small, through files if they are not.

    task ──► pieces ──► driver ──► pieces ──► tasks of the next stage          small: latency counts
    task ──► one file of ranges ─────────────► tasks of the next stage          large: the driver sees the ranges only

The files are part of the log: a replay reads the same ranges. They are in one folder per batch, which is removed when
the batch is abandoned, or when a snapshot replaces the log.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from types import TracebackType

from viewlet.errors import StateError
from viewlet.runtime.durable.compression import packed, unpacked
from viewlet.runtime.durable.files import Files
from viewlet.spark.run.exchange.file_range import FileRange, RangeWriter
from viewlet.spark.run.exchange.stage_record import Delivery, Piece, Sent

INLINE_BYTES = 8 << 20
"""What the tasks of a stage send through the driver at most, all of them together."""
FRAME_TASKS = 128
"""How many tasks a data frame is taken to have: Spark does not tell before it has planned them."""
FOLDERS = "moves-"


def folder_of(token: str) -> str:
    """The folder of the batch that a version belongs to.

    >>> folder_of("4f1c.2")
    'moves-4f1c'
    """
    return f"{FOLDERS}{token.partition('.')[0]}"


class Outbox:
    """What leaves a task: pieces as they are up to `limit` bytes, and all of them as ranges of one file beyond."""

    def __init__(self, files: Files, folder: str, limit: int, units: int = 2) -> None:
        self._files, self._folder, self._limit = files, folder, limit
        self._is_shared = units > 1
        self._size = 0
        self._pieces: list[Piece] = []
        self._written_once: dict[bytes, FileRange] = {}
        """By digest: several units may be sent the same."""
        self._writer: RangeWriter | None = None

    def __enter__(self) -> Outbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Makes the file durable; it is removed if the task has failed."""
        writer = self._writer
        if writer is None:
            return
        try:
            writer.close(keep=kind is None)
            self._files.sync_folder(self._folder)
        except OSError as failure:
            raise self._failure(failure) from failure
        if kind is not None:
            with contextlib.suppress(OSError):
                self._files.remove(writer.file)

    def put(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            self._size += len(piece[3])
            if self._writer is None and self._size > self._limit:
                self._open()
            self._pieces.append(self._written(piece))

    @property
    def pieces(self) -> list[Piece]:
        """What to tell the driver, once the task has succeeded."""
        return self._pieces

    def _open(self) -> None:
        try:
            self._files.make_folder(self._folder)
            self._files.sync_folder()
            self._writer = RangeWriter(self._files, f"{self._folder}/{uuid.uuid4().hex}.bin")
        except OSError as error:
            raise self._failure(error) from error
        self._pieces = [self._written(piece) for piece in self._pieces]

    def _written(self, piece: Piece) -> Piece:
        unit, target, partition, contents = piece
        if self._writer is None or isinstance(contents, FileRange):
            return piece
        digest = blake2b(contents, digest_size=16).digest() if self._is_shared else b""
        try:
            if digest not in self._written_once or not self._is_shared:
                self._written_once[digest] = self._writer.append(packed(contents))
        except OSError as error:
            raise self._failure(error) from error
        return unit, target, partition, self._written_once[digest]

    def _failure(self, error: OSError) -> StateError:
        return StateError(f"cannot write to {self._files.path(self._folder)}: {error.strerror or error}")


def fetch(files: Files, sent: Sequence[Sent]) -> list[bytes | memoryview]:
    """Contents, read from files where they are there."""
    return [unpacked(each.read(files)) if isinstance(each, FileRange) else each for each in sent]


def fetch_all(files: Files, sent: Mapping[str, Sequence[Sent]]) -> Delivery:
    return {target: fetch(files, contents) for target, contents in sent.items()}
