"""The shape of a view: what is left of its definition without the names that it gives.

    SELECT custkey AS c, SUM(price) AS s FROM orders o GROUP BY custkey      orders(0, 1, 2), Sum[1](... * 2), ...
    SELECT k.custkey, SUM(k.price) FROM orders AS k GROUP BY k.custkey       the same

Views of the same shape hold the same rows, so that one engine is enough for all of them. Variables are numbered as they
occur. Names of tables, types, the order of columns, ORDER BY and LIMIT are part of the shape; names of columns are not.

The fields of stored views have shapes likewise: programs of different queries may have a stored view in common.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from viewlet.algebra.nodes import Var
from viewlet.algebra.query import OutputColumn, Query
from viewlet.engine.declaration import Declaration
from viewlet.triggers.program import ViewDefinition


def shape_of(declared: Declaration) -> Hashable | None:
    """The shape of a view whose definition is a query; None for others, which share nothing."""
    query = declared.definition
    if not isinstance(query, Query) or query is not declared.query:
        return None
    return declared.strategy, declared.layered, declared.aggregates, _numbered(query, {})


def field_shapes(view: ViewDefinition) -> dict[str, Hashable]:
    """The shapes of the fields of a stored view by their names, each with the keys."""
    found: dict[str, Hashable] = {}
    for each in view.fields:
        numbers: dict[Var, int] = {}
        keys = _numbered(view.keys, numbers)
        found[each.name] = each.name, view.presence, each.is_float, keys, _numbered(each.definition, numbers)
    return found


@cache
def _compared(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a class by which its values are equal or not."""
    return tuple(each.name for each in fields(kind) if each.compare)


def _numbered(value: object, numbers: dict[Var, int]) -> Hashable:
    """A tree of nodes with numbers in place of variables; the type of a constant counts (`1 == 1.0 == True`)."""
    match value:
        case Var():
            return numbers.setdefault(value, len(numbers)), value.type
        case OutputColumn(_, var):
            return _numbered(var, numbers)
        case tuple():
            return tuple(_numbered(each, numbers) for each in value)
        case _ if is_dataclass(value) and not isinstance(value, type):
            parts = (_numbered(getattr(value, name), numbers) for name in _compared(type(value)))
            return type(value), *parts
        case _:
            return type(value), value if isinstance(value, Hashable) else repr(value)
