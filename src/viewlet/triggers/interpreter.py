"""The reference interpreter: trigger programs on plain dictionaries. It is the semantics of a program.

Within one trigger every increment reads the state before the trigger; assignments then read the state after all
increments, in the given order. The result is stored by the keys through which it reads the views, so that a batch
updates only the rows of the result that it affects.

A batch runs as one change, or row by row: then each row runs a trigger specialised to an insertion or a deletion, and
sees the rows before it as if they had come in earlier batches. Both have the same outcome.

Views that another interpreter keeps too may be borrowed from it (`shared_views.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from viewlet.algebra.evaluate import Environment, State
from viewlet.algebra.nodes import Var
from viewlet.changes import Change
from viewlet.triggers.executor import Executor
from viewlet.triggers.guards import Guard, guard_of
from viewlet.triggers.program import Program, Statement
from viewlet.triggers.result import ResultRows
from viewlet.triggers.result_view import change_stores
from viewlet.triggers.rows import row_schema
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.shared_views import Borrowed, needed_for
from viewlet.triggers.single import row_trigger
from viewlet.triggers.step import Step, defined_contents
from viewlet.triggers.store import MapStore, Payload, RowStore, UndoLog
from viewlet.types import Datum, Row


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
        executor = Executor(program.views, tables, log)
        self._parts = _Parts(executor, ResultRows(program, executor.views, executor.log))
        self._due: _Plan | None = None

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
    def _executor(self) -> Executor:
        return self._parts.executor

    @property
    def stores(self) -> Mapping[str, MapStore]:
        """The views: together with the tables, all there is to know between two batches."""
        return self._executor.views

    def restore(self, contents: Mapping[str, dict[Row, Payload]]) -> None:
        """Initialises every view from what `stores` held once, and the result from the views."""
        for name, rows in contents.items():
            if name not in self.borrowed:
                self._executor.put(name, rows)
        if self._parts.result is not None:
            self._parts.result.refresh_all()

    def take_over(self, views: Mapping[str, MapStore]) -> None:
        """Continues from the views as another engine of the same program holds them."""
        self.restore({name: dict(store.items()) for name, store in views.items()})

    def replace(self, contents: Mapping[str, dict[Row, Payload]]) -> None:
        """Instead of triggers: makes `contents` the state of the views, as a part of the current batch."""
        for name, rows in contents.items():
            self.stores[name].replace(rows)

    # -- views that several engines read ----------------------------------------------------------------------------

    @property
    def borrowed(self) -> Mapping[str, Borrowed]:
        """The views that other engines keep."""
        return self._parts.borrowed

    @property
    def kept(self) -> frozenset[str]:
        """The views that this engine keeps."""
        return frozenset(self.stores.keys() - self.borrowed.keys())

    def can_borrow(self, name: str, other: Borrowed) -> bool:
        """Whether one of its views can be read from another engine that keeps the same."""
        alike = isinstance(other.owner, Interpreter) and other.owner._executor.log is self._executor.log
        return alike and not self._row_at_a_time and not _is_assigned(self.program, name)

    def borrow(self, views: Mapping[str, Borrowed]) -> None:
        """Reads views from the engines that keep them too, from now on; what it had of them is given up."""
        found = {name: each.owner.stores[each.name] for name, each in views.items()}
        self._read_from({**self.stores, **found}, {**self.borrowed, **views})

    def keep_again(self) -> None:
        """Keeps the views that it had borrowed, from now on."""
        if self.borrowed:
            self._read_from({name: self.own_store(name) for name in self.stores}, {})

    def keep_only(self, names: Collection[str]) -> None:
        """Maintains nothing but views that others borrow, and what that takes: its own result is given up."""
        needed = needed_for(self.program, names)
        if self._parts.result is None and self.stores.keys() == needed:
            return
        views = [view for view in self.program.views if view.name in needed]
        executor = Executor(views, self._tables, self._executor.log, self.stores)
        borrowed = {name: each for name, each in self.borrowed.items() if name in needed}
        self._parts = _Parts(executor, None, borrowed)

    def _read_from(self, stores: Mapping[str, MapStore], borrowed: Mapping[str, Borrowed]) -> None:
        """Takes other stores with the same contents, in one step."""
        executor = Executor(self.program.views, self._tables, self._executor.log, stores)
        result = None if self._parts.result is None else self._parts.result.over(executor.views, borrowed)
        self._parts = _Parts(executor, result, borrowed)

    def own_store(self, name: str) -> MapStore:
        """The store of a view, with its fields and no others; of one that is borrowed, a copy."""
        if name not in self.borrowed:
            return self.stores[name]
        view = self.program.view(name)
        copy = MapStore([f.name for f in view.fields], view.presence, self._executor.log)
        copy.assign(dict(self._rows_of(name)))
        return copy

    def _rows_of(self, name: str) -> Iterable[tuple[Row, Payload]]:
        """The rows of a view; its owner may have more fields."""
        store, fields = self.stores[name], tuple(f.name for f in self.program.view(name).fields)
        if store.fields == fields:
            return store.items()
        places = [store.field_index(field) for field in fields]
        return ((key, tuple(payload[i] for i in places)) for key, payload in store.items())

    # -- batches ----------------------------------------------------------------------------------------------------

    def guard(self, table: str) -> Guard | None:
        """What a row of a table needs to have to change anything, if that can be told."""
        return guard_of(self.program, table)

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
        elif (plan := self._batch_plan(table)) is not None:
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
        return {} if self._parts.result is None else self._parts.result.refresh()

    def result(self) -> dict[Row, int]:
        """The result rows with their multiplicities."""
        return {} if self._parts.result is None else self._parts.result.rows()

    def rows_with(self, values: Mapping[int, Collection[Datum]]) -> dict[Row, int] | None:
        """The result rows that have one of some values in each of some columns."""
        return None if self._parts.result is None else self._parts.result.rows_with(values)

    def forget_rows(self) -> None:
        """Empties the views behind the result, if changes of the result are known without them; outside a batch."""
        if names := change_stores(self.program):
            for name in names:
                self.stores[name].forget()
            if self._parts.result is not None:
                self._parts.result.forget()

    def watch(self) -> bool:
        return True

    def commit(self) -> None:
        """The owner of the undo log commits it."""

    def rollback(self) -> None:
        """The owner of the undo log has rolled it back."""

    def take_back(self, table: str) -> None:
        """The owner of the undo log has rolled it back."""

    def save(self, writer: StateWriter) -> dict[str, object]:
        for view in self.program.views:
            writer.rows(view.name, self._rows_of(view.name), len(view.keys), len(view.fields))
        return {view.name: len(view.keys) for view in self.program.views}

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        self.restore({name: dict(reader.rows(name, arity)) for name, arity in layout.items()})
        return True

    def stats(self) -> dict[str, object]:
        return {"stored": self.sizes(), "borrowed": {name: each.name for name, each in self.borrowed.items()}}

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {}

    def sizes(self) -> dict[str, int]:
        """Rows per view that it keeps."""
        return {name: len(store) for name, store in self.stores.items() if name not in self.borrowed}

    def _batch_plan(self, table: str) -> _Plan | None:
        """What a change of a table does; worked out when the first one comes."""
        plans = self._parts.batch_plans
        if table not in plans:
            trigger = self.program.trigger(table)
            plans[table] = None if trigger is None else self._plan(self._own_statements(trigger.statements), ())
        return plans[table]

    def _own_statements(self, statements: Iterable[Statement]) -> list[Statement]:
        """Those for the views that it keeps."""
        kept = self.kept
        return [statement for statement in statements if statement.view in kept]

    def _row_plan(self, table: str, sign: int) -> _Plan:
        """What the insertion or the deletion of one row does; worked out when the first such row comes."""
        plan = self._parts.row_plans.get((table, sign))
        if plan is None:
            trigger = self.program.trigger(table)
            single = row_trigger(trigger, row_schema(trigger), sign) if trigger is not None else None
            plan = self._plan(single.statements, single.row) if single is not None else _Plan((), (), ())
            self._parts.row_plans[table, sign] = plan
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


@dataclass(frozen=True, slots=True)
class _Parts:
    """What changes at once when views are borrowed; without a result, only what others borrow is maintained."""

    executor: Executor
    result: ResultRows | None
    borrowed: Mapping[str, Borrowed] = field(default_factory=dict)
    batch_plans: dict[str, _Plan | None] = field(default_factory=dict)
    row_plans: dict[tuple[str, int], _Plan] = field(default_factory=dict)


def _is_assigned(program: Program, name: str) -> bool:
    return any(statement.view == name and statement.replaces for statement in program.statements)
