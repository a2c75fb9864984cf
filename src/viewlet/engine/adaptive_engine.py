"""The engine of adaptive views: a state of triangles, and the rest of the query over its groups.

    changes of tables ──► relations of the triangle ──► groups ──► table of groups ──► the rest of the query

The rest runs on the interpreter: it sees as many rows as there are groups that changed. Both share an undo log of the
engine's own, which begins with the first change of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from viewlet.adaptive.plan import AdaptivePlan
from viewlet.adaptive.state import TriangleState
from viewlet.changes import Change, RowChange
from viewlet.errors import DataError
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.program import text_digest
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import INTEGER_BITS, MAX_DECIMAL_DIGITS, Row, SqlType


class AdaptiveEngine:
    """Maintains one view over triangles."""

    def __init__(self, plan: AdaptivePlan, triangles: TriangleState, sources: Sources, log: UndoLog) -> None:
        self.plan = plan
        self.triangles = triangles
        self._sources = sources
        self._log = log
        self._table = plan.query.table
        self._rest = Interpreter(plan.result, {}, log)
        self._fill()

    @property
    def name(self) -> str:
        return self.triangles.engine_name

    @property
    def digest(self) -> str:
        return text_digest(self.plan.digest)

    # -- filling ----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Fills the view from the rows that its sources keep."""
        self.triangles.load(
            [
                (reader, self._sources.stores[table].change())
                for table, readers in self.plan.readers.items()
                for reader in readers
            ]
        )
        self._fill()

    def _fill(self) -> None:
        """The rest of the query over all groups."""
        rows = dict.fromkeys(filter(None, map(self._row, *zip(*self._groups(), strict=True))), 1)
        held = {self._table.name: MapStore.of_rows(rows)}
        self._rest.restore(self._rest.evaluate(held))

    def _groups(self) -> list[tuple[Row, tuple[int, ...]]]:
        groups = list(self.triangles.groups())
        return groups or [((), (0,) * self.plan.query.width)]

    # -- batches ----------------------------------------------------------------------------------------------------

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        return self.triangles.columns_used(table)

    def apply(self, table: str, change: Change) -> None:
        if not self._log.active:
            self._log.begin()
        for reader in self.plan.readers[table]:
            self.triangles.apply(reader, change)

    def finish(self) -> Mapping[Row, int]:
        rows: dict[Row, int] = {}
        for key, (old, new) in self.triangles.changes().items():
            for numbers, weight in ((old, -1), (new, 1)):
                if (row := self._row(key, numbers)) is not None:
                    rows[row] = rows.get(row, 0) + weight
        changed = {row: weight for row, weight in rows.items() if weight}
        if changed:
            self._rest.apply(self._table.name, RowChange(changed))
        return self._rest.finish()

    def _row(self, key: Row, numbers: tuple[int, ...]) -> Row | None:
        row = self.plan.row(key, numbers)
        if row is not None:
            for value, column in zip(row[len(key) :], self._table.columns[len(key) :], strict=True):
                if not _fits(value, column.type):
                    raise DataError("a sum overflows its type")
        return row

    def commit(self) -> None:
        self._log.commit()
        self.triangles.commit()

    def rollback(self) -> None:
        self._log.rollback()
        self.triangles.rollback()

    # -- reading and saving -----------------------------------------------------------------------------------------

    def result(self) -> Mapping[Row, int]:
        return self._rest.result()

    def watch(self) -> bool:
        return True

    def save(self, writer: StateWriter) -> dict[str, object]:
        return self.triangles.save(writer)

    def take_over(self, other: AdaptiveEngine) -> None:
        """Continues, on flat arrays, from what the same view holds on dictionaries."""
        self.triangles.take_over(other.triangles.triangles)  # type: ignore[attr-defined]
        self._fill()

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        self.triangles.resume(layout, reader)
        self._fill()
        return True

    def stats(self) -> dict[str, object]:
        """Sizes of the parts and views, N, the thresholds, and what rebalancing there was."""
        facts = self.triangles.facts()
        work = facts.work
        return {
            "stored": dict(facts.sizes),
            "threshold_base": facts.base,
            "thresholds": list(facts.thresholds.first),
            **({"second_thresholds": list(facts.thresholds.second)} if self.plan.query.linear else {}),
            "rebalancing": {
                "major": work.major,
                "minor": work.minor,
                "moved": work.moved,
                "steps": work.balancing,
                "longest": work.longest,
            },
            "steps": work.steps,
            **({"bytes": {"all": facts.bytes}} if facts.bytes else {}),
        }

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {"parts": self._show_parts}

    def _show_parts(self) -> str:
        facts = self.triangles.facts()
        sizes, work = facts.sizes, facts.work
        lines = [f"N = {facts.base:,}: |D| is at least {facts.base // 4:,} and below {facts.base:,}"]
        for i, (name, side) in enumerate(zip("RST", self.plan.query.sides, strict=True)):
            *others, last = [f"{sizes[f'{name}_{part}']:,} {part}" for part in self.plan.query.part_names]
            bounds = f"threshold {facts.thresholds.first[i]:,.1f}"
            if self.plan.query.linear:
                bounds += f", of second values {facts.thresholds.second[i]:,.1f}"
            lines.append(f"{name} = {side.table}: {', '.join(others)} and {last} tuples, {bounds}")
        lines += [f"{name}: {size:,} entries" for name, size in sizes.items() if name.startswith("V_")]
        lines.append(f"Q: {sizes['Q']:,} groups")
        lines.append(f"rebalanced: {work.major:,} times all, {work.minor:,} times one value ({work.moved:,} tuples)")
        if work.balancing:
            most = f"at most {work.longest:,} at a time, the last ones after {work.paused:,} updates"
            lines.append(f"that took {work.balancing:,} steps, {most}")
        lines.append(f"steps: {work.steps:,} for {work.updates:,} updates")
        return "\n".join(lines)


def _fits(value: Any, type: SqlType) -> bool:
    limit = 2 ** (INTEGER_BITS[type.kind] - 1) if type.kind in INTEGER_BITS else 10**MAX_DECIMAL_DIGITS
    return bool(-limit <= value < limit)
