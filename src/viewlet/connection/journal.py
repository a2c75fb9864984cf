"""What a database tells whoever makes it durable, before anything becomes visible.

A call that raises stops what was about to happen: a batch is rolled back, a declaration is not made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from viewlet.changes import Change
from viewlet.runtime.durable.batch_ids import BatchMark
from viewlet.types import Table

if TYPE_CHECKING:
    from viewlet.engine.declaration import Declaration

Batch = Mapping[str, Change]
"""The changes of a batch, by table."""


class Journal(Protocol):
    def batch(self, epoch: int, changes: Batch, mark: BatchMark | None) -> None:
        """A batch has been applied and leads to `epoch`."""

    def table_created(self, table: Table) -> None: ...

    def view_created(self, declared: Declaration) -> None: ...

    def dropped(self, name: str) -> None: ...

    def position(self) -> int:
        """Grows with everything told that outlives the process; right after an exception in the middle of it too."""

    def settled(self) -> None:
        """What was told last is in force, and the database at rest."""


class InMemory:
    """The journal of a database that does not outlive its process."""

    def batch(self, epoch: int, changes: Batch, mark: BatchMark | None) -> None:
        """Nothing to do, here and below."""

    def table_created(self, table: Table) -> None: ...

    def view_created(self, declared: Declaration) -> None: ...

    def dropped(self, name: str) -> None: ...

    def position(self) -> int:
        return 0

    def settled(self) -> None: ...
