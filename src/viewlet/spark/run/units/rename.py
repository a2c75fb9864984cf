"""Programs with other names for their views, so that several can live in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from viewlet.algebra.nodes import Expr, View
from viewlet.algebra.traverse import rebuild
from viewlet.triggers.program import Program, Statement, Trigger, Update


def rename_views(program: Program, names: Mapping[str, str]) -> Program:
    """The program with other names for some of its views."""
    if not names:
        return program
    return replace(
        program,
        views=tuple(replace(view, name=names.get(view.name, view.name)) for view in program.views),
        triggers=tuple(
            Trigger(trigger.table, tuple(_statement(each, names) for each in trigger.statements))
            for trigger in program.triggers
        ),
        result=_renamer(names)(program.result),
    )


def _statement(statement: Statement, names: Mapping[str, str]) -> Statement:
    rename = _renamer(names)
    updates = tuple(Update(update.field, rename(update.expr)) for update in statement.updates)
    return replace(statement, view=names.get(statement.view, statement.view), updates=updates)


def _renamer(names: Mapping[str, str]) -> Callable[[Expr], Expr]:
    def rename(expr: Expr) -> Expr:
        if isinstance(expr, View):
            return View(names.get(expr.name, expr.name), expr.field, expr.args)
        return rebuild(expr, rename)

    return rename
