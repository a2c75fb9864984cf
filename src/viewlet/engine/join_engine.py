"""The engine of views over a join that is kept by parts: a state of its groups, and the rest of the query over them.

    changes of tables ──► relations of the join ──► groups ──► table of groups ──► the rest of the query

The rest runs on the interpreter: it sees as many rows as there are groups that changed. Both share an undo log of the
engine's own, which begins with the first change of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from viewlet.adaptive.plan import JoinPlan, Numbers, SideReader
from viewlet.changes import Change
from viewlet.engine.triangle_result import TriangleResult
from viewlet.triggers.program import text_digest
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import UndoLog
from viewlet.types import Row


class JoinState(Protocol):
    """The groups of a join, and what is needed to bring them up to date (`adaptive/state.py`)."""

    engine_name: str

    def columns_used(self, table: str) -> tuple[int, ...] | None: ...

    def load(self, changes: Sequence[tuple[SideReader, Change]]) -> None: ...

    def apply(self, reader: SideReader, change: Change) -> None: ...

    def groups(self) -> Iterable[tuple[Row, Numbers]]: ...

    def changes(self) -> Mapping[Row, tuple[Numbers, Numbers]]: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def save(self, writer: StateWriter) -> dict[str, object]: ...

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> None: ...


S = TypeVar("S", bound=JoinState)


class JoinEngine(Generic[S]):
    """Maintains one view over a join; how its state is shown is left to others."""

    def __init__(self, plan: JoinPlan[Any], state: S, sources: Sources, log: UndoLog) -> None:
        self.plan = plan
        self.state = state
        self._sources = sources
        self._log = log
        self._rest = TriangleResult(plan, log)
        self._fill()

    @property
    def name(self) -> str:
        return self.state.engine_name

    @property
    def digest(self) -> str:
        return text_digest(self.plan.digest)

    # -- filling ----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Fills the view from the rows that its sources keep."""
        self.state.load(
            [
                (reader, self._sources.stores[table].change())
                for table, readers in self.plan.readers.items()
                for reader in readers
            ]
        )
        self._fill()

    def _fill(self) -> None:
        self._rest.fill(self.state.groups())

    # -- batches ----------------------------------------------------------------------------------------------------

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        return self.state.columns_used(table)

    def apply(self, table: str, change: Change) -> None:
        if not self._log.active:
            self._log.begin()
        for reader in self.plan.readers[table]:
            self.state.apply(reader, change)

    def finish(self) -> Mapping[Row, int]:
        return self._rest.fold(self.state.changes())

    def commit(self) -> None:
        self._log.commit()
        self.state.commit()

    def rollback(self) -> None:
        self._log.rollback()
        self.state.rollback()

    # -- reading and saving -----------------------------------------------------------------------------------------

    def result(self) -> Mapping[Row, int]:
        return self._rest.result()

    def watch(self) -> bool:
        return True

    def save(self, writer: StateWriter) -> dict[str, object]:
        return self.state.save(writer)

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        self.state.resume(layout, reader)
        self._fill()
        return True
