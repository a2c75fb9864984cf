"""The changes of a view as files: one per epoch in the checkpoint directory, written before the epoch is committed.

    changes/revenue/columns.parquet              no rows: which columns there are
    changes/revenue/epoch-000000000007.parquet   changed rows with `_multiplicity` and `_epoch`

A file whose epoch is not committed does not count, and is removed before another batch takes that number.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from viewlet.changes import Changes, rows_to_arrow, sorted_rows
from viewlet.errors import StateError
from viewlet.runtime.durable.files import Files, LocalFiles, files_at
from viewlet.runtime.durable.manifest import numbers, read_manifest
from viewlet.types import Column

FEED = 103
"""The kind of a record that says from which epoch on the changes of a view are written."""
EPOCH = "_epoch"
FOLDER = "changes"
_COLUMNS = "columns.parquet"
_LONGEST_NAME = 200
"""Bytes; file systems take 255."""


@dataclass(slots=True)
class Feeds:
    """The views whose changes are written to the files of a directory, and the epoch after which that began."""

    files: Files
    since: dict[str, int] = field(default_factory=dict)
    _written: int = -1
    """The epoch of the last batch that wrote files."""

    def write(self, visible: Iterable[tuple[str, tuple[Column, ...], Changes]], epoch: int) -> None:
        """Writes what a batch does to views, before it is committed."""
        if self._written == epoch:  # the batch that had this number has failed
            self.remove_after(epoch - 1)
        self._written = epoch
        for name, columns, changes in visible:
            if changes and name in self.since:
                write_changes(self.files, name, columns, epoch, changes)

    def remove_after(self, epoch: int) -> None:
        """Removes files of batches that were not committed."""
        for name in self.since:
            remove_changes(self.files, name, since=epoch)

    def forget(self, name: str, with_files: bool) -> None:
        """A view is gone."""
        if self.since.pop(name, None) is not None and with_files:
            forget_changes(self.files, name)


def begin_changes(files: Files, view: str, columns: tuple[Column, ...]) -> None:
    """Notes what the changes of a view look like; files of an earlier view of its name are removed."""
    forget_changes(files, view)
    files.put(f"{_folder(view)}/{_COLUMNS}", _parquet(columns, {}, 0))


def write_changes(files: Files, view: str, columns: tuple[Column, ...], epoch: int, changes: Changes) -> None:
    files.put(f"{_folder(view)}/epoch-{epoch:012}.parquet", _parquet(columns, changes, epoch))


def change_files(files: Files, view: str, since: int, until: int | None = None) -> list[str]:
    """The files of the epochs after `since` up to `until`, in order."""
    found = [name for name in files.list(_folder(view)) if name.startswith("epoch-")]
    within = [name for name in found if since < _epoch(name) and (until is None or _epoch(name) <= until)]
    return [f"{_folder(view)}/{name}" for name in within]


def remove_changes(files: Files, view: str, since: int = -1, until: int | None = None) -> None:
    for name in change_files(files, view, since, until):
        files.remove(name)


def forget_changes(files: Files, view: str) -> None:
    """Removes all there is about the changes of a view."""
    for name in files.list(_folder(view)):
        files.remove(f"{_folder(view)}/{name}")


def read_changes(spark: Any, files: Files, view: str, since: int, until: int) -> Any:
    """Changed rows with their epoch and multiplicity: an Arrow table, or with a Spark session a data frame."""
    names = [f"{_folder(view)}/{_COLUMNS}", *change_files(files, view, since, until)]
    if spark is not None and isinstance(files, LocalFiles):
        return spark.read.parquet(*map(files.path, names))
    table = _read(files, names)
    return table if spark is None else spark.createDataFrame(table)


def changes_of(checkpoint: str | os.PathLike[str], view: str, since: int = -1, spark: Any = None) -> Any:
    """The committed changes of a view after an epoch, read by a process that has not opened the database.

    They are an Arrow table, or with a Spark session a data frame. The database keeps the changes of a view from the
    first time its `changes` are asked for.
    """
    files = files_at(os.fspath(checkpoint))
    try:
        found = numbers(files)
        if not found:
            raise StateError(f"{checkpoint} holds no database")
        until = read_manifest(files, found[-1]).epoch
        if _COLUMNS not in files.list(_folder(view)):
            raise StateError(f"{checkpoint} keeps no changes of {view!r}; calling changes({view!r}) there begins it")
        return read_changes(spark, files, view, since, until)
    except OSError as error:
        raise StateError(f"cannot read {checkpoint}: {error.strerror}") from error


def _folder(view: str) -> str:
    """A folder inside `changes`, whatever the view is called; a digest stands for a name that cannot be a folder's."""
    name = quote(view, safe="")
    if len(name) > _LONGEST_NAME or not name.strip("."):
        name = f"={hashlib.blake2b(view.encode(), digest_size=16).hexdigest()}"
    return f"{FOLDER}/{name}"


def _epoch(name: str) -> int:
    return int(name.removeprefix("epoch-").removesuffix(".parquet"))


def _parquet(columns: tuple[Column, ...], changes: Changes, epoch: int) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    table = rows_to_arrow(columns, sorted_rows(changes), with_multiplicity=True)
    table = table.append_column(EPOCH, pa.array([epoch] * table.num_rows, pa.int64()))
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()


def _read(files: Files, names: list[str]) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    return pa.concat_tables([parquet.read_table(io.BytesIO(files.read(name))) for name in names])
