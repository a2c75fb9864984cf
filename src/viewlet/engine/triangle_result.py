"""What an adaptive view shows: the rest of its query over a row for every group, on the interpreter.

It sees as many rows as there are groups that changed. Changes are undone with the undo log of the engine that owns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from viewlet.adaptive.plan import JoinPlan, Numbers
from viewlet.changes import RowChange
from viewlet.errors import DataError
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import INTEGER_BITS, MAX_DECIMAL_DIGITS, Row, SqlType


class TriangleResult:
    """The table of groups, and the query over it."""

    def __init__(self, plan: JoinPlan[Any], log: UndoLog) -> None:
        self._plan = plan
        self._table = plan.query.table
        self._rest = Interpreter(plan.result, {}, log)

    def fill(self, groups: Iterable[tuple[Row, Numbers]]) -> None:
        """Recomputes the result from all groups; without GROUP BY there is one, even if it is empty."""
        held = list(groups) or [((), (0,) * self._plan.query.width)]
        rows = {row: 1 for key, numbers in held if (row := self._row(key, numbers)) is not None}
        self._rest.restore(self._rest.evaluate({self._table.name: MapStore.of_rows(rows)}))

    def fold(self, changes: Mapping[Row, tuple[Numbers, Numbers]]) -> Mapping[Row, int]:
        """Ends a batch: what it does to the result that groups were and are something else."""
        rows: dict[Row, int] = {}
        for key, (old, new) in changes.items():
            for numbers, weight in ((old, -1), (new, 1)):
                if (row := self._row(key, numbers)) is not None:
                    rows[row] = rows.get(row, 0) + weight
        changed = {row: weight for row, weight in rows.items() if weight}
        if changed:
            self._rest.apply(self._table.name, RowChange(changed))
        return self._rest.finish()

    def result(self) -> Mapping[Row, int]:
        return self._rest.result()

    def _row(self, key: Row, numbers: Numbers) -> Row | None:
        row, keys = self._plan.row(key, numbers), self._plan.query.key_columns
        if row is not None:
            for value, column in zip(row[keys:], self._table.columns[keys:], strict=True):
                if not _fits(value, column.type):
                    raise DataError("a sum overflows its type")
        return row


def _fits(value: Any, type: SqlType) -> bool:
    limit = 2 ** (INTEGER_BITS[type.kind] - 1) if type.kind in INTEGER_BITS else 10**MAX_DECIMAL_DIGITS
    return bool(-limit <= value < limit)
