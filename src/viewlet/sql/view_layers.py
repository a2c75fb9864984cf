"""Views that a query reads as its layers, where their queries in their place would be too large.

    v(k, s) = Exists(Sum[k](r(k, x))) * (s := ...)          SELECT k, SUM(x) AS s FROM r GROUP BY k
    result  = Exists(Sum[s](v(k, s))) * (n := ...)          SELECT s, COUNT(*) AS n FROM v GROUP BY s

An aggregate writes what it aggregates several times. Views that aggregate views would have twice the size at every
level, if each of them were replaced by its query (`inline`); small ones are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from viewlet.algebra.layered_query import Layer, LayeredQuery
from viewlet.algebra.nodes import Exists, Expr, Lift, Rel, Value, Var, mul
from viewlet.algebra.query import Query
from viewlet.algebra.traverse import Names, all_variables, rebuild, relations, walk
from viewlet.sql.inline import inline
from viewlet.sql.layers import LARGE_AGGREGATE, Operand, in_layers, is_small

Definition = Query | LayeredQuery
Definitions = Mapping[str, Definition]
"""What views are defined by, each after those that it reads."""


def are_too_large(views: Definitions) -> bool:
    """Whether a query over these views is better made of layers: one aggregates that is large, or is in layers."""
    sizes: dict[str, int] = {}
    for name, view in views.items():
        sizes[name] = _inlined_size(view, sizes)
        if isinstance(view, LayeredQuery) or (sizes[name] > LARGE_AGGREGATE and _aggregates(view)):
            return True
    return False


def _inlined_size(view: Definition, views: Mapping[str, int]) -> int:
    """The nodes of a query with those of the views in their places."""
    layers, result = _parts(view)
    sizes = dict(views)
    for layer in layers:
        sizes[layer.table.name] = _size_over(layer.query.expr, sizes)
    return _size_over(result.expr, sizes)


def _size_over(expr: Expr, sizes: Mapping[str, int]) -> int:
    return sum(sizes.get(node.name, 1) if isinstance(node, Rel) else 1 for node in walk(expr))


def _aggregates(view: Query) -> bool:
    return any(
        isinstance(node, Exists) or (isinstance(node, Lift) and not isinstance(node.body, Value))
        for node in walk(view.expr)
    )


def _parts(view: Definition) -> tuple[tuple[Layer, ...], Query]:
    return (view.layers, view.result) if isinstance(view, LayeredQuery) else ((), view)


def over_layers(definition: Definition, views: Definitions) -> LayeredQuery:
    """The query with the views below it as layers; the small ones are written in their places."""
    own, result = _parts(definition)
    names = Names([*views, *(layer.table.name for layer in own), *_tables_read(definition, views)])
    operands, inlined = list[Operand](), dict[str, Query]()
    for name, view in views.items():
        layers, rows = _with_free_names(*_parts(view), names)
        operands += [_operand(layer.table.name, inline(layer.query, inlined)) for layer in layers]
        whole = inline(rows, inlined)
        if is_small(whole.expr):
            inlined[name] = whole
        else:
            operands.append(_operand(name, whole))
    operands += [_operand(layer.table.name, inline(layer.query, inlined)) for layer in own]
    return in_layers(inline(result, inlined), operands)


def _tables_read(definition: Definition, views: Definitions) -> set[str]:
    queries = [query for view in (definition, *views.values()) for query in _queries(view)]
    return {name for query in queries for name in relations(query.expr)}


def _queries(view: Definition) -> list[Query]:
    layers, result = _parts(view)
    return [*(layer.query for layer in layers), result]


def _with_free_names(layers: tuple[Layer, ...], result: Query, names: Names) -> tuple[list[Layer], Query]:
    """The layers of a view under names that no other layer has, and its result over them."""
    free = {layer.table.name: names.name(layer.table.name) for layer in layers}
    named = [Layer(replace(layer.table, name=free[layer.table.name]), _renamed(layer.query, free)) for layer in layers]
    return named, _renamed(result, free)


def _renamed(query: Query, names: Mapping[str, str]) -> Query:
    """The query with other names for some tables."""

    def renamed(expr: Expr) -> Expr:
        if isinstance(expr, Rel):
            return Rel(names.get(expr.name, expr.name), expr.args)
        return rebuild(expr, renamed)

    return replace(query, expr=renamed(query.expr)) if names else query


def _operand(name: str, query: Query) -> Operand:
    """The rows of a query as a layer; a variable that is two columns is copied."""
    names = Names(var.name for var in all_variables(query.expr))
    columns, copies = list[Var](), list[Expr]()
    for column in query.columns:
        var = column.var
        if var in columns:
            var = names.fresh(var)
            copies.append(Lift(var, Value(column.var)))
        columns.append(var)
    return Operand(name, tuple(columns), mul(query.expr, *copies))
