"""What a task of a load does: sorts rows by partition and appends them to a file, a segment per view and partition."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewlet.errors import StateError, ViewletError
from viewlet.runtime.durable.files import files_at
from viewlet.spark.run.exchange import task_errors
from viewlet.spark.run.exchange.file_range import RangeWriter
from viewlet.spark.run.exchange.placement import partitions_of_arrow
from viewlet.spark.run.state.segment_files import WHOLE, Segment, wire_table, write_segment
from viewlet.spark.run.units.table_unit import Check

SEGMENTS = "view int, part int, file string, at bigint, size bigint, rows bigint, checksum bigint, error binary"
"""What a task tells of each segment, or the one error there was."""
_SCHEMA = pa.schema(
    [
        ("view", pa.int32()),
        ("part", pa.int32()),
        ("file", pa.string()),
        ("at", pa.int64()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("checksum", pa.int64()),
        ("error", pa.binary()),
    ]
)
ENOUGH = 128 << 20
"""Bytes of rows after which a task writes segments."""


@dataclass(frozen=True, slots=True)
class SegmentTarget:
    """A view that a task writes rows of."""

    view: int
    """What the task calls it."""
    arity: int
    """The number of its keys, which are its first columns."""
    by: tuple[int, ...] | None
    """The positions of the keys that name the partition; None if the view is in one place."""
    counted: int | None = None
    """The position of the number that `checks` are about."""
    checks: tuple[Check, ...] = ()
    has_parts: bool = False
    """A key may come several times, and its numbers are added up where the state is made of them."""
    columns: tuple[int, ...] | None = None
    """Where its columns are among those of the rows, if these are not all."""
    present: int | None = None
    """The column that is true where a row is one of the view, if there are others."""

    def rows(self, columns: list[Any]) -> list[Any]:
        """Its columns, for its rows."""
        found = columns if self.columns is None else [columns[i] for i in self.columns]
        return found if self.present is None else [column.filter(columns[self.present]) for column in found]

    def check(self, columns: list[Any]) -> None:
        for check in self.checks:
            numbers = columns[self.arity + (self.counted or 0)]
            wrong = pc.less(numbers, 0)
            if check.at_most is not None:
                wrong = pc.or_(wrong, pc.greater(numbers, check.at_most))
            if pc.any(wrong).as_py():
                place = pc.index(wrong, True).as_py()
                raise refusal(
                    check, [column[place].as_py() for column in columns[: self.arity]], numbers[place].as_py()
                )


def refusal(check: Check, key: Iterable[Any], count: int) -> ViewletError:
    """What a check says of a key, in the form that Spark gives it."""
    return check.refusal(tuple(map(_datum, key)), int(count))


@dataclass(frozen=True, slots=True)
class WriteSegments:
    """For `mapInArrow`: writes rows of some views."""

    checkpoint: str
    folder: str
    partitions: int
    targets: tuple[SegmentTarget, ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        try:
            told: list[tuple[Any, ...]] = [
                (view, part, s.file, s.at, s.size, s.rows, s.checksum, None) for view, part, s in self._written(batches)
            ]
        except ViewletError as error:
            told = [(*(None for _ in _SCHEMA.names[1:]), task_errors.to_bytes(error))]
        columns = [list(column) for column in zip(*told, strict=True)] or [[] for _ in _SCHEMA]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)

    def _written(self, batches: Iterable[Any]) -> list[tuple[int, int, Segment]]:
        writer: RangeWriter | None = None
        found: list[tuple[int, int, Segment]] = []
        kept = False
        try:
            for gathered in _gathered(batches):
                if writer is None:
                    file = f"{self.folder}/{uuid.uuid4().hex}.rows"
                    writer = RangeWriter(files_at(self.checkpoint), file)
                for target in self.targets:
                    columns = target.rows(gathered)
                    target.check(columns)
                    for part, rows in self._split(target, columns):
                        table = wire_table(rows, target.arity, target.has_parts)
                        found.append((target.view, part, write_segment(writer, table)))
            kept = True
        except OSError as error:
            raise StateError(f"cannot write to {self.checkpoint}/{self.folder}: {error.strerror}") from error
        finally:
            if writer is not None:
                writer.close(keep=kept)
        return found

    def _split(self, target: SegmentTarget, columns: list[Any]) -> Iterator[tuple[int, list[Any]]]:
        rows = len(columns[0])
        if target.by is None or self.partitions == 1:
            if rows:
                yield WHOLE, columns
            return
        parts = partitions_of_arrow((columns[i] for i in target.by), rows, self.partitions)
        order = np.argsort(parts, kind="stable")
        bounds = np.searchsorted(parts[order], np.arange(self.partitions + 1))
        for part in range(self.partitions):
            if bounds[part] < bounds[part + 1]:
                chosen = pa.array(order[bounds[part] : bounds[part + 1]])
                yield part, [column.take(chosen) for column in columns]


def _datum(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | float | str) else int(value)


def _gathered(batches: Iterable[Any]) -> Iterator[list[Any]]:
    """Batches put together until there is enough, as columns; none without rows."""
    held: list[Any] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size >= ENOUGH:
            yield _columns(held)
            held, size = [], 0
    if held:
        yield _columns(held)


def _columns(batches: list[Any]) -> list[Any]:
    table = pa.Table.from_batches(batches)
    return [_one_array(column) for column in table.columns]


def _one_array(column: Any) -> Any:
    if pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
