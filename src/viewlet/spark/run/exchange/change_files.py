"""The changes of a view as Parquet files of the checkpoint directory, with the columns of Delta's change data feed.

    changes/revenue/columns.parquet                no rows: which columns there are
    changes/revenue/kept.json                      the epoch after which changes are kept
    changes/revenue/commit-000000000007.parquet    what epoch 7 changed, if that was little: the driver has written it
    changes/revenue/commit-000000000007.json       otherwise the names of the parts that tasks have written
    changes/revenue/parts-4f1c/0003-9a.parquet     such a part

After the columns of the view, files have `_multiplicity` (how often the row is there more), `_change_type` (`insert` or
`delete`), `_commit_version` (the epoch) and `_commit_timestamp`. Files `epoch-*.parquet` of earlier versions of Viewlet
have `_multiplicity` and `_epoch`. A file whose epoch is not committed does not count, and is removed before another
batch takes that number.
"""

from __future__ import annotations

import hashlib
import io
import json
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from viewlet.changes import CHANGE_TYPE, MULTIPLICITY, arrow_type
from viewlet.errors import StateError
from viewlet.runtime.durable.files import Files
from viewlet.runtime.durable.manifest import numbers, read_manifest
from viewlet.types import Column

FOLDER = "changes"
EPOCH = "_epoch"
VERSION, TIMESTAMP = "_commit_version", "_commit_timestamp"
COLUMNS = "columns.parquet"
_KEPT = "kept.json"
_COMMIT, _EARLIER, _PARTS = "commit-", "epoch-", "parts-"
_LONGEST_NAME = 200
"""Bytes; file systems take 255."""
STAMPS = pa.schema([(CHANGE_TYPE, pa.string()), (VERSION, pa.int64()), (TIMESTAMP, pa.timestamp("us", "UTC"))])


@dataclass(frozen=True, slots=True)
class Commit:
    """The batch that changes belong to: its epoch, when it was begun (in microseconds), and its token."""

    epoch: int
    time: int
    token: str


@dataclass(frozen=True, slots=True)
class Part:
    """A file of changes that a task has written."""

    file: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class KeptChanges:
    """A view whose changes tasks write: its columns, and where they are among the variables of a stored row."""

    view: str
    columns: tuple[Column, ...]
    positions: tuple[int, ...]
    is_told: bool = False
    """The driver wants to know the changes too."""

    def shown(self, table: Any) -> Any:
        """Stored rows with their multiplicities in the last column, as rows of the view."""
        fields = [pa.field(column.name, arrow_type(column.type)) for column in self.columns]
        schema = pa.schema([*fields, pa.field(MULTIPLICITY, pa.int64(), nullable=False)])
        arrays = [table.column(i) for i in self.positions]
        return pa.Table.from_arrays([*arrays, table.column(table.num_columns - 1)], schema=schema)


Share = Part | bytes
"""What a task tells of changes: where they are or, if they are few, the Arrow table itself."""


def folder_of_view(view: str) -> str:
    """A folder inside `changes`, whatever the view is called; a digest stands for a name that cannot be a folder's."""
    name = quote(view, safe="")
    if len(name) > _LONGEST_NAME or not name.strip("."):
        name = f"={hashlib.blake2b(view.encode(), digest_size=16).hexdigest()}"
    return f"{FOLDER}/{name}"


# -- writing ----------------------------------------------------------------------------------------------------------


def begin(files: Files, view: str, columns: Sequence[Column], since: int) -> None:
    """Notes what the changes of a view look like; files of an earlier view of its name are removed."""
    forget(files, view)
    fields = [pa.field(column.name, arrow_type(column.type)) for column in columns]
    schema = pa.schema([*fields, pa.field(MULTIPLICITY, pa.int64(), nullable=False)])
    files.put(f"{folder_of_view(view)}/{COLUMNS}", _parquet(schema.empty_table(), Commit(0, 0, "")))
    _note_kept(files, view, since)


def write(files: Files, view: str, commit: Commit, table: Any) -> None:
    """Writes what a batch has changed, which is at the driver: rows with `_multiplicity` in the last column."""
    files.put(f"{_name(view, commit.epoch)}.parquet", _parquet(table, commit))


