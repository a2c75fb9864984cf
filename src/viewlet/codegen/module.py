"""A trigger program as the source of one Python module.

    def on_orders(begin, end, each_row, multiplicity, column0, column1, ..., state, control): ...
    def refresh_spend(state, control): ...

Each trigger loops over the rows of a batch; each statement is a comment above its code. A trigger that might exceed the
capacity of a store returns the row at which it stopped, and is called again when there is more capacity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from viewlet.algebra.nodes import (
    MULTIPLICITY,
    Cond,
    Var,
    View,
)
from viewlet.algebra.order import order
from viewlet.algebra.printer import show
from viewlet.algebra.scope import NONE
from viewlet.algebra.traverse import all_variables, walk
from viewlet.codegen.arrays import Arrays, StateArray
from viewlet.codegen.asked import Asked
from viewlet.codegen.assembly import function_text, module_text
from viewlet.codegen.fusion import Term, fuse
from viewlet.codegen.lines import Lines
from viewlet.codegen.names import Identifiers, comment, hint
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.numbers import Product
from viewlet.codegen.products import Bound, ProductWriter
from viewlet.codegen.scalars import Formula, Lookup, Tables, makes_strings
from viewlet.codegen.stretches import Top
from viewlet.runtime.flat import Layout
from viewlet.triggers.program import COUNT_FIELD, Program, Statement, ViewDefinition
from viewlet.triggers.single import RowTrigger, row_trigger
from viewlet.types import Table

READ_RESULT = "read_result"
_LONG_TRIGGER = 700
"""Lines of statements beyond which a trigger calls them as functions."""


@dataclass(frozen=True, slots=True)
class Function:
    """A generated function: the columns of the changed table and the stores that it takes.

    A function that reads the result selects by order if it visits no row that a condition rejects.
    """

    name: str
    columns: tuple[int, ...]
    stores: tuple[str, ...]
    selects_by_order: bool = True


@dataclass(frozen=True, slots=True)
class Module:
    source: str
    layouts: tuple[Layout, ...]
    triggers: Mapping[str, Function]
    refreshes: Mapping[str, tuple[Function, ...]]
    result: Function | None
    lookups: tuple[Lookup, ...]
    strings: tuple[str, ...]
    formulas: tuple[Formula, ...]
    answers: int
    arrays: tuple[StateArray, ...]

    def lengths(self) -> dict[str, int]:
        """Lines of each function."""
        pieces = self.source.split("\ndef ")[1:]
        return {piece.partition("(")[0]: piece.count("\n") for piece in pieces}


def write_module(program: Program, tables: Mapping[str, Table]) -> Module:
    """The module of a program; NotCompilable where it needs what generated code cannot express."""
    return _ModuleWriter(program, tables).write()


@dataclass(slots=True)
class _ModuleWriter:
    program: Program
    tables: Mapping[str, Table]
    lookups: Tables = field(default_factory=Tables)
    names: Identifiers = field(default_factory=Identifiers)
    asked: Asked = field(default_factory=Asked)
    functions: list[tuple[str, str]] = field(default_factory=list)
    temporaries: Lines = field(default_factory=Lines)

    def write(self) -> Module:
        statements = [statement for trigger in self.program.triggers for statement in trigger.statements]
        exprs = [update.expr for statement in statements for update in statement.updates]
        self.lookups.makes_strings = makes_strings([*exprs, self.program.result])
        layouts = {view.name: layout_of(view) for view in self.program.views}
        bodies: list[_NamedBody] = []
        for trigger in self.program.triggers:
            rows = row_trigger(trigger, self.tables[trigger.table], None)
            _refuse_write_before_read(rows)
            name = self.names.function("on", trigger.table)
            bodies.append((name, rows, self._trigger_body(rows, layouts)))
        refreshed = {s.view: s for t in self.program.triggers for s in t.statements if s.replaces}
        for view, statement in refreshed.items():
            bodies.append((self._refresh_name(view), statement, self._refresh_body(statement, layouts)))
        if (read := result_body(self.program, self._writer(Lines(depth=1), layouts), selects=True)) is not None:
            bodies.append((READ_RESULT, None, read))
        final = self.asked.layouts(layouts)
        if (journaled := result_store(self.program)) is not None:
            final[journaled] = replace(final[journaled], journaled=True)
        return self._assemble(bodies, final)

    def _assemble(
        self, bodies: list[tuple[str, RowTrigger | Statement | None, Body]], layouts: dict[str, Layout]
    ) -> Module:
        arrays = Arrays(layouts, self.names, self.lookups.arrays())
        texts = [function_text(head, text, arrays) for head, text in self.functions]
        triggers: dict[str, Function] = {}
        refreshing: dict[str, Function] = {}
        result: Function | None = None
        for name, what, body in bodies:
            function = Function(name, body.columns, body.stores, body.selects_by_order)
            extra = "begin, end, each_row, multiplicity, " if isinstance(what, RowTrigger) else ""
            columns = "".join(f"column{i}, " for i in body.columns)
            if what is None:
                extra, columns = "capacity, weights, ", "".join(f"out{i}, " for i in body.columns)
            head = f"@entry\ndef {function.name}({extra}{columns}state, control):\n"
            texts.append(function_text(head, body.text, arrays))
            if isinstance(what, RowTrigger):
                triggers[what.table] = function
            elif what is not None:
                refreshing[what.view] = function
            else:
                result = function
        refreshes = {
            trigger.table: tuple(refreshing[s.view] for s in trigger.statements if s.replaces)
            for trigger in self.program.triggers
        }
        return Module(
            module_text(f"Triggers of {hint(self.program.name)}", arrays, texts),
            tuple(layouts.values()),
            triggers,
            refreshes,
            result,
            tuple(self.lookups.lookups),
            tuple(self.lookups.strings),
            tuple(self.lookups.formulas),
            self.lookups.answers,
            arrays.order,
        )

    # Functions

    def _trigger_body(self, trigger: RowTrigger, layouts: Mapping[str, Layout]) -> Body:
        """The loop over the rows of a batch: room is checked, the row is read, each statement carried out.

        A long trigger calls its statements as functions: compile time grows faster than the length of a function.
        """
        pieces = [self._piece(s, trigger, layouts) for s in trigger.statements if not s.replaces]
        stores = dict.fromkeys(store for piece in pieces for store in piece.stores)
        used = sorted({trigger.row.index(var) for piece in pieces for var in piece.parameters if var != MULTIPLICITY})
        body = Lines(depth=1)
        body.open("for row in range(begin, end)")
        for i, store in enumerate(stores):
            room = [bound for piece in pieces for bound in piece.room.get(self.names.store(store), ())]
            if room:
                name = self.names.store(store)
                body.add(f"need = {' + '.join(room)}")
                with body.block(f"if {name}_meta[ROOM] < need"):
                    body.add("control[NEEDED_ROWS] = need")
                    body.add(f"control[NEEDED_STORE] = {i}")
                    body.add("control[ROWS_DONE] = row")
                    body.add("return row")
        body.add(f"{self.names.of(MULTIPLICITY)} = multiplicity[row]")
        for i in used:
            body.add(f"{self.names.of(trigger.row[i])} = column{i}[row]")
        text = body.text()
        long = sum(len(piece.lines) for piece in pieces) > _LONG_TRIGGER
        for number, piece in enumerate(pieces, 1):
            if long:
                text += f"        {self._as_function(trigger.table, number, piece)}\n"
            else:
                text += piece.lines.text(indent=2)
        text += self._refresh_each(trigger, layouts) + "    control[ROWS_DONE] = end\n    return end\n"
        return Body(text, tuple(used), tuple(stores))

    def _refresh_each(self, trigger: RowTrigger, layouts: Mapping[str, Layout]) -> str:
        """Where every row is to leave the views fresh, those that are assigned are assigned after each."""
        assigned = [layouts[s.view] for s in trigger.statements if s.replaces]
        if not assigned:
            return ""
        lines = Lines()
        lines.open("if each_row")
        for layout in assigned:
            name = self.names.store(layout.name)
            if layout.arity:
                lines.add(f"clear({name}_pool, {name}_index, {name}_meta, {name}_live, {name}_arity)")
            else:
                for word in range(layout.width):
                    lines.add(f"{name}_pool[0, {word}] = 0")
            lines.add(f"{self._refresh_name(layout.name)}(state, control)")
            with lines.block("if control[FULL] != 0"):
                lines.add("control[ROWS_DONE] = row + 1")
                lines.add("return row + 1")
        return lines.text(indent=2)

    def _piece(self, statement: Statement, trigger: RowTrigger, layouts: Mapping[str, Layout]) -> _Piece:
        given = (*trigger.row, MULTIPLICITY)
        writer, known = self._writer(Lines(self.temporaries), layouts), len(self.asked.scratches)
        for group in fuse(statement.updates):
            self._statement(writer, statement, group, frozenset(given))
        stores = (*_views_of(statement), *(layout.name for layout in self.asked.scratches[known:]))
        parameters = tuple(var for var in given if _uses(statement, var))
        return _Piece(statement.view, writer.lines, stores, parameters, writer.room)

    def _as_function(self, table: str, number: int, piece: _Piece) -> str:
        """Makes a function of a statement and returns the code that calls it."""
        function = self.names.function("on", table, number)
        arguments = "".join(self.names.of(var) + ", " for var in piece.parameters)
        signature = f"{function}({arguments}state, control)"
        self.functions.append((f"@compiled\ndef {signature}:\n", piece.lines.text(indent=1) + "    return\n"))
        return signature

    def _refresh_body(self, statement: Statement, layouts: Mapping[str, Layout]) -> Body:
        lines = Lines(depth=1)
        writer, known = self._writer(lines, layouts), len(self.asked.scratches)
        for group in fuse(statement.updates):
            self._statement(writer, statement, group, NONE)
        lines.add("return control[FULL]")
        stores = (*_views_of(statement), *(layout.name for layout in self.asked.scratches[known:]))
        return Body(lines.text(), (), stores)

    def _refresh_name(self, view: str) -> str:
        return self.names.function("refresh", view)

    def _writer(self, lines: Lines, layouts: Mapping[str, Layout]) -> ProductWriter:
        return ProductWriter(lines, layouts, self.names, self.lookups, self.asked)

    def _statement(self, writer: ProductWriter, statement: Statement, group: list[Term], given: Bound) -> None:
        lines, depth = writer.lines, writer.lines.depth
        for term in group:
            op = "-=" if term.negative else ":=" if statement.replaces else "+="
            args = ", ".join(arg.name for arg in statement.args)
            lines.add(comment(f"{statement.view}[{args}].{term.field} {op} {show(term.expr)}"))
        layout = writer.layouts[statement.view]
        fields = [term.field for term in group]

        def add(products: list[Product], bound: Bound) -> None:
            writer.add_to(layout, [self.names.key_word(arg) for arg in statement.args], fields, products)

        numbers = [Product(negative=term.negative) for term in group]
        writer.write([term.expr for term in group], given, numbers, add)
        lines.close_to(depth)


@dataclass(frozen=True, slots=True)
class _Piece:
    """One statement of a trigger as code, and the stores it reads."""

    target: str
    lines: Lines
    stores: tuple[str, ...]
    parameters: tuple[Var, ...]
    room: Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class Body:
    """The code of a function, and its parameters."""

    text: str
    columns: tuple[int, ...]
    stores: tuple[str, ...]
    selects_by_order: bool = True


_NamedBody = tuple[str, RowTrigger | Statement | None, Body]
"""A function to be: its name, what it carries out (nothing for the one that reads the result), its code."""


def result_body(program: Program, writer: ProductWriter, selects: bool) -> Body | None:
    """Writes the rows of the result to arrays, as far as they have room, and returns how many there are.

    Of a result with a LIMIT, the rows that can be among the first are enough, if it `selects`. None where the result
    needs what generated code cannot express: then it is evaluated in Python.
    """
    lines, asked = writer.lines, writer.asked
    lines.add("n = 0")
    known, output = len(asked.scratches), program.query.output

    def put(products: list[Product], bound: Bound) -> None:
        if not bound.issuperset(output):
            raise NotCompilable("a result without rows")
        (weight,) = writer.numbers.evaluate(products[0], "count")
        with lines.block("if n < capacity"):
            for i, var in enumerate(output):
                lines.add(f"out{i}[n] = {writer.names.of(var)}")
            lines.add(f"weights[n] = {weight}")
        lines.add("n += 1")

    expr = order(program.result)
    query = program.query
    if selects and query.limit is not None and query.order:
        first = query.order[0]
        writer.stretches.top = Top(first.var, first.descending, query.limit + query.offset + 1)
    try:
        if writer.kind_of(expr) != "count":
            return None
        writer.write([expr], NONE, [Product()], put)
    except NotCompilable:
        del asked.scratches[known:]
        return None
    lines.close_to(1)
    lines.add("return n")
    read = dict.fromkeys(node.name for node in walk(expr) if isinstance(node, View))
    stores = (*read, *(layout.name for layout in asked.scratches[known:]))
    conditions = {node.scalar for node in walk(expr) if isinstance(node, Cond)}
    by_order = conditions <= writer.stretches.covered
    return Body(lines.text(), tuple(range(len(output))), stores, by_order)


def layout_of(view: ViewDefinition) -> Layout:
    kinds = tuple("double" if f.is_float else "count" if f.name == COUNT_FIELD else "wide" for f in view.fields)
    return Layout(view.name, len(view.keys), tuple(f.name for f in view.fields), kinds)


def _views_of(statement: Statement) -> list[str]:
    read = [node.name for update in statement.updates for node in walk(update.expr) if isinstance(node, View)]
    return [statement.view, *dict.fromkeys(name for name in read if name != statement.view)]


def _refuse_write_before_read(trigger: RowTrigger) -> None:
    written: set[str] = set()
    for statement in trigger.statements:
        if statement.replaces:
            continue
        reads = {node.name for update in statement.updates for node in walk(update.expr) if isinstance(node, View)}
        if reads & (written | {statement.view}):
            raise NotCompilable("statements that read what others wrote")
        written.add(statement.view)


def _uses(statement: Statement, var: Var) -> bool:
    return var in statement.args or any(var in all_variables(update.expr) for update in statement.updates)


def result_store(program: Program) -> str | None:
    """The one view whose rows make the result, each on its own: then a change of the result is one of those rows."""
    atoms = [node for node in walk(program.result) if isinstance(node, View)]
    if len({(atom.name, atom.args) for atom in atoms}) != 1 or len(set(atoms[0].args)) < len(atoms[0].args):
        return None
    name = atoms[0].name
    assigned = any(s.replaces and s.view == name for trigger in program.triggers for s in trigger.statements)
    return None if assigned else name
