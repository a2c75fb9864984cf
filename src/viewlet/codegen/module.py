"""A trigger program as the source of one Python module.

    def on_orders(begin, end, each_row, multiplicity, column0, column1, ..., state, control): ...
    def refresh_spend(state, control): ...

Each trigger loops over the rows of a batch; each statement is a comment above its code. A trigger that might exceed the
capacity of a store returns the row at which it stopped, and is called again when there is more capacity. Statements for
views that may be borrowed from other engines run only as long as the view is `kept`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from viewlet.algebra.nodes import MULTIPLICITY, Var, View
from viewlet.algebra.recursion import headroom_for
from viewlet.algebra.scope import NONE
from viewlet.algebra.traverse import all_variables, atoms
from viewlet.codegen.aggregate_functions import AggregateFunction, statements_size
from viewlet.codegen.arrays import OtherArray
from viewlet.codegen.lines import Lines
from viewlet.codegen.module_writer import KEPT, Function, GeneratedModule, ModuleWriter, layout_of, views_of
from viewlet.codegen.names import hint
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.result import write_result
from viewlet.runtime.flat import Layout
from viewlet.triggers.program import Program, Statement
from viewlet.triggers.result_view import result_stores
from viewlet.triggers.shared_views import borrowable_by_rows
from viewlet.triggers.single import RowTrigger, row_trigger
from viewlet.types import Table

_HUGE_PROGRAM = 8_000
"""Nodes of statements beyond which they are not simplified again for a single row: that takes a second for 15,000."""
_LONG_TRIGGER = 700
"""Lines of statements beyond which a trigger calls them as functions."""


@dataclass(frozen=True, slots=True)
class Module:
    """The module of a trigger program: the triggers of tables, and the assignments that they entail."""

    generated: GeneratedModule
    triggers: Mapping[str, Function]
    refreshes: Mapping[str, tuple[Function, ...]]


def write_module(program: Program, tables: Mapping[str, Table]) -> Module:
    """The module of a program; NotCompilable where it needs what generated code cannot express."""
    statements = [statement for trigger in program.triggers for statement in trigger.statements]
    exprs = [update.expr for statement in statements for update in statement.updates]
    layouts = {view.name: layout_of(view) for view in program.views}
    writer = ModuleWriter([*exprs, program.result])
    with headroom_for([*exprs, program.result]):
        return _TriggerWriter(program, tables, layouts, writer, borrowable_by_rows(program)).write()


@dataclass(slots=True)
class _TriggerWriter:
    program: Program
    tables: Mapping[str, Table]
    layouts: Mapping[str, Layout]
    module: ModuleWriter
    borrowable: frozenset[str]
    temporaries: Lines = field(default_factory=Lines)
    refreshes: dict[Statement, str] = field(default_factory=dict)
    """The functions of assignments: those of one view may differ, because triggers find other views fresh."""

    def write(self) -> Module:
        module = self.module
        triggers, is_small = self.program.triggers, statements_size(self.program.statements) <= _HUGE_PROGRAM
        rows = [row_trigger(each, self.tables[each.table], None, simplified=is_small) for each in triggers]
        for each in rows:
            _refuse_write_before_read(each)
        assignments = list(dict.fromkeys(s for trigger in triggers for s in trigger.statements if s.replaces))
        for statement in assignments:
            same_view = sum(known.view == statement.view for known in self.refreshes)
            number = (same_view + 1,) if same_view else ()
            self.refreshes[statement] = module.names.function("refresh", statement.view, *number)
        increments = [statement for each in rows for statement in each.statements if not statement.replaces]
        module.share_aggregates([*increments, *assignments])
        written = {each.table: self._trigger(each) for each in rows}
        refreshing = {statement: self._refresh(statement) for statement in assignments}
        products = module.products(Lines(depth=1), self.layouts)
        result = write_result(self.program, module, products, selects=True)
        final = module.requests.layouts(self.layouts)
        for journaled in result_stores(self.program):
            final[journaled] = replace(final[journaled], journaled=True)
        generated = module.module(f"Triggers of {hint(self.program.name)}", final, result, [OtherArray(KEPT)])
        refreshes = {
            trigger.table: tuple(refreshing[s] for s in trigger.statements if s.replaces) for trigger in triggers
        }
        return Module(generated, written, refreshes)

    # Functions

    def _trigger(self, trigger: RowTrigger) -> Function:
        """The loop over the rows of a batch: room is checked, the row is read, each statement carried out.

        A long trigger calls its statements as functions: compile time grows faster than the length of a function.
        """
        name = self.module.names.function("on", trigger.table)
        self.module.names.parameter(MULTIPLICITY, "multiplicity")
        for var, column in zip(trigger.row, self.tables[trigger.table].columns, strict=True):
            self.module.names.parameter(var, column.name)
        pieces = [self._piece(s, trigger) for s in trigger.statements if not s.replaces]
        stores = dict.fromkeys(store for piece in pieces for store in piece.stores)
        called = dict.fromkeys(function for piece in pieces for function in piece.called)
        rooms = [*(piece.room for piece in pieces), *(function.room for function in called)]
        used = sorted({trigger.row.index(var) for piece in pieces for var in piece.parameters if var != MULTIPLICITY})
        body = Lines(depth=1)
        for view in dict.fromkeys(piece.view for piece in pieces if piece.view in self.borrowable):
            body.add(f"{self._keeps(view)} = {KEPT}[{self._number(view)}] != 0")
        body.open("for row in range(begin, end)")
        for i, store in enumerate(stores):
            prefix = self.module.names.store(store)
            room = [bound for each in rooms for bound in each.get(prefix, ())]
            if room:
                body.add(f"need = {' + '.join(room)}")
                kept = f"{self._keeps(store)} and " if store in self.borrowable else ""
                with body.block(f"if {kept}{prefix}_meta[ROOM] < need"):
                    body.add("control[NEEDED_ROWS] = need")
                    body.add(f"control[NEEDED_STORE] = {i}")
                    body.add("control[ROWS_DONE] = row")
                    body.add("return row")
        body.add(f"{self.module.names.of(MULTIPLICITY)} = multiplicity[row]")
        for i in used:
            body.add(f"{self.module.names.of(trigger.row[i])} = column{i}[row]")
        text = body.text()
        long = sum(len(piece.lines) for piece in pieces) > _LONG_TRIGGER
        for number, piece in enumerate(pieces, 1):
            indent = 2
            if piece.view in self.borrowable:
                text += f"        if {self._keeps(piece.view)}:\n"
                indent = 3
            if long:
                text += f"{'    ' * indent}{self._as_function(trigger.table, number, piece)}\n"
            else:
                text += piece.lines.text(indent)
        text += self._refresh_each(trigger) + "    control[ROWS_DONE] = end\n    return end\n"
        columns = (f"column{i}" for i in used)
        self.module.function(name, ("begin", "end", "each_row", "multiplicity", *columns), text)
        return Function(name, tuple(used), tuple(stores))

    def _keeps(self, view: str) -> str:
        """The variable that tells whether the statements for a view are to run."""
        return f"keeps{self._number(view)}"

    def _number(self, view: str) -> int:
        return list(self.layouts).index(view)

    def _refresh_each(self, trigger: RowTrigger) -> str:
        """Where every row is to leave the views fresh, those that are assigned are assigned after each."""
        assigned = [s for s in trigger.statements if s.replaces]
        if not assigned:
            return ""
        lines = Lines()
        lines.open("if each_row")
        for statement in assigned:
            layout = self.layouts[statement.view]
            name = self.module.names.store(layout.name)
            if layout.arity:
                lines.add(f"clear({name}_pool, {name}_index, {name}_meta, {name}_live, {name}_arity)")
            else:
                for word in range(layout.width):
                    lines.add(f"{name}_pool[0, {word}] = 0")
            lines.add(f"{self.refreshes[statement]}(state, control)")
            with lines.block("if control[FULL] != 0"):
                lines.add("control[ROWS_DONE] = row + 1")
                lines.add("return row + 1")
        return lines.text(indent=2)

    def _piece(self, statement: Statement, trigger: RowTrigger) -> _Piece:
        given = (*trigger.row, MULTIPLICITY)
        writer = self.module.products(Lines(self.temporaries), self.layouts)
        scratches = self.module.statement(writer, self.layouts[statement.view], statement, frozenset(given))
        parameters = tuple(var for var in given if _uses(statement, var))
        stores = (*views_of(statement), *scratches)
        return _Piece(statement.view, writer.lines, stores, parameters, writer.room, tuple(writer.called))

    def _as_function(self, table: str, number: int, piece: _Piece) -> str:
        """Makes a function of a statement and returns the code that calls it."""
        function = self.module.names.function("on", table, number)
        arguments = [self.module.names.of(var) for var in piece.parameters]
        self.module.function(function, arguments, piece.lines.text(indent=1) + "    return\n", "compiled")
        return f"{function}({', '.join((*arguments, 'state', 'control'))})"

    def _refresh(self, statement: Statement) -> Function:
        lines = Lines(depth=1)
        writer = self.module.products(lines, self.layouts)
        scratches = self.module.statement(writer, self.layouts[statement.view], statement, NONE)
        lines.add("return control[FULL]")
        name = self.refreshes[statement]
        self.module.function(name, (), lines.text())
        return Function(name, (), (*views_of(statement), *scratches))


@dataclass(frozen=True, slots=True)
class _Piece:
    """One statement of a trigger as code, and the stores it reads."""

    view: str
    lines: Lines
    stores: tuple[str, ...]
    parameters: tuple[Var, ...]
    room: Mapping[str, list[str]]
    called: tuple[AggregateFunction, ...]


def _refuse_write_before_read(trigger: RowTrigger) -> None:
    written: set[str] = set()
    for statement in trigger.statements:
        if statement.replaces:
            continue
        reads = {atom.name for update in statement.updates for atom in atoms(update.expr) if isinstance(atom, View)}
        if reads & (written | {statement.view}):
            raise NotCompilable("statements that read what others wrote")
        written.add(statement.view)


def _uses(statement: Statement, var: Var) -> bool:
    return var in statement.args or any(var in all_variables(update.expr) for update in statement.updates)
