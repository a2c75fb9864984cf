"""The format `viewlet` of Spark: a view of a checkpoint as a data frame, or its changes as a frame or a stream.

Spark calls these classes in Python processes of its own: `schema` where a frame is made, `reader` and `partitions`
where a query over it is planned, `read` in tasks. The frame and all its evaluations are of one epoch, because what
`schema` has found travels with the source. With the option `readChangeFeed`, as of Delta, the rows are changes
(`feed_source.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from viewlet.errors import DataError
from viewlet.runtime.durable.files import is_url
from viewlet.spark.run.load.partition_frame import schema_of
from viewlet.spark.run.views.feed_source import ChangesReader, ChangesStream, Feed, in_batches
from viewlet.spark.run.views.stored_rows import StoredRows, arrow_schema

FORMAT = "viewlet"

Opener = Callable[[str, str], StoredRows]
"""Finds the rows of a view in the checkpoint at a path or URL."""


class ViewletSource(DataSource):
    """A view of a checkpoint. `open` finds its rows, and `base` is the folder that a relative path begins in."""

    open: ClassVar[Opener]
    base: ClassVar[str]

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._location = location_of(options, self.base)
        self._view = view_of(options)
        self._found: StoredRows | None = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> Any:
        return self._feed().schema if self._follows else schema_of(self._rows().columns)

    def reader(self, schema: Any) -> DataSourceReader:
        if self._follows:
            return ChangesReader(self._feed())
        rows = self._rows()
        expected = arrow_schema(rows.columns)
        if schema.fieldNames() != expected.names:
            raise DataError(f"the columns of {self._view!r} are {', '.join(expected.names)}; leave schema(...) out")
        return ViewReader(rows)

    def streamReader(self, schema: Any) -> ChangesStream:  # noqa: N802 - the name is Spark's
        if not self._follows:
            raise DataError(f"a stream has the changes of {self._view!r}: add .option('readChangeFeed', 'true')")
        return ChangesStream(self._feed())

    @property
    def _follows(self) -> bool:
        return self.options.get("readChangeFeed", "false").lower() == "true"

    def _feed(self) -> Feed:
        first, last = (self.options.get(name) for name in ("startingVersion", "endingVersion"))
        return Feed(self._location, self._view, first, last)

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


def source_class(opener: Opener, base: str) -> type[ViewletSource]:
    """The source for one session. Spark sends the class itself, so what it needs to know is part of it."""
    return type("ViewletSource", (ViewletSource,), {"open": staticmethod(opener), "base": base})
