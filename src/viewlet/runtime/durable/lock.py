"""A lock on a directory, for one process at a time; it ends with its process.

The lock is the kernel's, so a killed process does not hold it. A fork lets go of the file, which would keep the lock
for as long as the fork runs. The contents of the file tell other processes who holds the lock. They also note the last
manifest that its holders have committed: a directory whose newest manifest is older has lost one.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from viewlet.errors import StateError
from viewlet.forks import Owner, bind_to_process
from viewlet.runtime.durable.files import open_regular

LOCK = "LOCK"


class DirectoryLock:
    """A lock that is held from construction until `release` or the end of the process."""

    sign = ""

    def __init__(self, directory: Path, notes: bool = True) -> None:
        """Without `notes` it keeps no note of manifests: a power failure may lose those that it has."""
        self._path = directory / LOCK
        try:
            self._file = open_regular(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StateError(f"cannot open {self._path}: {error.strerror}") from error
        try:
            _lock(self._file)
        except OSError as error:
            os.close(self._file)
            raise StateError(f"{directory} is open already: {_holder(self._path)}; close it there first") from error
        self._notes = notes and os.fstat(self._file).st_nlink == 1
        self.noted = _noted(self._path) if self._notes else 0
        self._held = True
        self._owner = Owner()
        bind_to_process(self)
        self._holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        try:
            self._sign()
        except OSError as error:
            self.release()
            raise StateError(f"cannot write {self._path}: {error.strerror}") from error

    def note(self, number: int) -> None:
        """Notes the number of a manifest that is in place. It is not synced: the manifest is what counts."""
        if self._notes and self._held:
            self.noted = number
            with suppress(OSError):
                self._sign()

    def check(self) -> None:
        """The kernel keeps it until it is released; a fork has none."""
        self._owner.check(f"the lock on {self._path.parent}")

    def release(self) -> None:
        """Lets others in; releasing twice is harmless."""
        if self._held and self._owner.is_here:
            self._held = False
            os.close(self._file)

    def leave_in_fork(self) -> None:
        if self._held:
            self._held = False
            os.close(self._file)

    def _sign(self) -> None:
        """Writes the file, unless it has another name, which may be that of a file of someone else."""
        if os.fstat(self._file).st_nlink == 1:
            note = {"manifest": self.noted} if self._notes else {}
            text = json.dumps(self._holder | note).encode()
            os.pwrite(self._file, text, 0)
            os.ftruncate(self._file, len(text))


def _lock(file: int) -> None:
    try:
        fcntl: Any = import_module("fcntl")
    except ImportError:
        raise StateError("a database in a directory needs a system with flock (Linux, macOS)") from None
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _noted(path: Path) -> int:
    """The manifest that the file names; damage of the file itself is none of the state."""
    try:
        noted = json.loads(path.read_bytes()).get("manifest", 0)
    except (OSError, ValueError, AttributeError, RecursionError):
        return 0
    return noted if isinstance(noted, int) else 0


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_bytes())
        return f"process {holder['pid']} on {holder['host']} holds it since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it is being signed right now
        return "another process holds it"
