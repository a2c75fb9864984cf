"""What `explain` prints: each stage a view went through, in order.

sql -> algebra -> passes -> views -> triggers -> rows -> code

`cost` tells why the strategy was chosen, `engine` what runs the triggers, `view-tree` how the views hang together. A
view over a ring has no triggers: its stages are sql -> algebra -> view-tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from viewlet.algebra.nodes import Expr, Var
from viewlet.changes import did_you_mean
from viewlet.connection.explain_tree import STAGE as TREE_STAGE
from viewlet.connection.explain_tree import check_format, explain_program_tree, tree_stages
from viewlet.errors import SqlError
from viewlet.triggers.program import Program, Statement
from viewlet.triggers.strategy import CANDIDATES, Strategy

if TYPE_CHECKING:
    from viewlet.connection.maintained import Declaration, MaintainedView
    from viewlet.triggers.cost import ProgramCost
    from viewlet.viewtree.ring_plan import RingPlan

Code = Callable[["Declaration"], str]

WIDTH = 100
SUMMARY = ("sql", "algebra", "views", "triggers", "engine")
RING_SUMMARY = ("sql", "view-tree", "engine")
NOT_RUNNING = "none: the query is not declared as a view"
NOT_GENERATED = "no code is generated for it: it runs on the interpreter"


def explain_view(view: MaintainedView, stage: str | None, code: Code, format: str = "text") -> str:
    """One stage of a view, or without `stage` the ones that say what it is and how it is maintained."""
    running = view.running
    own = running.own_stage(stage.lower(), format) if stage is not None else None
    if own is not None:
        return own
    engine = f"{running.engine_name}: {running.reason}"
    if running.tree is not None:
        return explain_ring(view.declared, running.tree.plan, stage, engine, format, running.tree.source)
    return explain_query(view.declared, view.program, stage, code, engine, format)


def explain_ring(
    declared: Declaration,
    plan: RingPlan,
    stage: str | None,
    engine: str = NOT_RUNNING,
    format: str = "text",
    code: str = NOT_GENERATED,
) -> str:
    """The same for a view over a ring, or a query that could be one."""
    check_format(format, stage)
    stages = tree_stages(declared, plan, format, code)
    stages["engine"] = lambda: engine
    if stage is None:
        return "\n\n".join([f"view {declared.name} (view-tree)", *(f"-- {n}\n{stages[n]()}" for n in RING_SUMMARY)])
    return stages[_known(stage, stages)]()


def explain_query(
    declared: Declaration,
    program: Program,
    stage: str | None,
    code: Code,
    engine: str = NOT_RUNNING,
    format: str = "text",
) -> str:
    """The same for a query that is compiled but not maintained; `code` writes its triggers as source."""
    check_format(format, stage)
    stages: dict[str, Stage] = {
        **STAGES,
        "code": lambda declared, program: code(declared),
        "engine": lambda declared, program: engine,
        TREE_STAGE: lambda declared, program: explain_program_tree(program, format),
    }
    if stage is None:
        head = f"view {declared.name} ({program.strategy})"
        return "\n\n".join([head, *(f"-- {name}\n{stages[name](declared, program)}" for name in SUMMARY)])
    return stages[_known(stage, stages)](declared, program)


def _known(stage: str, stages: Collection[str]) -> str:
    if stage.lower() not in stages:
        hint = did_you_mean(stage, stages)
        raise SqlError(f"there is no stage {stage!r} to explain; the stages are {', '.join(stages)}{hint}")
    return stage.lower()


def _sql(declared: Declaration, program: Program) -> str:
    return declared.sql


def _algebra(declared: Declaration, program: Program) -> str:
    from viewlet.algebra.printer import show_block

    query = declared.query
    lines = [f"{column.name} = {column.var.name}: {column.var.type}" for column in query.columns]
    if query.order:
        keys = (f"{key.var.name}{' descending' if key.descending else ''}" for key in query.order)
        lines.append(f"order by {', '.join(keys)}")
    if query.limit is not None:
        lines.append(f"limit {query.limit}")
    if query.offset:
        lines.append(f"offset {query.offset}")
    return "\n".join([show_block(query.expr), *lines])


def _passes(declared: Declaration, program: Program) -> str:
    """What each pass of the compiler made of what it was given."""
    from viewlet.algebra.printer import show_block

    lines: list[str] = []
    for step in program.passes:
        lines.append(f"{step.name} [{step.subject}]")
        lines.append("    " + show_block(step.before).replace("\n", "\n    "))
        lines.append(" -> " + show_block(step.after).replace("\n", "\n    "))
    return "\n".join(lines)


def _views(declared: Declaration, program: Program) -> str:
    """view[keys].field = definition, and the result over the views."""
    lines = [
        _assignment(f"{view.name}[{_names(view.keys)}].{field.name} =", field.definition)
        for view in program.views
        for field in view.fields
    ]
    return "\n".join([*lines, _assignment(f"{declared.name} =", program.result)])


def _triggers(declared: Declaration, program: Program) -> str:
    """on table: view[keys].field += change."""
    lines: list[str] = []
    for trigger in program.triggers:
        lines += [f"on {trigger.table}:", *_statements(trigger.statements)]
    return "\n".join(lines)


def _rows(declared: Declaration, program: Program) -> str:
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


def _cost(declared: Declaration, program: Program) -> str:
    """Every program that was considered with its cost, then where the cost of the chosen one comes from."""
    lines = []
    for cost in program.costs:
        mark = "  <- chosen" if len(program.costs) > 1 and cost.strategy == program.strategy else ""
        lines.append(f"{cost.strategy}: {_amount(cost.total)} with {len(cost.views)} views{mark}")
    if declared.strategy == Strategy.AUTO.value:
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


Stage = Callable[["Declaration", Program], str]

STAGES: dict[str, Stage] = {
    "sql": _sql,
    "algebra": _algebra,
    "passes": _passes,
    "views": _views,
    "triggers": _triggers,
    "rows": _rows,
    "cost": _cost,
}
