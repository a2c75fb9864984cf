"""Every rewrite preserves what an expression evaluates to, and leaves it well-formed."""

from __future__ import annotations

from hypothesis import given

from tests.laws.expressions import TABLES, databases, expressions, meaning, names_for, sorted_vars, state_of
from viewlet.algebra.checker import check
from viewlet.algebra.expand import Monomial, collect, expand, merge_like_terms
from viewlet.algebra.nodes import Expr, Sum, Var
from viewlet.algebra.order import order
from viewlet.algebra.scope import close_scopes, outputs
from viewlet.algebra.simplify import simplify, simplify_monomials
from viewlet.algebra.substitute import substitute
from viewlet.triggers.distribute import distribute
from viewlet.triggers.factorise import factorise
from viewlet.types import BIGINT


def keys_of(expr: Expr) -> tuple[Var, ...]:
    return expr.keys if isinstance(expr, Sum) else sorted_vars(outputs(expr))


def well_formed(expr: Expr) -> Expr:
    """The expression, ordered for evaluation, once it has been found to make sense."""
    check(expr, tables=TABLES, closed=True)
    return order(expr)


@given(expressions(), databases)
def test_closing_scopes(expr: Expr, database: dict) -> None:
    check(expr, tables=TABLES)
    closed = close_scopes(expr)
    check(closed, tables=TABLES, closed=True)
    assert meaning(closed, state_of(database)) == meaning(expr, state_of(database))


@given(expressions(), databases)
def test_ordering(expr: Expr, database: dict) -> None:
    closed = close_scopes(expr)
    assert meaning(well_formed(closed), state_of(database)) == meaning(expr, state_of(database))


@given(expressions(), databases)
def test_expanding_and_collecting(expr: Expr, database: dict) -> None:
    closed, keys = close_scopes(expr), keys_of(expr)
    again = collect(expand(closed, names_for(expr), alone=True), keys)
    assert meaning(well_formed(again), state_of(database), keys) == meaning(expr, state_of(database), keys)


@given(expressions(), databases)
def test_merging_like_terms(expr: Expr, database: dict) -> None:
    closed, keys = close_scopes(expr), keys_of(expr)
    names = names_for(expr)
    twice = [*expand(closed, names, alone=True), *expand(closed, names)]
    both = collect(merge_like_terms(twice, frozenset(keys)), keys)
    once = meaning(expr, state_of(database), keys)
    assert meaning(well_formed(both), state_of(database), keys) == {key: 2 * n for key, n in once.items()}


@given(expressions(), databases)
def test_simplifying_with_unification(expr: Expr, database: dict) -> None:
    simple = simplify(close_scopes(expr), names_for(expr))
    keys = keys_of(expr)
    assert meaning(well_formed(simple), state_of(database), keys) == meaning(expr, state_of(database), keys)


@given(expressions())
def test_an_expression_is_simplified_once_whatever_its_context_binds_besides(expr: Expr) -> None:
    closed, names = close_scopes(expr), names_for(expr)
    simple, done = simplify(closed, names), len(names.simplified)
    assert simplify(closed, names, frozenset((Var("elsewhere", BIGINT),))) == simple
    assert len(names.simplified) == done


@given(expressions(), databases)
def test_renaming_by_substitution(expr: Expr, database: dict) -> None:
    closed, keys = close_scopes(expr), keys_of(expr)
    mapping = {var: Var(f"new_{var.name}", var.type) for var in keys}
    renamed = well_formed(substitute(closed, mapping))
    new_keys = tuple(mapping[key] for key in keys)
    assert meaning(renamed, state_of(database), new_keys) == meaning(expr, state_of(database), keys)


@given(expressions(), databases)
def test_distributing(expr: Expr, database: dict) -> None:
    keys = keys_of(expr)
    monomials = simplify_monomials(close_scopes(expr), keys, names_for(expr))
    apart = collect([distribute(monomial, keys) for monomial in monomials], keys)
    assert meaning(well_formed(apart), state_of(database), keys) == meaning(expr, state_of(database), keys)


@given(expressions(), databases)
def test_factorizing(expr: Expr, database: dict) -> None:
    keys = keys_of(expr)
    simple = collect(simplify_monomials(close_scopes(expr), keys, names_for(expr)), keys)
    factored = factorise(simple, keys)
    assert meaning(well_formed(factored), state_of(database), keys) == meaning(expr, state_of(database), keys)


def test_a_monomial_keeps_its_coefficient() -> None:
    assert Monomial(0, ()).to_expr() == collect([], ())
