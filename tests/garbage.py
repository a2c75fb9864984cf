"""How often the tests collect garbage.

Planning makes millions of small objects and hardly any cycles: with Python's thresholds a fifth of the time of these
tests went into looking for some. Before Python 3.13 every mapped array holds a file descriptor until it is collected,
so that a process may have as many open files as the system permits.
"""

from __future__ import annotations

import gc
import os
import resource

THRESHOLDS = (20_000, 10, 20)
MOST_FILES = 1 << 14


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


def collect_open_files() -> None:
    """Collects garbage if this process has half as many open files as it may have."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and len(os.listdir("/dev/fd")) > limit // 2:
        gc.collect()
