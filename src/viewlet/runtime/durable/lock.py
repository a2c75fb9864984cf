"""A lock on a directory, for one process at a time; it ends with its process.

The lock is the kernel's, so a killed process does not hold it. A fork lets go of the file, which would keep the lock
for as long as the fork runs. The contents of the file only tell other processes who holds the lock.
"""

from __future__ import annotations

import json
import os
import socket
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from viewlet.errors import StateError
from viewlet.forks import Owner, bind_to_process

LOCK = "LOCK"


class DirectoryLock:
    """A lock that is held from construction until `release` or the end of the process."""

    sign = ""

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StateError(f"cannot open {self._path}: {error.strerror}") from error
        try:
            _lock(self._file)
        except OSError as error:
            os.close(self._file)
            raise StateError(f"{directory} is open already: {_holder(self._path)}; close it there first") from error
        self._held = True
        self._owner = Owner()
        bind_to_process(self)
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
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, json.dumps(holder).encode(), 0)
        except OSError as error:
            self.release()
            raise StateError(f"cannot write {self._path}: {error.strerror}") from error


def _lock(file: int) -> None:
    try:
        fcntl: Any = import_module("fcntl")
    except ImportError:
        raise StateError("a database in a directory needs a system with flock (Linux, macOS)") from None
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text())
        return f"process {holder['pid']} on {holder['host']} holds it since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it is being signed right now
        return "another process holds it"
