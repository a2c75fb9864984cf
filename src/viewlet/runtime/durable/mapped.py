"""Arrays in files: a process attaches to the state another one left in no time, and changes it in place.

The state of all stores of a program is one directory, with one file per array. A stamp tells what the files are: for
which program, after which epoch, and whether a batch was under way. They are a copy at hand, not the record: a state
that was left in the middle of a batch, by another program or before the machine was last started is not attached to,
but made again from a snapshot and logs.

    state = MappedState.attach(directory, identity, epoch) or MappedState.create(directory, identity)
    stores = {layout.name: FlatStore(layout, state.memory(layout.name)) for layout in layouts}
    state.begin()
    ...
    state.finish(epoch + 1)

What is written to mapped memory is there for the next process as soon as it is written, whatever happens to this one;
no syncing is needed.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.errors import StateError

STAMP = "stamp"
_FORMAT = b"viewlet1"
_EPOCH, _DIRTY, _WORDS = 0, 1, 2
_UNTRACKED: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
"""Before Python 3.13 every mapping takes a file descriptor."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class MappedState:
    """A directory of mapped arrays that this process has to itself until `close`."""

    def __init__(self, directory: Path, stamp: int, is_new: bool) -> None:
        self._directory = directory
        self._stamp = stamp
        self._words: Any = _map(stamp, len(_FORMAT) + 16, (_WORDS,), np.int64)
        self._is_new = is_new

    @staticmethod
    def create(directory: Path, identity: str, epoch: int = 0) -> MappedState:
        """An empty state, in the place of whatever was in the directory; `identity` tells programs apart."""
        directory.mkdir(parents=True, exist_ok=True)
        stamp = _locked(directory)
        for path in directory.iterdir():
            if path.name != STAMP:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        os.ftruncate(stamp, 0)
        _reserve(stamp, len(_FORMAT) + 16 + 8 * _WORDS)
        os.pwrite(stamp, _FORMAT + _digest(identity), 0)
        state = MappedState(directory, stamp, True)
        state._words[_EPOCH], state._words[_DIRTY] = epoch, 1  # until it has been filled
        return state

    @staticmethod
    def attach(directory: Path, identity: str, epoch: int) -> MappedState | None:
        """The state that `finish(epoch)` left for this program; None if there is no such state."""
        if not (directory / STAMP).exists():
            return None
        stamp = _locked(directory)
        size = len(_FORMAT) + 16 + 8 * _WORDS
        if os.fstat(stamp).st_size == size and os.pread(stamp, size, 0).startswith(_FORMAT + _digest(identity)):
            state = MappedState(directory, stamp, False)
            if state.epoch == epoch:
                return state
        _unlock(stamp)
        return None

    @property
    def epoch(self) -> int | None:
        """The epoch the state is at; None in the middle of a batch."""
        return None if self._words[_DIRTY] else int(self._words[_EPOCH])

    def begin(self) -> None:
        """A batch is about to change the arrays."""
        self._words[_DIRTY] = 1

    def finish(self, epoch: int) -> None:
        """The arrays are those of an epoch, all of them."""
        self._words[_EPOCH] = epoch
        self._words[_DIRTY] = 0

    def memory(self, store: str) -> MappedMemory:
        """Where the arrays of one store live."""
        folder = self._directory / hashlib.blake2b(store.encode(), digest_size=12).hexdigest()
        folder.mkdir(exist_ok=True)
        return MappedMemory(folder, self._is_new)

    def close(self) -> None:
        """Lets others attach; the arrays must not be changed afterwards."""
        if self._stamp >= 0:
            _unlock(self._stamp)
            self._stamp = -1


class MappedMemory:
    """The arrays of one store, a file each (see `viewlet.runtime.memory`)."""

    def __init__(self, folder: Path, is_new: bool) -> None:
        self._folder = folder
        self.is_new = is_new

    def first(self, part: str, shape: tuple[int, ...], dtype: Any) -> Any:
        if self.is_new:
            return self.zeros(part, shape, dtype)
        file = os.open(self._folder / part, os.O_RDWR)
        try:
            rows = os.fstat(file).st_size // _bytes(shape[1:], dtype)
            return _map(file, 0, (rows, *shape[1:]), dtype)
        finally:
            os.close(file)

    def zeros(self, part: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """In a new file: the old one stays readable for whoever has it mapped."""
        draft = self._folder / f"{part}.new"
        file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _reserve(file, _bytes(shape, dtype))
            os.replace(draft, self._folder / part)
            return _map(file, 0, shape, dtype)
        finally:
            os.close(file)

    def grown(self, part: str, array: Any, rows: int) -> Any:
        shape = (rows, *array.shape[1:])
        file = os.open(self._folder / part, os.O_RDWR)
        try:
            _reserve(file, _bytes(shape, array.dtype))
            return _map(file, 0, shape, array.dtype)
        finally:
            os.close(file)


def _bytes(shape: tuple[int, ...], dtype: Any) -> int:
    return math.prod(shape) * int(np.dtype(dtype).itemsize)


def _map(file: int, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """A part of a file as an array; the mapping lives as long as the array."""
    size = _bytes(shape, dtype)
    if not size:
        return np.zeros(shape, dtype)
    return np.ndarray(shape, dtype, mmap.mmap(file, offset + size, **_UNTRACKED), offset)


def _reserve(file: int, size: int) -> None:
    """Makes a file so long, and takes the room now: a full disk must be an error here, not a signal later."""
    try:
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, size)
        else:
            os.ftruncate(file, size)
    except OSError as error:
        raise StateError(f"no room for {size:,} bytes of state: {error.strerror}") from error


def _locked(directory: Path) -> int:
    fcntl: Any = import_module("fcntl")
    stamp = os.open(directory / STAMP, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(stamp, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(stamp)
        raise StateError(f"the state in {directory} is in use by another process") from error
    return stamp


def _unlock(stamp: int) -> None:
    """A mapping holds its file open, so closing it would not be enough."""
    fcntl: Any = import_module("fcntl")
    fcntl.flock(stamp, fcntl.LOCK_UN)
    os.close(stamp)


def _digest(identity: str) -> bytes:
    """Of the program, and of the time since the machine was started: after a power failure pages may be missing."""
    boot = _BOOT.read_bytes() if _BOOT.exists() else b""
    return hashlib.blake2b(identity.encode() + boot, digest_size=16).digest()
