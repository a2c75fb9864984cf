"""Changes of views that are kept as files: each task writes those of its partition, or sends them if they are few."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from viewlet.changes import MULTIPLICITY, Changes, rows_to_arrow
from viewlet.errors import InternalError
from viewlet.runtime.durable.files import files_at
from viewlet.spark.run.exchange.change_files import KeptChanges, Share, write_part
from viewlet.spark.run.exchange.wire import table_bytes, weighted_table
from viewlet.spark.run.execution.scan_task import ArrowResult, output_columns, result_table
from viewlet.spark.run.state.partition import Context
from viewlet.spark.run.units.node import Node, with_result
from viewlet.spark.run.units.unit import ProgramCode, UnitCode
from viewlet.spark.run.units.unit_result import ResultCode, ResultKey
from viewlet.types import Column, Row


@dataclass(frozen=True, slots=True)
class ToldChange:
    """What a task tells of the changes of its partition: rows for the driver, a share of what is kept, or both."""

    rows: Changes | None
    share: Share | None


def tell_change(context: Context, key: ResultKey, node: Node, partition: int) -> ToldChange:
    """What the batch has done to the rows of a result: to the driver, to a file, or both."""
    kept, other = context.kept.get(key), context.result(key)
    rows = with_result(node, other).result_change() if kept is None or kept.is_told else None
    if kept is None:
        return ToldChange(rows, None)
    return ToldChange(rows, share_of(context, kept, partition, change_table(node, context.code(key.unit), other, rows)))


def change_table(node: Node, code: UnitCode, other: ResultCode | None, told: Mapping[Row, int] | None) -> Any:
    """What a batch has done to the stored rows of a result, as an Arrow table; `told` is the same, where it is known.

    The result is that of a unit, or an `other` one over its views.
    """
    columns, result = _columns(code, other), with_result(node, other)
    found = result.change_arrow() if told is None and isinstance(result, ArrowResult) else None
    if found is not None:
        return weighted_table(columns, *found)
    rows = result.result_change() if told is None else told
    return rows_to_arrow(columns, rows.items(), with_multiplicity=True)


def rows_table(node: Node, code: UnitCode, other: ResultCode | None = None) -> Any:
    """All stored rows of a result, as `change_table` gives their changes."""
    if not isinstance(code, ProgramCode) and isinstance(node, ArrowResult):
        found = node.result_arrow()
        if found is not None:
            arrays, multiplicities = found
            return pa.table([*arrays, multiplicities], [*(f"c{i}" for i in range(len(arrays))), MULTIPLICITY])
    return result_table(node, _columns(code, other), other=other)


def _columns(code: UnitCode, other: ResultCode | None) -> tuple[Column, ...]:
    if not isinstance(code, ProgramCode):
        raise InternalError(f"tasks do not know the changes of {code.name}")
    return output_columns((code if other is None else other).program.query)


def share_of(context: Context, kept: KeptChanges, partition: int, table: Any) -> Share | None:
    """What a task tells of the changes of its partition; None if there are none."""
    if context.commit is None:
        raise InternalError(f"changes of {kept.view} belong to a batch")
    if not table.num_rows:
        return None
    rows = kept.shown(table)
    if rows.nbytes <= context.inline_bytes // context.partitions:
        return table_bytes(rows)
    return write_part(files_at(context.checkpoint, context.sync), kept.view, context.commit, partition, rows)
