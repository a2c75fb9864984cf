"""The reference interpreter: trigger programs on plain dictionaries. It is the semantics of a program.

Within one trigger every increment reads the state before the trigger; assignments then read the state after all
increments, one after another. The result is kept by the keys through which it reads the views, so that a batch costs in
the result what it touched.
"""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.algebra.evaluate import Number, State, evaluate
from viewlet.rings import DOUBLE_RING, INTEGER_RING
from viewlet.triggers.program import Program, Statement, Trigger, ViewDefinition
from viewlet.triggers.result import ResultKeeper
from viewlet.triggers.store import MapStore, Payload, UndoLog
from viewlet.types import Row


class Interpreter:
    """Keeps one query fresh over base tables that someone else keeps."""

    def __init__(self, program: Program, tables: Mapping[str, MapStore], log: UndoLog | None = None) -> None:
        self.program = program
        self._log = log if log is not None else UndoLog()
        self._tables = tables
        self._views = {view.name: _store_of(view, self._log) for view in program.views}
        self._result = ResultKeeper(program, self._views, self._log)
        self._due: Trigger | None = None

    def load(self) -> None:
        """Initialises every view and the result from the base tables as they are."""
        state = State(self._tables)
        for view in self.program.views:
            store = self._views[view.name]
            sums = [evaluate(f.definition, view.keys, state) for f in view.fields]
            store.assign(_payloads(view, sums))
        self._result.refresh_all()

    def apply(self, table: str, changes: Mapping[Row, int]) -> None:
        """Runs the increments of one table's trigger, before its own store changes.

        Its assignments wait until the table itself has changed: they run before the next trigger, or when the batch ends.
        """
        self._run_assignments()
        trigger = self.program.trigger(table)
        if trigger is None or not changes:
            return
        delta = MapStore()
        for row, multiplicity in changes.items():
            delta.add(row, (multiplicity,))
        state = State(self._tables, {table: delta}, self._views)
        increments = [statement for statement in trigger.statements if not statement.replaces]
        computed = [(statement.view, self._compute(statement, state)) for statement in increments]
        for view, payloads in computed:
            for key, payload in payloads.items():
                self._views[view].add(key, payload)
        self._due = trigger

    def _run_assignments(self) -> None:
        due, self._due = self._due, None
        if due is None:
            return
        state = State(self._tables, {}, self._views)
        for statement in due.statements:
            if statement.replaces:
                self._views[statement.view].assign(self._compute(statement, state))

    def finish(self) -> dict[Row, int]:
        """Ends a batch: the change of the result rows."""
        self._run_assignments()
        return self._result.refresh()

    def result(self) -> dict[Row, int]:
        """The result rows with their multiplicities."""
        return self._result.rows()

    def sizes(self) -> dict[str, int]:
        """Rows per view."""
        return {name: len(store) for name, store in self._views.items()}

    def _compute(self, statement: Statement, state: State) -> dict[Row, Payload]:
        view = self.program.view(statement.view)
        by_field = {update.field: evaluate(update.expr, statement.args, state) for update in statement.updates}
        return _payloads(view, [by_field.get(f.name, {}) for f in view.fields])


def _store_of(view: ViewDefinition, log: UndoLog) -> MapStore:
    return MapStore([f.name for f in view.fields], view.presence, log)


def _payloads(view: ViewDefinition, sums: list[dict[Row, Number]]) -> dict[Row, Payload]:
    """One payload per key from one sum per field."""
    zeros = [DOUBLE_RING.zero if f.is_float else INTEGER_RING.zero for f in view.fields]
    keys = dict.fromkeys(key for numbers in sums for key in numbers)
    return {
        key: tuple(numbers.get(key, zero) for numbers, zero in zip(sums, zeros, strict=True)) for key in keys
    }
