"""Views and kept tables as lazy data frames: every partition is read by a task, in the version of a context.

A frame shows one epoch whenever it is evaluated (see `state/version.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from viewlet.algebra.query import Query
from viewlet.changes import MULTIPLICITY
from viewlet.spark.run.execution.scan_task import (
    CountRows,
    ListRows,
    ReadRows,
    ReadTableRows,
    output_columns,
    read_type,
    repeated,
)
from viewlet.spark.run.execution.selection import Condition, Selection
from viewlet.spark.run.load.partition_frame import partition_frame, schema_of
from viewlet.spark.run.load.row_frame import ReadTable
from viewlet.spark.run.load.sources import has_spark_type
from viewlet.spark.run.state.partition import Context
from viewlet.spark.run.units.unit_result import ResultKey
from viewlet.types import COUNT, Column, Table


@dataclass(frozen=True, slots=True)
class ViewScan:
    """The rows of a query in the version of a context, of which each partition computes its share."""

    context: Context
    key: ResultKey
    query: Query
    adds_up: bool
    """Partitions may have parts of the same row that have to be added up."""

    @property
    def is_possible(self) -> bool:
        """Spark has all types, and the rows are not cut by LIMIT and OFFSET."""
        query = self.query
        return query.limit is None and not query.offset and all(has_spark_type(var.type) for var in query.output)

    @property
    def columns(self) -> tuple[Column, ...]:
        return output_columns(self.query)

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns that users see."""
        return tuple(Column(column.name, read_type(column.var.type)) for column in self.query.columns)

    def place(self, shown: int) -> int:
        """Where the stored rows have a column that users see."""
        return self.query.output.index(self.query.columns[shown].var)

    @property
    def read(self) -> ReadRows:
        return ReadRows(self.context, self.key, self.columns)

    def read_columns(self, places: Sequence[int]) -> ReadRows:
        return ReadRows(self.context, self.key, self.columns, tuple(places))

    def frame(self, spark: Any, wanted: Selection | None = None) -> Any:
        """The rows as a lazy frame, in the order of the query if it has one."""
        from pyspark.sql import functions as f

        chosen = Selection(tuple(range(len(self.query.columns)))) if wanted is None else wanted
        partitions, places = self.context.partitions, self._places(chosen)
        columns = [self.columns[place] for place in places]
        listed = ListRows(self.context, self.key, self.columns, tuple(places))
        tested = _Tested(listed, chosen.condition, tuple(map(self.place, _tested(chosen))))
        if self.adds_up:
            found = partition_frame(spark, partitions, tested, [*columns, Column(MULTIPLICITY, COUNT)])
            frame = _added_up(found, [column.name for column in columns])
        else:
            frame = partition_frame(spark, partitions, _EachRepeated(tested), columns)
        if self.query.order:
            frame = frame.orderBy(*_sort_keys(self.query, places))
        names = [(f"c{self.place(place)}", self.query.columns[place].name) for place in chosen.shown]
        shown = frame.select(*(f.col(stored).alias(name) for stored, name in names))
        if not self.adds_up:
            count = CountRows(self.context, self.key, self.columns)
            _count_by(shown, spark, partitions, count if chosen.condition is None else _Lengths(_EachRepeated(tested)))
        return shown

    def _places(self, chosen: Selection) -> list[int]:
        """The columns that have to be read: rows whose parts have to be added up are told apart by all of them."""
        output = self.query.output
        if self.adds_up:
            return list(range(len(output)))
        return sorted({*map(self.place, chosen.read), *(output.index(key.var) for key in self.query.order)})


@dataclass(frozen=True, slots=True)
class TableScan:
    """The rows that a table keeps, in the version of a context."""

    context: Context
    table: Table

    @property
    def shown(self) -> tuple[Column, ...]:
        return self.table.columns

    @property
    def read(self) -> ReadTable:
        return ReadTable(self.table, ReadTableRows(self.context, self.table.name))

    def frame(self, spark: Any, wanted: Selection | None = None) -> Any:
        columns = self.table.columns
        chosen = Selection(tuple(range(len(columns)))) if wanted is None else wanted
        read = _Repeated(_TableRows(self.read, chosen))
        frame = partition_frame(spark, self.context.partitions, read, [columns[place] for place in chosen.shown])
        _count_by(frame, spark, self.context.partitions, _Length(read))
        return frame


def _tested(chosen: Selection) -> tuple[int, ...]:
    return () if chosen.condition is None else chosen.condition.places


