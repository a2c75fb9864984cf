"""A lease: mutual exclusion of processes where there are no file locks, by a file that the holder keeps renewing.

A holder that dies stops renewing. After `EXPIRES` seconds, by the clock of the process that wants the lease, another
process may take over, so the clocks of the machines should agree much more closely than that. The lease detects
mistakes early; it is not what keeps the states of two holders apart. That is the rule that no file is written twice:
names end in a sign of the holder, and a manifest is written only under an unused number, which object stores can
guarantee. A holder that could not renew in time checks the lease again before it commits.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import threading
import time
import uuid
from typing import Any

from viewlet.errors import StateError
from viewlet.forks import Owner
from viewlet.runtime.durable.files import Files

LEASE = "LOCK"
RENEWS = 10.0
EXPIRES = 45.0


class Lease:
    """A lease that is held from construction until `release` or the end of the process, while it can be renewed."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._token = uuid.uuid4().hex
        self.sign = f"-{self._token[:8]}"
        self._since = time.time()
        self._renewed = 0.0
        self._lost = False
        self._guard = threading.Lock()
        self._end = threading.Event()
        self._owner = Owner()
        self._take()
        self._thread = threading.Thread(target=self._keep, name=f"lease on {files.path('')}", daemon=True)
        self._thread.start()
        atexit.register(self.release)

    @property
    def noted(self) -> int:
        """None is noted: a lease is removed when it is released."""
        return 0

    def note(self, number: int) -> None: ...

    def check(self) -> None:
        """Raises an error if another process may have taken over."""
        self._owner.check(f"the lease on {self._files.path('')}")
        with self._guard:
            if not self._lost and time.monotonic() - self._renewed > EXPIRES / 2:
                self._renew()
            if self._lost:
                raise StateError(
                    f"another process has taken over {self._files.path('')}, or may have, because the lease could not "
                    "be renewed in time; nothing was committed: open it again"
                )

    def release(self) -> None:
        """Lets others in; releasing twice is harmless."""
        if self._end.is_set() or not self._owner.is_here:
            return
        self._end.set()
        atexit.unregister(self.release)
        with self._guard:
            try:
                if self._is_ours():
                    self._files.remove(LEASE)
            except OSError:
                pass  # it expires

    def _take(self) -> None:
        try:
            found = self._read()
            if found is not None and time.time() - found["renewed"] < EXPIRES:
                raise StateError(f"{self._files.path('')} is open already: {_who(found)}; close it there first")
            if found is not None:
                self._files.remove(LEASE)
            self._files.put(LEASE, self._signed(), new=True)
            taken = self._is_ours()
        except FileExistsError:
            taken = False
        except OSError as error:
            raise StateError(f"cannot write {self._files.path(LEASE)}: {error.strerror}") from error
        if not taken:
            raise StateError(f"{self._files.path('')} is being opened by another process")
        self._renewed = time.monotonic()

    def _keep(self) -> None:
        while not self._end.wait(RENEWS):
            with self._guard:
                if not self._end.is_set() and not self._lost:
                    self._renew()

    def _renew(self) -> None:
        """Writes the lease again if it is still ours; a store that does not answer may do so next time."""
        try:
            if not self._is_ours():
                self._lost = True
                return
            self._files.put(LEASE, self._signed())
            self._renewed = time.monotonic()
        except OSError:
            self._lost = time.monotonic() - self._renewed > EXPIRES

    def _is_ours(self) -> bool:
        found = self._read()
        return found is not None and found["token"] == self._token

    def _read(self) -> dict[str, Any] | None:
        try:
            found = json.loads(self._files.read(LEASE))
            return {"renewed": float(found["renewed"]), **found}
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):  # unreadable: its writer is gone, or is rewriting it
            return {"renewed": 0.0, "token": ""}

    def _signed(self) -> bytes:
        known = {"token": self._token, "pid": os.getpid(), "host": socket.gethostname()}
        return json.dumps({**known, "since": self._since, "renewed": time.time()}).encode()


def _who(found: dict[str, Any]) -> str:
    ago = max(0.0, time.time() - found["renewed"])
    return (
        f"process {found['pid']} on {found['host']} was there {ago:.0f} s ago, "
        f"and counts as gone {EXPIRES:.0f} s after its last sign of life"
    )
