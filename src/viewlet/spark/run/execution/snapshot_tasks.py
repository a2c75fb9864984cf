"""The tasks of a snapshot: each partition writes its state, or sends it to where it will be."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.errors import ViewletError
from viewlet.runtime.durable.snapshot import SnapshotWriter
from viewlet.spark.run.exchange.moves import fetch_all
from viewlet.spark.run.exchange.stage_record import Piece, SentDeliveries
from viewlet.spark.run.exchange.wire import bytes_table
from viewlet.spark.run.execution.tasks import PartitionTask, leaving
from viewlet.spark.run.state.partition import Context, files_of, held, partition_folder, saved_name
from viewlet.spark.run.state.segment_files import joined
from viewlet.spark.run.units.plan_code import Departure


@dataclass(frozen=True, slots=True)
class SplitState(PartitionTask[list[Piece]]):
    """Sends the state of units to where it will be, which may be another number of partitions."""

    context: Context
    token: str
    departures: Mapping[str, tuple[Departure, ...]]
    partitions: int

    def answer(self, partition: int) -> list[Piece]:
        with self.context.outbox(self.token, self.context.partitions) as outbox:
            for unit, departures in self.departures.items():
                with held(self.context, unit, partition) as state:
                    outbox.put(leaving(unit, state.node, departures, self.partitions, partition))
        return outbox.pieces


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Writes the state of a partition into a folder; returns the checksum and the size.

    The state of some units is not here yet: their views are given.
    """

    context: Context
    folder: str
    given: frozenset[str] = frozenset()

    def __call__(self, partition: int, deliveries: SentDeliveries | None) -> tuple[int, int] | ViewletError:
        try:
            files, folder = files_of(self.context.checkpoint), partition_folder(self.folder, partition)
            writer = SnapshotWriter(files, folder, attempt=uuid.uuid4().hex)
            for unit in self.context.units:
                if unit not in self.given:
                    self._write(unit, partition, writer)
            for unit, sent in (deliveries or {}).items():
                for name, blobs in fetch_all(files, sent).items():
                    writer.table(saved_name(unit, name), bytes_table(joined(blobs)))
            return writer.finish({}), writer.bytes
        except ViewletError as error:
            return error

    def _write(self, unit: str, partition: int, writer: SnapshotWriter) -> None:
        with held(self.context, unit, partition) as state:
            for name in self.context.code(unit).views:
                contents = state.node.contents(name)
                if contents:
                    writer.table(saved_name(unit, name), bytes_table(contents))
