"""Snapshots of a cluster: everything it keeps, where it is or where it will be from then on."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from viewlet.runtime.durable.snapshot import SnapshotReader, SnapshotWriter
from viewlet.spark.run.exchange.moves import fetch_all
from viewlet.spark.run.exchange.stage_record import DRIVER as AT_THE_DRIVER
from viewlet.spark.run.exchange.stage_record import (
    Piece,
    Sent,
    SentDeliveries,
    Shipment,
)
from viewlet.spark.run.exchange.wire import bytes_table
from viewlet.spark.run.execution.cluster import Cluster
from viewlet.spark.run.execution.snapshot_tasks import SplitState, WriteSnapshot
from viewlet.spark.run.execution.tasks import (
    leaving,
)
from viewlet.spark.run.result_reader import ResultReader
from viewlet.spark.run.state.checkpoint import Checkpoint
from viewlet.spark.run.state.partition import saved_name, saved_view
from viewlet.spark.run.state.segment_files import joined
from viewlet.spark.run.unit_registry import UnitEntry, driver_rows, good
from viewlet.spark.run.units.relocation import Relocation, departures
from viewlet.spark.run.units.unit import (
    Unit,
)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Units that a snapshot moves elsewhere, and what it sends to which partition for them."""

    token: str
    entries: Mapping[str, UnitEntry]
    partitions: int
    shipment: Shipment

    def deliveries(self) -> list[SentDeliveries]:
        return self.shipment.deliveries(self.partitions)


class Snapshots(ResultReader):
    """The units of a cluster, which snapshots write and may move to other places."""

    def __init__(
        self, cluster: Cluster, checkpoint: Checkpoint, partitions: int, generated: bool | None = None
    ) -> None:
        super().__init__(cluster, checkpoint, partitions, generated)
        self._layout: _Layout | None = None
        """What will be in force when the snapshot is in place that is being written."""

    def save(self, writer: SnapshotWriter, facts: object, relocation: Relocation | None = None) -> dict[str, Any]:
        """Writes everything to a snapshot, so that no log is needed; returns the facts to go with it.

        The driver's views are parts of it, and every partition writes its own to the folder. Units that move elsewhere
        are written to where they will be; `adopt` puts that in force once the snapshot is in place.
        """
        layout = self._layout = self._sent(relocation)
        entries = {**self._units, **layout.entries}
        held = {
            saved_name(unit, name): contents
            for unit, each in entries.items()
            for name in each.code.local
            if (contents := each.node.contents(name))
        }
        for name, contents in held.items():
            writer.table(name, bytes_table(contents))
        task = WriteSnapshot(self.context(), writer.folder, frozenset(layout.entries))
        found = self.cluster.run(task, layout.deliveries(), "snapshot")
        written: list[tuple[int, int]] = [good(answer) for answer in found]
        history = self.checkpoint.history
        return {
            "facts": facts,
            "driver": list(held),
            "bases": {unit: layout.token if unit in layout.entries else history.token(unit) for unit in entries},
            "generated": [unit for unit, each in entries.items() if each.code.module is not None or self._is_due(each)],
            "partitions": [checksum for checksum, _ in written],
            "bytes": sum(size for _, size in written),
        }

    def _sent(self, relocation: Relocation | None) -> _Layout:
        """Sends the state of units that move to where it will be."""
        token = uuid.uuid4().hex
        if relocation is None:
            return _Layout(token, {}, self.partitions, Shipment())
        units, context = relocation.units, self.context()
        mine = {name: departures(self._units[name].unit, unit, at_driver=True) for name, unit in units.items()}
        theirs = {name: departures(self._units[name].unit, unit, at_driver=False) for name, unit in units.items()}
        task = SplitState(context, token, theirs, relocation.partitions)
        pieces: list[Piece] = [piece for part in self._ask(task, "state that moves") for piece in part]
        with context.outbox(token, 1) as outbox:
            for name, leaves in mine.items():
                outbox.put(leaving(name, self._units[name].node, leaves, relocation.partitions, 0))
        shipment, gathered = Shipment(), dict[str, dict[str, list[Sent]]]()
        for unit, view, partition, contents in (*pieces, *outbox.pieces):
            if partition == AT_THE_DRIVER:
                gathered.setdefault(unit, {}).setdefault(view, []).append(contents)
            else:
                shipment.add(unit, view, partition, contents)
        entries = {name: self._moved(unit, gathered.get(name, {})) for name, unit in units.items()}
        return _Layout(token, entries, relocation.partitions, shipment)

    def _moved(self, unit: Unit, gathered: Mapping[str, list[Sent]]) -> UnitEntry:
        """A unit as it will be, with what the driver has of it then."""
        code = unit.code(self._units[unit.name].code.module is not None)
        node = self._empty_node(code)
        found = fetch_all(self.checkpoint.files, gathered)
        for name in code.local:
            node.restore(name, joined(found.get(name, [])))
        return UnitEntry(unit, code, node, size=self._units[unit.name].size)

    def adopt(self) -> None:
        """The snapshot is in place: what it has moved is where it was written."""
        layout, self._layout = self._layout, None
        if layout is not None:
            self._units = {**self._units, **layout.entries}
            self.partitions = layout.partitions
            for name in layout.entries:
                self.renew_results(name)
                self._follow_again(name)
        for entry in self._units.values():
            entry.driver_rows = driver_rows(entry)

    def _follow_again(self, name: str) -> None:
        """The changes of a unit that has moved are told, or written by tasks, from where it is."""
        for key in [key for key in self._kept_changes if key.unit == name]:
            if not self.reading(key).is_spread:
                del self._kept_changes[key]
        for key in [key for key in self._watched if key.unit == name]:
            self._watched.discard(key)
            self.watch(key)

    def restore(self, unit: str, saved: SnapshotReader) -> None:
        """The driver's views of a unit as a snapshot has them; older versions name them without their unit."""
        entry = self._units[unit]
        for name in entry.code.local:
            entry.node.restore(name, saved_view(saved, unit, name))
