"""Where the temporary files of a test run are: in memory, if there is room for them.

The state of partitions is thousands of small files that live for moments. On a disk's file system more time goes into
creating them than into the tests: ext4, for one, looks for an inode that was not in use in the last seconds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 2 << 30
"""Bytes that must be free; a run needs a small part of them."""

PREFIX = "viewlet-"


def keep_in_memory() -> str | None:
    """Makes a folder in memory that of temporary files, for this process and those that it starts.

    The folder; None if TMPDIR names another one or there is no room.
    """
    if "TMPDIR" in os.environ or not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        return None
    _remove_leftovers()
    folder = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=MEMORY)
    os.chmod(folder, 0o711)  # the server of a private PostgreSQL cluster, another user, reaches its own folder in it
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    os.environ.setdefault("SPARK_LOCAL_DIRS", folder)
    return folder


def _remove_leftovers() -> None:
    """Removes the folders of this user's earlier runs, which failed or were killed: they lie in memory."""
    for folder in MEMORY.glob(f"{PREFIX}*-*"):
        process = folder.name.removeprefix(PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.getuid() and process.isdigit() and not Path("/proc", process).exists():
                shutil.rmtree(folder, ignore_errors=True)
