"""Puts the factors of every product in an order in which each finds its inputs bound.

    S(b, c) * ΔR(a, b) * {a < c}  ->  ΔR(a, b) * S(b, c) * {a < c}

Filters come as early as they can, then lookups by a whole key, changes (they are small), nested aggregates, slices by a
part of the key, and scans last. An equality with a computed value is turned round to find rows by it: {b = a + 1}
before S(b, c) becomes (b := a + 1). What fails for some arguments, as a CAST of a string does, comes after the filters
that do not need it: a row that WHERE or HAVING removes must not fail.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.algebra.nodes import (
    Add,
    Call,
    Cond,
    Delta,
    Exists,
    Expr,
    Extremum,
    Lift,
    Mul,
    Neg,
    Rel,
    Sum,
    Value,
    Var,
    View,
    call,
    once,
)
from viewlet.algebra.scope import NONE, Vars, inputs, outputs
from viewlet.algebra.traverse import are_same, calls, rebuild, scalar_variables
from viewlet.errors import InternalError
from viewlet.types import BOOLEAN, INTEGER_BITS, Kind, SqlType

_NEVER = 1_000


def order(expr: Expr, given: Vars = NONE) -> Expr:
    """The same expression with every product ordered for evaluation in a context that binds `given`."""
    match expr:
        case Mul(factors):
            placed = order_factors(factors, given)
            bound, ordered = given, []
            for factor in placed:
                ordered.append(order(factor, bound))
                bound |= outputs(factor)
            if are_same(ordered, factors):
                return expr
            return Mul(tuple(ordered)) if len(ordered) > 1 else ordered[0]
        case Lift(_, Value()):
            return expr
        case _:
            return rebuild(expr, lambda child: order(child, given))


def order_factors(factors: Sequence[Expr], given: Vars) -> list[Expr]:
    """The factors in evaluation order; fails if some factor's inputs are bound by none."""
    placed = try_order(factors, given)
    if placed is None:
        from viewlet.algebra.printer import show

        raise InternalError("no order binds every variable of " + " * ".join(map(show, factors)))
    return placed


def try_order(factors: Sequence[Expr], given: Vars) -> list[Expr] | None:
    remaining, late = _set_aside(factors)
    bound, placed = given, list[Expr]()
    while True:
        remaining, bound = _place_filters(remaining, bound, placed)
        costs = [_cost(factor, bound) for factor in remaining]
        best = min(range(len(remaining)), key=costs.__getitem__, default=None)
        if best is not None and costs[best] >= 3 and (found := _seek(remaining, bound)) is not None:
            equality, lift = found
            remaining.remove(equality)
            placed.append(lift)
            bound |= {lift.var}
            if lift.var.type.nullable:
                placed.append(Cond(call("is_not_null", lift.var, type=BOOLEAN.with_nullable(False))))
            continue
        if best is not None and costs[best] < _NEVER:
            factor = remaining.pop(best)
        elif late:
            factor = next((each for each in late if inputs(each) <= bound), late[0])
            if not inputs(factor) <= bound:
                return None
            late.remove(factor)
        else:
            return None if remaining else placed
        placed.append(factor)
        bound |= outputs(factor)


