"""The one traversal module: children, rebuilding, and substitution of variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import assert_never

from viewlet.algebra.nodes import (
    Add,
    Atom,
    Call,
    Cond,
    Const,
    Delta,
    Exists,
    Expr,
    Extremum,
    Lift,
    Mul,
    Neg,
    Rel,
    Scalar,
    Sum,
    Value,
    Var,
    View,
    add,
    is_constant,
    mul,
    neg,
    once,
    sum_over,
)

Substitution = Mapping[Var, Scalar]


class Names:
    """A supply of fresh variable names; one per compilation, so that output is deterministic."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._last: dict[str, int] = {}  # the highest number that was tried for a name
        self.simplified: dict[tuple[Expr, frozenset[Var], bool], Expr] = {}
        """What expressions of the compilation became when they were simplified (`simplify.py`), with such names."""

    def fresh(self, var: Var) -> Var:
        """A variable of the same type with a name not seen before, derived from the old one."""
        return Var(self.name(var.name), var.type)

    def name(self, wanted: str) -> str:
        base = re.sub(r"_\d+$", "", wanted).lstrip(":")  # a colon marks the values of a row (`triggers.single`)
        number = self._last.get(base, 1)
        candidate = base if number == 1 else f"{base}_{number}"
        while candidate in self._taken:
            number += 1
            candidate = f"{base}_{number}"
        self._taken.add(candidate)
        self._last[base] = number
        return candidate

    def reserve(self, names: Iterable[str]) -> None:
        self._taken.update(names)


def children(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Value() | Cond() | Rel() | Delta() | View():
            return ()
        case Mul(factors):
            return factors
        case Add(terms):
            return terms
        case Neg(body) | Sum(_, body) | Lift(_, body) | Extremum(_, _, _, body) | Exists(body):
            return (body,)
        case _:
            assert_never(expr)


def rebuild(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The same node over changed children, through the smart constructors; the node itself if that changes nothing.

    What was found out about a node, and how it compares with others, is kept with it.
    """
    match expr:
        case Value() | Cond() | Rel() | Delta() | View():
            return expr
        case Mul(factors):
            product = mul(*(change(factor) for factor in factors))
            return expr if isinstance(product, Mul) and are_same(product.factors, factors) else product
        case Add(terms):
            union = add(*(change(term) for term in terms))
            return expr if isinstance(union, Add) and are_same(union.terms, terms) else union
        case Neg(body):
            changed = change(body)
            negated = neg(changed)
            return expr if changed is body and isinstance(negated, Neg) else negated
        case Sum(keys, body):
            changed = change(body)
            return expr if changed is body and not is_constant(body, 0) else sum_over(keys, changed)
        case Lift(var, body):
            changed = change(body)
            return expr if changed is body else Lift(var, changed)
        case Extremum(var, which, of, body):
            changed = change(body)
            return expr if changed is body else Extremum(var, which, of, changed)
        case Exists(body):
            changed = change(body)
            return expr if changed is body else Exists(changed)
        case _:
            assert_never(expr)


def are_same(left: Sequence[Expr], right: Sequence[Expr]) -> bool:
    """They hold the very same nodes."""
    return len(left) == len(right) and all(map(is_, left, right))


def walk(expr: Expr) -> Iterator[Expr]:
    """The node and everything below it, parents first."""
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(children(node)))


@once
def scalar_variables(scalar: Scalar) -> tuple[Var, ...]:
    """The variables of a scalar from left to right, each as often as it occurs."""
    match scalar:
        case Var():
            return (scalar,)
        case Const():
            return ()
        case Call(_, args, _):
            return tuple(var for arg in args for var in scalar_variables(arg))
        case _:
            assert_never(scalar)


@once
def variable_set(scalar: Scalar) -> frozenset[Var]:
    """The variables of a scalar."""
    match scalar:
        case Var():
            return frozenset((scalar,))
        case Const():
            return frozenset()
        case Call(_, args, _):
            return frozenset[Var]().union(*(variable_set(arg) for arg in args))
        case _:
            assert_never(scalar)


def calls(scalar: Scalar) -> Iterator[Call]:
    """The function calls of a scalar, outer ones first."""
    if isinstance(scalar, Call):
        yield scalar
        for arg in scalar.args:
            yield from calls(arg)


def mentioned(node: Expr) -> Iterator[Var]:
    """The variables a node names itself, not counting those of its children."""
    match node:
        case Value(scalar) | Cond(scalar):
            yield from scalar_variables(scalar)
        case Rel(_, args) | Delta(_, args) | View(_, _, args):
            yield from args
        case Sum(keys, _):
            yield from keys
        case Lift(var, _):
            yield var
        case Extremum(var, _, of, _):
            yield from (var, of)
        case _:
            return


@once
def mentions(expr: Expr) -> tuple[frozenset[Var], frozenset[Var]]:
    """The variables that stand in one place anywhere in an expression, and those that stand in several."""
    single, several = set[Var](), set[Var]()
    own = [(frozenset((var,)), frozenset[Var]()) for var in mentioned(expr)]
    for one, many in (*own, *map(mentions, children(expr))):
        several |= many | (single & one)
        single |= one
    return frozenset(single - several), frozenset(several)


@once
def size(expr: Expr) -> int:
    """The number of nodes of an expression."""
    return 1 + sum(size(child) for child in children(expr))


@once
def all_variables(expr: Expr) -> frozenset[Var]:
    """Every variable that occurs anywhere, local ones included."""
    return frozenset(mentioned(expr)).union(*(all_variables(child) for child in children(expr)))


@once
def atoms(expr: Expr) -> tuple[Atom, ...]:
    """The tables, changes and views that an expression reads, as they stand in it, each once."""
    if isinstance(expr, Rel | Delta | View):
        return (expr,)
    return tuple(dict.fromkeys(atom for child in children(expr) for atom in atoms(child)))


@once
def relations(expr: Expr) -> frozenset[str]:
    """Names of the base tables read, not counting their changes."""
    if isinstance(expr, Rel):
        return frozenset((expr.name,))
    return frozenset[str]().union(*(relations(child) for child in children(expr)))


def has_relations(expr: Expr) -> bool:
    return bool(relations(expr))


@once
def has_delta(expr: Expr) -> bool:
    return isinstance(expr, Delta) or any(has_delta(child) for child in children(expr))


@once
def is_stored(expr: Expr) -> bool:
    """Some part of it reads stored data: a base table or a view."""
    return isinstance(expr, Rel | View) or any(is_stored(child) for child in children(expr))


def substitute_scalar(scalar: Scalar, mapping: Substitution) -> Scalar:
    match scalar:
        case Var():
            return mapping.get(scalar, scalar)
        case Const():
            return scalar
        case Call(op, args, type):
            replaced = tuple([substitute_scalar(arg, mapping) for arg in args])
            same = all(new is old for new, old in zip(replaced, args, strict=True))
            return scalar if same else Call(op, replaced, type)
        case _:
            assert_never(scalar)
