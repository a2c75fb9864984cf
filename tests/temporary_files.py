"""Where the temporary files of a test run are: in memory, if there is room for them.

The state of partitions is thousands of small files that live for moments. On a disk's file system more time goes into
creating them than into the tests: ext4, for one, looks for an inode that was not in use in the last seconds.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 2 << 30
"""Bytes that must be free; a run needs a small part of them."""


def keep_in_memory() -> str | None:
    """Makes a folder in memory that of temporary files, for this process and those that it starts.

    The folder; None if TMPDIR names another one or there is no room.
    """
    if "TMPDIR" in os.environ or not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        return None
    folder = tempfile.mkdtemp(prefix="viewlet-", dir=MEMORY)
    os.chmod(folder, 0o711)  # the server of a private PostgreSQL cluster, another user, reaches its own folder in it
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    os.environ.setdefault("SPARK_LOCAL_DIRS", folder)
    return folder
