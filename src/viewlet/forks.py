"""What belongs to the process that made it: a fork does not use it, and does not end it.

A fork has copies of the objects of its parent, but none of its threads, and it shares the parent's files and sockets. A
destructor that runs in it may write to a file of the parent, or wait for ever for a thread that is not there. So a fork
keeps such objects until it ends, whatever becomes of the references to them, and closes what it need not inherit.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Protocol, runtime_checkable

from viewlet.errors import StateError

_BOUND: weakref.WeakSet[Any] = weakref.WeakSet()


@runtime_checkable
class LeavesInFork(Protocol):
    """Something that a fork has to let go of: a file whose lock would last as long as the fork, for one."""

    def leave_in_fork(self) -> None:
        """Closes in a fork what its parent still uses."""


class Owner:
    """The process in which it was made."""

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        return os.getpid() == self._process

    def check(self, what: str) -> None:
        """Refuses what is done in another process, which has a copy that must not be used."""
        if os.getpid() != self._process:
            raise StateError(
                f"{what} belongs to process {self._process}, which opened it; process {os.getpid()} was forked from it "
                "and has to open its own with viewlet.connect()"
            )


def bind_to_process(thing: Any) -> None:
    """A fork of this process neither destroys `thing` nor, if it is of `LeavesInFork`, keeps it open."""
    import ctypes  # noqa: F401  # so that a fork has it already

    _BOUND.add(thing)


def lock_for_forks() -> threading.Lock:
    """A lock of a module, which is free in a fork though a thread of the parent held it."""
    lock = threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock


def _leave() -> None:
    """In a fork: nothing that is bound to the parent is destroyed, not even when the fork ends."""
    import ctypes

    for thing in list(_BOUND):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
        if isinstance(thing, LeavesInFork):
            thing.leave_in_fork()
    _BOUND.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave)
