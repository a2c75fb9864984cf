"""Streams by the time of arrival (system time): rows that come without a time are given this machine's.

The time is a value of the row before the journal has it, so that a batch which is repeated has the same times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from viewlet.changes import Change, RowChange, to_changes
from viewlet.changes.arrow_change import ArrowChange, to_arrow_change
from viewlet.changes.sources import open_source
from viewlet.errors import DataError
from viewlet.types import TIMESTAMP, Table


def change_at_arrival(table: Table, data: object, encoded: bool, moment: int) -> Change | None:
    """Rows without a time as a change, at a moment (microseconds); None if they bring their time."""
    assert table.parts is not None
    at = table.column_names.index(table.parts.time)
    others = replace(table, columns=(*table.columns[:at], *table.columns[at + 1 :]), parts=None)
    if isinstance(data, Iterator):
        data = list(data)
    try:
        if table.parts.time in (name.lower() for name in open_source(others, data).names):
            return None
    except DataError:
        return None  # rows with all columns, or not rows at all
    columns = to_arrow_change(others, data, 1)
    if columns is not None:
        return ArrowChange(table, columns.arrow.add_column(at, table.parts.time, _times(moment, len(columns))))
    rows = to_changes(others, data, 1, encoded)
    if any(times < 0 for times in rows.values()):
        raise DataError(f"{table.name}: a row is deleted with the time of its arrival: give all columns to db.delete")
    return RowChange({(*row[:at], moment, *row[at:]): times for row, times in rows.items()})


def fill_times(table: Table, rows: Any, moment: int) -> Any:
    """Arrow rows of a statement with a moment where they have no time."""
    import pyarrow.compute as pc

    assert table.parts is not None
    at = rows.column_names.index(table.parts.time)
    times = pc.coalesce(rows.column(at).cast(_times(moment, 0).type), _times(moment, 1)[0])
    return rows.set_column(at, table.parts.time, times)


def _times(moment: int, count: int) -> Any:
    import pyarrow as pa

    from viewlet.changes import arrow_type

    return pa.repeat(pa.scalar(moment, pa.int64()).cast(arrow_type(TIMESTAMP)), count)
