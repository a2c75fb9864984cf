"""The rows of groups in their order, with the tests and values that SQL computes for every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.changes.staged_change import PART_COLUMN
from viewlet.errors import DataError, interruptible
from viewlet.streams.duckdb_host import first_line, open_parts
from viewlet.streams.matching.definition import MatchQuery
from viewlet.streams.matching.queries import rows_sql

Integers = npt.NDArray[np.int64]


@dataclass(slots=True)
class GroupRows:
    """Rows ordered by group, part and place: `bounds[g]` is the first row of group g."""

    table: Any
    """Arrow: the columns of the source, tests d0, d1, ..., and values v0, v1, ..."""
    bounds: Integers
    parts: Integers
    places: Integers
    """The number of a row in its group and part."""
    times: Integers
    keys: list[tuple[Any, ...]]

    def tests(self, count: int) -> list[bytes]:
        return [self.table.column(f"d{each}").to_numpy().astype(np.uint8).tobytes() for each in range(count)]

    def values(self, wanted: Sequence[int], count: int) -> list[list[Any]]:
        """Values of all rows, of the columns that are wanted."""
        return [self.table.column(f"v{each}").to_pylist() if each in wanted else [] for each in range(count)]


class Calculator:
    """A DuckDB of its own, for SQL over the rows of groups and of matches."""

    def __init__(self) -> None:
        self._connection = open_parts()

    def run(self, sql: str, **tables: Any) -> Any:
        """What a query over Arrow tables returns, as Arrow."""
        import duckdb

        for name, table in tables.items():
            self._connection.register(name, table)
        try:
            with interruptible(self._connection):
                return self._connection.sql(sql).to_arrow_table()
        except (duckdb.DataError, duckdb.InvalidInputException) as error:
            raise DataError(f"a match cannot be computed: {first_line(str(error))}") from error
        finally:
            for name in tables:
                self._connection.unregister(name)


def order_rows(query: MatchQuery, calculator: Calculator, rows: Any) -> GroupRows:
    """Rows with their parts in `PART_COLUMN`, grouped and ordered."""
    table = calculator.run(rows_sql(query), rows_=rows).combine_chunks()
    groups, parts, places, times = (
        table.column(name).to_numpy().astype(np.int64) for name in ("group_", PART_COLUMN, "place_", "time_")
    )
    changes = np.flatnonzero(np.diff(groups)) + 1
    starts = np.concatenate([[0], changes]) if len(groups) else np.zeros(0, np.int64)
    bounds = np.concatenate([starts, [len(groups)]]).astype(np.int64)
    heads = table.take(starts.astype(np.int64)) if len(groups) else table
    keys = keys_of(heads, query.keys)
    return GroupRows(table, bounds, parts, places, times, keys)


def keys_of(table: Any, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """The values of some columns of every row; all NaNs are one."""
    if not names:
        return [()] * table.num_rows
    columns = [[_NAN if each != each else each for each in table.column(name).to_pylist()] for name in names]
    return list(zip(*columns, strict=True))


_NAN = float("nan")
