"""Arrays in memory-mapped files: a process attaches to the state of another one instantly, and changes it in place.

The state of all stores of a program is one directory, with one file per array. A stamp identifies the files: their
program, their version, and whether a change was in progress. The files are a cache; the durable copy is in snapshots
and logs. A state has no version, and is rebuilt, if a change was interrupted, if another program wrote it, if it is
older than the last boot of the machine, or if files are missing or truncated.

    state = MappedState.open(directory, identity)
    if state.version is None:
        state.reset()
    stores = {layout.name: FlatStore(layout, state.memory(layout.name)) for layout in layouts}
    state.begin()
    ...
    state.finish("epoch 8")
    state.release()

Writes to mapped memory are visible to the next process immediately, even if this process dies; no syncing is needed. A
process may keep its arrays when it releases the state: `count` tells it later whether another process has changed
anything.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.errors import StateError
from viewlet.runtime.durable.file_mapping import map_file
from viewlet.runtime.durable.files import open_regular

STAMP = "stamp"
_FORMAT = b"viewlet4"
_DIRTY, _COUNT, _LENGTH, _FILES, _WORDS = 0, 1, 2, 3, 4
_VERSION_BYTES = 80
_DIGEST_BYTES = 16
_HEAD = len(_FORMAT) + _DIGEST_BYTES
_SIZE = _HEAD + 8 * _WORDS + _VERSION_BYTES
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PAUSE = 0.002


class MappedState:
    """A directory of mapped arrays that this process owns exclusively until `release`."""

    def __init__(self, directory: Path, identity: str, stamp: int) -> None:
        self._directory = directory
        self._identity = _digest(identity)
        self._take(stamp)

    def _take(self, stamp: int) -> None:
        self._stamp, self._is_new = stamp, False
        self._sizes: dict[str, int] = {}
        self._bytes: Any = map_file(stamp, 0, (_SIZE,), np.uint8)
        self._words: Any = self._bytes[_HEAD : _HEAD + 8 * _WORDS].view(np.int64)

    @staticmethod
    def open(directory: Path, identity: str, wait: float = 0.0) -> MappedState:
        """The state in a directory, whatever it is; `identity` tells programs apart.

        Another process that has it is waited for so many seconds.
        """
        return MappedState(directory, identity, _locked_stamp(directory, wait))

    def acquire(self, wait: float = 0.0) -> bool:
        """Takes the state again after `release`; False if it is another one, because the files were removed."""
        _lock(self._stamp, self._directory, wait)
        if _is_at(self._stamp, self._directory / STAMP):
            os.utime(self._stamp)  # writing to mapped memory need not count as a change of the file
            return True
        os.close(self._stamp)
        self._take(_locked_stamp(self._directory, wait))
        return False

    def release(self) -> None:
        """Lets others have the state; the arrays must not be changed afterwards."""
        import_module("fcntl").flock(self._stamp, import_module("fcntl").LOCK_UN)

    @property
    def version(self) -> str | None:
        """What `finish` was told; None if there is no whole state of this program."""
        known = bytes(self._bytes[:_HEAD]) == _FORMAT + self._identity
        if not known or self._words[_DIRTY]:
            return None
        at = _HEAD + 8 * _WORDS
        return bytes(self._bytes[at : at + int(self._words[_LENGTH])]).decode()

    @property
    def count(self) -> int:
        """A counter that grows with every change by any process."""
        return int(self._words[_COUNT])

    def reset(self) -> None:
        """Gives up what there is; stores made from now on are empty."""
        self.begin()
        for path in self._directory.iterdir():
            if path.name != STAMP:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        self._bytes[:_HEAD] = np.frombuffer(_FORMAT + self._identity, np.uint8)
        self._is_new = True
        self._sizes.clear()

    def begin(self) -> None:
        """The arrays are about to be changed."""
        self._words[_DIRTY] = 1
        self._words[_COUNT] += 1

    def is_whole(self, beside: int = 0) -> bool:
        """The arrays that have been attached to are as long as they were left, and so are the files that go with them.

        Only Viewlet should touch the files, but temporary folders may be cleaned up.
        """
        return sum(self._sizes.values()) + beside == int(self._words[_FILES])

    def finish(self, version: str, beside: int = 0) -> None:
        """The arrays are those of a version, all of them; `beside` are the bytes of the files that go with them."""
        text = version.encode()
        if len(text) > _VERSION_BYTES:
            raise StateError(f"the name of a version has at most {_VERSION_BYTES} bytes: {version!r}")
        at = _HEAD + 8 * _WORDS
        self._bytes[at : at + len(text)] = np.frombuffer(text, np.uint8)
        self._words[_LENGTH] = len(text)
        self._words[_FILES] = sum(self._sizes.values()) + beside
        self._words[_DIRTY] = 0
        self._is_new = False

    def memory(self, store: str) -> MappedMemory:
        """Where the arrays of one store live."""
        folder = self._directory / hashlib.blake2b(store.encode(), digest_size=12).hexdigest()
        folder.mkdir(exist_ok=True)
        return MappedMemory(folder, self._is_new, self._sizes)

    def file(self, name: str) -> Path:
        """A file that goes with the arrays."""
        return self._directory / name

    def close(self) -> None:
        """Releases the state permanently."""
        if self._stamp >= 0:
            self.release()
            os.close(self._stamp)
            self._stamp = -1


class MappedMemory:
    """The arrays of one store, a file each (see `viewlet.runtime.memory`)."""

    def __init__(self, folder: Path, is_new: bool, sizes: dict[str, int]) -> None:
        self._folder = folder
        self._sizes = sizes
        self._mapped: dict[str, tuple[tuple[int, int], Any]] = {}
        """The arrays this process has, each with what tells its file from another one, and its length."""
        self.is_new = is_new

    def first(self, part: str, shape: tuple[int, ...], dtype: Any) -> Any:
        if self.is_new:
            return self.zeros(part, shape, dtype)
        path = self._path(part)
        status = os.stat(path)
        known = self._mapped.get(part)
        if known is not None and known[0] == (status.st_ino, status.st_size):
            self._sizes[path] = status.st_size
            return known[1]
        file = open_regular(path, os.O_RDWR)
        try:
            size = self._sizes[path] = os.fstat(file).st_size
            rows = size // _bytes(shape[1:], dtype)
            return self._mapping(part, file, (rows, *shape[1:]), dtype)
        finally:
            os.close(file)

    def _path(self, part: str) -> str:
        return f"{self._folder}/{part}"

    def _mapping(self, part: str, file: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """Maps a file and remembers it by its number, which no other file gets as long as it is mapped."""
        array = map_file(file, 0, shape, dtype)
        status = os.fstat(file)
        self._mapped[part] = (status.st_ino, status.st_size), array
        return array

    def zeros(self, part: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Allocates in a new file; the old file stays readable for processes that have it mapped."""
        draft = self._path(f"{part}.new")
        file = open_regular(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            self._reserve(file, part, _bytes(shape, dtype))
            os.replace(draft, self._path(part))
            return self._mapping(part, file, shape, dtype)
        finally:
            os.close(file)

    def grown(self, part: str, array: Any, rows: int) -> Any:
        shape = (rows, *array.shape[1:])
        file = open_regular(self._path(part), os.O_RDWR)
        try:
            self._reserve(file, part, _bytes(shape, array.dtype))
            return self._mapping(part, file, shape, array.dtype)
        finally:
            os.close(file)

    def _reserve(self, file: int, part: str, size: int) -> None:
        _reserve(file, size)
        self._sizes[self._path(part)] = size


def _bytes(shape: tuple[int, ...], dtype: Any) -> int:
    return math.prod(shape) * int(np.dtype(dtype).itemsize)


def _reserve(file: int, size: int) -> None:
    """Makes a file so long, and takes the room now: a full disk must be an error here, not a signal later."""
    try:
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, size)
        else:
            os.ftruncate(file, size)
    except OSError as error:
        raise StateError(f"no room for {size:,} bytes of state: {error.strerror}") from error


