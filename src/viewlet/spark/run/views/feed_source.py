"""The changes of a view that are kept as files, read by other jobs: those of some epochs, or all as they come.

The offset of a stream is the last epoch that it has read. Spark notes it with every batch, and an epoch's changes are
always the same, so that a query that is started again reads every change exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from viewlet.changes import MULTIPLICITY
from viewlet.errors import DataError, StateError
from viewlet.runtime.durable.files import Files, files_at
from viewlet.spark.run.exchange import change_files
from viewlet.spark.run.execution.selection import Selection, selection
from viewlet.spark.run.load.partition_frame import ROWS_AT_ONCE

FILES_PER_TASK = 32
"""Small files that one task reads: those of epochs with few changes."""
LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Feed:
    """The changes of a view in a checkpoint; `first` and `last` are what the user says of the epochs."""

    location: str
    view: str
    first: str | None
    last: str | None
    columns: tuple[str, ...] | None = None
    where: str | None = None

    @property
    def files(self) -> Files:
        return files_at(self.location)

    def newest(self) -> int:
        """The last epoch that is committed."""
        try:
            return change_files.committed_epoch(self.files, self.view)
        except OSError as error:
            raise StateError(f"cannot read {self.location}: {error.strerror or error}; check the path") from error

    @property
    def selection(self) -> Selection:
        """What is wanted of the files: columns of the view, and those that say what has become of the row."""
        return selection(self._kept_schema, self.columns, self.where)

    @property
    def _kept_schema(self) -> Any:
        self.newest()
        return pa.schema([*change_files.columns_of(self.files, self.view), *change_files.STAMPS])

    @property
    def arrow_schema(self) -> Any:
        known = self._kept_schema
        return pa.schema([known.field(place) for place in selection(known, self.columns).shown])

    @property
    def schema(self) -> Any:
        self.selection  # noqa: B018 - refuses a condition that is none
        return from_arrow_schema(self.arrow_schema, prefer_timestamp_ntz=True)

    def begin(self) -> int:
        """The epoch before the first one that is wanted."""
        if self.first == LATEST:
            return self.newest()
        kept = change_files.kept_since(self.files, self.view)
        if self.first is None:
            return -1 if kept is None else kept
        return _epoch("startingVersion", self.first) - 1

    def end(self) -> int:
        return self.newest() if self.last is None else min(self.newest(), _epoch("endingVersion", self.last))

    def tasks(self, since: int, until: int) -> list[InputPartition]:
        """The files of the epochs after `since` up to `until`: large parts one by one, small files together."""
        kept = change_files.kept_since(self.files, self.view)
        if kept is not None and since < kept and until > since:
            raise StateError(
                f"{self.location} has no changes of {self.view!r} before epoch {kept + 1}: they were not kept, or "
                f"forget_changes() has removed them; begin with .option('startingVersion', {kept + 1})"
            )
        found = change_files.listed(self.files, self.view, since, until)
        small = [file.name for file in found if not file.name.endswith(".json")]
        groups = [tuple(small[i : i + FILES_PER_TASK]) for i in range(0, len(small), FILES_PER_TASK)]
        groups += [(name,) for file in found if file.name.endswith(".json") for name in file.data(self.files)]
        return [InputPartition(names) for names in groups]

    def read(self, names: tuple[str, ...], schema: Any) -> Iterator[Any]:
        wanted = self.selection
        for name in names:
            found = change_files.read_columns(self.files, name, wanted.read)
            yield from in_batches(wanted.rows(_repeated(found)), schema)


def _epoch(option: str, value: str) -> int:
    if not value.isdigit():
        raise DataError(f"the option {option!r} is the number of an epoch, not {value!r}")
    return int(value)


def _repeated(table: Any) -> Any:
    """Every change as often as its multiplicity says, which is left out."""
    times = np.abs(table.column(MULTIPLICITY).to_numpy())
    rows = table.drop_columns([MULTIPLICITY])
    return rows if (times == 1).all() else rows.take(pa.array(np.repeat(np.arange(len(times)), times)))


def in_batches(table: Any, schema: Any) -> Iterator[Any]:
    """A table with the types of a schema, a few rows at a time."""
    arrays = [column.cast(field.type) for column, field in zip(table.columns, schema, strict=True)]
    yield from pa.Table.from_arrays(arrays, schema=schema).to_batches(ROWS_AT_ONCE)


class ChangesReader(DataSourceReader):
    """Reads the changes of some epochs."""

    def __init__(self, feed: Feed) -> None:
        self.feed, self.schema = feed, feed.arrow_schema

    def partitions(self) -> list[InputPartition]:
        return self.feed.tasks(self.feed.begin(), self.feed.end())

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.feed.read(partition.value or (), self.schema)


class ChangesStream(DataSourceStreamReader):
    """Reads changes as they come."""

    def __init__(self, feed: Feed) -> None:
        self.feed, self.schema = feed, feed.arrow_schema

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - the names are Spark's
        return {"version": self.feed.begin()}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802 - without limits, as of Spark 4.0
        return {"version": max(self.feed.begin(), self.feed.newest())}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return self.feed.tasks(start["version"], end["version"])

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.feed.read(partition.value or (), self.schema)
