"""`SparkConnection`: what users call when views run on Spark. It is a `Connection` that takes data frames too."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from viewlet.changes import Changes, to_changes
from viewlet.connection.facade import Connection, batch_mark
from viewlet.connection.on_spark import SETUP, SparkDatabase, frame_change, is_spark_frame
from viewlet.connection.reading import net
from viewlet.connection.session import Session
from viewlet.errors import DataError, StateError
from viewlet.runtime.durable.log import Record
from viewlet.spark.run.checkpoint import Checkpoint
from viewlet.spark.run.cluster import SparkCluster
from viewlet.spark.run.engine import Engine
from viewlet.spark.run.java import require_spark, session_of
from viewlet.types import Table
from viewlet.view import View

PARTITIONS_PER_CORE = 2


def connect_on_spark(
    spark: Any, checkpoint: str | os.PathLike[str] | None, partitions: int | None, sync: bool
) -> SparkConnection:
    """The database in a checkpoint directory, run by a Spark session."""
    require_spark()
    session = session_of(spark)
    scratch = tempfile.TemporaryDirectory(prefix="viewlet-") if checkpoint is None else None
    store = Checkpoint(Path(scratch.name if scratch is not None else os.fspath(cast(str, checkpoint))), sync)
    try:
        known = store.setup(SETUP)
        count = _partitions(partitions, known, session)
        if known is None:
            store.commit(Record(SETUP, 0, count.to_bytes(8, "little")))
        database = SparkDatabase(cluster=Engine(SparkCluster(session), store, count))
        database.restore()
    except BaseException:
        store.close()
        raise
    return SparkConnection(Session(database), database, session, scratch)


def _partitions(asked: int | None, known: int | None, session: Any) -> int:
    if asked is not None and (not isinstance(asked, int) or asked < 1):
        raise DataError(f"partitions is a positive number, not {asked!r}")
    if known is not None and asked not in (None, known):
        raise StateError(f"the checkpoint has {known} partitions, for good; leave partitions={asked} out")
    return known or asked or PARTITIONS_PER_CORE * session.sparkContext.defaultParallelism


class SparkConnection(Connection):
    """Tables, views over them, and batches, on a Spark cluster (see `Connection`)."""

    def __init__(self, session: Session, database: SparkDatabase, spark: Any, scratch: Any = None) -> None:
        super().__init__(session)
        self._on_spark = database
        self._spark = spark
        self._scratch = scratch

    def close(self) -> None:
        """Ends the connection; the state stays in the checkpoint directory, and the Spark session goes on."""
        if not self._session.closed:
            super().close()
            self._on_spark.cluster.checkpoint.close()
            if self._scratch is not None:
                self._scratch.cleanup()

    def apply(self, batch: Mapping[str, object], *, batch_id: int | None = None, source: str = "") -> int:
        """Applies changes of several tables, as data frames or otherwise, as one atomic batch; returns the epoch."""
        if not isinstance(batch, Mapping):
            raise DataError(f"apply() takes {{table: changes}}, not {type(batch).__name__}")
        mark = batch_mark(batch_id, source)
        with self._session.open() as database:
            if mark is not None and mark in database.batches:
                return database.epoch
            changes: dict[str, Any] = {}
            for name, data in batch.items():
                schema = database.find_table(name).schema
                if schema.name in changes:
                    raise DataError(f"table {schema.name!r} is given twice in one batch")
                changes[schema.name] = _change(schema, data, 1, encoded=True)
            return self._session.commit(changes, mark)

    def _change(self, table: str, signed: list[tuple[object, int]]) -> int:
        with self._session.open() as database:
            schema = database.find_table(table).schema
            if len(signed) == 1:
                return self._session.commit({schema.name: _change(schema, *signed[0], encoded=False)})
            parts = [to_changes(schema, _collected(rows), sign) for rows, sign in signed]
            return self._session.commit({schema.name: net(item for part in parts for item in part.items())})

    def view(self, name: str) -> SparkView:
        """A handle to read a view and to subscribe to its changes."""
        with self._session.open() as database:
            return SparkView(self._session, database.find_view(name).name, self._spark)

    def checkpoint(self) -> None:
        """Writes a snapshot to the checkpoint directory, so that opening it needs no log."""
        with self._session.open():
            self._on_spark.checkpoint()

    def stats(self) -> dict[str, object]:
        """The epoch, tables and views, the checkpoint directory, and what the last batches cost."""
        known = super().stats()
        with self._session.open():
            engine = self._on_spark.cluster
            known["partitions"] = engine.partitions
            known["checkpoint"] = engine.checkpoint.stats()
            known["batches"] = [batch.as_dict() for batch in engine.batches]
        return known


@dataclass(frozen=True, slots=True, repr=False)
class SparkView(View):
    """A maintained view, readable as a Spark data frame too."""

    _spark: Any

    def to_spark(self) -> Any:
        """The rows as a Spark data frame that does not change with later batches."""
        return self._spark.createDataFrame(self.to_arrow())


def _change(schema: Table, data: object, sign: int, encoded: bool) -> Any:
    if is_spark_frame(data):
        return frame_change(schema, data, sign, encoded)
    changes: Changes = to_changes(schema, data, sign, encoded)
    return changes


def _collected(data: Any) -> object:
    return data.toArrow() if is_spark_frame(data) else data
