"""What the checker refuses, and how it says so."""

from __future__ import annotations

import pytest

from viewlet.algebra.checker import check
from viewlet.algebra.nodes import (
    Add,
    Cond,
    Const,
    Expr,
    Extreme,
    Extremum,
    Lift,
    Mul,
    Rel,
    Sum,
    Value,
    Var,
    compare,
)
from viewlet.errors import InternalError
from viewlet.types import BIGINT, VARCHAR, Column, Table

A, B, C, X = (Var(name, BIGINT) for name in "abcx")
TEXT = Var("t", VARCHAR)
TABLES = {"R": Table("R", (Column("a", BIGINT), Column("b", BIGINT)))}
R = Rel("R", (A, B))

REFUSED: dict[str, tuple[Expr, str]] = {
    "free variable": (Mul((R, Cond(compare("<", A, C)))), "c is not bound in {a < c}"),
    "terms with other columns": (Add((R, Rel("S", (A,)))), "b is bound by some terms of a sum only"),
    "lift with columns": (Lift(X, R), "a, b is bound by a lifted expression only"),
    "extremum of nothing bound": (Extremum(X, Extreme.MIN, C, Sum((), R)), "c is not bound by what it is taken over"),
    "assignments in a circle": (Mul((Lift(A, Value(B)), Lift(B, Value(A)))), "waits for what waits for it"),
    "arity": (Rel("R", (A,)), "R has 2 columns, not 1"),
    "column type": (Rel("R", (A, TEXT)), "R.b is BIGINT and t is VARCHAR"),
    "unknown table": (Rel("Q", (A,)), "there is no table Q"),
    "two types": (Mul((R, Rel("R", (A, Var("b", VARCHAR))))), "b has two types"),
    "text in a sum": (Value(Const("x", VARCHAR)), "VARCHAR has no place here"),
    "number as a condition": (Mul((R, Cond(A))), "BIGINT has no place here"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_ill_formed_expressions_are_refused(name: str) -> None:
    expr, message = REFUSED[name]
    tables = None if name == "terms with other columns" else TABLES
    with pytest.raises(InternalError) as raised:
        check(expr, tables=tables)
    assert message in str(raised.value)


def test_order_and_context_count() -> None:
    check(Mul((Cond(compare("<", A, C)), R)), given=frozenset({C}), tables=TABLES)
    check(Lift(X, R), given=frozenset({A, B}))


def test_a_closed_sum_shares_nothing_in_secret() -> None:
    expr = Mul((Rel("S", (A,)), Lift(X, Sum((), R))))
    check(expr)
    with pytest.raises(InternalError, match="a is local to a sum and bound around it"):
        check(expr, closed=True)
