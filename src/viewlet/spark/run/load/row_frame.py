"""The rows of a kept table as a data frame; nothing is read before Spark asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.changes import MULTIPLICITY, arrow_type, rows_to_arrow
from viewlet.runtime.durable.rows import from_arrow, is_text
from viewlet.spark.run.exchange.wire import bytes_table
from viewlet.spark.run.load.partition_frame import partition_frame
from viewlet.types import COUNT, Column, Kind, SqlType, Table


def rows_frame(spark: Any, table: Table, partitions: int, read: Callable[[int], bytes]) -> Any:
    """A frame of the rows of a table, each once, with its number in `_multiplicity`: a new view is filled from it.

    `read` gives the rows of a partition (keys are the columns, the value a count). It is called in tasks, one per
    partition, and again whenever the frame is read again.
    """
    counted = Column(MULTIPLICITY, COUNT)
    return partition_frame(spark, partitions, ReadTable(table, read), [*table.columns, counted])


@dataclass(frozen=True, slots=True)
class ReadTable:
    """Reads the rows of a partition, with their multiplicities in the last column."""

    table: Table
    read: Callable[[int], bytes]

    def __call__(self, partition: int) -> Any:
        blob = self.read(partition)
        return table_rows(self.table, bytes_table(blob)) if blob else None


def table_rows(table: Table, held: Any) -> Any:
    """The rows of a view that keeps a table, in the table's types."""
    fields = [pa.field(column.name, exact_type(column.type)) for column in table.columns]
    schema = pa.schema([*fields, pa.field(MULTIPLICITY, pa.int64())])
    if any(map(is_text, held.schema)):
        rows = [(key, count) for key, (count,) in from_arrow(held, len(table.columns))]
        return rows_to_arrow(table.columns, rows, with_multiplicity=True).cast(schema)
    columns = [_typed(held.column(i).combine_chunks(), column) for i, column in enumerate(table.columns)]
    return pa.Table.from_arrays([*columns, held.column(len(columns)).cast(pa.int64())], schema=schema)


def exact_type(type: SqlType) -> Any:
    return pa.decimal128(type.precision, type.scale) if type.kind is Kind.DECIMAL else arrow_type(type)


def _typed(held: Any, column: Column) -> Any:
    target = exact_type(column.type)
    match column.type.kind:
        case Kind.DECIMAL:
            return _decimals(held, target)
        case Kind.DATE:
            return held.cast(pa.int32()).cast(target)
        case _:
            return held.cast(target)


def _decimals(units: Any, target: Any) -> Any:
    """Integers of 64 bits as decimals of that many units."""
    words = np.empty((len(units), 2), np.int64)
    words[:, 0] = units.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    words[:, 1] = words[:, 0] >> 63
    valid = units.is_valid().buffers()[1] if units.null_count else None
    return pa.Array.from_buffers(target, len(units), [valid, pa.py_buffer(words)])
