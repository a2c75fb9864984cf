"""The rows of a kept table as a data frame, from which a new view can be filled.

Each row comes once, with its number in `_multiplicity`; nothing is read before Spark asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.changes import MULTIPLICITY, arrow_type, rows_to_arrow
from viewlet.runtime.durable.rows import from_arrow, is_text
from viewlet.spark.run.exchange.wire import bytes_table
from viewlet.spark.run.load.sources import spark_type
from viewlet.sqlgen.dialects import DIALECTS
from viewlet.types import Column, Kind, SqlType, Table

ROWS_AT_ONCE = 1 << 16


def rows_frame(spark: Any, table: Table, partitions: int, read: Callable[[int], bytes]) -> Any:
    """A frame of the rows of a table; `read` gives those of a partition (keys are the columns, the value a count).

    `read` is called in tasks, one per partition, and again whenever the frame is read again.
    """
    quoted = DIALECTS["spark"].quoted
    columns = [f"{quoted(column.name)} {spark_type(column.type)}" for column in table.columns]
    schema = ", ".join([*columns, f"{quoted(MULTIPLICITY)} bigint"])
    return spark.range(0, partitions, 1, partitions).mapInArrow(_ReadRows(table, read), schema)


@dataclass(frozen=True, slots=True)
class _ReadRows:
    table: Table
    read: Callable[[int], bytes]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for partition in batch.column(0).to_pylist():
                blob = self.read(partition)
                if blob:
                    yield from table_rows(self.table, bytes_table(blob)).to_batches(ROWS_AT_ONCE)


def table_rows(table: Table, held: Any) -> Any:
    """The rows of a view that keeps a table, in the table's types."""
    fields = [pa.field(column.name, _exact_type(column.type)) for column in table.columns]
    schema = pa.schema([*fields, pa.field(MULTIPLICITY, pa.int64())])
    if any(map(is_text, held.schema)):
        rows = [(key, count) for key, (count,) in from_arrow(held, len(table.columns))]
        return rows_to_arrow(table.columns, rows, with_multiplicity=True).cast(schema)
    columns = [_typed(held.column(i).combine_chunks(), column) for i, column in enumerate(table.columns)]
    return pa.Table.from_arrays([*columns, held.column(len(columns)).cast(pa.int64())], schema=schema)


def _exact_type(type: SqlType) -> Any:
    return pa.decimal128(type.precision, type.scale) if type.kind is Kind.DECIMAL else arrow_type(type)


def _typed(held: Any, column: Column) -> Any:
    target = _exact_type(column.type)
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
