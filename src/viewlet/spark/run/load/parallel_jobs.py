"""Spark jobs that run at the same time, each waited for by a thread of the driver.

Planning a job takes the driver longer than a small job runs. Threads plan several at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def at_once(session: Any, jobs: Sequence[Callable[[], T]], most: int | None = None) -> list[T]:
    """The answers of functions that run Spark jobs, in order; without a session they run one after the other.

    No more than `most` run at a time. Jobs in threads have the properties that the jobs of this thread have, such as
    its description and its pool. An error is raised when those that have begun have ended; the others do not begin.
    """
    if session is None or len(jobs) < 2:
        return [job() for job in jobs]
    from pyspark import inheritable_thread_target

    with ThreadPoolExecutor(min(most or len(jobs), len(jobs))) as pool:
        waiting = [pool.submit(inheritable_thread_target(session)(job)) for job in jobs]
        try:
            return [each.result() for each in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
