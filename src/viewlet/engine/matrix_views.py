"""Matrix programs whose inputs are views, in one partition of Spark: an engine for each view, and one for the program.

    changes of tables ──┬─► entries of a view ──┐ told changes
                        └───────────────────────┴─► program

On Spark views are replaced by their queries, so that the rows of the tables under them come together here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from viewlet.algebra.matrix_program import MatrixProgram
from viewlet.algebra.query import Query
from viewlet.algebra.traverse import relations
from viewlet.changes import Change, RowChange
from viewlet.engine.declaration import Declaration
from viewlet.engine.matrix_programs import MatrixProgramEngine
from viewlet.engine.parts import SavedSection, Section, read_by, stored_sizes, told_change
from viewlet.engine.rows import net
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.plan import plan_query
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import Column, Row, Table, TableKind

PROGRAM = "program"


class MatrixViewsEngine:
    """Maintains an output of a program over views and tables."""

    name = "interpreter"

    def __init__(self, plan: MatrixProgram, sources: Sources, log: UndoLog) -> None:
        self.plan = plan
        self.digest = repr(plan)
        queries = {each.table: each.query for each in plan.inputs if each.query is not None}
        self._views = {
            name: Interpreter(
                plan_query(name, query, read_by(query, sources.tables), "higher-order"), sources.stores, log
            )
            for name, query in queries.items()
        }
        self._visible = {name: _visible(query) for name, query in queries.items()}
        self._rows = {name: MapStore() for name in queries}
        """What the views hold, while the program is filled."""
        tables = {**sources.tables, **{name: _table(name, query) for name, query in queries.items()}}
        self._program = MatrixProgramEngine(plan, Sources(tables, {**sources.stores, **self._rows}), log)
        self._inputs = {each.table for each in plan.inputs} - queries.keys()

    def load(self) -> None:
        for name, view in self._views.items():
            view.load()
            view.watch()
            self._rows[name].assign({row: (count,) for row, count in self._shown(name, view.result()).items()})
        self._program.load()
        for store in self._rows.values():
            store.forget()

    # -- batches -------------------------------------------------------------------------------------------------------

    def apply(self, table: str, change: Change) -> None:
        for view in self._views.values():
            if view.plan.trigger(table) is not None:
                view.apply(table, change)
        if table in self._inputs:
            self._program.apply(table, change)

    def finish(self) -> Mapping[Row, int] | None:
        for name, view in self._views.items():
            if change := self._shown(name, told_change(view)):
                self._program.apply(name, RowChange(change))
        return self._program.finish()

    def commit(self) -> None:
        for part in self._parts.values():
            part.commit()

    def rollback(self) -> None:
        for part in self._parts.values():
            part.rollback()

    def _shown(self, name: str, rows: Mapping[Row, int]) -> dict[Row, int]:
        """Rows of a query as the view has them."""
        visible = self._visible[name]
        return net((tuple(row[place] for place in visible), times) for row, times in rows.items())

    @property
    def _parts(self) -> dict[str, Any]:
        return {**self._views, PROGRAM: self._program}

    # -- reading and saving --------------------------------------------------------------------------------------------

    def result(self) -> Mapping[Row, int]:
        return self._program.result()

    def watch(self) -> bool:
        return self._program.watch()

    def save(self, writer: StateWriter) -> dict[str, object]:
        return {name: part.save(Section(name, writer)) for name, part in self._parts.items()}

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        return all(part.resume(layout[name], SavedSection(name, reader)) for name, part in self._parts.items())

    def stats(self) -> dict[str, object]:
        return {"stored": stored_sizes(self._parts.values())}

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return self._program.stages(format)


def inline_views(declared: Declaration, views: Mapping[str, Query], tables: frozenset[str]) -> Declaration:
    """The same program with queries instead of views."""
    definition = declared.definition
    assert isinstance(definition, MatrixProgram)
    inputs = tuple(replace(each, query=views.get(each.table)) for each in definition.inputs)
    return replace(declared, definition=replace(definition, inputs=inputs), sources=tables)


def tables_of(plan: MatrixProgram) -> set[str]:
    """The tables that a program reads, directly or under views."""
    return {name for each in plan.inputs for name in (relations(each.query.expr) if each.query else {each.table})}


def _visible(query: Query) -> tuple[int, ...]:
    return tuple(query.output.index(column.var) for column in query.columns)


def _table(name: str, query: Query) -> Table:
    return Table(name, tuple(Column(column.name, column.var.type) for column in query.columns), TableKind.VIEW)
