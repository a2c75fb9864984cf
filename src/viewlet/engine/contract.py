"""The contract of engines: what maintains one view, whatever kind of view that is and wherever it runs.

    Engine        what a maintained view asks of the engine that runs it, here or on a cluster
    LocalEngine   an engine with its state in this process: it takes changes, and its state can be saved and resumed

A batch of a local engine is `apply`, once for each table that it changes, then `finish`, then `commit` or `rollback`.
On a cluster all views run their batches together, so there an engine is asked for the outcome only.

What only some engines can do is a small protocol of its own. Each is asked for in one place: `ReadsColumns` by
`Maintainer`, `CountsRows`, `ListsArrow` and `FindsRows` by `MaintainedView.read`, `TellsOwnChanges` by
`MaintainedView.follow`, `SharesViews` by `InnerViews`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, runtime_checkable

from viewlet.algebra.query import Query
from viewlet.changes import Change
from viewlet.triggers.guards import Guard
from viewlet.triggers.program import Program
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.shared_views import Borrowed
from viewlet.types import Datum, Row

Wanted = Mapping[int, Collection[Datum]]
"""The values that are looked for, by the position of the column in the output of a query."""
Stages = Mapping[str, Callable[[], str]]
"""What `explain` prints of a view, by the name of the stage."""


class Engine(Protocol):
    """Maintains the rows of one view."""

    @property
    def name(self) -> str:
        """What `explain` and `stats` call it: interpreter, compiled, spark, ..."""

    @property
    def plan(self) -> Any:
        """What it runs: the plan that its kind of view made of the declaration. `plan.strategy` names it."""

    def result(self) -> Mapping[Row, int]:
        """The rows with their multiplicities; of a view with ORDER BY and LIMIT, all that can be among the first."""

    def watch(self) -> bool:
        """From now on `finish` is to tell the changes of the rows; False if results have to be compared instead."""

    def finish(self) -> Mapping[Row, int] | None:
        """Ends a batch that concerns the view: the change of its rows, None if the engine does not know it."""

    def commit(self) -> None:
        """The batch is permanent; may be called again if it was interrupted."""

    def rollback(self) -> None:
        """Undoes the batch, after the tables are as before it; may be called again if it was interrupted."""

    def stats(self) -> dict[str, object]:
        """What `stats` tells of it: `stored` has the size of each stored view."""

    def stages(self, format: str) -> Stages:
        """Stages of `explain` that this engine has besides, or instead of, those of its kind of view."""


class LocalEngine(Engine, Protocol):
    """An engine whose state is in this process. It is made with the sources that it reads."""

    @property
    def digest(self) -> str:
        """Engines of the same name and digest keep the same state."""

    def load(self) -> None:
        """Fills the view from the rows that its sources keep, whatever it held before."""

    def apply(self, table: str, change: Change) -> None:
        """The change of one table, before the table's own rows change."""

    def save(self, writer: StateWriter) -> dict[str, object]:
        """Writes the state between two batches; returns, as JSON, which parts there are and what they hold.

        An engine whose sources keep all rows may write nothing.
        """

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        """Continues from what `save` wrote; False if it has to be loaded instead."""


# -- abilities --------------------------------------------------------------------------------------------------------


@runtime_checkable
class ReadsColumns(Protocol):
    """An engine that takes columns without transposing them."""

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        """The columns of a table that are read; None if this table has to come as rows."""


@runtime_checkable
class SkipsRows(Protocol):
    """An engine that knows of rows that they change nothing."""

    def guard(self, table: str) -> Guard | None:
        """What a row of a table needs to have to change anything, if that can be told."""


@runtime_checkable
class CountsRows(Protocol):
    """An engine that counts the rows of the view without making them."""

    def count(self) -> int: ...


@runtime_checkable
class ListsArrow(Protocol):
    """An engine that lists the rows of the view without a Python object for each."""

    def arrow(self) -> Any:
        """The rows of `result` as an Arrow table in any order, with multiplicities in the last column.

        A row may be listed in several pieces, which are to be added up.
        """


@runtime_checkable
class FindsRows(Protocol):
    """An engine that finds rows by the values of some columns, without listing the others."""

    def rows_with(self, values: Wanted) -> Mapping[Row, int] | None:
        """The rows of `result` that have one of the wanted values in each of the columns; None if all must be read."""


@runtime_checkable
class ReadByTasks(Protocol):
    """An engine on a cluster whose rows and changes are read by tasks, where they are."""

    def scan(self, query: Query) -> Any:
        """How tasks read the rows of the query; None where the driver reads them."""

    def keep_changes(self, name: str, query: Query) -> bool:
        """From now on tasks write the changes of the view to files; False if that is left to the driver."""


@runtime_checkable
class TellsOwnChanges(Protocol):
    """An engine that can tell what a batch does in a form of its own, such as the factors of a matrix."""

    def follow(self) -> None:
        """From now on `own_change` is asked for after every batch."""

    def own_change(self) -> object | None:
        """What the batch that `finish` ended does; None if it changes nothing."""


@runtime_checkable
class SharesViews(Protocol):
    """An engine of a trigger program that may read stored views of another engine instead of keeping its own."""

    @property
    def plan(self) -> Program: ...

    @property
    def kept(self) -> frozenset[str]:
        """The stored views that it maintains itself."""

    @property
    def borrowed(self) -> Mapping[str, Borrowed]:
        """Those that it reads from other engines."""

    def can_borrow(self, name: str, other: Borrowed) -> bool:
        """Whether one of its views can be read from another engine, which has one with the same contents."""

    def borrow(self, views: Mapping[str, Borrowed]) -> None:
        """Reads views from other engines, from now on; between two batches, and in one step."""

    def keep_again(self) -> None:
        """Takes copies of all views that it has borrowed, and maintains them; between two batches, and in one step."""

    def keep_only(self, names: Collection[str]) -> None:
        """From now on maintains some views only, because others have borrowed them; may be called again."""

    def apply(self, table: str, change: Change) -> None: ...

    def commit(self) -> None: ...

    def take_back(self, table: str) -> None:
        """Undoes the change of a table, the last of the batch, if the engine has to go back together with others."""

    def rollback(self) -> None: ...


class BulkLoad(Protocol):
    """A load of one engine by other means than its triggers: takes its place for one batch, and fills it at the end."""

    def apply(self, table: str, change: Change) -> None: ...

    def columns_used(self, table: str) -> tuple[int, ...] | None: ...

    def finish(self) -> Mapping[Row, int] | None: ...

    def load(self) -> None:
        """Fills the engine from the rows that its sources keep, outside a batch."""
