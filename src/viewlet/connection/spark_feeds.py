"""The changes of a view as files: one per epoch in the checkpoint directory, written before the epoch is committed.

A file whose epoch is not committed does not count; when the batch is tried again, the file is written again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from viewlet.changes import Changes, rows_to_arrow
from viewlet.types import Column
from viewlet.view import sorted_rows

EPOCH = "_epoch"
FOLDER = "changes"


def write_changes(directory: str, view: str, columns: tuple[Column, ...], epoch: int, changes: Changes) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = rows_to_arrow(columns, sorted_rows(changes), with_multiplicity=True)
    table = table.append_column(EPOCH, pa.array([epoch] * table.num_rows, pa.int64()))
    folder = Path(directory) / FOLDER / view
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".epoch-{epoch:012}.draft"
    parquet.write_table(table, draft)
    os.replace(draft, folder / _name(epoch))


def change_files(directory: str | os.PathLike[str], view: str, since: int, until: int) -> list[str]:
    """The files of the epochs after `since` up to `until`, in order."""
    folder = Path(directory) / FOLDER / view
    found = sorted(folder.glob("epoch-*.parquet")) if folder.is_dir() else []
    return [str(path) for path in found if since < _epoch(path) <= until]


def remove_changes(directory: str, view: str, until: int) -> None:
    for name in change_files(directory, view, -1, until):
        os.unlink(name)


def read_changes(spark: Any, files: list[str], columns: tuple[Column, ...]) -> Any:
    """A data frame of the changed rows, with their epoch and multiplicity."""
    if files:
        return spark.read.parquet(*files)
    import pyarrow as pa

    empty = rows_to_arrow(columns, [], with_multiplicity=True)
    return spark.createDataFrame(empty.append_column(EPOCH, pa.array([], pa.int64())))


def _name(epoch: int) -> str:
    return f"epoch-{epoch:012}.parquet"


def _epoch(path: Path) -> int:
    return int(path.stem.removeprefix("epoch-"))
