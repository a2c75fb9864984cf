"""Room on Python's stack for passes that recurse once per level, or once per factor, of an expression."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from viewlet.algebra.nodes import Expr
from viewlet.algebra.traverse import size
from viewlet.forks import lock_for_forks

_USUAL = 960
"""Frames that Python's usual limit has room for."""
_FRAMES_PER_NODE = 12
_LOCK = lock_for_forks()


@contextmanager
def headroom(frames: int) -> Iterator[None]:
    """Raises Python's recursion limit by so many frames, unless they are few."""
    extra = frames if frames > _USUAL else 0
    with _LOCK:
        sys.setrecursionlimit(sys.getrecursionlimit() + extra)
    try:
        yield
    finally:
        with _LOCK:
            sys.setrecursionlimit(sys.getrecursionlimit() - extra)


@contextmanager
def headroom_for(exprs: Iterable[Expr]) -> Iterator[None]:
    """Headroom for a pass that recurses once per node of an expression: its products nest factor by factor."""
    with headroom(_FRAMES_PER_NODE * max(map(size, exprs), default=0)):
        yield
