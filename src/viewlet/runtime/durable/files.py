"""The few operations on files that durability rests on, so that tests can interrupt each of them.

Names are relative to one directory and use slashes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Protocol

Data = bytes | memoryview


class Output(Protocol):
    """A new file that is being written."""

    def write(self, data: Data) -> object: ...

    def sync(self) -> None:
        """Returns when everything written so far would survive a power failure."""

    def close(self) -> None: ...


class Files(Protocol):
    """A directory that somebody else may read, but only we write."""

    def path(self, name: str) -> str:
        """The full name, for messages."""

    def list(self) -> list[str]:
        """The names of the files and folders directly in the directory."""

    def read(self, name: str) -> bytes: ...

    def read_part(self, name: str, start: int, size: int) -> bytes:
        """Some bytes of a file; fewer where it ends before."""

    def create(self, name: str) -> Output:
        """Opens a file for writing; what it held before is gone."""

    def rename(self, old: str, new: str) -> None:
        """Gives a file another name at once; nobody sees a part of it under the new name."""

    def remove(self, name: str) -> None:
        """Removes a file, or a folder with all that is in it."""

    def make_folder(self, name: str) -> None: ...

    def sync_folder(self, name: str = "") -> None:
        """Returns when the names in a folder would survive a power failure."""


class LocalFiles:
    """A directory of the local file system; without `sync` a power failure may cost the last commits."""

    def __init__(self, root: Path, sync: bool = True) -> None:
        self.root = root
        self.sync = sync

    def path(self, name: str) -> str:
        return str(self.root / name)

    def list(self) -> list[str]:
        return sorted(entry.name for entry in os.scandir(self.root))

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def read_part(self, name: str, start: int, size: int) -> bytes:
        with (self.root / name).open("rb") as file:
            file.seek(start)
            return file.read(size)

    def create(self, name: str) -> Output:
        return _LocalOutput(self.root / name, self.sync)

    def rename(self, old: str, new: str) -> None:
        os.replace(self.root / old, self.root / new)

    def remove(self, name: str) -> None:
        path = self.root / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    def make_folder(self, name: str) -> None:
        (self.root / name).mkdir(parents=True, exist_ok=True)

    def sync_folder(self, name: str = "") -> None:
        if not self.sync:
            return
        folder = os.open(self.root / name, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class _LocalOutput:
    def __init__(self, path: Path, sync: bool) -> None:
        self._file = path.open("wb", buffering=0)
        self._sync = sync

    def write(self, data: Data) -> object:
        left = memoryview(data).cast("B")
        while len(left):  # an unbuffered file may take less than it is given
            left = left[self._file.write(left) :]
        return None

    def sync(self) -> None:
        if self._sync:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
