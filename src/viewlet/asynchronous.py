"""Connections and views in programs of asyncio: calls that are awaited, and changes that come one after the other.

A call runs in one of at most `THREADS` threads. They wait for disks and for each other, and what they insert meanwhile
is one batch (`viewlet.connection.together`).
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Protocol, TypeVar

from viewlet.errors import StateError

T = TypeVar("T")
THREADS = 64


class Subscribed(Protocol):
    def cancel(self) -> None: ...


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """The threads of a process; a fork has none of its parent's."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="viewlet")


async def awaited(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """What a call returns, while other tasks run. Its batch is applied even if the task is cancelled meanwhile."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_threads(os.getpid()), partial(function, *arguments, **options))


class ChangeStream:
    """The changes of a view as they are committed: `async for epoch, changes in view.changes()`.

    It begins with the batch after it was made. What has not been read waits in memory. It ends with `aclose()`, or
    with the block of an `async with`.
    """

    def __init__(self, subscribe: Callable[[Callable[[int, Any], None]], Subscribed]) -> None:
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise StateError("changes() is for programs of asyncio: subscribe() calls a function") from None
        self._news: deque[tuple[int, Any]] = deque()
        self._has_news = asyncio.Event()
        self._is_closed = False
        self._subscription = subscribe(self._hear)

    def _hear(self, epoch: int, changes: Any) -> None:
        """Called by the thread that has applied a batch."""
        if self._loop.is_closed():
            self._subscription.cancel()
            return
        self._news.append((epoch, changes))
        self._loop.call_soon_threadsafe(self._has_news.set)

    def __aiter__(self) -> ChangeStream:
        return self

    async def __anext__(self) -> tuple[int, Any]:
        while not self._news:
            if self._is_closed:
                raise StopAsyncIteration
            self._has_news.clear()
            if not self._news:
                await self._has_news.wait()
        return self._news.popleft()

    async def aclose(self) -> None:
        """Hears no more; what has been heard can still be read."""
        self._is_closed = True
        self._has_news.set()
        await awaited(self._subscription.cancel)

    async def __aenter__(self) -> ChangeStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
