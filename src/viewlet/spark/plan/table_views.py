"""Base tables as views: a distributed program stores the rows it reads like any other view.

    on lineitem: v[custkey] += Sum[custkey](Δlineitem(orderkey, price) * orders(orderkey, custkey, status))
    on lineitem: v[custkey] += Sum[custkey](Δlineitem(orderkey, price) * orders_rows.count[orderkey, custkey])
    on orders:   orders_rows[orderkey, custkey] += Sum[orderkey, custkey](Δorders(orderkey, custkey, status))

Only columns that some statement reads are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from viewlet.algebra.nodes import Delta, Exists, Expr, Rel, Sum, Var, View
from viewlet.algebra.traverse import Names, children, has_relations, mentioned, rebuild, walk
from viewlet.triggers.program import COUNT_FIELD, Field, Program, Statement, Trigger, Update, ViewDefinition
from viewlet.types import Table


def tables_as_views(program: Program, tables: Mapping[str, Table]) -> Program:
    """The program with a view in place of every base table its statements read."""
    columns = _columns_read(program)
    if not columns:
        return program
    names = Names(view.name for view in program.views)
    rows = {table: _rows_view(names.name(f"{table}_rows"), tables[table], columns[table]) for table in sorted(columns)}
    triggers = {trigger.table: trigger for trigger in program.triggers}
    for table in rows:
        if tables[table].is_dynamic:
            triggers.setdefault(table, Trigger(table, ()))
    return replace(
        program,
        views=(*program.views, *(view for view in rows.values())),
        triggers=tuple(_over_rows(triggers[table], rows, columns, tables) for table in sorted(triggers)),
    )


def _over_rows(
    trigger: Trigger, rows: Mapping[str, ViewDefinition], columns: Mapping[str, list[int]], tables: Mapping[str, Table]
) -> Trigger:
    own = rows.get(trigger.table)
    kept = (_maintenance(own, tables[trigger.table]),) if own is not None else ()
    statements = [_read_rows(statement, rows, columns) for statement in trigger.statements]
    increments = tuple(statement for statement in statements if not statement.replaces)
    assignments = tuple(statement for statement in statements if statement.replaces)
    return Trigger(trigger.table, (*increments, *kept, *assignments))


def _read_rows(statement: Statement, rows: Mapping[str, ViewDefinition], columns: Mapping[str, list[int]]) -> Statement:
    def over_views(expr: Expr) -> Expr:
        if isinstance(expr, Rel):
            return View(rows[expr.name].name, COUNT_FIELD, tuple(expr.args[i] for i in columns[expr.name]))
        return rebuild(expr, over_views)

    return replace(statement, updates=tuple(Update(u.field, over_views(u.expr)) for u in statement.updates))


def _rows_view(name: str, table: Table, columns: list[int]) -> ViewDefinition:
    row = tuple(Var(column.name, column.type) for column in table.columns)
    keys = tuple(row[i] for i in columns)
    return ViewDefinition(name, keys, (Field(COUNT_FIELD, Sum(keys, Rel(table.name, row))),))


def _maintenance(view: ViewDefinition, table: Table) -> Statement:
    row = tuple(Var(column.name, column.type) for column in table.columns)
    return Statement(view.name, view.keys, (Update(COUNT_FIELD, Sum(view.keys, Delta(table.name, row))),))


def _columns_read(program: Program) -> dict[str, list[int]]:
    """The columns of each table that some statement reads."""
    found: dict[str, set[int]] = {}
    for trigger in program.triggers:
        for statement in trigger.statements:
            for update in statement.updates:
                if not has_relations(update.expr):
                    continue
                uses = Counter(var for node in walk(update.expr) for var in mentioned(node))
                uses.update(statement.args)
                for atom, summed in _atoms(update.expr, True):
                    used = (i for i, arg in enumerate(atom.args) if uses[arg] > 1 or not summed)
                    found.setdefault(atom.name, set()).update(used)
    return {table: sorted(columns) for table, columns in found.items()}


def _atoms(expr: Expr, summed: bool) -> Iterator[tuple[Rel, bool]]:
    """The base tables read, and whether unused columns are summed away around them."""
    if isinstance(expr, Rel):
        yield expr, summed
    inner = False if isinstance(expr, Exists) else True if isinstance(expr, Sum) else summed
    for child in children(expr):
        yield from _atoms(child, inner)
