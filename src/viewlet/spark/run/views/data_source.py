"""The format `viewlet` of Spark: a view of a checkpoint as a data frame, or its changes as a frame or a stream.

Spark calls these classes in Python processes of its own: `schema` where a frame is made, `reader` and `partitions`
where a query over it is planned, `read` in tasks. The frame and all its evaluations are of one epoch, because what
`schema` has found travels with the source. With the option `readChangeFeed`, as of Delta, the rows are changes
(`feed_source.py`).

What is not needed is named by options of the frame, `columns` and `where`. Filters of queries are not taken over:
PySpark (4.3) has one reader for all queries over a frame, so that those of one query would stay in force for the next,
and for the other side of a union. There is no hook for the columns that a query needs.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from viewlet.changes import did_you_mean
from viewlet.errors import DataError
from viewlet.runtime.durable.files import is_url
from viewlet.spark.run.execution.selection import Selection, selection
from viewlet.spark.run.load.partition_frame import schema_of
from viewlet.spark.run.views.feed_source import ChangesReader, ChangesStream, Feed, in_batches
from viewlet.spark.run.views.stored_rows import StoredRows, arrow_schema

FORMAT = "viewlet"
_FOLLOWS, _FIRST, _LAST = "readChangeFeed", "startingVersion", "endingVersion"
_OPTIONS = ("path", "view", "columns", "where", _FOLLOWS)
_FEED_OPTIONS = (*_OPTIONS, _FIRST, _LAST)

Opener = Callable[[str, str], StoredRows]
"""Finds the rows of a view in the checkpoint at a path or URL."""


class ViewletSource(DataSource):
    """A view of a checkpoint. `open` finds its rows, and `base` is the folder that a relative path begins in."""

    open: ClassVar[Opener]
    base: ClassVar[str]

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        _check_options(options, _FEED_OPTIONS if self._follows else _OPTIONS)
        self._location = location_of(options, self.base)
        self._view = view_of(options)
        self._found: StoredRows | None = None
        self._wanted: Selection | None = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> Any:
        if self._follows:
            return self._feed().schema
        columns = self._rows().columns
        return schema_of([columns[place] for place in self._selection().shown])

    def reader(self, schema: Any) -> DataSourceReader:
        if self._follows:
            return ChangesReader(self._feed())
        rows, wanted = self._rows(), self._selection()
        names = [rows.columns[place].name for place in wanted.shown]
        if schema.fieldNames() != names:
            raise DataError(
                f"the columns of {self._view!r} are {', '.join(names)}; leave schema(...) out, and name those that you "
                "want in .option('columns', ...)"
            )
        return ViewReader(rows, wanted)

    def streamReader(self, schema: Any) -> ChangesStream:  # noqa: N802 - the name is Spark's
        if not self._follows:
            raise DataError(f"a stream has the changes of {self._view!r}: add .option('readChangeFeed', 'true')")
        if _LAST in self.options:
            raise DataError(f"a stream has no end: leave the option {_LAST!r} out")
        return ChangesStream(self._feed())

    @property
    def _follows(self) -> bool:
        said = self.options.get(_FOLLOWS, "false")
        if said.lower() not in ("true", "false"):
            raise DataError(f"the option {_FOLLOWS!r} is 'true' or 'false', not {said!r}")
        return bool(said.lower() == "true")

    def _feed(self) -> Feed:
        return Feed(self._location, self._view, self.options.get(_FIRST), self.options.get(_LAST), *self._asked)

    @property
    def _asked(self) -> tuple[tuple[str, ...] | None, str | None]:
        """The columns and the condition that options name."""
        text = self.options.get("columns")
        named = None if text is None else tuple(next(csv.reader([text], skipinitialspace=True), ()))
        return named, self.options.get("where")

    def _selection(self) -> Selection:
        if self._wanted is None:
            self._wanted = selection(arrow_schema(self._rows().columns), *self._asked)
        return self._wanted

    def _rows(self) -> StoredRows:
        if self._found is None:
            self._found = type(self).open(self._location, self._view)
        return self._found


def _check_options(options: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Refuses an option that would be ignored: the user means something by it."""
    folded = {name.lower(): name for name in known}
    for name in options:
        if name.lower() not in folded:
            if name.lower() in (_FIRST.lower(), _LAST.lower()):
                raise DataError(f"the option {name!r} is for changes: add .option({_FOLLOWS!r}, 'true')")
            known_names = ", ".join(each for each in known if each != "path")
            raise DataError(f"there is no option {name!r}{did_you_mean(name, folded)}; the options are {known_names}")


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
    """Reads the rows of a view, task by task."""

    def __init__(self, rows: StoredRows, wanted: Selection) -> None:
        self.rows, self.wanted = rows, wanted

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(task) for task in range(self.rows.tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        wanted, columns = self.wanted, self.rows.columns
        found = wanted.rows(self.rows.read(partition.value, wanted.read))
        return in_batches(found, arrow_schema([columns[place] for place in wanted.shown]))


def source_class(opener: Opener, base: str) -> type[ViewletSource]:
    """The source for one session. Spark sends the class itself, so what it needs to know is part of it."""
    return type("ViewletSource", (ViewletSource,), {"open": staticmethod(opener), "base": base})
