"""Large scalars under short names while a batch is planned.

    {x + 1 > y and x + 2 > y and ...}   ->   {scalar_1(x, y)}

The planner writes a product in many ways, and renames its variables. It does not look into scalars, but for the
comparisons that find rows, which are small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from viewlet.algebra.canonical import template
from viewlet.algebra.nodes import Call, Cond, Expr, Scalar, Value, Var, once
from viewlet.algebra.traverse import rebuild, substitute_scalar
from viewlet.spark.plan.program import Compute, Step, Temporary
from viewlet.triggers.program import Statement, Trigger, Update

LARGE = 32
"""Scalars with more nodes than this are abbreviated."""


@dataclass(slots=True)
class Abbreviations:
    """The scalars that were abbreviated: those that differ in the names of their variables have one name."""

    _names: dict[str, str] = field(default_factory=dict)
    """By the text of a scalar without its variables."""
    _scalars: dict[str, tuple[Call, tuple[Var, ...]]] = field(default_factory=dict)
    """By its name: a scalar with its variables, in the order in which the name takes them."""
    _expanded: dict[Call, Scalar] = field(default_factory=dict)

    def shorten(self, trigger: Trigger) -> Trigger:
        """The trigger with short names for its large scalars."""
        return Trigger(trigger.table, tuple(_changed(statement, self._short) for statement in trigger.statements))

    def expand(self, steps: Iterable[Step]) -> list[Step]:
        """The steps with the scalars in place of their names."""
        return [
            replace(step, statement=_changed(step.statement, self._long)) if isinstance(step, Compute) else step
            for step in steps
        ]

    def expand_temporaries(self, temporaries: Mapping[str, Temporary]) -> dict[str, Temporary]:
        """The definitions of temporaries with the scalars in place of their names."""
        found = {}
        for name, each in temporaries.items():
            fields = tuple(replace(known, definition=_over(known.definition, self._long)) for known in each.view.fields)
            found[name] = replace(each, view=replace(each.view, fields=fields))
        return found

    def _short(self, scalar: Scalar) -> Scalar:
        if not isinstance(scalar, Call) or node_count(scalar) <= LARGE:
            return scalar
        text, variables = template(scalar)
        name = self._names.setdefault(text, f"scalar_{len(self._names) + 1}")
        self._scalars.setdefault(name, (scalar, variables))
        return Call(name, variables, scalar.type)

    def _long(self, scalar: Scalar) -> Scalar:
        if not isinstance(scalar, Call) or scalar.op not in self._scalars:
            return scalar
        if scalar not in self._expanded:
            original, variables = self._scalars[scalar.op]
            self._expanded[scalar] = substitute_scalar(original, dict(zip(variables, scalar.args, strict=True)))
        return self._expanded[scalar]


def _changed(statement: Statement, change: Callable[[Scalar], Scalar]) -> Statement:
    updates = tuple(Update(update.field, _over(update.expr, change)) for update in statement.updates)
    return replace(statement, updates=updates)


def _over(expr: Expr, change: Callable[[Scalar], Scalar]) -> Expr:
    """The expression over changed scalars."""
    match expr:
        case Value(scalar):
            changed = change(scalar)
            return expr if changed is scalar else Value(changed)
        case Cond(scalar):
            changed = change(scalar)
            return expr if changed is scalar else Cond(changed)
        case _:
            return rebuild(expr, lambda child: _over(child, change))


@once
def node_count(scalar: Scalar) -> int:
    """The number of nodes of a scalar."""
    return 1 + sum(node_count(arg) for arg in scalar.args) if isinstance(scalar, Call) else 1