def write_part(files: Files, view: str, commit: Commit, partition: int, table: Any) -> Part:
    """Writes what a batch has changed in a partition; another attempt of the task writes another file."""
    data = _parquet(table, commit)
    folder = f"{folder_of_view(view)}/{_PARTS}{commit.token}"
    name = f"{folder}/{partition:05}-{uuid.uuid4().hex[:8]}.parquet"
    try:
        files.make_folder(folder)
        output = files.create(name)
        try:
            output.write(data)
            output.sync()
        finally:
            output.close()
        files.sync_folder(folder)
    except OSError as error:
        raise StateError(f"cannot write to {files.path(folder)}: {error.strerror or error}") from error
    return Part(name, table.num_rows, len(data))


def write_index(files: Files, view: str, commit: Commit, parts: Iterable[Part]) -> None:
    """Says which parts are what an epoch has changed."""
    files.put(f"{_name(view, commit.epoch)}.json", json.dumps([asdict(part) for part in parts]).encode())


def _name(view: str, epoch: int) -> str:
    return f"{folder_of_view(view)}/{_COMMIT}{epoch:012}"


def _parquet(table: Any, commit: Commit) -> bytes:
    sign = pc.greater(table.column(MULTIPLICITY), 0)
    count = table.num_rows
    stamps = [
        pc.if_else(sign, "insert", "delete").cast(pa.string()),
        pa.repeat(pa.scalar(commit.epoch, pa.int64()), count),
        pa.repeat(pa.scalar(commit.time, pa.timestamp("us", "UTC")), count),
    ]
    for field, values in zip(STAMPS, stamps, strict=True):
        table = table.append_column(field, values)
    buffer = io.BytesIO()
    # Numbers are mostly different ones: looking for those that are not takes longer than all the rest.
    repeated = [field.name for field in table.schema if field.name in STAMPS.names or not _is_number(field.type)]
    parquet.write_table(table, buffer, write_statistics=[VERSION], use_dictionary=repeated)
    return buffer.getvalue()


def _is_number(type: Any) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))


def _note_kept(files: Files, view: str, since: int) -> None:
    files.put(f"{folder_of_view(view)}/{_KEPT}", json.dumps({"since": since}).encode())


# -- removing ---------------------------------------------------------------------------------------------------------


def remove_after(files: Files, view: str, epoch: int) -> None:
    """Removes what batches have written that were not committed."""
    for file in listed(files, view, epoch):
        file.remove(files)
    used = {part.file.split("/")[-2] for file in listed(files, view, -1) for part in file.parts(files)}
    for name in files.list(folder_of_view(view)):
        if name.startswith(_PARTS) and name not in used:
            files.remove(f"{folder_of_view(view)}/{name}")


def remove_until(files: Files, view: str, epoch: int) -> None:
    """Removes changes up to an epoch; readers that need them are told so."""
    known = kept_since(files, view)
    if known is not None and known < epoch:
        _note_kept(files, view, epoch)
    for file in listed(files, view, -1, epoch):
        file.remove(files)


def forget(files: Files, view: str) -> None:
    """Removes all there is about the changes of a view."""
    for name in files.list(folder_of_view(view)):
        files.remove(f"{folder_of_view(view)}/{name}")


# -- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """What is listed of one epoch."""

    name: str

    @property
    def epoch(self) -> int:
        return int(self.name.rsplit("/", 1)[-1].partition(".")[0].partition("-")[2])

    @property
    def is_earlier(self) -> bool:
        """It was written by an earlier version of Viewlet."""
        return self.name.rsplit("/", 1)[-1].startswith(_EARLIER)

    def parts(self, files: Files) -> list[Part]:
        """The parts that it names; none if it holds the changes itself."""
        if not self.name.endswith(".json"):
            return []
        return [Part(**known) for known in json.loads(files.read(self.name))]

    def data(self, files: Files) -> list[str]:
        """The names of the Parquet files."""
        return [part.file for part in self.parts(files)] if self.name.endswith(".json") else [self.name]

    def remove(self, files: Files) -> None:
        """The parts first, so that what an interrupt leaves is found again."""
        for folder in {part.file.rpartition("/")[0] for part in self.parts(files)}:
            with suppress(FileNotFoundError):
                files.remove(folder)
        files.remove(self.name)


def listed(files: Files, view: str, since: int, until: int | None = None) -> list[ChangeFile]:
    """The files of the epochs after `since` up to `until`, in order."""
    folder = folder_of_view(view)
    names = [name for name in files.list(folder) if name.startswith((_COMMIT, _EARLIER))]
    found = [ChangeFile(f"{folder}/{name}") for name in names]
    within = [file for file in found if since < file.epoch and (until is None or file.epoch <= until)]
    return sorted(within, key=lambda file: file.epoch)


