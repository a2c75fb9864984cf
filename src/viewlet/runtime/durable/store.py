"""The state store: a directory that moves from one committed state to the next.

    commit      the records are appended to a log and synced; a manifest that counts them is put into place
    checkpoint  a snapshot is written and synced; a manifest that names it and no logs is put into place

Where files cannot be appended to, every append is a new log. A commit has no effect until its manifest exists. An error
before that leaves the last commit in force and the store usable. After an error while the manifest is written it is
unknown whether the commit survives, so the store has to be reopened. After any other exception, such as Ctrl-C, the
store checks whether the manifest exists, and continues accordingly.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from viewlet.errors import StateError
from viewlet.runtime.durable.batch_ids import Ranges
from viewlet.runtime.durable.files import TEMPORARY, Files, LocalFiles, files_at, is_url, local_path
from viewlet.runtime.durable.lock import LOCK, DirectoryLock
from viewlet.runtime.durable.log import LogWriter, Record, read_log
from viewlet.runtime.durable.manifest import (
    NAME,
    LogExtent,
    Manifest,
    numbers,
    read_manifest,
    write_manifest,
)

if TYPE_CHECKING:
    from viewlet.runtime.durable.snapshot import SnapshotReader, SnapshotWriter

SHORTEST_LOG = 4 << 20
"""Bytes of log below which a snapshot is not worth writing."""
MANY_LOGS = 64
MANY_SMALL_LOGS = 1_000
"""Bytes of log below which a snapshot is not worth writing, where every append is a log of its own."""
_OURS = re.compile(rf"{LOCK}|{re.escape(TEMPORARY)}|{NAME.pattern}|(log|snapshot)-\d{{12}}(-\w{{8}})?(\.bin)?")


class Lock(Protocol):
    """The interface of locks, which keep other processes out.

    Where a lock may fail, names of files end in its `sign`, so that no holder overwrites the files of another.
    """

    @property
    def sign(self) -> str: ...

    @property
    def noted(self) -> int:
        """The number of the last manifest that a holder has noted; 0 if none has."""

    def note(self, number: int) -> None:
        """Notes that a manifest is in place. That is a witness, and may be missing."""

    def check(self) -> None:
        """Raises an error if it is not sure any more."""

    def release(self) -> None: ...


class Parts(Protocol):
    """The parts of streams, which are committed after the manifest."""

    def stamps(self) -> tuple[str, ...] | None:
        """The stamps that they may have now."""

    def next_stamps(self) -> tuple[str, ...] | None:
        """The stamps that they may have until the next commit."""


class StateStore:
    """The files of one state, open for writing; `open_location` makes one with a lock."""

    is_read_only = False

    def __init__(self, files: Files, lock: Lock | None = None) -> None:
        self._files = files
        self._lock = lock
        self._sign = lock.sign if lock is not None else ""
        self._log: LogWriter | None = None
        self._uncommitted: dict[str, LogExtent] = {}
        """Logs that have grown since the last commit."""
        self.parts: Parts | None = None
        """What is asked for the stamps of the parts of streams, if there are any."""
        self._in_doubt: str | None = None
        self._publishing: Manifest | None = None
        """A manifest that is being put into place."""
        self._patience = 1
        self.manifest = self._newest()
        self._last_log = max((_number(log.name) for log in self.manifest.logs), default=0)
        self.snapshot_bytes = 0
        self.bytes_beside = 0
        """Bytes in other files that committed records refer to."""

    # -- opening ----------------------------------------------------------------------------------------------------

    def _newest(self) -> Manifest:
        found = numbers(self._files)
        where, noted = self._files.path(""), self._lock.noted if self._lock is not None else 0
        if not found and any(_OURS.fullmatch(name) and name not in (LOCK, TEMPORARY) for name in self._files.list()):
            raise StateError(f"{where} is damaged: there are logs or snapshots, but no manifest")
        if noted > (found[-1] if found else 0):
            newest = f"the newest manifest is number {found[-1]}" if found else "there is no manifest"
            raise StateError(
                f"{where} is damaged: {newest}, but {self._files.path(LOCK)} says that number {noted} was committed; "
                f"restore the manifest from a copy, or remove {LOCK} to open the state as it is"
            )
        if found:
            return read_manifest(self._files, found[-1])
        return self._publish(Manifest())

    def remove_left_over(self) -> None:
        """Removes what interrupted commits have left, and what the newest manifest has made superfluous.

        Called once a state has been read: what one cannot read may be restored, and is left alone.
        """
        keep = self.manifest.mentions | {LOCK}
        for name in self._files.list():
            if _OURS.fullmatch(name) and name not in keep:
                with contextlib.suppress(OSError):  # it takes room, no more
                    self._files.remove(name)

    def snapshot(self) -> SnapshotReader | None:
        """What to start from; nothing if there has been no checkpoint."""
        from viewlet.runtime.durable.snapshot import SnapshotReader

        if self.manifest.snapshot is None:
            return None
        reader = SnapshotReader(self._files, self.manifest.snapshot, self.manifest.snapshot_checksum)
        self.snapshot_bytes = reader.bytes
        return reader

    def records(self) -> Iterator[Record]:
        """What has been committed since the snapshot."""
        for _, record in self.located_records():
            yield record

    def located_records(self) -> Iterator[tuple[str, Record]]:
        """Like `records`, each record with the name of its log."""
        epoch: int | None = None
        for log in self.manifest.logs:
            where = self._files.path(log.name)
            try:
                for record in read_log(self._files.read(log.name), where, log.length, log.checksum):
                    epoch = record.epoch
                    yield log.name, record
            except FileNotFoundError as error:
                raise self._damage(f"{where} is missing", epoch) from error
            except OSError as error:
                raise self._damage(f"cannot read {where}: {error.strerror}", epoch) from error
            except StateError as error:
                raise self._damage(str(error), epoch) from error

    def _damage(self, what: str, epoch: int | None) -> StateError:
        good = f"epoch {epoch}" if epoch is not None else "the last snapshot"
        committed = f"{self.manifest.epoch} is committed"
        return StateError(f"{what}: the state is good up to {good}, {committed}; restore the file from a copy")

    # -- writing ----------------------------------------------------------------------------------------------------

    @property
    def log_bytes(self) -> int:
        """Bytes to replay when the directory is opened next."""
        return sum(log.length for log in self.manifest.logs) + self.bytes_beside

    @property
    def is_in_doubt(self) -> bool:
        """It is not known whether the last commit survives."""
        return self._in_doubt is not None

    @property
    def checkpoint_is_due(self) -> bool:
        """Replaying the logs would take longer than reading a new snapshot."""
        longest = max(SHORTEST_LOG, self.snapshot_bytes) * self._patience
        many = MANY_LOGS if self._files.appends else MANY_SMALL_LOGS
        return self._in_doubt is None and (self.log_bytes > longest or len(self.manifest.logs) > many)

    def commit(
        self,
        records: Sequence[Record],
        epoch: int,
        batches: Mapping[str, Ranges] | None = None,
        offsets: Mapping[str, Any] | None = None,
    ) -> None:
        """Makes records part of the state, all or none; returns when they would survive a power failure."""
        self._check()
        try:
            self.append(records)
            extents = {each.name: each for each in self.manifest.logs}
            extents |= self._uncommitted
            manifest = replace(
                self.manifest,
                number=self.manifest.number + 1,
                epoch=epoch,
                logs=tuple(extents.values()),
                batches=self.manifest.batches if batches is None else batches,
                offsets=self.manifest.offsets if offsets is None else offsets,
                parts=self.manifest.parts if self.parts is None else self.parts.next_stamps(),
            )
            before = self.manifest
            self._publish(manifest)
        except BaseException:
            self._abandon_log()
            raise
        self._uncommitted.clear()
        self._remove_quietly(before.name)

    def append(self, records: Sequence[Record]) -> tuple[str, list[int]]:
        """Writes records that the next commit counts, unless they are abandoned before; tells where they are."""
        self._check()
        log, self._log = self._log, None  # until it is whole again: nothing is added to what an exception leaves
        try:
            if log is None or not self._files.appends:
                self._last_log = self.manifest.number + 1 if self._files.appends else self._unused_number()
                log = LogWriter(self._files, f"log-{self._last_log:012}{self._sign}.bin")
                self._files.sync_folder()
            begins = log.append(records)
            self._uncommitted[log.name] = LogExtent(log.name, log.length, log.checksum)
            self._log = log
            return log.name, begins
        except BaseException as error:
            self.abandon()
            if log is not None:
                with contextlib.suppress(OSError):
                    log.close()
            if isinstance(error, OSError):
                raise self._failure(error) from error
            raise

    def _unused_number(self) -> int:
        return max(self._last_log, self.manifest.number) + 1

    def abandon(self) -> None:
        """Forgets what was appended since the last commit."""
        self._abandon_log()

    def checkpoint(self, write: Callable[[SnapshotWriter], object]) -> None:
        """Replaces snapshot and logs by a new snapshot; `write` fills it and returns the facts to go with it."""
        from viewlet.runtime.durable.snapshot import SnapshotWriter

        self._check()
        self._check_newest()
        number = self.manifest.number + 1
        folder = f"snapshot-{number:012}{self._sign}"
        try:
            writer = SnapshotWriter(self._files, folder)
            checksum = writer.finish(write(writer))
            self._files.sync_folder()
        except Exception as error:
            self._patience *= 2
            self._remove_quietly(folder)
            if isinstance(error, OSError):
                raise self._failure(error) from error
            raise
        now = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = replace(
            self.manifest,
            number=number,
            snapshot=folder,
            snapshot_checksum=checksum,
            checkpointed=now,
            logs=(),
            parts=self.manifest.parts if self.parts is None else self.parts.stamps(),
        )
        try:
            self._publish(manifest)
        except StateError:
            self._patience *= 2
            raise
        self._patience = 1
        self.snapshot_bytes = writer.bytes
        self._abandon_log()
        self.remove_left_over()

    def _publish(self, manifest: Manifest) -> Manifest:
        """The moment of the commit."""
        if self._lock is not None:
            self._lock.check()
        self._publishing = manifest
        try:
            write_manifest(self._files, manifest)
        except OSError as error:
            there = self._may_be_there(manifest.name)
            if there and isinstance(error, FileExistsError):
                self._in_doubt = "another process has committed something"
            elif there:
                self._in_doubt = f"after an error ({error}) it is not known whether the last commit survives"
            self._publishing = None
            if there:
                raise StateError(f"{self._in_doubt}: open {self._files.path('')} again") from error
            raise self._failure(error) from error
        self.manifest = manifest
        self._publishing = None
        if self._lock is not None:
            self._lock.note(manifest.number)
        return manifest

    def position(self) -> int:
        """The number of the last manifest; what an exception left of a commit that did not happen is forgotten."""
        self._settle()
        if self._uncommitted:
            self.abandon()
        return self.manifest.number

    def _settle(self) -> None:
        """Finds out whether a manifest is in place, if an exception came while it was written."""
        manifest = self._publishing
        if manifest is None:
            return
        try:
            if manifest.name in self._files.list():
                self._files.sync_folder()
                self.manifest = manifest
        except OSError as error:
            self._in_doubt = f"after an error ({error}) it is not known whether the last commit survives"
        self._abandon_log()
        self._publishing = None

    def _may_be_there(self, name: str) -> bool:
        try:
            return name in self._files.list()
        except OSError:
            return True

    def _failure(self, error: OSError) -> StateError:
        where = error.filename if isinstance(error.filename, str) else self._files.path("")
        return StateError(f"cannot write to {where}: {error.strerror or error}; nothing was committed")

    def _check(self) -> None:
        if self._lock is not None:
            self._lock.check()
        self._settle()
        if self._in_doubt is not None:
            raise StateError(f"{self._in_doubt}: open {self._files.path('')} again")

    def _check_newest(self) -> None:
        """Checks that the commit this store continues from is still the last one."""
        if self._lock is not None:
            self._lock.check()
        try:
            newest = numbers(self._files)[-1:]
        except OSError as error:
            raise self._failure(error) from error
        if newest != [self.manifest.number]:
            self._in_doubt = "another process has committed something"
            self._check()

    def _abandon_log(self) -> None:
        """The next commit begins another log; what this one holds beyond the manifest's word does not count."""
        self._uncommitted.clear()
        if self._log is not None:
            log, self._log = self._log, None
            with contextlib.suppress(OSError):
                log.close()

    def _remove_quietly(self, name: str) -> None:
        with contextlib.suppress(OSError):
            self._files.remove(name)

    def stats(self) -> dict[str, object]:
        return {
            "path": self._files.path(""),
            "epoch": self.manifest.epoch,
            "log_bytes": self.log_bytes,
            "snapshot_bytes": self.snapshot_bytes,
            "last_checkpoint": self.manifest.checkpointed,
        }

    def close(self) -> None:
        """Lets others open the directory; closing twice is harmless."""
        self._abandon_log()
        if self._lock is not None:
            self._lock.release()


