"""The format `viewlet` of Spark: a view of a checkpoint as a data frame, in the epoch in which `load` found it.

Spark calls these classes in Python processes of its own: `schema` where a frame is made, `reader` and `partitions`
where a query over it is planned, `read` in tasks. The frame and all its evaluations are of one epoch, because what
`schema` has found travels with the source.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from viewlet.errors import DataError
from viewlet.runtime.durable.files import is_url
from viewlet.spark.run.load.partition_frame import ROWS_AT_ONCE, schema_of
from viewlet.spark.run.views.stored_rows import StoredRows, arrow_schema

FORMAT = "viewlet"

Opener = Callable[[str, str], StoredRows]
"""Finds the rows of a view in the checkpoint at a path or URL."""


class ViewletSource(DataSource):
    """A view of a checkpoint. `open` finds its rows, and `base` is the folder that a relative path begins in."""

    open: ClassVar[Opener]
    base: ClassVar[str]

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._location = location_of(options, self.base)
        self._view = view_of(options)
        self._found: StoredRows | None = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return schema_of(self._rows().columns)

    def reader(self, schema: Any) -> ViewReader:
        rows = self._rows()
        expected = arrow_schema(rows.columns)
        if schema.fieldNames() != expected.names:
            raise DataError(f"the columns of {self._view!r} are {', '.join(expected.names)}; leave schema(...) out")
        return ViewReader(rows)

    def _rows(self) -> StoredRows:
        if self._found is None:
            self._found = type(self).open(self._location, self._view)
        return self._found


def location_of(options: Mapping[str, str], base: str) -> str:
    path = options.get("path")
    if not path:
        raise DataError("load() takes the checkpoint directory: .load('state')")
    return path if is_url(path) else os.path.join(base, path)


def view_of(options: Mapping[str, str]) -> str:
    view = options.get("view")
    if not view:
        raise DataError("the option 'view' says what is read: .option('view', 'revenue')")
    return view


class ViewReader(DataSourceReader):
    """Reads the rows of a view, task by task.

    It takes no filters: PySpark (4.3) keeps those of one query over a frame for later queries over the same frame.
    """

    def __init__(self, rows: StoredRows) -> None:
        self.rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(task) for task in range(self.rows.tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return in_batches(self.rows.read(partition.value), arrow_schema(self.rows.columns))


def in_batches(table: Any, schema: Any) -> Iterator[Any]:
    """A table with the types of a schema, a few rows at a time."""
    arrays = [column.cast(field.type) for column, field in zip(table.columns, schema, strict=True)]
    yield from pa.Table.from_arrays(arrays, schema=schema).to_batches(ROWS_AT_ONCE)


def source_class(opener: Opener, base: str) -> type[ViewletSource]:
    """The source for one session. Spark sends the class itself, so what it needs to know is part of it."""
    return type("ViewletSource", (ViewletSource,), {"open": staticmethod(opener), "base": base})
