"""Private folders: only their owner can change them, so their contents are as trustworthy as their owner.

Such folders hold generated code, Numba's compiled code, and the state of Spark's workers, all of which Viewlet trusts.
A new folder gets mode 0700. An existing folder has to belong to the user, other users must not be able to write to it,
and they must not be able to replace it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from pathlib import Path

from viewlet.errors import StateError

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def private_folder(path: Path, remedy: str) -> Path:
    """The folder at a path, made if it is not there; `remedy` ends the message of an error.

    Raises StateError if others could change it, and OSError if it cannot be made.
    """
    _make(path)
    if reason := _why_not_private(path):
        raise StateError(f"the folder {path} is not private: {reason}; {remedy}")
    return path


def temporary_folder(purpose: str) -> Path:
    """A new private folder among the temporary files, removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix=f"viewlet-{purpose}-"))
    atexit.register(_remove, folder, os.getpid())
    return folder


def _make(path: Path) -> None:
    missing = [path, *path.parents]
    for folder in reversed([folder for folder in missing if not folder.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is not a folder")


def _why_not_private(path: Path) -> str | None:
    """What lets others change a folder; None if nothing does. Where files have no owners there is nothing to ask."""
    if not hasattr(os, "getuid"):
        return None
    link = path.lstat()
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in (os.getuid(), 0):
        return f"it is a symbolic link of user {link.st_uid}"
    status = path.stat()
    if status.st_uid != os.getuid():
        return f"it belongs to user {status.st_uid}, not to user {os.getuid()}"
    if status.st_mode & _OTHERS_WRITE:
        return f"its mode {stat.S_IMODE(status.st_mode):04o} lets others write to it"
    for parent in path.resolve().parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"everybody can rename what is in {parent}"
    return None


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked process must not take it from the one that made it
        shutil.rmtree(folder, ignore_errors=True)
