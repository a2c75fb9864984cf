"""The contract of hosts: what a database asks of the place where its views run.

    Host      runs the views of one catalogue: `LocalHost` in this process, `SparkHost` on a cluster
    Storage   where the journal of a database is kept: the log of a directory, and the snapshot before it

A view is declared by `start`, then `commit`; a batch is `begin`, `run`, then `commit`. The journal writes its records
between the two. In place of `commit`, `rollback` takes back what was started or run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from viewlet.changes import Change, Changes
from viewlet.engine.catalogue_json import Json
from viewlet.engine.declaration import Declaration
from viewlet.engine.maintained_view import MaintainedView
from viewlet.engine.maintainer import Maintainer
from viewlet.hosts.catalogue import AffectedViews, Catalogue
from viewlet.runtime.durable.batch_ids import BatchMark, Ranges
from viewlet.tables import BaseTable
from viewlet.types import Table

if TYPE_CHECKING:
    from viewlet.runtime.durable.log import Record
    from viewlet.runtime.durable.manifest import Manifest
    from viewlet.runtime.durable.snapshot import SnapshotReader, SnapshotWriter
    from viewlet.triggers.statistics import Statistics

Batch = Mapping[str, Change]
"""The changes of a batch, by table; the tables in the order of their declaration."""
Signed = Sequence[tuple[object, int]]
"""Parts of what the user hands in, each with its sign."""


@dataclass(frozen=True, slots=True)
class Start:
    """A view that is filled, and the records that fill it when the log is replayed."""

    view: MaintainedView
    records: tuple[Record, ...] = ()


class Host(Protocol):
    """Runs the views of a catalogue, and keeps the rows of its tables."""

    @property
    def catalogue(self) -> Catalogue: ...

    @property
    def has_temporary_views(self) -> bool:
        """Some views of a directory need not be in its snapshots."""

    @property
    def may_lose_views(self) -> bool:
        """A directory can be opened without the views that miss a function."""

    # -- declarations -----------------------------------------------------------------------------------------------

    def check_table(self, schema: Table) -> None:
        """Refuses a new table that this host cannot keep, before it is written down."""

    def make_table(self, schema: Table, saved: SnapshotReader | None = None) -> BaseTable:
        """A table, empty or with the rows that a snapshot has of it."""

    @property
    def set_aside(self) -> Callable[[BaseTable], Callable[[], None]] | None:
        """Lets another table have the place of one, and returns what gives it back.

        None where tables and views are not replaced under what reads them.
        """

    def forget_table(self, table: BaseTable) -> None:
        """A table is gone; may be called again."""

    def over_tables(self, declared: Declaration) -> Declaration:
        """A view as its engine sees it: a host may replace the views that it reads by their definitions."""

    def tables_under(self, declared: Declaration) -> frozenset[str]:
        """The tables and views that `over_tables` leaves to be read."""

    def choose(self, declared: Declaration) -> Declaration:
        """A view that is declared now, as the kind that is best for it here if the strategy is `auto`."""

    def plan(self, declared: Declaration, tables: Mapping[str, Table]) -> Any:
        """The plan of a view that need not be declared, as `over_tables` gives it."""

    def measure(self, tables: Mapping[str, Table]) -> Statistics:
        """What is known of the sizes of tables when a view over them is planned."""

    def start(self, declared: Declaration, engine: str | None) -> Start:
        """A new view, filled from the rows already there; `engine` is asked for instead of the connection's."""

    def facts(self, view: MaintainedView) -> Json:
        """What the journal notes of a new view besides its statement."""

    def forget_view(self, view: MaintainedView) -> None:
        """A view is dropped or replaced; may be called again."""

    def relocating(
        self, partition_by: Mapping[str, Sequence[str]], partitions: int | None
    ) -> AbstractContextManager[bool]:
        """While it is open, a snapshot spreads views by other columns, and all state over so many partitions.

        False if there is nothing to move.
        """

    def stats(self, view: MaintainedView) -> dict[str, object]: ...

    # -- batches ----------------------------------------------------------------------------------------------------

    def change_of(self, table: Table, data: object, sign: int, encoded: bool) -> Change:
        """What the user hands in as a change, times `sign`, or times what it says when `encoded`."""

    def net_change(self, table: Table, signed: Signed) -> Change:
        """Several parts of what the user hands in as one change."""

    def expect(self, sizes: Mapping[str, int]) -> None:
        """Before a batch with so many rows per table is converted: lets views move to a better engine."""

    def due(self, tables: Collection[str]) -> tuple[int, Json, Callable[[], None]] | None:
        """What the host declares by itself before a batch that changes tables: a record, and what puts it in force."""

    def reached(self, batch: Batch) -> AffectedViews:
        """What a batch may touch, found right before it begins."""

    def begin(self) -> None: ...

    def run(
        self, epoch: int, batch: Batch, reached: Sequence[MaintainedView]
    ) -> Sequence[tuple[MaintainedView, Changes]]:
        """Changes tables and views; returns what the batch does to the rows of the views that it touches."""

    def commit(self) -> None:
        """What was started or run is permanent; may be called again if it was interrupted."""

    def rollback(self) -> None:
        """Takes back what was started or run, if anything was; may be called again if it was interrupted."""

    def settle(self, touched: Sequence[Maintainer]) -> None:
        """After a batch, or a snapshot: begins to move views to a better engine."""

    # -- the journal ------------------------------------------------------------------------------------------------

    def record(self, epoch: int, batch: Batch, mark: BatchMark | None) -> Record:
        """What repeats a batch that has run."""

    def replay(self, record: Record) -> tuple[Batch, BatchMark | None] | None:
        """The batch of a record, to be applied again; None if the host has already repeated what it says."""

    def is_in_log(self, name: str) -> bool:
        """The log has something of a dropped table or view that must not be taken for that of a new one."""

    def save(self, writer: SnapshotWriter, known: Json) -> Json:
        """Writes the state of tables and views to a snapshot; returns the facts to go with it.

        `known` has what the journal knows of every table and view, in the order of the catalogue.
        """

    def take_up(self, saved: SnapshotReader) -> Json:
        """Prepares to continue from a snapshot; returns what `save` was given, and added to it."""

    def resume(self, declared: Declaration, known: Json, saved: SnapshotReader | None) -> MaintainedView:
        """A view of a snapshot with its state, or of a record of the log."""

    def close(self) -> None:
        """Ends what is under way, and forgets what is not in a directory."""


class Storage(Protocol):
    """A log and the snapshot before it (see `viewlet.runtime.durable.store`)."""

    @property
    def manifest(self) -> Manifest: ...

    def snapshot(self) -> SnapshotReader | None: ...

    def records(self) -> Iterator[Record]:
        """What has been committed since the snapshot."""

    def remove_left_over(self) -> None:
        """Removes what interrupted commits have left, once the state has been read."""

    def commit(self, records: Sequence[Record], epoch: int, batches: Mapping[str, Ranges] | None = None) -> None: ...

    def position(self) -> int:
        """Grows with every commit; right after an exception in the middle of one too."""

    @property
    def checkpoint_is_due(self) -> bool: ...

    def checkpoint(self, write: Callable[[SnapshotWriter], object]) -> None:
        """Replaces snapshot and log by a new snapshot."""

    def stats(self) -> dict[str, object]: ...

    def close(self) -> None: ...