def _locked_stamp(directory: Path, wait: float) -> int:
    """Opens the stamp of a directory, exclusively; the directory is created if it does not exist."""
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        stamp = open_regular(directory / STAMP, os.O_RDWR | os.O_CREAT, 0o600)
        _lock(stamp, directory, wait)
        if _is_at(stamp, directory / STAMP):
            break
        os.close(stamp)  # another process has removed it in the meantime
    if os.fstat(stamp).st_size != _SIZE:
        os.ftruncate(stamp, 0)
        _reserve(stamp, _SIZE)
    os.utime(stamp)
    return stamp


def _is_at(file: int, path: Path) -> bool:
    """An open file is the one at a path."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _lock(stamp: int, directory: Path, wait: float) -> None:
    fcntl: Any = import_module("fcntl")
    until = time.monotonic() + wait
    while True:
        try:
            return fcntl.flock(stamp, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[no-any-return]
        except OSError as error:
            if time.monotonic() >= until:
                raise StateError(f"the state in {directory} is in use by another process") from error
            time.sleep(_PAUSE)


def _digest(identity: str) -> bytes:
    """Of the program, and of the time since the machine was started: after a power failure pages may be missing."""
    boot = _BOOT.read_bytes() if _BOOT.exists() else b""
    return hashlib.blake2b(identity.encode() + boot, digest_size=16).digest()
