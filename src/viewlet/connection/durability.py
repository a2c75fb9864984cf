"""A database in a directory: opened as its last snapshot and the log since, written to before anything is visible.

Every batch and every declaration is one record of the log. When the log has become longer than the snapshot, and when
the connection is closed, a new snapshot takes the place of both.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from viewlet import __version__
from viewlet.connection.database import Database
from viewlet.connection.journal import Batch
from viewlet.connection.restoring import declared_again, explaining, read_database, used_aggregates, write_database
from viewlet.engine.catalogue_json import table_of_json, table_to_json
from viewlet.engine.declaration import Declaration
from viewlet.engine.progress import ProgressLine
from viewlet.errors import DataError, StateError
from viewlet.runtime.durable.batch_ids import BatchIds, BatchMark
from viewlet.runtime.durable.batch_records import decode_batch, encode_batch
from viewlet.runtime.durable.log import Record
from viewlet.runtime.durable.store import StateStore, open_location
from viewlet.types import Table

if TYPE_CHECKING:
    from viewlet.aggregates import Aggregate

BATCH, TABLE, VIEW, DROP = 1, 2, 3, 4

logger = logging.getLogger("viewlet")


class Durability:
    """The journal of a database (see `viewlet.connection.journal`) that writes to a state store."""

    def __init__(self, store: StateStore, database: Database) -> None:
        self._store = store
        self._database = database

    # -- the journal ------------------------------------------------------------------------------------------------

    def batch(self, epoch: int, changes: Batch, mark: BatchMark | None) -> None:
        database = self._database
        batches = database.batches if mark is None else database.batches.adding(mark)
        payload = encode_batch(changes, database.schemas(), mark)
        self._store.commit([Record(BATCH, epoch, payload)], epoch, batches.ranges)

    def table_created(self, table: Table) -> None:
        self._declare(TABLE, table_to_json(table))

    def view_created(self, declared: Declaration) -> None:
        known = {"statement": declared.statement, "engine": self._database.engine, "version": __version__}
        self._declare(VIEW, {"name": declared.name, **known, **used_aggregates(declared, self._database)})

    def dropped(self, name: str) -> None:
        self._declare(DROP, {"name": name})

    def position(self) -> int:
        """The number of the last manifest, found again if an exception came while one was written."""
        return self._store.position()

    def settled(self) -> None:
        """Writes a snapshot if one is due; if that fails, the log goes on."""
        if self._store.checkpoint_is_due:
            self._checkpoint_quietly()

    def _declare(self, kind: int, known: dict[str, Any]) -> None:
        epoch = self._database.epoch
        self._store.commit([Record(kind, epoch, json.dumps(known).encode())], epoch)

    # -- the directory ----------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Replaces the log by a snapshot, if there is any."""
        if self._store.manifest.logs:
            self._store.checkpoint(lambda writer: write_database(self._database, writer))

    def _checkpoint_quietly(self) -> None:
        try:
            self.checkpoint()
        except StateError as error:
            logger.warning("no snapshot was written, the log goes on: %s", error)

    def stats(self) -> dict[str, object]:
        return self._store.stats()

    def close(self) -> None:
        """Nothing is lost if there is no room for a snapshot: the log has everything."""
        self._checkpoint_quietly()
        self._store.close()

    def restore(self) -> None:
        """Brings the database, which is empty, to the last committed state."""
        snapshot = self._store.snapshot()
        if snapshot is not None:
            read_database(self._database, snapshot)
        line = ProgressLine(f"opening {self._store.stats()['path']}")
        try:
            for number, record in enumerate(self._store.records(), 1):
                self._replay(record)
                line.step(f"{number} changes replayed")
        finally:
            line.close()
        manifest = self._store.manifest
        if self._database.epoch != manifest.epoch:
            raise StateError(f"replaying the log led to epoch {self._database.epoch}, not to {manifest.epoch}")
        self._database.committed = replace(self._database.committed, batches=BatchIds(manifest.batches))

    def _replay(self, record: Record) -> None:
        database = self._database
        if record.kind == BATCH:
            changes, mark = decode_batch(record.payload, database.schemas(), lambda: database.dictionary)
            database.expect({name: len(change) for name, change in changes.items()})
            try:
                database.apply(changes, mark)
            except DataError as error:
                raise StateError(f"the batch of epoch {record.epoch} cannot be applied again: {error}") from error
            return
        known = json.loads(bytes(record.payload))
        if record.kind == TABLE:
            database.create_table(table_of_json(known))
        elif record.kind == VIEW:
            with explaining(known["name"], known["version"]):
                database.create_view(declared_again(known, database), known["engine"])
        elif known["name"] in database.views:
            database.drop_view(known["name"])
        else:
            database.drop_table(known["name"])


def open_database(
    location: str, engine: str, sync: bool, aggregates: Mapping[str, Aggregate] | None = None
) -> tuple[Database, Durability]:
    """The database in a directory, or at a URL that fsspec knows, and what keeps it there."""
    store = open_location(location, sync)
    database = Database(engine=engine, aggregates=dict(aggregates or {}))
    durability = Durability(store, database)
    try:
        durability.restore()
    except BaseException:
        store.close()
        raise
    database.journal = durability
    return database, durability
