"""Snapshots: a whole state as named arrays, Arrow tables and a little JSON, in one folder.

A snapshot is written once, synced, and then named by a manifest; it never changes. Its index holds the size and the
checksum of every file, and the manifest holds the checksum of the index.

A task on a cluster may run twice, even at the same time. Each attempt at a snapshot then uses its own file names in the
same folder, and its index is named by the checksum that it reports.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import pyarrow as pa

from viewlet.errors import StateError
from viewlet.runtime.durable.files import Data, Files, Output

INDEX = "index.json"
Array = Any


def index_of(checksum: int) -> str:
    """The name of an index where there may be several."""
    return f"index-{checksum:08x}.json"


class SnapshotWriter:
    """Writes the parts of a state one by one; `finish` makes them a snapshot."""

    def __init__(self, files: Files, folder: str, attempt: str = "") -> None:
        self.folder = folder
        self.bytes = 0
        self._files = files
        self._attempt = attempt
        self._parts: dict[str, dict[str, Any]] = {}
        files.make_folder(folder)

    def array(self, name: str, array: Array) -> None:
        import numpy as np  # only compiled views have arrays, and they have NumPy

        whole = np.ascontiguousarray(array)
        with self._part(name, "array", dtype=whole.dtype.str, shape=list(whole.shape)) as sink:
            if whole.nbytes:
                sink.write(whole.reshape(-1).view(np.uint8).data)

    def table(self, name: str, table: Any) -> None:
        with self._part(name, "table") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)

    def finish(self, facts: object) -> int:
        """Writes the index with some JSON of the caller's; returns its checksum."""
        attempt = {"attempt": self._attempt} if self._attempt else {}
        data = json.dumps({"parts": self._parts, "facts": facts, **attempt}).encode()
        checksum = zlib.crc32(data)
        output = self._files.create(f"{self.folder}/{index_of(checksum) if self._attempt else INDEX}")
        try:
            output.write(data)
            output.sync()
        finally:
            output.close()
        self._files.sync_folder(self.folder)
        self.bytes += len(data)
        return checksum

    def _part(self, name: str, kind: str, **facts: object) -> _Sink:
        file = f"{len(self._parts):05}{self._attempt and '-'}{self._attempt}.{kind}"
        entry = self._parts[name] = {"file": file, "kind": kind, **facts}
        return _Sink(self, entry, self._files.create(f"{self.folder}/{file}"))


class _Sink:
    """A file of a snapshot with the interface that pyarrow expects; computes its size and checksum."""

    def __init__(self, writer: SnapshotWriter, entry: dict[str, Any], output: Output) -> None:
        self._writer = writer
        self._entry = entry
        self._output = output
        self._bytes = self._checksum = 0
        self.closed = False

    def write(self, data: Any) -> int:
        piece: Data = data if isinstance(data, bytes) else memoryview(data)
        self._output.write(piece)
        self._checksum = zlib.crc32(piece, self._checksum)
        size = memoryview(piece).nbytes
        self._bytes += size
        return size

    def tell(self) -> int:
        return self._bytes

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Does nothing: pyarrow closes its sink at an unspecified time, so `__exit__` closes the file."""

    def __enter__(self) -> _Sink:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if error is None:
                self._output.sync()
        finally:
            self._output.close()
        self._entry |= {"bytes": self._bytes, "checksum": self._checksum}
        self._writer.bytes += self._bytes


class SnapshotReader:
    """The parts of a snapshot by name, checked as they are read."""

    def __init__(self, files: Files, folder: str, checksum: int, name: str = INDEX) -> None:
        self._files = files
        self._folder = folder
        data = self._read(name)
        if zlib.crc32(data) != checksum:
            raise StateError(f"{files.path(f'{folder}/{name}')} is damaged: its checksum does not fit")
        index = json.loads(data)
        self._parts: dict[str, dict[str, Any]] = index["parts"]
        self.facts: Any = index["facts"]
        self.bytes = len(data) + sum(part["bytes"] for part in self._parts.values())

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def array(self, name: str) -> Array:
        import numpy as np

        part = self._parts[name]
        return np.frombuffer(self._checked(name), part["dtype"]).reshape(part["shape"])

    def table(self, name: str) -> Any:
        return pa.ipc.open_stream(self._checked(name)).read_all()

    def _checked(self, name: str) -> bytes:
        part = self._parts[name]
        data = self._read(part["file"])
        if len(data) != part["bytes"] or zlib.crc32(data) != part["checksum"]:
            where = self._files.path(f"{self._folder}/{part['file']}")
            raise StateError(f"{where} is damaged: its checksum does not fit")
        return data

    def _read(self, file: str) -> bytes:
        name = f"{self._folder}/{file}"
        try:
            return self._files.read(name)
        except FileNotFoundError as error:
            raise StateError(f"{self._files.path(name)} is missing; restore it from a copy") from error
        except OSError as error:
            raise StateError(f"cannot read {self._files.path(name)}: {error.strerror}") from error