@dataclass(frozen=True, slots=True)
class _Tested:
    """Stored rows of a view that satisfy a condition, one table after the other."""

    read: ListRows
    condition: Condition | None
    places: tuple[int, ...]
    """Where the stored rows have the columns of the condition."""

    def __call__(self, partition: int) -> Iterator[Any]:
        for rows in self.read(partition):
            if self.condition is None:
                yield rows
            else:
                yield rows.filter(self.condition.mask([rows.column(f"c{place}") for place in self.places]))


@dataclass(frozen=True, slots=True)
class _EachRepeated:
    """Rows as often as their multiplicities say."""

    read: _Tested

    def __call__(self, partition: int) -> Iterator[Any]:
        return map(repeated, self.read(partition))


@dataclass(frozen=True, slots=True)
class _Lengths:
    """How many rows a partition has, in several tables."""

    read: _EachRepeated

    def __call__(self, partition: int) -> int:
        return sum(rows.num_rows for rows in self.read(partition))


@dataclass(frozen=True, slots=True)
class _TableRows:
    """What is wanted of the rows of a table, with their multiplicities."""

    read: ReadTable
    wanted: Selection

    def __call__(self, partition: int) -> Any:
        rows = self.read(partition)
        if rows is None:
            return None
        if self.wanted.condition is not None:
            rows = rows.filter(self.wanted.condition.kept(rows))
        return rows.select([*self.wanted.shown, rows.num_columns - 1])


@dataclass(frozen=True, slots=True)
class _Repeated:
    """Rows as often as their multiplicities say."""

    read: Any

    def __call__(self, partition: int) -> Any:
        rows = self.read(partition)
        return None if rows is None else repeated(rows)


@dataclass(frozen=True, slots=True)
class _Length:
    """How many rows a partition has."""

    read: _Repeated

    def __call__(self, partition: int) -> int:
        rows = self.read(partition)
        return 0 if rows is None else int(rows.num_rows)


@dataclass(frozen=True, slots=True)
class _AsTable:
    """A number as an Arrow table."""

    count: Callable[[int], int]

    def __call__(self, partition: int) -> Any:
        import pyarrow as pa

        return pa.table({"rows": pa.array([self.count(partition)], pa.int64())})


def _count_by(frame: Any, spark: Any, partitions: int, count: Callable[[int], int]) -> None:
    """Has the frame counted where its rows are: Spark would fetch them from Python, with all columns.

    That goes for `count()` of this very frame. Spark does not tell functions in Python which columns it needs, so
    frames that are made of it are counted as Spark does. So is a frame that is to be cached, for counting fills it.
    """
    usual = frame.count

    def counted() -> int:
        level = frame.storageLevel
        if level.useMemory or level.useDisk:
            return int(usual())
        told = partition_frame(spark, partitions, _AsTable(count), [Column("rows", COUNT)]).collect()
        return sum(row.rows for row in told)

    frame.count = counted


def _added_up(frame: Any, names: Sequence[str]) -> Any:
    """The parts of each row added up, and rows as often as that says."""
    from pyspark.sql import functions as f

    times = frame.groupBy(*names).agg(f.sum(MULTIPLICITY).alias(MULTIPLICITY)).where(f.col(MULTIPLICITY) > 0)
    copies = f.explode(f.sequence(f.lit(1).cast("bigint"), f.col(MULTIPLICITY)))
    return times.select(*names, copies.alias(MULTIPLICITY)).select(*names)


def _sort_keys(query: Query, places: Collection[int]) -> list[Any]:
    """ORDER BY first, then all columns that are read, as rows are ranked wherever they are read."""
    from pyspark.sql import functions as f

    keys = []
    for key in query.order:
        column = f.col(f"c{query.output.index(key.var)}")
        if key.descending:
            keys.append(column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last())
        else:
            keys.append(column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last())
    ordered = {key.var for key in query.order}
    return keys + [f.col(f"c{i}").asc_nulls_last() for i in places if query.output[i] not in ordered]


def driver_frame(spark: Any, columns: Sequence[Column], rows: Any) -> Any:
    """Rows that are at the driver, as Arrow, in a frame with the types of a scan."""
    known = [Column(column.name, read_type(column.type).with_nullable(True)) for column in columns]
    if all(has_spark_type(column.type) for column in known):
        return spark.createDataFrame(rows, schema_of(known))
    return spark.createDataFrame(rows)
