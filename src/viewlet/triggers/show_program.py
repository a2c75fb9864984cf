"""The text of `explain` for a trigger program: its algebra, passes, views, triggers and costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from viewlet.algebra.nodes import Expr, Var
from viewlet.algebra.query import Query
from viewlet.triggers.program import Program, ProgramLayer, Statement, Trigger
from viewlet.triggers.strategy import CANDIDATES, Strategy

if TYPE_CHECKING:
    from viewlet.triggers.cost import ProgramCost

WIDTH = 100


def show_algebra(query: Query) -> str:
    """The expression of a query, and the columns and order of its rows."""
    from viewlet.algebra.printer import show_block

    lines = [f"{column.name} = {column.var.name}: {column.var.type}" for column in query.columns]
    if query.order:
        keys = (f"{key.var.name}{' descending' if key.descending else ''}" for key in query.order)
        lines.append(f"order by {', '.join(keys)}")
    if query.limit is not None:
        lines.append(f"limit {query.limit}")
    if query.offset:
        lines.append(f"offset {query.offset}")
    return "\n".join([show_block(query.expr), *lines])


def show_passes(program: Program) -> str:
    """What each pass of the compiler made of what it was given."""
    from viewlet.algebra.printer import show_block

    lines: list[str] = []
    for step in program.passes:
        lines.append(f"{step.name} [{step.subject}]")
        lines.append("    " + show_block(step.before).replace("\n", "\n    "))
        lines.append(" -> " + show_block(step.after).replace("\n", "\n    "))
    return "\n".join(lines)


def show_views(program: Program) -> str:
    """view[keys].field = definition, and the layers and the result over the views."""
    views = (*(view for layer in program.layers for view in layer.told), *program.views)
    lines = [
        _assignment(f"{view.name}[{_names(view.keys)}].{field.name} =", field.definition)
        for view in views
        for field in view.fields
    ]
    results = [(_layer_atom(layer), layer.rows) for layer in program.layers] + [(program.name, program.result)]
    return "\n".join([*lines, *(_assignment(f"{name} =", expr) for name, expr in results)])


def show_triggers(program: Program) -> str:
    """on table: view[keys].field += change; first those of the layers, whose changes the others read."""
    lines: list[str] = []
    for layer in program.layers:
        lines += [f"layer {layer.table.name}:", *("    " + line for line in _triggers(layer.triggers))]
        lines.append(_assignment(f"Δ{_layer_atom(layer)} =", layer.rows, "    "))
    return "\n".join([*lines, *_triggers(program.triggers)])


def _triggers(triggers: Iterable[Trigger]) -> Iterator[str]:
    for trigger in triggers:
        yield f"on {trigger.table}:"
        yield from (line for statement in _statements(trigger.statements) for line in statement.split("\n"))


def _layer_atom(layer: ProgramLayer) -> str:
    return f"{layer.table.name}({_names(tuple(column.var for column in layer.query.columns))})"


def show_rows(program: Program) -> str:
    """on insert into table values (:column, ...): what one row does."""
    from viewlet.triggers.rows import row_triggers

    lines: list[str] = []
    for trigger in row_triggers(program, 1):
        lines += [f"on insert into {trigger.table} values ({_names(trigger.row)}):", *_statements(trigger.statements)]
    return "\n".join(lines)


def _statements(statements: Iterable[Statement]) -> Iterator[str]:
    for statement in statements:
        target, sign = f"{statement.view}[{_names(statement.args)}]", ":=" if statement.replaces else "+="
        for update in statement.updates:
            yield _assignment(f"{target}.{update.field} {sign}", update.expr, "    ")


def show_cost(program: Program, asked: str) -> str:
    """Every program that was considered with its cost, then where the cost of the chosen one comes from.

    `asked` is the strategy that the view was declared with.
    """
    lines = []
    for cost in program.costs:
        mark = "  <- chosen" if len(program.costs) > 1 and cost.strategy == program.strategy else ""
        lines.append(f"{cost.strategy}: {_amount(cost.total)} with {len(cost.views)} views{mark}")
    if asked == Strategy.AUTO.value:
        weighed = {cost.strategy for cost in program.costs}
        left_out = [each.value for each in CANDIDATES if each.value not in weighed]
        lines += [f"{each}: not considered, the query is too large for it" for each in left_out]
    for cost in program.costs:
        if cost.strategy == program.strategy:
            lines += _breakdown(cost)
    return "\n".join(lines)


def _breakdown(cost: ProgramCost) -> Iterator[str]:
    yield f"reading the result costs {_amount(cost.result)}, {_amount(cost.reading_rate)} times"
    for table, rate in cost.rates.items():
        yield f"on {table} costs {_amount(cost.trigger(table))}, {_amount(rate)} times"
        for each in cost.statements:
            if each.table == table:
                size = _amount(cost.views[each.view])
                yield f"    {each.view} {':=' if each.replaces else '+='} costs {_amount(each.cost)} ({size} keys)"


def _amount(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _assignment(target: str, expr: Expr, indent: str = "") -> str:
    """On one line if it fits, else the expression as a block under its target."""
    from viewlet.algebra.printer import show_block

    block = show_block(expr, WIDTH)
    if "\n" not in block and len(indent) + len(target) + 1 + len(block) <= WIDTH:
        return f"{indent}{target} {block}"
    return "\n".join([f"{indent}{target}", *(f"{indent}    {line}" for line in block.splitlines())])


def _names(variables: tuple[Var, ...]) -> str:
    return ", ".join(var.name for var in variables)
