"""What nodes keep: an unchanged node stays itself, and nodes that were found equal are not compared again."""

from __future__ import annotations

from hypothesis import given

from tests.laws.expressions import expressions
from viewlet.algebra.nodes import Call, Cond, Const, Delta, Expr, Mul, Rel, Sum, Var, View
from viewlet.algebra.order import order
from viewlet.algebra.traverse import atoms, rebuild, walk
from viewlet.types import BIGINT, BOOLEAN, VARCHAR

X, Y = Var("x", BIGINT), Var("y", BIGINT)


class Counted(str):
    """A constant that counts how often it is compared."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)


def large_condition() -> Expr:
    tests = tuple(Call("=", (Const(Counted(f"{i}"), VARCHAR), X), BOOLEAN) for i in range(100))
    return Sum((X,), Mul((Rel("r", (X, Y)), Cond(Call("and", tests, BOOLEAN)))))


def test_equal_nodes_are_compared_once() -> None:
    left, right, third = large_condition(), large_condition(), large_condition()
    assert left == right
    assert right == third
    Counted.comparisons = 0
    assert left == right
    assert right == left
    assert third == left
    assert {left: 1}[third] == 1
    assert Counted.comparisons == 0


def test_unequal_nodes_stay_unequal() -> None:
    left, right = large_condition(), large_condition()
    assert left == right
    assert left != Sum((X,), Rel("r", (X, Y)))
    assert Const(1, BIGINT) != Const(True, BIGINT)
    assert Const(0.0, BIGINT) != Const(-0.0, BIGINT)


@given(expressions())
def test_unchanged_nodes_stay_themselves(expr: Expr) -> None:
    def same(node: Expr) -> Expr:
        return rebuild(node, same)

    normal = same(expr)
    assert same(normal) is normal


@given(expressions())
def test_atoms_are_those_that_a_walk_meets(expr: Expr) -> None:
    met = (node for node in walk(expr) if isinstance(node, Rel | Delta | View))
    assert atoms(expr) == tuple(dict.fromkeys(met))


def test_a_product_in_order_stays_itself() -> None:
    ordered = large_condition()
    assert order(ordered) is ordered
