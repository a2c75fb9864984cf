"""The checkpoint directory as the driver sees it: a state store whose log holds the inputs of every stage.

    step      the inputs of the stages of one batch, one record each, written as the batch proceeds
    driver    the inputs of the driver, the last record of a batch; committed with it
    others    declarations, which the connection interprets

A snapshot has a folder per partition, written by tasks, and the driver's own views beside them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from viewlet.errors import StateError
from viewlet.runtime.durable.batch_ids import Ranges
from viewlet.runtime.durable.files import files_at, is_url, local_path
from viewlet.runtime.durable.log import Record
from viewlet.runtime.durable.manifest import Manifest
from viewlet.runtime.durable.snapshot import SnapshotReader, SnapshotWriter
from viewlet.runtime.durable.store import StateStore, open_location
from viewlet.spark.run.exchange.moves import FOLDERS, folder_of
from viewlet.spark.run.exchange.stage_record import StepHead, layout, read_head
from viewlet.spark.run.state.partition import History, LoggedStep

STEP, DRIVER = 101, 102
STARTED = "started"
MANY_STEPS = 500
"""Stages since the last snapshot after which another one is written, however little they were given."""


class Checkpoint:
    """A checkpoint directory. `location` is a path, or a URL that fsspec supports; tasks use `directory`.

    `store` is the state there, if it is open already.
    """

    def __init__(self, location: str | os.PathLike[str], sync: bool = True, store: StateStore | None = None) -> None:
        where = os.fspath(location)
        self._store: StateStore = open_location(where, sync) if store is None else store
        self.directory = where.rstrip("/") if is_url(where) else str(local_path(where).resolve())
        self.sync = sync
        self.files = files_at(self.directory, sync)
        self.history = History()
        self._committed = self.history
        self._appended = 0
        self._measure()
        self.generated: frozenset[str] = frozenset()
        """Units that ran generated code at the last snapshot."""
        self.started = frozenset(self._store.manifest.offsets.get(STARTED, ()))
        """Tables that have received rows, to be noted by the next commit."""
        self.is_wanted = False
        """The engine waits for a snapshot."""
        self.on_snapshot: Callable[[], None] = lambda: None
        """Called when a snapshot is in place."""
        self.last_commit = 0, 0.0
        """Bytes that the last commit wrote, and seconds that it took."""

    @property
    def manifest(self) -> Manifest:
        return self._store.manifest

    @property
    def epoch(self) -> int:
        return self.manifest.epoch

    def close(self) -> None:
        self._store.close()

    # -- opening ----------------------------------------------------------------------------------------------------

    def setup(self, kind: int) -> int | None:
        """The number of partitions, if the directory has a state: a fact of the snapshot, or the first record."""
        reader = self._store.snapshot()
        if reader is not None and "partitions" in reader.facts.get("facts", {}):
            return int(reader.facts["facts"]["partitions"])
        first = next(iter(self._store.records()), None)
        if reader is not None or (first is not None and first.kind != kind):
            raise StateError(
                f"{self.directory} is the directory of a database in one process, not a checkpoint of Spark"
            )
        return None if first is None else int.from_bytes(first.payload, "little")

    def snapshot(self) -> SnapshotReader | None:
        """The last snapshot: the driver's views, and what `take_up` needs to know of the partitions."""
        return self._store.snapshot()

    def take_up(self, known: Mapping[str, Any]) -> None:
        """The history begins with the snapshot that these facts go with."""
        folder = self.manifest.snapshot
        self.history = self._committed = History(known["bases"], folder, tuple(known["partitions"]))
        self.generated = frozenset(known["generated"])
        self._store.snapshot_bytes += known["bytes"]
        self.is_wanted = False

    def records(self) -> Iterator[Record]:
        """What was committed since; steps become part of the history by the way."""
        for log, record in self._store.located_records():
            if record.kind == STEP:
                step = _logged(read_head(record.payload), log, record)
                self.history = self._committed = self.history.followed_by(step)
            else:
                yield record
        self._measure()
        self._remove_moves()

    def remove_left_over(self) -> None:
        self._store.remove_left_over()

    def _measure(self) -> None:
        self._store.bytes_beside = sum(step.bytes_beside for step in self._committed.steps)

    def _remove_moves(self) -> None:
        """Removes files of moves that no log refers to; a reader leaves them to the owner."""
        if self._store.is_read_only:
            return
        needed = {folder_of(step.head.token) for step in self._committed.steps}
        with suppress(OSError):  # they take room, no more
            for name in self.files.list():
                if name.startswith(FOLDERS) and name not in needed:
                    self.files.remove(name)

    # -- writing ----------------------------------------------------------------------------------------------------

    def append(self, epoch: int, head: StepHead, payload: bytes) -> LoggedStep:
        """Notes what a stage is given."""
        record = Record(STEP, epoch, payload)
        log, (at,) = self._store.append([record])
        self._appended += len(payload)
        return _logged(head, log, replace(record, at=at))

    def add(self, step: LoggedStep) -> None:
        """A stage has been run."""
        self.history = self.history.followed_by(step)

    def forget(self, unit: str) -> None:
        """Notes that a unit was dropped: a later unit of the same name must not use its part of the snapshot."""
        self.history, self._committed = self.history.without_base(unit), self._committed.without_base(unit)

    def go_back_to(self, history: History) -> None:
        """Units that were forgotten are known again."""
        self.history = self._committed = history

    def abandon(self) -> None:
        """The batch under way will not be committed."""
        self._store.abandon()
        self._appended = 0
        self.history = self._committed

    def remove_moves_of(self, token: str) -> None:
        """Removes files that the tasks of an abandoned batch have left, if it is certain that it is not committed."""
        if not self._store.is_in_doubt:
            with suppress(OSError):
                self.files.remove(folder_of(token))

    def remove_files(self, names: Iterable[str]) -> None:
        """Removes files that are of no use any more, if they are there."""
        for name in names:
            with suppress(OSError):
                self.files.remove(name)

    def commit(self, records: Sequence[Record], epoch: int, batches: Mapping[str, Ranges] | None = None) -> None:
        """Commits what was appended together with some last records."""
        begun, appended, before = time.perf_counter(), self._appended, self.manifest.number
        try:
            self._store.commit(records, epoch, batches, {STARTED: sorted(self.started)})
        except BaseException:
            if self.position() == before:
                self.abandon()
            else:
                self.keep()
            raise
        self.keep()
        written = appended + sum(memoryview(record.payload).nbytes for record in records)
        self.last_commit = written, time.perf_counter() - begun

    def keep(self) -> None:
        """What was appended is committed."""
        self._committed = self.history
        self._appended = 0
        self._measure()

    def position(self) -> int:
        """The number of the last manifest, found again if an exception came while one was written."""
        return self._store.position()

    @property
    def checkpoint_is_due(self) -> bool:
        return self.is_wanted or self._store.checkpoint_is_due or len(self.history.steps) > MANY_STEPS

    def checkpoint(self, write: Callable[[SnapshotWriter], Any]) -> None:
        """Replaces the log by a snapshot; `write` fills it and returns the facts that `take_up` reads."""
        written: list[Mapping[str, Any]] = []
        before = self.manifest.snapshot

        def fill(writer: SnapshotWriter) -> Mapping[str, Any]:
            written.append(write(writer))
            return written[0]

        try:
            self._store.checkpoint(fill)
        finally:
            self.position()
            if self.manifest.snapshot != before:
                self.take_up(written[0])
                self.on_snapshot()
            self._measure()
            self._remove_moves()

    def stats(self) -> dict[str, object]:
        return self._store.stats() | {"stages_since_snapshot": len(self.history.steps)}


def _logged(head: StepHead, log: str, record: Record) -> LoggedStep:
    return LoggedStep(head, log, record.at, record.size, *layout(record.payload))
