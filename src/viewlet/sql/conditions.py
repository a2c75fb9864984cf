"""WHERE, ON and HAVING as factors: one condition per conjunct, subqueries lifted in front of the one that uses them.

(a = b AND c) OR (a = b AND d)   ->   {a = b} * {c OR d}
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from sqlglot import exp

from viewlet.algebra.bundle import bundle
from viewlet.algebra.fold import conjuncts as scalar_conjuncts
from viewlet.algebra.membership import merge_memberships
from viewlet.algebra.nodes import Cond, Const, Expr
from viewlet.sql.scalars import ScalarBinder
from viewlet.sql.subqueries import Want


def bind_conditions(binder: ScalarBinder, node: exp.Expr) -> tuple[Expr, ...]:
    """The factors of a condition. A conjunct that is always true leaves none."""
    factors: list[Expr] = []
    for part in conjuncts(node):
        scalar = binder.condition(part, Want.TRUE)
        factors += binder.take_prelude()
        factors += [Cond(each) for each in scalar_conjuncts(scalar) if not _is_true(each)]
    tests = [factor.scalar for factor in factors if isinstance(factor, Cond)]
    merged = bundle(merge_memberships(tests, "and"))
    if len(merged) == len(tests):
        return tuple(factors)
    return (*(factor for factor in factors if not isinstance(factor, Cond)), *map(Cond, merged))


def _is_true(scalar: object) -> bool:
    return isinstance(scalar, Const) and scalar.value is True


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a conjunction, what all branches of an OR have in common among them."""
    node = _bare(node)
    if isinstance(node, exp.And):
        for part in node.flatten():
            yield from conjuncts(part)
    elif isinstance(node, exp.Or):
        yield from _common_and_rest(node)
    else:
        yield node


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _common_and_rest(node: exp.Or) -> Iterator[exp.Expr]:
    """(a AND b) OR (a AND c) = a AND (b OR c); also in three-valued logic."""
    branches = [list(conjuncts(branch)) for branch in node.flatten()]
    common = [part for part in branches[0] if all(part in branch for branch in branches[1:])]
    if not common:
        yield node
        return
    yield from common
    rests = [[part for part in branch if part not in common] for branch in branches]
    if all(rests):
        yield reduce(_either, (reduce(_both, rest) for rest in rests))


def _both(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return exp.And(this=a.copy(), expression=b.copy())


def _either(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return exp.Or(this=a.copy(), expression=b.copy())
