"""The views whose changes are kept as files in the checkpoint directory (`spark/run/exchange/change_files.py`).

Files are written before their epoch is committed: by tasks, if they know the change of their share of the rows, and
otherwise by the driver.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewlet.changes import Changes, rows_to_arrow, sorted_rows
from viewlet.errors import StateError
from viewlet.runtime.durable.files import Files, LocalFiles, files_at
from viewlet.spark.run.exchange import change_files
from viewlet.spark.run.exchange.change_files import Commit, Part, Share, committed_epoch
from viewlet.spark.run.exchange.wire import bytes_table
from viewlet.types import Column
from viewlet.visible import described

FEED = 103
"""The kind of a record that says from which epoch on the changes of a view are written."""


@dataclass(slots=True)
class Feeds:
    """The views whose changes are written to the files of a directory, and the epoch after which that began."""

    files: Files
    since: dict[str, int] = field(default_factory=dict)
    _begun: int = -1
    """The epoch of the last batch."""

    def begin(self, epoch: int) -> None:
        """Before a batch: removes what a batch has written that had this number and failed."""
        if self._begun == epoch:
            self.remove_after(epoch - 1)
        self._begun = epoch

    def write(self, commit: Commit, name: str, columns: tuple[Column, ...], changes: Changes) -> None:
        """Writes what a batch does to a view, before it is committed."""
        if changes and name in self.since:
            table = rows_to_arrow(columns, sorted_rows(changes), with_multiplicity=True)
            change_files.write(self.files, name, commit, table)

    def write_shares(self, commit: Commit, name: str, shares: Sequence[Share]) -> None:
        """Like `write`, for changes that tasks have written, or have sent because they are few."""
        sent = [bytes_table(share) for share in shares if not isinstance(share, Part)]
        parts = [share for share in shares if isinstance(share, Part)]
        few = _together(sent) if sent else None
        if not parts:
            if few is not None:
                change_files.write(self.files, name, commit, few)
            return
        if few is not None:
            parts.append(change_files.write_part(self.files, name, commit, len(parts), few))
        change_files.write_index(self.files, name, commit, parts)

    def remove_after(self, epoch: int) -> None:
        """Removes files of batches that were not committed."""
        for name in self.since:
            change_files.remove_after(self.files, name, epoch)

    def forget(self, name: str, with_files: bool) -> None:
        """A view is gone."""
        if self.since.pop(name, None) is not None and with_files:
            change_files.forget(self.files, name)


def _together(tables: Iterable[Any]) -> Any:
    """Changes of several partitions as one table, sorted by all columns, NULLs last."""
    import pyarrow as pa

    whole = pa.concat_tables(tables)
    numbered = whole.rename_columns([str(i) for i in range(whole.num_columns)])
    order = [(name, "ascending") for name in numbered.column_names[:-1]]
    return numbered.sort_by(order).rename_columns(whole.column_names)


def read_changes(spark: Any, files: Files, view: str, since: int, until: int) -> Any:
    """Changed rows with their epoch and multiplicity: an Arrow table, or with a Spark session a data frame."""
    if spark is not None and isinstance(files, LocalFiles):
        return change_files.read_frame(spark, files, view, since, until)
    table = change_files.read(files, view, since, until)
    return table if spark is None else spark.createDataFrame(table)


def changes_of(checkpoint: str | os.PathLike[str], view: str, since: int = -1, spark: Any = None) -> Any:
    """The committed changes of a view after an epoch, read by a process that has not opened the database.

    They are an Arrow table, or with a Spark session a data frame. The database keeps the changes of a view from the
    first time its `changes` are asked for.
    """
    if not isinstance(checkpoint, str | os.PathLike):
        raise StateError(f"changes_of() takes the path of a directory, not {described(checkpoint)}")
    files = files_at(os.fspath(checkpoint))
    try:
        return read_changes(spark, files, view, since, committed_epoch(files, view))
    except OSError as error:
        raise StateError(f"cannot read {checkpoint}: {error.strerror}") from error
