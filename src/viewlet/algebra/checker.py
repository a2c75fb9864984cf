"""The invariants of well-formed expressions, which hold before and after every pass.

    R(a, b) * {a < c}          refused: nothing binds c
    R(a, b) + S(a)             refused where the context does not give b: the terms bind different columns
    (s := R(a, b) * b)         refused where the context does not give a and b: a lifted number has no columns

Products are judged as joins, so the order of their factors does not matter here; `order` finds one that evaluates.
A violation is our bug, never the user's, hence an `InternalError` that shows the fragment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, assert_never

from viewlet.algebra.nodes import (
    Add,
    Cond,
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
    View,
    is_constant,
)
from viewlet.algebra.printer import show
from viewlet.algebra.scope import NONE, Vars, inputs, outputs
from viewlet.algebra.traverse import mentioned, walk
from viewlet.errors import InternalError
from viewlet.types import Kind, SqlType, Table


def check(
    expr: Expr,
    given: Vars = NONE,
    tables: Mapping[str, Table] | None = None,
    closed: bool = False,
) -> None:
    """Raises InternalError unless `expr` is well-formed in a context that binds `given`.

    With `tables`, atoms have to match their schemas. After `close_scopes` an expression is `closed`: a Sum shows every
    variable it shares with its context, so that a local variable can never be taken for one around it.
    """
    _check_names(expr, given)
    _Checker(tables, closed).check(expr, given)


@dataclass(frozen=True, slots=True)
class _Checker:
    tables: Mapping[str, Table] | None
    closed: bool

    def check(self, expr: Expr, given: Vars) -> None:
        match expr:
            case Value(scalar):
                _check_bound(expr, inputs(expr), given)
                _check_type(expr, scalar.type.is_numeric or scalar.type.kind in _COUNTS_AS_NUMBER, scalar.type)
            case Cond(scalar):
                _check_bound(expr, inputs(expr), given)
                _check_type(expr, scalar.type.kind in (Kind.BOOLEAN, Kind.NULL), scalar.type)
            case Rel() | Delta():
                self._check_atom(expr)
            case View():
                pass
            case Mul(factors):
                self._check_product(expr, factors, given)
            case Add(terms):
                for term in terms:
                    _check_bound(term, outputs(term) - outputs(expr), given, "is bound by some terms of a sum only")
                    self.check(term, given)
            case Neg(body) | Exists(body):
                self.check(body, given)
            case Sum(keys, body):
                _check_bound(expr, frozenset(keys) - outputs(body), given)
                if self.closed and (hidden := (outputs(body) & given) - set(keys)):
                    _fail(f"{_names(hidden)} is local to a sum and bound around it", expr)
                self.check(body, given)
            case Lift(var, Value(scalar)):
                _check_bound(expr, inputs(expr), given)
                _check_type(expr, _assignable(var.type, scalar), scalar.type)
            case Lift(var, body):
                _check_bound(expr, outputs(body), given, "is bound by a lifted expression only")
                _check_type(expr, var.type.is_numeric or var.type.kind in _COUNTS_AS_NUMBER, var.type)
                self.check(body, given)
            case Extremum(var, _, of, body):
                _check_bound(expr, outputs(body) - {of}, given, "is bound by an extremum only")
                if of not in outputs(body) and not is_constant(body, 0):  # the extremum of nothing is NULL
                    _fail(f"{of.name} is not bound by what it is taken over", expr)
                self.check(body, given - {of})
            case _:
                assert_never(expr)

    def _check_atom(self, atom: Rel | Delta) -> None:
        if self.tables is None:
            return
        table = self.tables.get(atom.name)
        if table is None:
            _fail(f"there is no table {atom.name}", atom)
        if len(table.columns) != len(atom.args):
            _fail(f"{atom.name} has {len(table.columns)} columns, not {len(atom.args)}", atom)
        for column, arg in zip(table.columns, atom.args, strict=True):
            if not column.type.same_representation(arg.type):
                _fail(f"{atom.name}.{column.name} is {column.type} and {arg.name} is {arg.type}", atom)

    def _check_product(self, product: Mul, factors: tuple[Expr, ...], given: Vars) -> None:
        shown = [outputs(factor) for factor in factors]
        everything = given.union(*shown)
        for i, factor in enumerate(factors):
            if isinstance(factor, _SIMPLE):
                self.check(factor, everything)
            else:
                self.check(factor, given.union(*shown[:i], *shown[i + 1 :]))
        waiting, bound = list(factors), given
        while waiting:
            ready = [factor for factor in waiting if inputs(factor) <= bound]
            if not ready:
                _fail(f"{_names(inputs(waiting[0]) - bound)} waits for what waits for it", product)
            waiting = [factor for factor in waiting if not inputs(factor) <= bound]
            bound = bound.union(*(outputs(factor) for factor in ready))


_SIMPLE = (Value, Cond, Rel, Delta, View)
"""Factors that bind nothing they need: what their neighbours bind together is their context."""

_COUNTS_AS_NUMBER = (Kind.BOOLEAN, Kind.NULL)
"""Truth counts as 1 in a sum, and NULL as 0."""


def _assignable(type: SqlType, scalar: Scalar) -> bool:
    return scalar.type.kind is Kind.NULL or type.same_representation(scalar.type)


def _check_names(expr: Expr, given: Vars) -> None:
    """One name has one type: environments are kept by name."""
    types: dict[str, SqlType] = {var.name: var.type for var in given}
    for node in walk(expr):
        for var in mentioned(node):
            if types.setdefault(var.name, var.type) != var.type:
                _fail(f"{var.name} has two types", node)


def _check_bound(expr: Expr, needed: Vars, given: Vars, problem: str = "is not bound") -> None:
    if not needed <= given:
        _fail(f"{_names(needed - given)} {problem}", expr)


def _check_type(expr: Expr, holds: bool, type: SqlType) -> None:
    if not holds:
        _fail(f"a value of type {type} has no place here", expr)


def _names(variables: Vars) -> str:
    return ", ".join(sorted(var.name for var in variables))


def _fail(problem: str, expr: Expr) -> NoReturn:
    raise InternalError(f"ill-formed expression: {problem} in {show(expr)}")
