"""Group commit: what several threads insert and delete at the same time is applied, and made durable, as one batch.

    thread 1  insert(t, [a])    has the lock: applies and syncs its batch
    thread 2  insert(t, [b])    waits
    thread 3  delete(t, [c])    waits behind thread 2
    thread 2                    gets the lock: applies +b -c as one batch, syncs once, and wakes thread 3

Only rows that are given in full are put together: they depend on nothing that another thread of the group changes, so
that the group is some order of its calls, one after the other. A group that is refused is taken apart, and every call
has the answer that it would have got alone.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from viewlet.engine.ingest import rows_in

if TYPE_CHECKING:
    from viewlet.hosts.contract import Signed
    from viewlet.types import Table

MOST_ROWS = 1_000
"""A call with more rows is a batch of its own."""
PATIENCE = 0.05
"""Seconds after which a thread looks whether another one, which was to apply its call, has given up."""


def may_be_together(signed: Signed) -> bool:
    """Rows that are there in full, few, and can be read again."""
    return all(type(rows) in (list, tuple) and rows_in(rows) <= MOST_ROWS for rows, _ in signed)


class Call:
    """The rows that one call changes of a table, perhaps made for one `schema` of it, and what becomes of them."""

    __slots__ = ("_group", "_woken", "is_alone", "name", "schema", "signed")

    def __init__(self, name: str, signed: Signed, schema: Table | None = None) -> None:
        self.name, self.signed, self.schema = name, signed, schema
        self.is_alone = False
        """It was in a group that was refused."""
        self._group: Group | None = None
        self._woken = threading.Lock()
        self._woken.acquire()

    def join(self, group: Group) -> None:
        self._group = group

    @property
    def epoch(self) -> int | None:
        """The epoch that its batch led to, once that is committed."""
        return None if self._group is None else self._group.epoch

    @property
    def may_join(self) -> bool:
        return not self.is_alone and self.epoch is None

    def sleep(self) -> None:
        """Waits until it is woken, or long enough to look by itself."""
        self._woken.acquire(timeout=PATIENCE)

    def wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # it is awake
            self._woken.release()


class Group:
    """Calls that are applied as one batch, from an epoch on."""

    __slots__ = ("before", "calls", "epoch")

    def __init__(self, calls: Sequence[Call], before: int) -> None:
        self.calls, self.before = calls, before
        self.epoch: int | None = None
        for call in calls:
            call.join(self)

    def settle(self, epoch: int) -> None:
        """Finds out, after an exception, whether the batch is committed: then the database has moved on."""
        if self.epoch is None and epoch > self.before:
            self.epoch = epoch

    def take_apart(self) -> None:
        """It is refused: each call is to be applied by its own thread."""
        for call in self.calls:
            call.is_alone = True

    def wake(self) -> None:
        """Tells the threads that something has become of their calls."""
        for call in self.calls:
            call.wake()


class Queue:
    """Calls that wait for the lock of a session. Who holds the lock applies them; the first in the queue asks for it.

    Waking a thread is a hint: what an exception keeps from being said, the thread finds out by looking.
    """

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._waiting: deque[Call] = deque()

    def wait(self, call: Call, apply: Callable[[Call], object], settle: Callable[[], object]) -> int:
        """The epoch to which a call has led, applied by this thread or by another one.

        Both functions are called with the lock. `apply` applies the call, unless that has been done; after an exception
        `settle` finds out whether it has.
        """
        try:
            while call.epoch is None:
                if call not in self._waiting:
                    self._waiting.append(call)
                if self._is_first(call) or self._is_held_here():
                    with self._lock:
                        apply(call)
                else:
                    call.sleep()
            self._leave(call)
            return call.epoch
        except BaseException as error:
            with self._lock, contextlib.suppress(Exception):  # the call may be part of a batch under way
                self._leave(call)
                settle()
            if call.epoch is not None:
                error.add_note(f"epoch {call.epoch} is committed")
            raise

    def take(self, first: Call) -> list[Call]:
        """The calls that may be applied together with one; whoever takes them holds the lock."""
        if first.is_alone or len(self._waiting) == 1:
            return [first]
        taken = [first, *(call for call in tuple(self._waiting) if call is not first and call.may_join)]
        for call in taken:
            self._remove(call)
        return taken

    def _is_first(self, call: Call) -> bool:
        try:
            return self._waiting[0] is call
        except IndexError:
            return False

    def _is_held_here(self) -> bool:
        """This thread has the lock: a subscriber that changes a table, for one."""
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]

    def _leave(self, call: Call) -> None:
        """A call that is over waits no longer; the one behind it is the first now."""
        self._remove(call)
        for following in tuple(self._waiting)[:1]:
            following.wake()

    def _remove(self, call: Call) -> None:
        with contextlib.suppress(ValueError):  # somebody has taken it
            self._waiting.remove(call)