def committed_epoch(files: Files, view: str) -> int:
    """The last epoch of a directory that keeps the changes of a view."""
    found = numbers(files)
    if not found:
        raise StateError(f"{files.path('').rstrip('/')} holds no database")
    if COLUMNS not in files.list(folder_of_view(view)):
        raise StateError(
            f"{files.path('').rstrip('/')} keeps no changes of {view!r}; calling changes({view!r}) there begins it"
        )
    return read_manifest(files, found[-1]).epoch


def kept_since(files: Files, view: str) -> int | None:
    """The epoch after which changes are kept, if that is known: earlier versions of Viewlet did not note it."""
    with suppress(FileNotFoundError):
        return int(json.loads(files.read(f"{folder_of_view(view)}/{_KEPT}"))["since"])
    return None


def columns_of(files: Files, view: str) -> Any:
    """The columns of a view whose changes are kept, as an Arrow schema."""
    schema = parquet.read_schema(io.BytesIO(files.read(f"{folder_of_view(view)}/{COLUMNS}")))
    fields = list(schema)[: schema.names.index(MULTIPLICITY)]
    return pa.schema([pa.field(field.name, field.type) for field in fields])


def read_data(files: Files, name: str) -> Any:
    """A Parquet file of changes; those of an earlier version in the form of this one, without a time."""
    table = _opened(files, name).read()
    return table if table.column_names[-1] != EPOCH else _in_this_form(table)


def read_columns(files: Files, name: str, places: Sequence[int]) -> Any:
    """Some columns of such a file, counted without that of the multiplicity, which comes last."""
    file = _opened(files, name)
    names = file.schema_arrow.names
    at = names.index(MULTIPLICITY)
    wanted = [*(place if place < at else place + 1 for place in places), at]
    if names[-1] == EPOCH or len(set(names)) < len(names):
        return read_data(files, name).select(wanted)
    return file.read(columns=[names[place] for place in sorted(wanted)]).select([names[place] for place in wanted])


def _opened(files: Files, name: str) -> Any:
    try:
        return parquet.ParquetFile(io.BytesIO(files.read(name)))
    except FileNotFoundError as error:
        raise StateError(f"{files.path(name)} is missing: forget_changes() has removed it") from error


def _in_this_form(table: Any) -> Any:
    sign = pc.greater(table.column(MULTIPLICITY), 0)
    found = table.drop_columns([EPOCH]).append_column(STAMPS[0], pc.if_else(sign, "insert", "delete").cast(pa.string()))
    found = found.append_column(STAMPS[1], table.column(EPOCH))
    return found.append_column(STAMPS[2], pa.nulls(table.num_rows, STAMPS[2].type))


def read(files: Files, view: str, since: int, until: int) -> Any:
    """Changed rows with their multiplicity and epoch, as an Arrow table."""
    fields = [*columns_of(files, view), pa.field(MULTIPLICITY, pa.int64(), nullable=False), pa.field(EPOCH, pa.int64())]
    schema = pa.schema(fields)
    names = [name for file in listed(files, view, since, until) for name in file.data(files)]
    tables = [_with_epoch(read_data(files, name), schema) for name in names]
    return pa.concat_tables([schema.empty_table(), *tables])


def _with_epoch(table: Any, schema: Any) -> Any:
    at = len(schema) - 1
    arrays = [*table.columns[:at], table.column(VERSION)]
    return pa.Table.from_arrays(arrays, schema=schema)


def read_frame(spark: Any, files: Files, view: str, since: int, until: int) -> Any:
    """Like `read`, as a data frame; Spark reads the files, which are local."""
    found = listed(files, view, since, until)
    empty = f"{folder_of_view(view)}/{COLUMNS}"
    is_earlier = VERSION not in parquet.read_schema(files.path(empty)).names
    names = [name for file in found if not file.is_earlier for name in file.data(files)]
    earlier = [file.name for file in found if file.is_earlier]
    (earlier if is_earlier else names).append(empty)
    frames = []
    if earlier:
        frames.append(spark.read.parquet(*map(files.path, earlier)))
    if names:
        frame = spark.read.parquet(*map(files.path, names)).drop(CHANGE_TYPE, TIMESTAMP)
        frames.append(frame.withColumnRenamed(VERSION, EPOCH))
    return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])
