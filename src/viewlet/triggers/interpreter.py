"""The reference interpreter: trigger programs on plain dictionaries. It is the semantics of a program.

Within one trigger every increment reads the state before the trigger; assignments then read the state after all
increments, in the given order. The result is stored by the keys through which it reads the views, so that a batch
updates only the rows of the result that it affects.

A batch runs as one change, or row by row: then each row runs a trigger specialised to an insertion or a deletion, and
sees the rows before it as if they had come in earlier batches. Both have the same outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from viewlet.algebra.evaluate import Environment, State
from viewlet.algebra.nodes import Var
from viewlet.changes import Change
from viewlet.triggers.executor import Executor
from viewlet.triggers.program import Program, Statement
from viewlet.triggers.result import ResultRows
from viewlet.triggers.result_view import change_stores
from viewlet.triggers.rows import row_schema
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.single import row_trigger
from viewlet.triggers.step import Step, defined_contents
from viewlet.triggers.store import MapStore, Payload, RowStore, UndoLog
from viewlet.types import Row


class Interpreter:
    """Maintains one query, as an engine (`engine/contract.py`); its owner has the base tables and the undo log."""

    name = "interpreter"

    def __init__(
        self,
        program: Program,
        tables: Mapping[str, RowStore],
        log: UndoLog | None = None,
        row_at_a_time: bool = False,
    ) -> None:
        self.program = program
        self._row_at_a_time = row_at_a_time
        self._tables = tables
        self._executor = Executor(program.views, tables, log)
        self._result = ResultRows(program, self._executor.views, self._executor.log)
        self._due: _Plan | None = None
        self._row_plans: dict[tuple[str, int], _Plan] = {}

    @property
    def plan(self) -> Program:
        return self.program

    @property
    def digest(self) -> str:
        return self.program.state_digest

    def load(self) -> None:
        """Initialises every view and the result from the base tables as they are."""
        self.restore(self.evaluate(self._tables))

    def evaluate(self, tables: Mapping[str, RowStore]) -> dict[str, dict[Row, Payload]]:
        """What every view holds over base tables, by its definition."""
        state = State(tables)
        return {view.name: defined_contents(view, state) for view in self.program.views}

    @property
    def stores(self) -> Mapping[str, MapStore]:
        """The views: together with the tables, all there is to know between two batches."""
        return self._executor.views

    def restore(self, contents: Mapping[str, dict[Row, Payload]]) -> None:
        """Initialises every view from what `stores` held once, and the result from the views."""
        for name, rows in contents.items():
            self._executor.put(name, rows)
        self._result.refresh_all()

    def take_over(self, views: Mapping[str, MapStore]) -> None:
        """Continues from the views as another engine of the same program holds them."""
        self.restore({name: dict(store.items()) for name, store in views.items()})

    def replace(self, contents: Mapping[str, dict[Row, Payload]]) -> None:
        """Instead of triggers: makes `contents` the state of the views, as a part of the current batch."""
        for name, rows in contents.items():
            self.stores[name].replace(rows)

    def apply(self, table: str, change: Change) -> None:
        """Runs the increments of one table's trigger, before its own store changes.

        Its assignments wait until the table itself has changed: they run before the next trigger, or at the end.
        """
        self._run_assignments()
        changes = change.rows()
        if not changes:
            return
        if self._row_at_a_time:
            self._apply_rows(table, changes)
        elif (plan := self._batch_plans.get(table)) is not None:
            self._executor.deltas = {table: MapStore.of_rows(changes)}
            self._run_increments(plan, {})
            self._executor.deltas = {}

    def _apply_rows(self, table: str, changes: Mapping[Row, int]) -> None:
        """Each row sees those before it: they are in the table as long as this takes, until the caller adds them."""
        store = self._tables[table]
        for row, multiplicity in changes.items():
            sign = 1 if multiplicity > 0 else -1
            plan = self._row_plan(table, sign)
            for _ in range(abs(multiplicity)):
                self._run_increments(plan, plan.bind(row))
                store.add(row, (sign,))
                self._run_assignments()
        for row, multiplicity in changes.items():
            store.add(row, (-multiplicity,))

    def _run_increments(self, plan: _Plan, given: Environment) -> None:
        self._executor.increment(plan.increments, given)
        if plan.assignments:
            self._executor.log.record(self._forget_assignments)
            self._due = plan

    def _run_assignments(self) -> None:
        due, self._due = self._due, None
        if due is not None:
            self._executor.assign(due.assignments)

    def _forget_assignments(self) -> None:
        self._due = None

    def finish(self) -> dict[Row, int]:
        """Ends a batch: the change of the result rows."""
        self._run_assignments()
        return self._result.refresh()

    def result(self) -> dict[Row, int]:
        """The result rows with their multiplicities."""
        return self._result.rows()

    def forget_rows(self) -> None:
        """Empties the views behind the result, if changes of the result are known without them; outside a batch."""
        if names := change_stores(self.program):
            for name in names:
                self.stores[name].forget()
            self._result.forget()

    def watch(self) -> bool:
        return True

    def commit(self) -> None:
        """The owner of the undo log commits it."""

    def rollback(self) -> None:
        """The owner of the undo log has rolled it back."""

    def save(self, writer: StateWriter) -> dict[str, object]:
        for view in self.program.views:
            writer.rows(view.name, self.stores[view.name].items(), len(view.keys), len(view.fields))
        return {view.name: len(view.keys) for view in self.program.views}

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        self.restore({name: dict(reader.rows(name, arity)) for name, arity in layout.items()})
        return True

    def stats(self) -> dict[str, object]:
        return {"stored": self.sizes()}

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {}

    def sizes(self) -> dict[str, int]:
        """Rows per view."""
        return {name: len(store) for name, store in self.stores.items()}

    @cached_property
    def _batch_plans(self) -> dict[str, _Plan]:
        return {trigger.table: self._plan(trigger.statements, ()) for trigger in self.program.triggers}

    def _row_plan(self, table: str, sign: int) -> _Plan:
        """What the insertion or the deletion of one row does; worked out when the first such row comes."""
        plan = self._row_plans.get((table, sign))
        if plan is None:
            trigger = self.program.trigger(table)
            single = row_trigger(trigger, row_schema(trigger), sign) if trigger is not None else None
            plan = self._plan(single.statements, single.row) if single is not None else _Plan((), (), ())
            self._row_plans[table, sign] = plan
        return plan

    def _plan(self, statements: Iterable[Statement], row: tuple[Var, ...]) -> _Plan:
        increments, assignments = list[Step](), list[Step]()
        for statement in statements:
            if statement.replaces:
                assignments.append(self._executor.prepare(statement))
            else:
                increments.append(self._executor.prepare(statement, frozenset(row)))
        return _Plan(row, tuple(increments), tuple(assignments))


@dataclass(frozen=True, slots=True)
class _Plan:
    """The statements of one trigger; `row` are the parameters of a row trigger."""

    row: tuple[Var, ...]
    increments: tuple[Step, ...]
    assignments: tuple[Step, ...]

    def bind(self, row: Row) -> Environment:
        return {var.name: value for var, value in zip(self.row, row, strict=False)}
