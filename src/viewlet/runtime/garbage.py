"""Python's garbage collector and large batches.

A batch of many rows makes many tuples and no cycles. The collector looks through all of them again and again while they
are made, which takes longer than making them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

MANY_ROWS = 10_000


def collecting_later(rows: int) -> AbstractContextManager[None]:
    """No garbage is collected inside the block if it is about many rows."""
    return _NOW if rows < MANY_ROWS or not gc.isenabled() else _later()


_NOW = nullcontext()


@contextmanager
def _later() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
