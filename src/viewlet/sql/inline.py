"""Views in a query replaced by what they are made of.

    v(x, y)   ->   Sum[x, y](R(x, b) * S(b, y))     for v = SELECT R.a, S.c FROM R JOIN S USING (b)

Equals take the place of equals, so that the query is one over base tables. A view that shows only its first rows is not
equal to its expression, and stays out of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from viewlet.algebra.nodes import Expr, Lift, Rel, Value, Var, mul, sum_over
from viewlet.algebra.query import Query
from viewlet.algebra.rename import rename
from viewlet.algebra.traverse import Names, all_variables, rebuild
from viewlet.sql.prune import prune
from viewlet.sql.rename import bound_variables


def inline(query: Query, views: Mapping[str, Query]) -> Query:
    """The query with atoms of `views` replaced; these are queries over base tables, without limits."""
    names = Names(var.name for var in all_variables(query.expr))
    return replace(query, expr=prune(_inlined(query.expr, views, names)))


def _inlined(expr: Expr, views: Mapping[str, Query], names: Names) -> Expr:
    match expr:
        case Rel(name, args) if name in views:
            return _definition(views[name], args, names)
        case _:
            return rebuild(expr, lambda child: _inlined(child, views, names))


def _definition(view: Query, args: tuple[Var, ...], names: Names) -> Expr:
    """The rows of a view, bound to `args`; a variable that is two columns is bound once and copied."""
    shown: dict[Var, Var] = {}
    copies: list[Expr] = []
    for column, arg in zip(view.columns, args, strict=True):
        if shown.setdefault(column.var, arg) != arg:
            copies.append(Lift(arg, Value(shown[column.var])))
    inner = {var: names.fresh(var) for var in bound_variables((view.expr,)) if var not in shown}
    rows = rename(view.expr, {**inner, **shown})
    whole = rows if len(view.output) == len(shown) else sum_over(tuple(shown.values()), rows)
    return mul(whole, *copies)
