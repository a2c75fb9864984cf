"""A data frame of the rows that partitions of the state hold, read by tasks whenever Spark evaluates the frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from viewlet.spark.run.load.sources import spark_type
from viewlet.sqlgen.dialects import DIALECTS
from viewlet.types import Column

ROWS_AT_ONCE = 1 << 16


def partition_frame(spark: Any, partitions: int, read: Callable[[int], Any], columns: Sequence[Column]) -> Any:
    """A frame with a partition per partition; `read` gives the rows of one.

    They are an Arrow table, or several one after the other, or None if it has none.

    The types of `read` are those of `columns`, which Spark believes without looking.
    """
    return spark.range(0, partitions, 1, partitions).mapInArrow(_Scan(read), schema_of(columns))


def schema_of(columns: Sequence[Column]) -> str:
    """
    >>> from viewlet.types import BIGINT
    >>> schema_of([Column("a b", BIGINT)])
    '`a b` bigint'
    """
    quoted = DIALECTS["spark"].quoted
    return ", ".join(
        f"{quoted(column.name)} {spark_type(column.type)}{'' if column.type.nullable else ' NOT NULL'}"
        for column in columns
    )


@dataclass(frozen=True, slots=True)
class _Scan:
    read: Callable[[int], Any]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for partition in batch.column(0).to_pylist():
                rows = self.read(partition)
                for table in [rows] if hasattr(rows, "to_batches") else rows or ():
                    yield from table.to_batches(ROWS_AT_ONCE)