def open_location(location: str, sync: bool = True) -> StateStore:
    """The state at a path or URL, which is made if it is not there."""
    return _open_remote(location) if is_url(location) else open_directory(local_path(location), sync)


def _open_remote(url: str) -> StateStore:
    from viewlet.runtime.durable.lease import Lease

    files = files_at(url)
    lock: Lease | None = None
    try:
        _check_ours(files)
        files.make_folder("")
        lock = Lease(files)
        return StateStore(files, lock)
    except BaseException as error:
        if lock is not None:
            lock.release()
        if isinstance(error, OSError):
            raise StateError(f"cannot open {url}: {error.strerror}") from error
        raise


def open_directory(path: Path, sync: bool = True) -> StateStore:
    """The state in a directory, which is made if it is not there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise StateError(f"{path} is a file; a database lives in a directory") from error
    except OSError as error:
        raise StateError(f"cannot make the directory {path}: {error.strerror}") from error
    try:
        _check_ours(LocalFiles(path))
    except OSError as error:
        raise StateError(f"cannot read the directory {path}: {error.strerror}") from error
    lock = DirectoryLock(path, notes=sync)
    try:
        return StateStore(LocalFiles(path, sync), lock)
    except OSError as error:
        lock.release()
        raise StateError(f"cannot open {path}: {error.strerror}") from error
    except BaseException:
        lock.release()
        raise


def _number(log: str) -> int:
    return int(log.removeprefix("log-")[:12])


def _check_ours(files: Files) -> None:
    """A directory without a manifest must be empty, but for what an interrupted beginning may have left."""
    names = files.list()
    strangers = [name for name in names if not _OURS.fullmatch(name)]
    if strangers and not any(NAME.fullmatch(name) for name in names):
        raise StateError(f"{files.path('')} holds other files, such as {strangers[0]}; choose an empty directory")
