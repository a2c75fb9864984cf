"""What users hand in for a partitioned stream, as a change: data frames of Spark, rows without a time, Arrow."""

from __future__ import annotations

from typing import Any

from viewlet.changes import Change
from viewlet.changes.arrow_change import to_arrow_change
from viewlet.changes.staged_change import StagedChange
from viewlet.streams.arrival import change_at_arrival, fill_times
from viewlet.streams.host import StagingHost, is_frame
from viewlet.streams.warehouse import Warehouse
from viewlet.types import Table


def stream_change(
    warehouse: Warehouse, table: Table, data: object, sign: int, encoded: bool, has_only_parts: bool
) -> Change | None:
    """The change that some data describes; None if it has to be looked at row by row.

    `has_only_parts` says that no view reads the rows of the stream in this process.
    """
    assert table.parts is not None
    if is_frame(data):
        staged = _staged(warehouse, table, data) if sign > 0 and has_only_parts else None
        if staged is not None:
            return staged
        data = data.toArrow()  # type: ignore[attr-defined]
    if table.parts.arrival and sign > 0:
        stamped = change_at_arrival(table, data, encoded, warehouse.arrival_time(table.name))
        if stamped is not None:
            return stamped
    return to_arrow_change(table, data, sign)


def _staged(warehouse: Warehouse, table: Table, frame: Any) -> Change | None:
    """A data frame as files of the host of parts, if that takes it."""
    host = warehouse.host
    folder = host.stage(frame, table) if isinstance(host, StagingHost) else None
    return None if folder is None else StagedChange(table, folder)


def fill_arrival_times(warehouse: Warehouse, table: Table, data: object) -> object:
    """The answer of a statement, with the time of arrival where a stream by that has none."""
    if table.parts is None or not table.parts.arrival or not hasattr(data, "column_names"):
        return data
    return fill_times(table, data, warehouse.arrival_time(table.name))
