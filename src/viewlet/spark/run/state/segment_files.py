"""Views that a load has written to the checkpoint directory: files of segments, and where each segment is.

A task writes one file. Whenever it has collected enough rows it appends a segment per partition, each an Arrow stream
in the format of `wire`, and reports its position to the driver. The contents of a view in a partition are the
concatenation of its segments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.runtime.durable.files import files_at
from viewlet.runtime.durable.rows import as_text, is_text, values_of
from viewlet.spark.run.exchange.file_range import FileRange, RangeWriter
from viewlet.spark.run.exchange.placement import decimal_words
from viewlet.spark.run.exchange.wire import PARTS, bytes_table, table_bytes

WHOLE = 0
"""The only part of a view that is not partitioned."""


@dataclass(frozen=True, slots=True)
class Segment(FileRange):
    """Rows of one partition of a view: a range of bytes in a file of the checkpoint directory."""

    rows: int


@dataclass(frozen=True, slots=True)
class LoadedView:
    """A loaded view; `parts` has the segments of every partition, or those of a replicated view."""

    is_partitioned: bool
    parts: Mapping[int, tuple[Segment, ...]]

    def segments(self, partition: int) -> tuple[Segment, ...]:
        return self.parts.get(partition if self.is_partitioned else WHOLE, ())

    def whole(self) -> LoadedView:
        """The same rows in one part."""
        return LoadedView(False, {WHOLE: tuple(segment for segments in self.parts.values() for segment in segments)})

    @property
    def rows(self) -> int:
        return sum(segment.rows for segments in self.parts.values() for segment in segments)

    @property
    def bytes(self) -> int:
        return sum(segment.size for segments in self.parts.values() for segment in segments)


@dataclass(frozen=True, slots=True)
class LoadedViews:
    """The result of a load; it can be sent to tasks, and stored as JSON (`to_json`, `of_json`)."""

    checkpoint: str
    folder: str
    views: Mapping[str, LoadedView]
    moved: Mapping[str, Any] | None = None
    """Where the views are from now on, and the sizes that say so, if the load has found better places for them."""

    def read(self, view: str, partition: int = WHOLE) -> bytes | memoryview:
        """The contents of a view in a partition, in the format of `wire`; nothing for no rows."""
        files = files_at(self.checkpoint)
        return joined([segment.read(files) for segment in self.views[view].segments(partition)])

    @property
    def rows(self) -> int:
        return sum(view.rows for view in self.views.values())

    @property
    def bytes(self) -> int:
        return sum(view.bytes for view in self.views.values())

    @property
    def files(self) -> frozenset[str]:
        """The files that are needed, by their names in the checkpoint directory."""
        parts = (segments for view in self.views.values() for segments in view.parts.values())
        return frozenset(segment.file for segments in parts for segment in segments)

    def to_json(self) -> dict[str, Any]:
        views = {
            name: {"partitioned": view.is_partitioned, "parts": [[i, *map(_fields, s)] for i, s in view.parts.items()]}
            for name, view in self.views.items()
        }
        return {"folder": self.folder, "views": views, **({} if self.moved is None else {"moved": self.moved})}

    @staticmethod
    def of_json(checkpoint: str, facts: Mapping[str, Any]) -> LoadedViews:
        views = {
            name: LoadedView(view["partitioned"], {i: tuple(map(_segment, s)) for i, *s in view["parts"]})
            for name, view in facts["views"].items()
        }
        return LoadedViews(checkpoint, facts["folder"], views, facts.get("moved"))


def _fields(segment: Segment) -> list[str | int]:
    return [segment.file, segment.at, segment.size, segment.rows, segment.checksum]


def _segment(fields: Sequence[Any]) -> Segment:
    file, at, size, rows, checksum = fields
    return Segment(file, at, size, checksum, rows)


def write_segment(writer: RangeWriter, table: Any) -> Segment:
    """Appends rows to the file of a task."""
    written = writer.append(table_bytes(table))
    return Segment(written.file, written.at, written.size, written.checksum, table.num_rows)


def wire_table(columns: Sequence[Any], arity: int, has_parts: bool = False) -> Any:
    """Columns as Spark SQL gives them as the table that `wire` would write for their rows; keys come first.

    If it `has_parts`, a key may come several times, and the numbers are to be added up.
    """
    names = [f"key{i}" if i < arity else f"value{i - arity}" for i in range(len(columns))]
    held = [_held(name, column) for name, column in zip(names, columns, strict=True)]
    rows = len(columns[0])
    schema = pa.schema([field for field, _ in held], _facts(rows, has_parts))
    return pa.Table.from_arrays([array for _, array in held], schema=schema)


def _facts(rows: int, has_parts: bool) -> dict[bytes, bytes]:
    return {b"rows": str(rows).encode(), **({PARTS: b"yes"} if has_parts else {})}


def _held(name: str, column: Any) -> tuple[Any, Any]:
    if pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    if not pa.types.is_decimal(column.type):
        return pa.field(name, column.type), column
    high, low = decimal_words(column)
    missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    fits = high == low >> 63
    if bool((fits if missing is None else fits | missing).all()):
        return pa.field(name, pa.int64()), pa.array(np.ascontiguousarray(low), mask=missing)
    return as_text(name, [None if value is None else int(value) for value in column.to_pylist()])


def joined(blobs: Sequence[bytes | memoryview]) -> bytes | memoryview:
    """Segments as one; what one of them holds as text is text in all."""
    if len(blobs) <= 1:
        return blobs[0] if blobs else b""
    tables = [bytes_table(blob) for blob in blobs]
    columns = [_joined_column(tables, i) for i in range(tables[0].num_columns)]
    rows = sum(table.num_rows for table in tables)
    has_parts = any(PARTS in (table.schema.metadata or {}) for table in tables)
    schema = pa.schema([field for field, _ in columns], _facts(rows, has_parts))
    return table_bytes(pa.Table.from_arrays([column for _, column in columns], schema=schema))


def _joined_column(tables: Sequence[Any], position: int) -> tuple[Any, Any]:
    fields = [table.schema.field(position) for table in tables]
    if any(map(is_text, fields)) and not all(map(is_text, fields)):
        pairs = zip(fields, tables, strict=True)
        values = [value for field, table in pairs for value in values_of(field, table.column(position))]
        return as_text(fields[0].name, values)
    chunks = [chunk for table in tables for chunk in table.column(position).chunks]
    return fields[0], pa.chunked_array(chunks, fields[0].type).combine_chunks()
