"""Python's garbage collector, large batches and declarations.

A batch of many rows makes many tuples and no cycles, and a compiler many nodes. The collector looks through all of them
again and again while they are made, which takes a third of the time of a declaration and more than that of a batch.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

MANY_ROWS = 10_000


def collecting_later(rows: int) -> AbstractContextManager[None]:
    """No garbage is collected inside the block if it is about many rows."""
    return _NOW if rows < MANY_ROWS or not gc.isenabled() else _later()


def collecting_afterwards() -> AbstractContextManager[None]:
    """No garbage is collected inside the block."""
    return _later() if gc.isenabled() else _NOW


_NOW = nullcontext()


@contextmanager
def _later() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
