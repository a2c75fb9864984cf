"""The shapes of stored views: what is left of their definitions without the names that they give.

    a_items[id].sum = Sum[id](items(id, price) * price)          (0), Sum[0](items(0, 1) * 1)
    b_items[k].sum  = Sum[k](items(k, p) * p)                    the same

Variables are numbered as they occur, in a fixed order of the factors of products. Programs of different queries may
have a stored view in common, or one with fewer fields: then the result of one can be read from the views of another.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

from viewlet.algebra.nodes import Expr, Mul, Rel, Var, View
from viewlet.algebra.query import OutputColumn
from viewlet.algebra.traverse import rebuild, walk
from viewlet.triggers.program import COUNT_FIELD, Program, ViewDefinition


def field_shapes(view: ViewDefinition) -> dict[str, tuple[Hashable, ...]]:
    """The shapes of the fields of a stored view by their names, each with the keys."""
    found: dict[str, tuple[Hashable, ...]] = {}
    for each in view.fields:
        numbers: dict[Var, int] = {}
        keys = numbered(view.keys, numbers)
        found[each.name] = each.name, view.presence, each.is_float, keys, numbered(each.definition, numbers)
    return found


@cache
def _compared(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a class by which its values are equal or not."""
    return tuple(each.name for each in fields(kind) if each.compare)


def numbered(value: object, numbers: dict[Var, int]) -> Hashable:
    """A tree of nodes with numbers in place of variables; the type of a constant counts (`1 == 1.0 == True`)."""
    match value:
        case Var():
            return numbers.setdefault(value, len(numbers)), value.type
        case OutputColumn(_, var):
            return numbered(var, numbers)
        case tuple():
            return tuple(numbered(each, numbers) for each in value)
        case Mul(factors):
            return Mul, *(numbered(each, numbers) for each in sorted(factors, key=_rank))
        case _ if is_dataclass(value) and not isinstance(value, type):
            parts = (numbered(getattr(value, name), numbers) for name in _compared(type(value)))
            return type(value), *parts
        case _:
            return type(value), value if isinstance(value, Hashable) else repr(value)


Fields = Mapping[str, str]
"""What another view calls the fields of a view."""


def _rank(factor: Expr) -> tuple[str, str]:
    """Factors of a product commute: those of different kinds, and different tables, are put in one order."""
    return type(factor).__name__, factor.name if isinstance(factor, Rel) else ""


@dataclass(frozen=True, slots=True)
class ViewsByShape:
    """The stored views of a program, by the shapes of their fields."""

    program: Program
    views: Mapping[Hashable, Mapping[str, str]]
    """By shape: the views that have such a field, and what they call it."""

    def find(self, shapes: Mapping[str, Hashable]) -> tuple[str, Fields] | None:
        """A view with at least the fields of another, and their names there."""
        known = {field: self.views.get(shape, {}) for field, shape in shapes.items()}
        here = (name for name in next(iter(known.values()), {}) if all(name in views for views in known.values()))
        found = next(here, None)
        return None if found is None else (found, {field: views[found] for field, views in known.items()})

    def result_of(self, wanted: WantedResult) -> Program | None:
        """This program with the result of another one, read from its own views; None if they do not suffice."""
        other = wanted.program
        if self.program.layers or not wanted.reads_views_only:
            return None
        found = {name: self.find(shapes) for name, shapes in wanted.views.items()}
        names = {name: here for name, here in found.items() if here is not None}
        if not names or len(names) < len(found):
            return None

        def over(expr: Expr) -> Expr:
            if isinstance(expr, View):
                name, fields_here = names[expr.name]
                return View(name, fields_here[expr.field], expr.args)
            return rebuild(expr, over)

        return replace(
            self.program,
            name=other.name,
            query=other.query,
            result=over(other.result),
            passes=other.passes,
            costs=other.costs,
        )


@dataclass(frozen=True, slots=True)
class WantedResult:
    """The result of a program, and the shapes of the fields of the views that it reads."""

    program: Program
    views: Mapping[str, Mapping[str, Hashable]]
    reads_views_only: bool


def wanted_result(program: Program) -> WantedResult:
    nodes = list(walk(program.result))
    read = sorted({node.name for node in nodes if isinstance(node, View)})
    reads_views_only = not program.layers and not any(isinstance(node, Rel) for node in nodes)
    return WantedResult(program, {name: unnamed_shapes(program.view(name)) for name in read}, reads_views_only)


def views_by_shape(program: Program) -> ViewsByShape:
    found: dict[Hashable, dict[str, str]] = {}
    for view in program.views:
        for field, shape in unnamed_shapes(view).items():
            found.setdefault(shape, {}).setdefault(view.name, field)
    return ViewsByShape(program, found)


def unnamed_shapes(view: ViewDefinition) -> dict[str, Hashable]:
    """The shapes of fields without their names; a field that says whether a key is there stays one."""
    return {name: (name == COUNT_FIELD, *shape[1:]) for name, shape in field_shapes(view).items()}
