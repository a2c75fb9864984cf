"""Common table expressions and derived tables: written in place, or large ones that are repeated as layers.

WITH w AS (...) SELECT ... FROM w a JOIN w b ...   ->   w(x, y) * w(x_2, y_2) * ...        w(x, y) = Sum[x, y](...)
"""

from __future__ import annotations

from dataclasses import replace

from viewlet.algebra.nodes import Const, Expr, Rel, Scalar, Var, mul
from viewlet.algebra.scope import inputs, outputs
from viewlet.algebra.traverse import substitute_scalar
from viewlet.sql.context import Context
from viewlet.sql.scope import Cte, OutputField, Relation
from viewlet.types import COUNT


def common_table(cte: Cte, context: Context) -> Relation:
    """What the name of a common table expression stands for in one place."""
    layers = context.operands.common
    if id(cte.query) in layers:
        return _read_again(layers[id(cte.query)], context)
    relation = context.query(cte.query, cte.scope)
    if cte.uses == 1:
        return derived_table(relation, context)
    context.operands.note_repeated(mul(*relation.factors))
    layer = _as_layer(relation, context)
    if layer is None:
        return relation
    layers[id(cte.query)] = layer
    return layer


def derived_table(relation: Relation, context: Context) -> Relation:
    """A query that stands in one place: a layer if a query around it would repeat its aggregates too often."""
    takes = context.operands.takes_aggregate(mul(*relation.factors))
    return (_as_layer(relation, context) if takes else None) or relation


def subquery(relation: Relation, context: Context) -> Relation:
    """The rows of a subquery in an expression: a layer if aggregates are nested in it too deep."""
    takes = context.operands.takes_subquery(mul(*relation.factors))
    return (_as_layer(relation, context) if takes else None) or relation


def _as_layer(relation: Relation, context: Context) -> Relation | None:
    """The relation as the atom of a layer with its columns, constants left out; None if it is better written out."""
    if inputs(mul(*relation.factors)):  # the rows are others for every row of the query around
        return None
    bound = outputs(mul(*relation.factors))
    variables: dict[Scalar, Var] = {}
    lifts: list[Expr] = []
    for column in relation.columns:
        scalar = column.scalar
        if isinstance(scalar, Const) or scalar in variables:
            continue
        if isinstance(scalar, Var) and scalar in bound:
            variables[scalar] = scalar
        else:
            variables[scalar], lift = context.bind(column.name, scalar)
            lifts.append(lift)
    if not variables:
        one, lift = context.bind("one", Const(1, COUNT))
        variables[one] = one
        lifts.append(lift)
    whole = (*relation.factors, *lifts)
    factors = context.shared(whole, tuple(variables.values()))
    if factors is whole:
        return None
    columns = tuple(OutputField(each.name, variables.get(each.scalar, each.scalar)) for each in relation.columns)
    return replace(relation, factors=factors, columns=columns)


def _read_again(layer: Relation, context: Context) -> Relation:
    """The atom of a layer over variables of its own."""
    (atom,) = layer.factors
    assert isinstance(atom, Rel)
    fresh = {var: context.fresh(var.name, var.type) for var in atom.args}
    columns = tuple(OutputField(each.name, substitute_scalar(each.scalar, fresh)) for each in layer.columns)
    return replace(layer, factors=(Rel(atom.name, tuple(fresh.values())),), columns=columns)
