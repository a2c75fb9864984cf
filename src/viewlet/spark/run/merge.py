"""The plans of several views as one, so that a batch runs one job per stage for all of them.

Programs share nothing but the changes of tables. Their temporaries get names of their own, and their blocks are fused
as if they were one program's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from viewlet.algebra.nodes import Expr, View
from viewlet.algebra.traverse import Names, rebuild
from viewlet.spark.plan.blocks import fuse
from viewlet.spark.plan.program import BatchPlan, Block, Compute, Move, Step, Temporary
from viewlet.triggers.program import Program, Statement, Trigger, Update, ViewDefinition


def merge(plans: Sequence[BatchPlan]) -> BatchPlan:
    """One plan that does what all of them do; no two of them have views in common."""
    if len(plans) == 1:
        return plans[0]
    names = Names(name for plan in plans for name in plan.homes)
    apart = [_with_own_temporaries(plan, names) for plan in plans]
    unfused = tuple(block for plan in apart for block in plan.unfused)
    return BatchPlan(
        tuple(dict.fromkeys(table for plan in apart for table in plan.order)),
        {table: arrival for plan in apart for table, arrival in plan.arrivals.items()},
        {name: home for plan in apart for name, home in plan.homes.items()},
        {name: each for plan in apart for name, each in plan.temporaries.items()},
        tuple(fuse(unfused)),
        unfused,
    )


def with_names(program: Program, names: Mapping[str, str]) -> Program:
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


def _with_own_temporaries(plan: BatchPlan, taken: Names) -> BatchPlan:
    names = {name: taken.name(name) for name in plan.temporaries}
    blocks = tuple(Block(block.mode, tuple(_step(step, names) for step in block.steps)) for block in plan.unfused)
    temporaries = {names[name]: _temporary(each, names) for name, each in plan.temporaries.items()}
    return replace(plan, temporaries=temporaries, blocks=(), unfused=blocks)


def _temporary(temporary: Temporary, names: Mapping[str, str]) -> Temporary:
    view = temporary.view
    return Temporary(ViewDefinition(names[view.name], view.keys, view.fields), temporary.at)


def _step(step: Step, names: Mapping[str, str]) -> Step:
    if isinstance(step, Compute):
        return Compute(_statement(step.statement, names), step.mode)
    return Move(names[step.target], names[step.source], step.movement, step.to)


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
