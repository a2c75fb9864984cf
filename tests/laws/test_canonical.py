"""The canonical text does not depend on names or on the order of factors and terms, and identifies only equals."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.expressions import databases, expressions, meaning, state_of
from viewlet.algebra.canonical import canonical_names, canonical_text
from viewlet.algebra.nodes import (
    Add,
    Call,
    Cond,
    Const,
    Expr,
    Extremum,
    Lift,
    Mul,
    Rel,
    Scalar,
    Sum,
    Value,
    Var,
    factors_of,
)
from viewlet.algebra.scope import close_scopes, outputs
from viewlet.algebra.traverse import all_variables, rebuild


def renamed(expr: Expr, names: dict[Var, Var], random: Random) -> Expr:
    """Every variable under another name, local ones included, and every product and sum shuffled."""

    def scalar(node: Scalar) -> Scalar:
        match node:
            case Var():
                return names[node]
            case Const():
                return node
            case Call(op, args, type):
                return Call(op, tuple(map(scalar, args)), type)

    def go(node: Expr) -> Expr:
        match node:
            case Value(inner):
                return Value(scalar(inner))
            case Cond(inner):
                return Cond(scalar(inner))
            case Rel(name, args):
                return Rel(name, tuple(names[arg] for arg in args))
            case Sum(keys, body):
                return Sum(tuple(names[key] for key in shuffled(keys)), go(body))
            case Lift(var, body):
                return Lift(names[var], go(body))
            case Extremum(var, which, of, body):
                return Extremum(names[var], which, names[of], go(body))
            case Mul(factors):
                return Mul(tuple(go(factor) for factor in shuffled(factors)))
            case Add(terms):
                return Add(tuple(go(term) for term in shuffled(terms)))
            case _:
                return rebuild(node, go)

    def shuffled(items: tuple) -> list:
        return random.sample(items, len(items))

    return go(expr)


@given(expressions(), st.randoms(use_true_random=False))
def test_names_and_order_do_not_matter(expr: Expr, random: Random) -> None:
    closed = close_scopes(expr)
    variables = sorted(all_variables(closed), key=lambda var: var.name)
    numbers = random.sample(range(len(variables)), len(variables))
    names = {var: Var(f"z{number}", var.type) for var, number in zip(variables, numbers, strict=True)}
    assert canonical_text(renamed(closed, names, random)) == canonical_text(closed)


@given(expressions(1), expressions(1), databases)
def test_equal_texts_mean_equal_relations(left: Expr, right: Expr, database: dict) -> None:
    one, other = close_scopes(left), close_scopes(right)
    if canonical_text(one) != canonical_text(other):
        return
    results = []
    for expr in (one, other):
        names = canonical_names(factors_of(expr), {})
        keys = tuple(sorted(outputs(expr), key=lambda var, names=names: names[var]))
        results.append(meaning(expr, state_of(database), keys))
    assert results[0] == results[1]
