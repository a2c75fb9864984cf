"""Views that cost more than they save: one step down the gradient of the cost model (thesis, section 3.6).

A view is written by some statements and read by others. Without it the readers would evaluate its definition in its
place. If that is cheaper than maintaining the view, the view is declined, and the program is compiled again without it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from viewlet.algebra.canonical import canonical_text
from viewlet.algebra.nodes import Expr, Sum, Value, Var, View, factors_of, mul
from viewlet.algebra.order import order
from viewlet.algebra.substitute import freshen, substitute
from viewlet.algebra.traverse import Names, all_variables, rebuild, relations, walk
from viewlet.triggers.cost import Sizes, execution_cost, sizes_of, statement_cost
from viewlet.triggers.materialize import Materializer
from viewlet.triggers.program import Program, Statement, ViewDefinition
from viewlet.triggers.statistics import Statistics
from viewlet.types import Table, TableKind

Shape = str
"""What a view is a sum of, and its keys, whatever its variables are called."""


def shape_of(keys: Sequence[Var], factors: Sequence[Expr]) -> Shape:
    relational = (factor for factor in factors if not isinstance(factor, Value))
    return canonical_text(mul(*relational, *(View("", "", (key,)) for key in keys)))


@dataclass(slots=True)
class ThriftyMaterializer(Materializer):
    """A materialiser that replaces the declined views by their definitions."""

    declined: frozenset[Shape] = frozenset()

    def _store(self, keys: Sequence[Var], factors: tuple[Expr, ...], as_view: bool = False) -> Expr:
        if self.declined and not as_view and shape_of(keys, factors) in self.declined:
            return Sum(tuple(keys), mul(*factors))
        return Materializer._store(self, keys, factors, as_view)


MIN_WASTE = 0.05
"""The share of a program's cost for which it is worth compiling again."""


@dataclass(frozen=True, slots=True)
class Waste:
    """Views that cost more than they save, and the total loss."""

    views: frozenset[Shape]
    cost: float


def find_waste(program: Program, tables: Mapping[str, Table], statistics: Statistics) -> Waste:
    """Each view weighed up as if all the others stayed."""
    sizes = sizes_of(program, tables, statistics)
    balance: dict[str, float] = defaultdict(float)
    for trigger in program.triggers:
        rate = statistics.rate(trigger.table)
        for statement in trigger.statements:
            balance[statement.view] -= rate * statement_cost(statement, sizes)
            for name, saved in _savings(statement, program, sizes).items():
                balance[name] += rate * saved
    wasteful = [v for v in program.views if balance[v.name] < 0 and _can_be_declined(v, program, tables)]
    shapes = frozenset(shape_of(view.keys, _factors(view)) for view in wasteful)
    return Waste(shapes, -sum(balance[view.name] for view in wasteful))


def _savings(statement: Statement, program: Program, sizes: Sizes) -> dict[str, float]:
    """What each view that the statement reads saves it."""
    saved: dict[str, float] = defaultdict(float)
    for update in statement.updates:
        now = execution_cost(update.expr, sizes)
        for name in {node.name for node in walk(update.expr) if isinstance(node, View)}:
            saved[name] += execution_cost(_without(update.expr, program.view(name)), sizes) - now
    return saved


def _without(expr: Expr, view: ViewDefinition) -> Expr:
    """The expression with the definition of a view in its place."""
    names = Names(var.name for var in (*all_variables(expr), *view.keys))
    definitions = {field.name: field.definition for field in view.fields}

    def go(node: Expr) -> Expr:
        if isinstance(node, View) and node.name == view.name:
            body = definitions[node.field]
            assert isinstance(body, Sum)
            renamed: dict[Var, Var] = {}
            for key, arg in zip(view.keys, node.args, strict=True):  # a variable that is two keys may be made of itself
                renamed[key] = names.fresh(arg) if arg in renamed.values() else arg
            return Sum(node.args, substitute(freshen(view.keys, body.body, names), renamed))
        return rebuild(node, go)

    return order(go(expr))


def _can_be_declined(view: ViewDefinition, program: Program, tables: Mapping[str, Table]) -> bool:
    """The result does not read it, and the rows it is made of are kept elsewhere."""
    if any(isinstance(node, View) and node.name == view.name for node in walk(program.result)):
        return False
    return all(
        tables[name].kind is not TableKind.STREAM for field in view.fields for name in relations(field.definition)
    )


def _factors(view: ViewDefinition) -> tuple[Expr, ...]:
    body = view.fields[0].definition
    return factors_of(body.body) if isinstance(body, Sum) else (body,)
