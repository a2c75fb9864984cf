"""Puts the factors of every product in an order in which each finds its inputs bound.

    S(b, c) * ΔR(a, b) * {a < c}  ->  ΔR(a, b) * S(b, c) * {a < c}

Filters come as early as they can, then lookups by a whole key, changes (they are small), nested aggregates, slices by a
part of the key, and scans last. An equality with a computed value is turned round to find rows by it: {b = a + 1}
before S(b, c) becomes (b := a + 1).
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
from viewlet.algebra.traverse import are_same, rebuild, scalar_variables
from viewlet.errors import InternalError
from viewlet.types import BOOLEAN

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
    remaining, bound, placed = list(factors), given, list[Expr]()
    while remaining:
        remaining, bound = _place_filters(remaining, bound, placed)
        if not remaining:
            break
        costs = [_cost(factor, bound) for factor in remaining]
        best = min(range(len(remaining)), key=costs.__getitem__)
        if costs[best] >= 3 and (found := _seek(remaining, bound)) is not None:
            equality, lift = found
            remaining.remove(equality)
            placed.append(lift)
            bound |= {lift.var}
            if lift.var.type.nullable:
                placed.append(Cond(call("is_not_null", lift.var, type=BOOLEAN.with_nullable(False))))
            continue
        if costs[best] >= _NEVER:
            return None
        factor = remaining.pop(best)
        placed.append(factor)
        bound |= outputs(factor)
    return placed


def _place_filters(factors: list[Expr], bound: Vars, placed: list[Expr]) -> tuple[list[Expr], Vars]:
    """Places the conditions, values and assignments whose inputs are bound; answers with the rest and what is bound."""
    while True:
        waiting: list[Expr] = []
        for i, factor in enumerate(factors):
            if not _is_scalar(factor) or not inputs(factor) <= bound:
                waiting.append(factor)
                continue
            placed.append(factor)
            if not outputs(factor) <= bound:  # an assignment: factors before it may be ready now
                bound |= outputs(factor)
                factors = waiting + factors[i + 1 :]
                break
        else:
            return waiting, bound


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
