"""Programs with other names for their views, so that several can live in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from viewlet.algebra.nodes import Expr, View
from viewlet.algebra.traverse import rebuild
from viewlet.triggers.program import Program, ProgramLayer, Statement, Trigger, Update, ViewDefinition


def rename_views(program: Program, names: Mapping[str, str]) -> Program:
    """The program with other names for some of its views."""
    if not names:
        return program
    return replace(
        program,
        views=_views(program.views, names),
        triggers=_triggers(program.triggers, names),
        result=_renamer(names)(program.result),
        layers=tuple(_layer(layer, names) for layer in program.layers),
    )


def _layer(layer: ProgramLayer, names: Mapping[str, str]) -> ProgramLayer:
    return replace(
        layer,
        told=_views(layer.told, names),
        compared=_views(layer.compared, names),
        triggers=_triggers(layer.triggers, names),
        rows=_renamer(names)(layer.rows),
    )


def _views(views: Iterable[ViewDefinition], names: Mapping[str, str]) -> tuple[ViewDefinition, ...]:
    return tuple(replace(view, name=names.get(view.name, view.name)) for view in views)


def _triggers(triggers: Iterable[Trigger], names: Mapping[str, str]) -> tuple[Trigger, ...]:
    return tuple(Trigger(each.table, tuple(_statement(s, names) for s in each.statements)) for each in triggers)


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
