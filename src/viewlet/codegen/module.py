"""A trigger program as the source of one Python module.

    def on_orders(begin, end, multiplicity, orderkey, custkey, ..., <arrays of the stores>): ...
    def refresh_spend(<arrays of the stores>): ...

Each trigger loops over the rows of a batch; the statement it carries out stands above its code as a comment. A trigger
that might run out of room returns the row it stopped at, and is called again when there is more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from viewlet.algebra.nodes import (
    MULTIPLICITY,
    Add,
    Expr,
    Neg,
    Scalar,
    Sum,
    Value,
    Var,
    View,
    factors_of,
)
from viewlet.algebra.printer import show
from viewlet.algebra.scope import NONE
from viewlet.algebra.traverse import all_variables, walk
from viewlet.codegen.lines import Lines
from viewlet.codegen.names import Identifiers
from viewlet.codegen.numbers import Product
from viewlet.codegen.products import Bound, ProductWriter, tuple_code
from viewlet.codegen.scalars import NotCompilable, Tables
from viewlet.runtime.flat import WIDTHS, Layout
from viewlet.triggers.program import COUNT_FIELD, Program, Statement, Update, ViewDefinition
from viewlet.triggers.single import RowTrigger, row_trigger
from viewlet.types import Table

HEADER = '''"""Triggers of {name}. Generated; set VIEWLET_JIT=0 to step through them."""
import numpy as np

from viewlet.runtime.arithmetic import NULL, dd_add, dd_mul, dd_of_int, dd_of_wide, month_of, year_of
from viewlet.runtime.jit import compiled, entry
from viewlet.runtime.probe import clear, find, find_head, insert, link, remove, unlink
from viewlet.runtime.wide import LIMIT_HIGH, bits_of, double_of, wide_add, wide_mul, wide_product

NAN = np.nan

'''


@dataclass(frozen=True, slots=True)
class Function:
    """A generated function: which columns of the changed table and which stores it takes."""

    name: str
    columns: tuple[int, ...]
    stores: tuple[str, ...]
    direct: tuple[str, ...] = ()  # stores that gain at most one row per changed row


@dataclass(frozen=True, slots=True)
class Module:
    source: str
    layouts: tuple[Layout, ...]
    triggers: Mapping[str, Function]
    refreshes: Mapping[str, tuple[Function, ...]]
    lookups: tuple[tuple[Scalar, Var], ...]
    strings: tuple[str, ...]


def write_module(program: Program, tables: Mapping[str, Table]) -> Module:
    """The module of a program; NotCompilable where it needs what generated code cannot express."""
    return _ModuleWriter(program, tables).write()


@dataclass(slots=True)
class _ModuleWriter:
    program: Program
    tables: Mapping[str, Table]
    lookups: Tables = field(default_factory=Tables)
    names: Identifiers = field(default_factory=Identifiers)
    slices: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    adders: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)
    scratches: list[Layout] = field(default_factory=list)

    def write(self) -> Module:
        layouts = {view.name: _layout(view) for view in self.program.views}
        bodies: list[tuple[str, RowTrigger | Statement, _Body]] = []
        for trigger in self.program.triggers:
            rows = row_trigger(trigger, self.tables[trigger.table], None)
            _refuse_write_before_read(rows)
            bodies.append((f"on_{trigger.table}", rows, self._trigger_body(rows, layouts)))
        refreshed = {s.view: s for t in self.program.triggers for s in t.statements if s.replaces}
        for view, statement in refreshed.items():
            bodies.append((f"refresh_{view}", statement, self._refresh_body(statement, layouts)))
        final = {
            name: Layout(layout.name, layout.arity, layout.fields, layout.kinds, tuple(self.slices.get(name, ())))
            for name, layout in layouts.items()
        }
        final |= {layout.name: layout for layout in self.scratches}
        return self._assemble(bodies, final)

    def _assemble(self, bodies: list[tuple[str, RowTrigger | Statement, _Body]], layouts: dict[str, Layout]) -> Module:
        parts = [HEADER.format(name=self.program.name)]
        parts += [self._adder(view, fields, layouts[view]) for view, fields in self.adders]
        triggers: dict[str, Function] = {}
        functions: dict[str, Function] = {}
        for name, what, body in bodies:
            function = Function(_identifier(name), body.columns, body.stores, body.direct)
            extra = "begin, end, multiplicity, " if isinstance(what, RowTrigger) else ""
            columns = "".join(f"column{i}, " for i in body.columns)
            arrays = "".join(f"{array}, " for view in body.stores for array in self._arrays(layouts[view]))
            tables = "".join(f"lookup{i}, " for i in range(len(self.lookups.lookups)))
            head = f"@entry\ndef {function.name}({extra}{columns}{arrays}{tables}strings, ranks, control):\n"
            parts.append(head + self._with_arrays(body.text, layouts))
            if isinstance(what, RowTrigger):
                triggers[what.table] = function
            else:
                functions[what.view] = function
        refreshes = {
            trigger.table: tuple(functions[s.view] for s in trigger.statements if s.replaces)
            for trigger in self.program.triggers
        }
        source = "\n\n".join(parts)
        return Module(
            source, tuple(layouts.values()), triggers, refreshes, tuple(self.lookups.lookups), tuple(self.lookups.strings)
        )

    def _with_arrays(self, text: str, layouts: dict[str, Layout]) -> str:
        for view, layout in layouts.items():
            text = text.replace(_arrays_mark(view), "".join(f"{array}, " for array in self._arrays(layout)))
        return text

    def _arrays(self, layout: Layout) -> list[str]:
        name = self.names.store(layout.name)
        pairs = [f"{name}_{kind}{j}" for j in range(len(layout.slices)) for kind in ("heads", "links")]
        return [f"{name}_{part}" for part in layout.parts] + pairs

    # Functions

    def _trigger_body(self, trigger: RowTrigger, layouts: Mapping[str, Layout]) -> _Body:
        lines = Lines()
        used = sorted({i for i, var in enumerate(trigger.row) if _uses(trigger, var)})
        lines.open("def f()")
        lines.open("for row in range(begin, end)")
        writer, known = self._writer(lines, layouts), len(self.scratches)
        room = lines.fresh("ROOM")
        lines.add(room)
        lines.add(f"{self.names.of(MULTIPLICITY)} = multiplicity[row]")
        for i in used:
            lines.add(f"{self.names.of(trigger.row[i])} = column{i}[row]")
        given = frozenset((*trigger.row, MULTIPLICITY))
        direct: dict[str, None] = {}
        stores: dict[str, None] = {}
        for statement in trigger.statements:
            if statement.replaces:
                continue
            stores |= dict.fromkeys(_views_of(statement))
            for group in fuse(statement.updates):
                self._statement(writer, statement, group, given)
            if set(writer.room.get(self.names.store(statement.view), [])) == {"1"}:
                direct[statement.view] = None
        stores |= dict.fromkeys(layout.name for layout in self.scratches[known:])
        lines.close_to(1)
        lines.add("return end")
        text = lines.text().removeprefix("def f():\n")
        guard = [
            f"        need = {' + '.join(dict.fromkeys(writer.room[name]))}\n"
            f"        if {name}_pool.shape[0] - {name}_meta[0] < need:\n"
            f"            control[2] = need\n            control[3] = {i}\n            return row"
            for i, view in enumerate(stores)
            if (name := self.names.store(view)) in writer.room
        ]
        text = text.replace(f"        {room}", "\n".join(guard) or "        pass", 1)
        return _Body(text, tuple(used), tuple(stores), tuple(direct))

    def _refresh_body(self, statement: Statement, layouts: Mapping[str, Layout]) -> _Body:
        lines = Lines()
        lines.open("def f()")
        writer, known = self._writer(lines, layouts), len(self.scratches)
        for group in fuse(statement.updates):
            self._statement(writer, statement, group, NONE)
        lines.add("return control[1]")
        stores = (*_views_of(statement), *(layout.name for layout in self.scratches[known:]))
        return _Body(lines.text().removeprefix("def f():\n"), (), stores)

    def _writer(self, lines: Lines, layouts: Mapping[str, Layout]) -> ProductWriter:
        writer = ProductWriter(lines, layouts, self.names, self.lookups)
        writer.slices = self.slices
        writer.scratches = self.scratches
        writer.adder = self._adder_name
        return writer

    def _statement(self, writer: ProductWriter, statement: Statement, group: list[Update], given: Bound) -> None:
        lines, depth = writer.lines, writer.lines.depth
        for update in group:
            op = ":=" if statement.replaces else "+="
            args = ", ".join(arg.name for arg in statement.args)
            lines.add(f"# {statement.view}[{args}].{update.field} {op} {show(update.expr)}"[:400])
        layout = writer.layouts[statement.view]
        fields = tuple(update.field for update in group)
        adder = self._adder_name(statement.view, fields)

        def add(products: list[Product], bound: Bound) -> None:
            words: list[str] = []
            for update, product in zip(group, products, strict=True):
                words += writer.numbers.evaluate(product, layout.kind(update.field))
            keys = [self.names.key_word(arg) for arg in statement.args]
            if keys:
                writer.note_room(self.names.store(statement.view))
            lines.add(f"{adder}({_arrays_mark(statement.view)}{', '.join([*keys, *words])}, control)")

        writer.write([update.expr for update in group], given, [Product() for _ in group], add)
        lines.close_to(depth)

    def _adder_name(self, view: str, fields: tuple[str, ...]) -> str:
        known = self.adders
        if (view, fields) not in known:
            known[view, fields] = _identifier(f"add_{view}_{len(known)}")
        return known[view, fields]

    def _adder(self, view: str, fields: tuple[str, ...], layout: Layout) -> str:
        """The function that adds to some fields of one row, making or removing the row as needed."""
        lines = Lines()
        arrays = list(layout.parts)
        arrays += [f"{kind}{j}" for j in range(len(layout.slices)) for kind in ("heads", "links")]
        keys = [f"k{i}" for i in range(layout.arity)]
        words = [f"d{i}_{w}" for i, name in enumerate(fields) for w in range(WIDTHS[layout.kind(name)])]
        lines.add("@compiled")
        lines.open(f"def {self.adders[view, fields]}({', '.join([*arrays, *keys, *words])}, control)")
        if layout.arity:
            lines.add(f"key = {tuple_code(keys)}")
            lines.add("slot = find(pool, index, key)")
            with lines.block("if slot < 0"):
                lines.add("slot = insert(pool, index, meta, live, key)")
                with lines.block("if slot < 0"):
                    lines.add("control[1] = 1")
                    lines.add("return")
                for j, positions in enumerate(layout.slices):
                    lines.add(f"link(pool, heads{j}, links{j}, meta, {j}, {positions!r}, slot)")
        else:
            lines.add("slot = 0")
        for i, name in enumerate(fields):
            self._add_field(lines, layout, i, name)
        if layout.arity:
            exact = [
                f"pool[slot, {layout.offset(name) + w}] == 0"
                for name, kind in zip(layout.fields, layout.kinds, strict=True)
                if kind != "double"
                for w in range(WIDTHS[kind])
            ]
            with lines.block(f"if {' and '.join(exact)}"):
                for j, positions in enumerate(layout.slices):
                    lines.add(f"unlink(pool, heads{j}, links{j}, {positions!r}, slot)")
                lines.add("remove(pool, index, meta, live, key, slot)")
        return lines.text()

    @staticmethod
    def _add_field(lines: Lines, layout: Layout, i: int, name: str) -> None:
        at, kind = layout.offset(name), layout.kind(name)
        match kind:
            case "count":
                lines.add(f"pool[slot, {at}] += d{i}_0")
            case "wide":
                lines.add(f"high, low = wide_add(pool[slot, {at}], pool[slot, {at + 1}], d{i}_0, d{i}_1)")
                lines.add(f"pool[slot, {at}] = high")
                lines.add(f"pool[slot, {at + 1}] = low")
                with lines.block("if high > LIMIT_HIGH or high < -LIMIT_HIGH"):
                    lines.add("control[0] = 1")
            case _:
                lines.add(f"first, second = dd_add(floats[slot, {at}], floats[slot, {at + 1}], d{i}_0, d{i}_1)")
                lines.add(f"floats[slot, {at}] = first")
                lines.add(f"floats[slot, {at + 1}] = second")


@dataclass(frozen=True, slots=True)
class _Body:
    text: str
    columns: tuple[int, ...]
    stores: tuple[str, ...]
    direct: tuple[str, ...] = ()


def fuse(updates: Sequence[Update]) -> list[list[Update]]:
    """Updates whose expressions have the same shape, together; the count first, so that presence is right early."""
    ordered = sorted(updates, key=lambda update: update.field != COUNT_FIELD)
    groups: dict[object, list[Update]] = {}
    for update in ordered:
        groups.setdefault(_skeleton(update.expr), []).append(update)
    return list(groups.values())


def _skeleton(expr: Expr) -> object:
    """The expression without what it multiplies."""
    match expr:
        case Add(terms):
            return ("+", tuple(_skeleton(term) for term in terms))
        case Neg(body):
            return ("-", _skeleton(body))
        case Sum(keys, body):
            return ("Sum", frozenset(keys), _skeleton(body))
        case View(name, _, args):
            return (name, args)
        case _:
            factors = factors_of(expr)
            if factors == (expr,) and not isinstance(expr, Value):
                return expr
            kept = tuple(_skeleton(factor) for factor in factors if not isinstance(factor, Value))
            return kept[0] if len(kept) == 1 else kept


def _layout(view: ViewDefinition) -> Layout:
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


def _uses(trigger: RowTrigger, var: Var) -> bool:
    return any(
        var in statement.args or any(var in all_variables(update.expr) for update in statement.updates)
        for statement in trigger.statements
    )


def _identifier(text: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in text)


def _arrays_mark(view: str) -> str:
    """Stands for the arrays of a store until all its slices are known."""
    return f"<{view}>"
