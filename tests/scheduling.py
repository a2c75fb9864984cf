"""How the workers of pytest-xdist share the tests: file by file, with all tests on the Spark session at one worker.

The tests of a file share what the file computes once. Tests on the session have `on_spark` in their node ids, because
the process that hands out tests knows nothing else of them; only their worker starts a JVM. They come first, then the
files with slow tests, so that no worker is left with a long file at the end.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

ON_SPARK = "on_spark"


class Schedule(LoadScopeScheduling):
    """Files in the order in which they were collected; the tests on Spark are one of them."""

    def _split_scope(self, nodeid: str) -> str:
        return ON_SPARK if is_on_spark(nodeid) else nodeid.partition("::")[0]


def is_on_spark(nodeid: str) -> bool:
    return nodeid.startswith("tests/") and ON_SPARK in nodeid


def order(items: list[pytest.Item]) -> None:
    """Sorts collected tests: those on Spark, files with slow tests, other files."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: (not is_on_spark(item.nodeid), item.path not in slow))


def check(items: list[pytest.Item]) -> None:
    """Refuses tests that use the session and do not say so."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and not is_on_spark(item.nodeid):
            raise pytest.UsageError(f"{item.nodeid} uses the Spark session: give it a name with {ON_SPARK!r} in it")
