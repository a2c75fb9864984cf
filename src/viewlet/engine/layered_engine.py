"""The engine of views in layers: an engine for each, and what one tells of a batch is a change for those after it.

    changes of tables ──┬─► joined1 ──┐ told changes
                        ├─────────────┴─► joined2 ──┐
                        └───────────────────────────┴─► result

The rows of a layer are kept by the parts that read it, as far as they need them: a layer only tells its changes, and
between two batches holds no rows, unless its own program needs them.

What runs on dictionaries shares an undo log of the engine's own, which begins with the first change of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewlet.algebra.layered_query import LayeredQuery
from viewlet.changes import Change, RowChange
from viewlet.engine.contract import LocalEngine
from viewlet.engine.parts import (
    DeltaEngine,
    SavedSection,
    Section,
    columns_used,
    stored_sizes,
    told_change,
)
from viewlet.engine.trigger_programs import migrate
from viewlet.triggers.program import Program, text_digest
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import Row

RESULT = "result"


@dataclass(frozen=True, slots=True)
class LayeredPlan:
    """A program for each layer, in the order of the layers, and the one of the result."""

    query: LayeredQuery
    layers: tuple[Program, ...]
    result: Program

    @property
    def strategy(self) -> str:
        return self.result.strategy

    @property
    def programs(self) -> dict[str, Program]:
        """The programs by the name of the part that runs them."""
        names = (layer.table.name for layer in self.query.layers)
        return {**dict(zip(names, self.layers, strict=True)), RESULT: self.result}


def with_layers(sources: Sources, query: LayeredQuery) -> tuple[Sources, Mapping[str, MapStore]]:
    """What the parts of a view read: its sources and its layers; and the stores of the layers.

    Those have rows only while the view is filled.
    """
    tables = {layer.table.name: layer.table for layer in query.layers}
    rows = {name: MapStore() for name in tables}
    return Sources({**sources.tables, **tables}, {**sources.stores, **rows}, sources.has_past), rows


class LayeredEngine:
    """Maintains one view in layers; its parts read `tables`, and while they are filled the `rows` of the layers."""

    def __init__(
        self,
        name: str,
        plan: LayeredPlan,
        layers: Sequence[DeltaEngine],
        result: LocalEngine,
        tables: Iterable[str],
        rows: Mapping[str, MapStore],
        log: UndoLog,
    ) -> None:
        self.name = name
        self.plan = plan
        self._layers = {layer.table.name: part for layer, part in zip(plan.query.layers, layers, strict=True)}
        self._result = result
        self._parts: tuple[Any, ...] = (*layers, result)
        self._readers = {
            table: tuple(part for part in self._parts if part.plan.trigger(table) is not None) for table in tables
        }
        self._rows = rows
        self._log = log
        for part in layers:
            part.watch()

    @property
    def digest(self) -> str:
        return text_digest(" ".join(part.digest for part in self._parts))

    # -- filling ----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Fills the view from the rows that its sources keep: each layer from those before it."""
        for name, part in self._layers.items():
            part.load()
            self._rows[name].assign({row: (count,) for row, count in part.result().items()})
            part.forget_rows()
            part.watch()
        self._result.load()
        for store in self._rows.values():
            store.forget()

    # -- batches ----------------------------------------------------------------------------------------------------

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        return columns_used(self._readers[table], table)

    def apply(self, table: str, change: Change) -> None:
        if not self._log.active:
            self._log.begin()
        for part in self._readers[table]:
            part.apply(table, change)

    def finish(self) -> Mapping[Row, int] | None:
        """Ends a batch: the layers, whose tables have changed by now, tell those after them what that did."""
        for name, part in self._layers.items():
            change = told_change(part)
            if change:
                self.apply(name, RowChange(dict(change)))
        return self._result.finish()

    def commit(self) -> None:
        self._log.commit()
        for part in self._parts:
            part.commit()
        self._forget_rows()

    def rollback(self) -> None:
        self._log.rollback()
        for part in self._parts:
            part.rollback()
        self._forget_rows()

    def _forget_rows(self) -> None:
        for part in self._layers.values():
            part.forget_rows()

    # -- reading and saving -----------------------------------------------------------------------------------------

    def result(self) -> Mapping[Row, int]:
        return self._result.result()

    def watch(self) -> bool:
        return self._result.watch()

    def take_over(self, other: LayeredEngine) -> None:
        """Continues, on generated code, from what the same engine on the interpreter holds."""
        for mine, its in zip(self._parts, other._parts, strict=True):
            migrate(its, mine)

    def save(self, writer: StateWriter) -> dict[str, object]:
        return {name: part.save(Section(name, writer)) for name, part in self._named_parts().items()}

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        parts = self._named_parts().items()
        return all(part.resume(layout[name], SavedSection(name, reader)) for name, part in parts)

    def _named_parts(self) -> dict[str, Any]:
        return dict(zip(self.plan.programs, self._parts, strict=True))

    def stats(self) -> dict[str, object]:
        return {"stored": stored_sizes(self._parts)}

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {}
