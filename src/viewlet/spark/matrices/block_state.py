"""A block of a matrix in the version that a task needs, in mapped files of the machine.

The next task of a block may run in any process of any machine. A process whose machine has some version that the
history leads through applies the changes that are missing, which it reads from the log. One without reads the base
first. A block that a process left in the middle of a change has no version.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from viewlet.runtime.durable.log import read_record
from viewlet.runtime.durable.mapped_state import MappedState
from viewlet.runtime.private_folders import private_folder
from viewlet.spark.matrices.block_files import FOLDERS, Place, read_block
from viewlet.spark.matrices.change import from_record
from viewlet.spark.matrices.history import Stored
from viewlet.spark.run.state.partition import state_root
from viewlet.spark.run.state.unit_state import WAIT_SECONDS

_PART = "block"


class BlockState:
    """The rows of a block that this process has for itself until `release`."""

    def __init__(self, folder: Path, shape: tuple[int, int], dtype: str) -> None:
        self._shape, self._dtype = shape, dtype
        self._state = MappedState.open(folder, f"{shape} {dtype}", WAIT_SECONDS)
        self._memory: Any = None
        self._attach()

    def _attach(self) -> None:
        if self._state.version is not None:
            if self._memory is None:
                self._memory = self._state.memory(_PART)
            with contextlib.suppress(FileNotFoundError):
                self.array = self._memory.first(_PART, self._shape, self._dtype)
                if self._state.is_whole() and self.array.shape == self._shape:
                    return
        self._state.reset()
        self._memory = self._state.memory(_PART)
        self.array = self._memory.zeros(_PART, self._shape, self._dtype)
        self._memory.is_new = False

    def acquire(self) -> None:
        """Takes the block again."""
        if not self._state.acquire(WAIT_SECONDS):
            self._memory = None
        self._attach()

    def release(self) -> None:
        """Lets other processes have it."""
        self._state.release()

    def close(self) -> None:
        """Releases it for good."""
        self._state.close()

    @property
    def token(self) -> str | None:
        """The version that it is."""
        return self._state.version

    def change(self, token: str, work: Callable[[Any], None]) -> None:
        """Makes it another version; interrupted, it has none."""
        self._state.begin()
        work(self.array)
        self._state.finish(token)


_kept: dict[tuple[str, str, int], BlockState] = {}
"""The blocks that this process has mapped, by checkpoint, matrix and part."""


@contextlib.contextmanager
def held(place: Place, matrix: Stored, part: int) -> Iterator[BlockState]:
    """A block in the version of a history, for this task alone."""
    key = (place.checkpoint, matrix.name, part)
    state = _kept.pop(key, None)
    begin, end = matrix.layout.range(part)
    if state is not None:
        state.acquire()
    else:
        folder = _home(place) / f"{FOLDERS}{matrix.name}" / str(part)
        state = BlockState(folder, (end - begin, matrix.layout.columns), matrix.dtype)
    try:
        _bring_up_to_date(place, matrix, part, state)
        yield state
    except BaseException:
        state.close()
        raise
    state.release()
    _kept[key] = state


def _bring_up_to_date(place: Place, matrix: Stored, part: int, state: BlockState) -> None:
    history, files = matrix.history, place.files
    tokens = history.tokens
    if state.token not in tokens:
        base = read_block(files, history.base, matrix.layout, matrix.dtype, part)
        state.change(history.base, lambda array: array.__setitem__(slice(None), base))
    begin, end = matrix.layout.range(part)
    for change in history.changes[tokens.index(state.token or "") :]:
        found = from_record(bytes(read_record(files, change.log, change.at, change.size).payload))
        state.change(change.token, lambda array, found=found: found.apply(array, begin, end))  # type: ignore[misc]


def _home(place: Place) -> Path:
    """The folder with what this machine has of a checkpoint; its contents are trusted."""
    state = Path(place.state or state_root())
    root = private_folder(state, "remove it, or set VIEWLET_STATE to a folder that only you can write to")
    return root / hashlib.blake2b(place.checkpoint.encode(), digest_size=8).hexdigest()


def remove(place: Place, names: tuple[str, ...] | None) -> None:
    """Removes what this machine has of some matrices, or of all."""
    for key in [key for key in _kept if key[0] == place.checkpoint and (names is None or key[1] in names)]:
        state = _kept.pop(key)
        with contextlib.suppress(OSError):
            state.close()
    home = _home(place)
    for folder in [home] if names is None else [home / f"{FOLDERS}{name}" for name in names]:
        shutil.rmtree(folder, ignore_errors=True)
