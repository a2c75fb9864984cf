"""Stamps tell whether the parts of streams are those that a directory has committed.

Parts are kept apart from the log of their directory: in a database file, on a server, in a folder of Spark's. They may
be lost, restored from an older copy, or be those of another directory; the log since the last snapshot does not show
it. So every commit of parts writes a stamp with them, a new random one. The manifest, which is committed before, names
it after the stamp that they had until then, because a crash may come in between: the log repeats the batch then.

    manifest 7: batch 7, stamps (a, b)      then the parts: batch 7, stamp b
    manifest 8: batch 8, stamps (b, c)      then a crash: the parts have b, and batch 8 is repeated
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from viewlet.errors import StateError

NEW = ""
"""The stamp of parts to which nothing has been committed."""


class Stamps:
    """The stamps of the parts of one directory; those of a database in memory are not compared, but written too.

    `committed` returns those of the last manifest: the last of them is written with the parts. Directories of earlier
    versions name none.
    """

    def __init__(self, committed: Callable[[], tuple[str, ...] | None] = lambda: None) -> None:
        self._committed = committed
        self._now: str | None = None
        """That of the parts, once they are open."""

    @property
    def must_be_there(self) -> bool:
        """Something was committed to the parts."""
        expected = self._committed()
        return expected is not None and NEW not in expected

    def open(self, found: str, place: str) -> None:
        """Compares the stamp of parts that have been opened; errors say what is in which `place`."""
        expected = self._committed()
        if expected is not None and found not in expected:
            if not self.must_be_there:
                raise StateError(
                    f"the parts of streams in {place} are those of another database, and this one has none yet: give "
                    "it another place for its parts"
                )
            raise StateError(
                f"the parts of streams in {place} are not those that were committed here last: they are older, or of "
                "another database; restore them from the same copy as the directory"
            )
        self._now = found

    def stamps(self) -> tuple[str, ...] | None:
        """The stamps that the parts may have now."""
        return self._committed() if self._now is None else (self._now,)

    def next_stamps(self) -> tuple[str, ...] | None:
        """The stamps that they may have until the next commit of the directory."""
        expected = self._committed()
        if self._now is None:
            return expected
        if expected and expected[-1] != self._now:
            return self._now, expected[-1]  # no parts have been committed since
        return self._now, secrets.token_hex(16)

    @property
    def to_write(self) -> str:
        """The stamp to commit with the parts."""
        expected = self._committed()
        return expected[-1] if expected else self._now or secrets.token_hex(16)

    def written(self, stamp: str) -> None:
        """The parts have been committed with a stamp."""
        self._now = stamp