def _set_aside(factors: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
    """The factors, and those to be placed when no other can be: they may fail, and no rows are found by them."""
    if not any(is_dispensable(factor) for factor in factors):
        return list(factors), []
    sought = NONE.union(*(outputs(factor) for factor in factors if not _is_scalar(factor)))
    late = [factor for factor in factors if is_dispensable(factor) and not outputs(factor) & sought]
    return [factor for factor in factors if not any(factor is each for each in late)], late


_FAILING = frozenset(("sqrt", "ln", "log10", "exp", "power", "only_row"))
"""Functions that fail for some arguments, but for arithmetic, which rarely does and is cheap."""


@once
def may_fail(factor: Expr) -> bool:
    """It raises an error for some rows."""
    match factor:
        case Value(scalar) | Lift(_, Value(scalar)) | Cond(scalar):
            return any(_fails(each) for each in calls(scalar))
        case _:
            return False


def is_dispensable(factor: Expr) -> bool:
    """It may fail, and few rows are saved by having it early: the cost of a filter over a subquery is the subquery."""
    if not may_fail(factor):
        return False
    return not isinstance(factor, Cond) or any(each.op == "only_row" for each in calls(factor.scalar))


def _fails(node: Call) -> bool:
    if node.type.is_integer and any(arg.type.is_integer and _wider(arg.type, node.type) for arg in node.args):
        return True  # as where an argument was found to be equal to a column of a wider type
    if node.op != "cast":
        return node.op in _FAILING
    source, target = node.args[0].type, node.type
    if not target.is_exact or source.is_float or source.kind is Kind.VARCHAR:
        return source.kind is Kind.VARCHAR or (source.is_float and target.is_exact)
    room = 0 if source.is_integer or target.kind is Kind.DECIMAL else 1
    return source.is_exact and _whole_digits(source) + room > _whole_digits(target)


def _wider(one: SqlType, other: SqlType) -> bool:
    return INTEGER_BITS[one.kind] > INTEGER_BITS[other.kind]


def _whole_digits(type: SqlType) -> int:
    """Digits before the point that a value may have."""
    return len(str(1 << INTEGER_BITS[type.kind])) if type.is_integer else type.precision - type.scale


def _place_filters(factors: list[Expr], bound: Vars, placed: list[Expr]) -> tuple[list[Expr], Vars]:
    """Places the conditions whose inputs are bound, then values and assignments, after which others may be ready.

    Returns the rest, and what is bound.
    """
    while True:
        ready = [factor for factor in factors if _is_scalar(factor) and inputs(factor) <= bound]
        first = next((i for i, factor in enumerate(ready) if isinstance(factor, Lift)), len(ready))
        filters = sorted((factor for factor in ready if isinstance(factor, Cond)), key=may_fail)
        taken = filters or ready[: first + 1]
        if not taken:
            return factors, bound
        placed += taken
        bound = bound.union(*(outputs(factor) for factor in taken))
        factors = [factor for factor in factors if not any(factor is each for each in taken)]


def _is_scalar(factor: Expr) -> bool:
    return isinstance(factor, Cond | Value) or (isinstance(factor, Lift) and isinstance(factor.body, Value))


def _cost(factor: Expr, bound: Vars) -> float:
    if not inputs(factor) <= bound:
        return _NEVER
    own = outputs(factor)
    match factor:
        case _ if own <= bound and isinstance(factor, Rel | View | Delta):
            return 1
        case _ if is_driven(factor):
            return 2
        case Lift() | Extremum():
            return 2.5
        case _:
            return 4 - len(own & bound) / (len(own) + 1)


@once
def is_driven(expr: Expr) -> bool:
    """Its bindings come from a change, so there are few of them."""
    match expr:
        case Delta():
            return True
        case Exists(body) | Sum(_, body) | Neg(body):
            return is_driven(body)
        case Add(terms):
            return all(is_driven(term) for term in terms)
        case Mul(factors):
            return any(is_driven(factor) for factor in factors)
        case _:
            return False


def _seek(remaining: Sequence[Expr], bound: Vars) -> tuple[Cond, Lift] | None:
    """An equality x = e with e bound and x the column of an atom still to come, as a lift of x."""
    for factor in remaining:
        match factor:
            case Cond(Call("=", (left, right), _)):
                for target, source in ((left, right), (right, left)):
                    if (
                        isinstance(target, Var)
                        and target not in bound
                        and target.type.same_representation(source.type)
                        and bound.issuperset(scalar_variables(source))
                        and any(isinstance(other, Rel | View) and target in other.args for other in remaining)
                    ):
                        return factor, Lift(target, Value(source))
            case _:
                pass
    return None
