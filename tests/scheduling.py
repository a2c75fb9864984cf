"""How the workers of pytest-xdist share the tests: file by file, with all tests on the Spark session at one worker.

The tests of a file share what the file computes once. The conformance suite is larger than what a worker does in its
share of the time, and is shared program by program; a folder whose files share plans is one unit. Tests on the session
have `on_spark` in their node ids, because the process that hands out tests knows nothing else of them; only their
worker starts a JVM. They come first, then the units with slow tests, so that no worker is left with a long one at the
end.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

ON_SPARK = "on_spark"
FIRST_WORKER = "gw0"
BY_PROGRAM = "tests/conformance/test_conformance.py::test_in_one_process["
"""Its parameters are the program, which has no hyphen in its name, and the engine."""
TOGETHER = "tests/spark_plan/"
"""Its files plan the same queries, which takes longer than running them."""


class Schedule(LoadScopeScheduling):
    """Units of tests in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)


def unit(nodeid: str) -> str:
    """What a test shares a worker with: the tests on Spark, those of its program, folder or file."""
    if is_on_spark(nodeid):
        return ON_SPARK
    if nodeid.startswith(TOGETHER):
        return TOGETHER
    return nodeid.partition("-" if nodeid.startswith(BY_PROGRAM) else "::")[0]


def workers() -> int:
    """One more than cores, because many tests wait for processes that they have started."""
    return 1 + (os.cpu_count() or 1)


def is_on_spark(nodeid: str) -> bool:
    return nodeid.startswith("tests/") and ON_SPARK in nodeid


def order(items: list[pytest.Item]) -> None:
    """Sorts collected tests: those on Spark, units with slow tests, other units."""
    slow = {unit(item.nodeid) for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: (not is_on_spark(item.nodeid), unit(item.nodeid) not in slow))


def check(items: list[pytest.Item]) -> None:
    """Refuses tests that use the session and do not say so."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and not is_on_spark(item.nodeid):
            raise pytest.UsageError(f"{item.nodeid} uses the Spark session: give it a name with {ON_SPARK!r} in it")


def wait_for_bytecode(longest: float = 120.0) -> None:
    """Workers wait for the first one to collect the tests if their bytecode is missing.

    The first one writes it. Rewriting assertions takes as long as all the rest of the collection.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker in (None, FIRST_WORKER) or sys.dont_write_bytecode or _has_bytecode():
        return
    until = time.monotonic() + longest
    while not _mark().exists() and time.monotonic() < until:
        time.sleep(0.1)


def tell_that_bytecode_is_there() -> None:
    if os.environ.get("PYTEST_XDIST_WORKER") == FIRST_WORKER:
        _mark().touch()


def remove_mark() -> None:
    if os.environ.get("PYTEST_XDIST_WORKER") == FIRST_WORKER:
        _mark().unlink(missing_ok=True)


def _mark() -> Path:
    """A file that says that the first worker has collected the tests."""
    return Path(tempfile.gettempdir(), f"collected-{os.environ['PYTEST_XDIST_TESTRUNUID']}")


def _has_bytecode() -> bool:
    """As far as one of the last folders tells."""
    return any(Path(__file__).parent.glob("viewtree/__pycache__/test_*-pytest-*.pyc"))
