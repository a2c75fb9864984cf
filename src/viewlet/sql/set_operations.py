"""UNION, EXCEPT and INTERSECT over common output variables; rows are compared with NULLs equal.

Q1 UNION ALL Q2       Sum[o](Q1) + Sum[o](Q2)
Q1 UNION Q2           Exists(Sum[o](Q1) + Sum[o](Q2))
Q1 EXCEPT Q2          Exists(Sum[o](Q1)) * (m := Sum[](Q2)) * {m = 0}
Q1 EXCEPT ALL Q2      Exists(Sum[o](Q1)) * (m1 := Sum[](Q1)) * (m2 := Sum[](Q2)) * {m1 > m2} * (m1 - m2)
Q1 INTERSECT Q2       Exists(Sum[o](Q1)) * Exists(Sum[o](Q2))
Q1 INTERSECT ALL Q2   Exists(Sum[o](Q1)) * (m1 := ...) * (m2 := ...) * {m2 > 0} * least(m1, m2)
"""

from __future__ import annotations

from sqlglot import exp

from viewlet.algebra.nodes import Cond, Exists, Expr, Lift, Scalar, Value, Var, add, mul, sum_over
from viewlet.sql import coerce
from viewlet.sql.context import Context
from viewlet.sql.scope import OutputField, Relation, Scope
from viewlet.sql.source import MismatchError
from viewlet.types import BIGINT, COUNT

_ZERO = coerce.constant(0, BIGINT)


def translate_set_operation(node: exp.SetOperation, scope: Scope, context: Context) -> Relation:
    for option in ("by_name", "side", "kind", "on", "match_name"):
        if node.args.get(option):
            raise context.source.unsupported(f"{node.key.upper()} {option.replace('_', ' ').upper()}", node)
    if isinstance(node, exp.Union):
        return _union(node, scope, context)
    left, right = context.query(node.this, scope), context.query(node.expression, scope)
    variables, bodies = _common([left, right], node, context)
    first, second = (mul(*context.shared((body,), variables)) for body in bodies)
    columns = _columns(left, variables)
    rows = Exists(sum_over(variables, first))
    every = not node.args.get("distinct")
    if isinstance(node, exp.Intersect) and not every:
        return Relation((rows, Exists(sum_over(variables, second))), columns)
    right_count, count_right = context.count("rows", second)
    if not every:
        return Relation((rows, count_right, Cond(coerce.comparison("=", right_count, _ZERO))), columns)
    left_count, count_left = context.count("rows", first)
    if isinstance(node, exp.Intersect):
        test = coerce.comparison(">", right_count, _ZERO)
        copies: Scalar = coerce.total("least", left_count, right_count, type=COUNT)
    else:
        test = coerce.comparison(">", left_count, right_count)
        copies = coerce.strict("-", left_count, right_count, type=COUNT)
    return Relation((rows, count_left, count_right, Cond(test), Value(copies)), columns)


def _union(node: exp.Union, scope: Scope, context: Context) -> Relation:
    """A chain of unions of one kind becomes one sum."""
    every = not node.args.get("distinct")
    written = [*_branches(node.this, every), *_branches(node.expression, every)]
    branches = [context.query(branch, scope) for branch in written]
    variables, bodies = _common(branches, node, context)
    total = add(*(sum_over(variables, body) for body in bodies))
    return Relation((total if every else Exists(total),), _columns(branches[0], variables))


def _branches(node: exp.Expr, every: bool) -> list[exp.Expr]:
    """The queries of a chain of unions of one kind, from left to right."""
    branches: list[exp.Expr] = []
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, exp.Union) and (not part.args.get("distinct")) == every and not _stands_alone(part):
            pending += [part.expression, part.this]
        else:
            branches.append(part)
    return branches


def _stands_alone(node: exp.Expr) -> bool:
    return any(node.args.get(key) for key in ("limit", "offset", "with_", "by_name"))


def _common(relations: list[Relation], node: exp.Expr, context: Context) -> tuple[tuple[Var, ...], list[Expr]]:
    """Output variables of the common types, and each branch as a product that binds them."""
    widths = {len(relation.columns) for relation in relations}
    if len(widths) > 1:
        counts = " and ".join(str(len(relation.columns)) for relation in relations)
        raise context.source.error(f"{node.key.upper()} of queries with {counts} columns", node)
    variables: list[Var] = []
    lifts: list[list[Expr]] = [[] for _ in relations]
    for position, column in enumerate(relations[0].columns):
        try:
            scalars = coerce.unify([relation.columns[position].scalar for relation in relations])
        except MismatchError as problem:
            raise context.source.error(f"column {position + 1} of {node.key.upper()}: {problem}", node) from None
        nullable = any(scalar.type.nullable for scalar in scalars)
        var = context.fresh(column.name, scalars[0].type.with_nullable(nullable))
        variables.append(var)
        for branch, scalar in zip(lifts, scalars, strict=True):
            branch.append(Lift(var, Value(scalar)))
    bodies = [mul(*relation.factors, *branch) for relation, branch in zip(relations, lifts, strict=True)]
    return tuple(variables), bodies


def _columns(relation: Relation, variables: tuple[Var, ...]) -> tuple[OutputField, ...]:
    return tuple(OutputField(column.name, var) for column, var in zip(relation.columns, variables, strict=True))
