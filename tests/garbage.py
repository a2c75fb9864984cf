"""How often the tests collect garbage.

Planning makes millions of small objects and hardly any cycles: with Python's thresholds a fifth of the time of these
tests went into looking for some. The mapped arrays of a database that was closed live until they are collected: where
there are many, the garbage is. The lock of every partition of a view is an open file, of which a process may have as
many as the system permits.
"""

from __future__ import annotations

import gc
import resource
from pathlib import Path

THRESHOLDS = (20_000, 10, 20)
MOST_FILES = 1 << 14
MANY_MAPPINGS = 10_000


def collect_rarely() -> None:
    """To be called when everything has been imported: what there is then is no garbage, and is not looked through."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def permit_open_files() -> None:
    """Raises the limit of this process, and of those that it starts, as far as a user may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def collect_mapped_arrays() -> None:
    """Collects garbage if this process has many mapped files."""
    mappings = Path("/proc/self/maps")
    if mappings.exists() and mappings.read_bytes().count(b"\n") > MANY_MAPPINGS:
        gc.collect()
