"""A matrix as a base in files and the changes since, and how its rows are divided among partitions."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace


def new_token() -> str:
    """A name that no other version of any matrix has."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows in so many blocks of about the same height.

    >>> Layout(10, 4, 3).range(1)
    (3, 6)
    """

    rows: int
    columns: int
    parts: int

    def range(self, part: int) -> tuple[int, int]:
        """The first row of a block, and the one after its last."""
        return self.rows * part // self.parts, self.rows * (part + 1) // self.parts

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The ranges of all blocks."""
        return [self.range(part) for part in range(self.parts)]

    @property
    def entries(self) -> int:
        """The number of entries."""
        return self.rows * self.columns


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A change that is a record of a log; it leads to the version `token`."""

    token: str
    log: str
    at: int
    size: int


@dataclass(frozen=True, slots=True)
class History:
    """How to reach a version: from the files of a base, through some changes."""

    base: str
    changes: tuple[LoggedChange, ...] = ()

    @property
    def tokens(self) -> list[str]:
        """The versions that it leads through."""
        return [self.base, *(change.token for change in self.changes)]

    @property
    def token(self) -> str:
        """The version it leads to."""
        return self.changes[-1].token if self.changes else self.base

    def followed_by(self, change: LoggedChange) -> History:
        """This history with one more change."""
        return replace(self, changes=(*self.changes, change))


@dataclass(frozen=True, slots=True)
class Stored:
    """A version of a matrix, as tasks are told of it; machines keep its blocks under `name`."""

    name: str
    layout: Layout
    dtype: str
    history: History
