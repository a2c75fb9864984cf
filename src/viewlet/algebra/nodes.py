"""The calculus: aggregate queries as polynomials over relations.

An expression denotes a finite map from tuples (bindings of its output variables) to numbers. Joins are products, unions
are sums, and a variable bound to the left of a factor is visible in it (sideways information passing). After "Efficient
Incremental Data Analysis" (M. Nikolic), section 2.2; a nested aggregate is always one number in its context, so that
the pair (count, value) of the thesis becomes an explicit `Exists` next to a `Lift`.

    scalar ::= x                       Var        a variable
             | c                       Const      a typed constant
             | f(scalar, ...)          Call       arithmetic, comparison, logic, CASE, functions (see functions.py)

    expr   ::= scalar                  Value      the number itself; NULL counts as 0
             | {scalar}                Cond       1 where the scalar is TRUE, else 0 (also for NULL)
             | R(x, ...)               Rel        multiplicity of the row in base table R
             | dR(x, ...)              Delta      multiplicity of the row in the change of R
             | V.f(x, ...)             View       field f of materialised view V at this key
             | expr * ... * expr       Mul        natural join, left to right
             | expr + ... + expr       Add        bag union
             | -expr                   Neg        additive inverse
             | Sum[x, ...](expr)       Sum        projection on x, ..., numbers added up
             | (x := expr)             Lift       binds x to the number of expr; expr has no output variables in context
             | (x := min y: expr)      Extremum   binds x to the smallest (largest) y with a non-zero number, or NULL
             | Exists(expr)            Exists     1 where expr is not 0

`Lift` of a bare `Value` binds any scalar, strings and NULL included. All variables of one query are distinct unless
they mean the same thing; a variable of a `Sum` that is not among its keys is local to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from math import copysign
from typing import TypeVar, dataclass_transform

from viewlet.types import BIGINT, BOOLEAN, Datum, SqlType

C = TypeVar("C")
E = TypeVar("E")


class _Hashed:
    """Holds the hash of a node and what functions marked with `once` have found for it."""

    __slots__ = (
        "_all_variables",
        "_atoms",
        "_bindable",
        "_free_variables",
        "_has_delta",
        "_hash",
        "_inputs",
        "_is_bundle",
        "_is_closed",
        "_is_driven",
        "_is_moved",
        "_is_settled",
        "_is_stored",
        "_may_fail",
        "_mentions",
        "_monomial_count",
        "_node_count",
        "_outputs",
        "_reads_own_variable",
        "_relations",
        "_representative",
        "_scalar_variables",
        "_shared_variables",
        "_size",
        "_template",
        "_variable_set",
    )


def once(function: Callable[[E], C]) -> Callable[[E], C]:
    """A function of a node that is computed once and kept in the node, so that asking again costs no comparison."""
    slot = f"_{function.__name__}"

    @wraps(function)
    def found(node: E) -> C:
        try:
            return getattr(node, slot)  # type: ignore[no-any-return]
        except AttributeError:
            value = function(node)
            object.__setattr__(node, slot, value)
            return value

    return found


@dataclass_transform(frozen_default=True)
def node(cls: type[C]) -> type[C]:
    """A frozen dataclass that computes its hash once: expressions are looked up far more often than they are made.

    Two nodes with different hashes are told apart by them, without a look at what is below. Two nodes that were found
    equal have one representative from then on, so that what is below them is not compared again.
    """
    made = dataclass(frozen=True, slots=True)(cls)
    structural, equal = made.__hash__, made.__eq__

    def cached(self: C) -> int:
        try:
            return self._hash  # type: ignore[attr-defined, no-any-return]
        except AttributeError:
            value = structural(self)
            object.__setattr__(self, "_hash", value)
            return value

    def same(self: C, other: object) -> bool:
        if self is other:
            return True
        if other.__class__ is not self.__class__:
            return False
        if hash(self) != hash(other):
            return False
        first = getattr(self, "_representative", self)
        if first is getattr(other, "_representative", other):
            return True
        if not equal(self, other):
            return False
        object.__setattr__(other, "_representative", first)
        return True

    made.__hash__ = cached  # type: ignore[assignment, method-assign]
    made.__eq__ = same  # type: ignore[assignment, method-assign]
    return made


@node
class Var(_Hashed):
    name: str
    type: SqlType


@node
class Const(_Hashed):
    """A typed constant. Values that Python finds equal but a function can tell apart are different constants.

    1 == True == 1.0 and 0.0 == -0.0 in Python, yet as VARCHAR they differ.
    """

    value: Datum
    type: SqlType

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Const):
            return NotImplemented
        return _same_value(self.value, other.value) and self.type == other.type


@node
class Call(_Hashed):
    """A function of scalars; `op` names an entry of `functions.FUNCTIONS`, or a comparison or connective."""

    op: str
    args: tuple[Scalar, ...]
    type: SqlType


Scalar = Var | Const | Call


def _same_value(left: Datum, right: Datum) -> bool:
    if left is right:
        return True
    if isinstance(left, float) and isinstance(right, float):
        return left == right and copysign(1.0, left) == copysign(1.0, right)
    return type(left) is type(right) and left == right


@node
class Value(_Hashed):
    scalar: Scalar


@node
class Cond(_Hashed):
    scalar: Scalar


@node
class Rel(_Hashed):
    name: str
    args: tuple[Var, ...]


@node
class Delta(_Hashed):
    name: str
    args: tuple[Var, ...]


@node
class View(_Hashed):
    name: str
    field: str
    args: tuple[Var, ...]


@node
class Mul(_Hashed):
    factors: tuple[Expr, ...]


@node
class Add(_Hashed):
    terms: tuple[Expr, ...]


@node
class Neg(_Hashed):
    body: Expr


@node
class Sum(_Hashed):
    keys: tuple[Var, ...]
    body: Expr


@node
class Lift(_Hashed):
    var: Var
    body: Expr


class Extreme(Enum):
    MIN = "min"
    MAX = "max"


@node
class Extremum(_Hashed):
    var: Var
    which: Extreme
    of: Var
    body: Expr


@node
class Exists(_Hashed):
    body: Expr


Atom = Rel | Delta | View
Expr = Value | Cond | Rel | Delta | View | Mul | Add | Neg | Sum | Lift | Extremum | Exists

ZERO = Value(Const(0, BIGINT.with_nullable(False)))
ONE = Value(Const(1, BIGINT.with_nullable(False)))
MULTIPLICITY = Var(":multiplicity", BIGINT.with_nullable(False))
"""How often a changed row was inserted (positive) or deleted (negative); never 0."""
TRUE = Const(True, BOOLEAN.with_nullable(False))


def integer(n: int) -> Value:
    """The constant n as an expression."""
    return Value(Const(n, BIGINT.with_nullable(False)))


def is_constant(expr: Expr, number: int) -> bool:
    return isinstance(expr, Value) and isinstance(expr.scalar, Const) and expr.scalar.value == number


def mul(*factors: Expr) -> Expr:
    """Q1 * Q2 * ..., flattened; 1 is dropped, 0 annihilates, signs move to the front."""
    flat: list[Expr] = []
    negative = False
    for factor in factors:
        if isinstance(factor, Neg):
            negative = not negative
            factor = factor.body
        for part in factor.factors if isinstance(factor, Mul) else (factor,):
            if is_constant(part, 0):
                return ZERO
            if not is_constant(part, 1):
                flat.append(part)
    product = ONE if not flat else flat[0] if len(flat) == 1 else Mul(tuple(flat))
    return neg(product) if negative else product


def add(*terms: Expr) -> Expr:
    """Q1 + Q2 + ..., flattened; 0 is dropped."""
    flat = [part for term in terms for part in summands(term) if not is_constant(part, 0)]
    return ZERO if not flat else flat[0] if len(flat) == 1 else Add(tuple(flat))


def neg(body: Expr) -> Expr:
    """-Q, pushed through sums and cancelled with itself."""
    match body:
        case Neg(inner):
            return inner
        case Add(terms):
            return add(*(neg(term) for term in terms))
        case Value(Const(value, type)) if isinstance(value, int | float) and not isinstance(value, bool):
            return Value(Const(-value, type))
        case _:
            return Neg(body)


def sum_over(keys: tuple[Var, ...], body: Expr) -> Expr:
    """Sum[keys](Q); 0 stays 0."""
    return ZERO if is_constant(body, 0) else Sum(keys, body)


def factors_of(expr: Expr) -> tuple[Expr, ...]:
    """The factors of a product; any other expression is a product of one, and 1 of none."""
    if isinstance(expr, Mul):
        return expr.factors
    return () if is_constant(expr, 1) else (expr,)


def summands(expr: Expr) -> tuple[Expr, ...]:
    return expr.terms if isinstance(expr, Add) else (expr,)


def call(op: str, *args: Scalar, type: SqlType) -> Call:
    return Call(op, args, type)


def compare(op: str, left: Scalar, right: Scalar) -> Call:
    """left op right, a nullable boolean unless neither side can be NULL."""
    return Call(op, (left, right), BOOLEAN.with_nullable(left.type.nullable or right.type.nullable))
