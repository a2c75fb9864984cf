"""Reading the rows of a view in a partition as Arrow, in the version of a context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from viewlet.algebra.query import Query
from viewlet.changes import MULTIPLICITY, rows_to_arrow
from viewlet.spark.run.exchange.wire import weighted_table
from viewlet.spark.run.state.partition import Context
from viewlet.spark.run.state.version import read_version
from viewlet.spark.run.units.node import Node, with_result
from viewlet.spark.run.units.table_unit import rows_view, unit_name
from viewlet.spark.run.units.unit_result import ResultCode, ResultKey
from viewlet.types import MAX_DECIMAL_DIGITS, Column, Kind, SqlType


@runtime_checkable
class ArrowResult(Protocol):
    """A result whose rows a kernel can compute without a Python object per value."""

    def result_arrow(self, places: Sequence[int] | None = None) -> tuple[list[Any], Any] | None:
        """Columns of the rows, or all, as Arrow, with their multiplicities; None where they are computed one by one."""

    def result_count(self) -> int | None:
        """How many rows there are; None where they are computed one by one."""

    def change_arrow(self) -> tuple[list[Any], Any] | None:
        """Like `result_arrow`, for what the batch has done to the rows."""


@runtime_checkable
class ListingNode(Protocol):
    """A kernel that lists the rows of the unit's view, each once, in tables of some thousands.

    There may be far more rows than memory holds. The tables can be read after the state has been released.
    """

    def result_tables(self, columns: Sequence[Column], places: Sequence[int]) -> Iterator[Any]:
        """Some of the columns of the rows, with multiplicities in the last one."""

    def result_count(self) -> int | None:
        """How many rows there are; None where they have to be listed."""


def result_tables(
    node: Node, columns: Sequence[Column], places: Sequence[int] | None = None, other: ResultCode | None = None
) -> Iterator[Any]:
    """The rows of `result_table` one table after the other."""
    if isinstance(node, ListingNode):
        return node.result_tables(columns, range(len(columns)) if places is None else places)
    return iter([result_table(node, columns, places, other)])


def result_table(
    node: Node, columns: Sequence[Column], places: Sequence[int] | None = None, other: ResultCode | None = None
) -> Any:
    """The rows that a node computes, as an Arrow table with a column for the multiplicity; some of the columns, or all.

    They are those of the unit's view, or those of an `other` query over its stored views. Generated code may list a row
    in several pieces. They are added up if one of them is negative.
    """
    if isinstance(node, ListingNode):
        return pa.concat_tables(result_tables(node, columns, places))
    result = with_result(node, other)
    found = result.result_arrow(places) if isinstance(result, ArrowResult) else None
    if found is None or (found[1] < 0).any():
        rows = rows_to_arrow(columns, result.result().items(), with_multiplicity=True)
        return rows if places is None else rows.select([*places, len(columns)])
    return weighted_table(columns if places is None else [columns[place] for place in places], *found)


def result_count(node: Node, columns: Sequence[Column], other: ResultCode | None = None) -> int:
    """How many rows `repeated` would make of the rows of a node."""
    result = node if isinstance(node, ListingNode) else with_result(node, other)
    found = result.result_count() if isinstance(result, ArrowResult | ListingNode) else None
    if found is not None:
        return found
    return sum(repeated(table).num_rows for table in result_tables(node, columns, other=other))


def output_columns(query: Query) -> tuple[Column, ...]:
    """The variables of a stored row as columns; numbered, as names of users may have dots or occur twice."""
    return tuple(Column(f"c{i}", read_type(var.type)) for i, var in enumerate(query.output))


def read_type(type: SqlType) -> SqlType:
    """The type of a column as it is read: decimals are as wide as can be, since a sum outgrows its summands."""
    return replace(type, precision=MAX_DECIMAL_DIGITS) if type.kind is Kind.DECIMAL else type


def repeated(table: Any) -> Any:
    """The rows of a table as often as its last column says, without that column.

    >>> repeated(pa.table({"a": ["x", "y", "z"], MULTIPLICITY: [2, 0, 1]})).to_pydict()
    {'a': ['x', 'x', 'z']}
    """
    times = np.maximum(table.column(table.num_columns - 1).to_numpy(), 0)
    rows = table.drop_columns([MULTIPLICITY])
    if (times == 1).all():
        return rows
    return rows.take(pa.array(np.repeat(np.arange(len(times)), times)))


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Reads the share that a partition has of a query's rows."""

    context: Context
    key: ResultKey
    columns: tuple[Column, ...]
    """The variables of the query's output."""
    places: tuple[int, ...] | None = None
    """The columns that are read, if not all."""

    def __call__(self, partition: int) -> Any:
        other = self.context.result(self.key)
        return read_version(
            self.context, self.key.unit, partition, lambda node: result_table(node, self.columns, self.places, other)
        )


@dataclass(frozen=True, slots=True)
class ListRows:
    """Like `ReadRows`, one table after the other."""

    context: Context
    key: ResultKey
    columns: tuple[Column, ...]
    places: tuple[int, ...]

    def __call__(self, partition: int) -> Iterator[Any]:
        other = self.context.result(self.key)
        found: Iterator[Any] = read_version(
            self.context, self.key.unit, partition, lambda node: result_tables(node, self.columns, self.places, other)
        )
        return found


@dataclass(frozen=True, slots=True)
class CountRows:
    """Counts the share that a partition has of a query's rows."""

    context: Context
    key: ResultKey
    columns: tuple[Column, ...]

    def __call__(self, partition: int) -> int:
        other = self.context.result(self.key)
        return read_version(
            self.context, self.key.unit, partition, lambda node: result_count(node, self.columns, other)
        )


@dataclass(frozen=True, slots=True)
class ReadTableRows:
    """Reads the rows that a table keeps in a partition."""

    context: Context
    table: str

    def __call__(self, partition: int) -> bytes:
        return read_version(
            self.context, unit_name(self.table), partition, lambda node: node.contents(rows_view(self.table))
        )
