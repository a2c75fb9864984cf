"""Monotone conditions, which select a range of an order.

A condition on x is *up* if, once true, it stays true as x grows, and *down* if it stays true as x shrinks. The rows
that satisfy an up and a down condition are an interval of x; a disjunction of the two is two intervals. Such rows can
be found in a tree ordered by x by evaluating the condition along one path; it need not be solved for x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from viewlet.algebra.nodes import Call, Cond, Const, Expr, Lift, Mul, Scalar, Sum, Var, View
from viewlet.algebra.traverse import scalar_variables
from viewlet.types import BOOLEAN, Kind


class Direction(Enum):
    """How an expression depends on x."""

    FLAT = 0
    UP = 1
    DOWN = -1

    def flipped(self) -> Direction:
        return Direction(-self.value)


Directions = Mapping[Var, Direction]
_COMPARISONS = {">": 1, ">=": 1, "<": -1, "<=": -1}
_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


def _together(directions: Sequence[Direction | None]) -> Direction | None:
    """The direction of something that grows with each of its parts."""
    if any(direction is None for direction in directions):
        return None
    found = {direction for direction in directions if direction not in (None, Direction.FLAT)}
    return Direction.FLAT if not found else found.pop() if len(found) == 1 else None


def direction_of(scalar: Scalar, directions: Directions) -> Direction | None:
    """How a number depends on x; None if in no single direction."""
    if not any(var in directions for var in scalar_variables(scalar)):
        return Direction.FLAT
    match scalar:
        case Var():
            return directions[scalar]
        case Call("+", args, _):
            return _together([direction_of(arg, directions) for arg in args])
        case Call("-", (left, right), _):
            return _together([direction_of(left, directions), _flip(direction_of(right, directions))])
        case Call("neg", (arg,), _):
            return _flip(direction_of(arg, directions))
        case Call("*", (Const(value, _), other), _) | Call("*", (other, Const(value, _)), _):
            direction = direction_of(other, directions)
            return direction if isinstance(value, int | float) and value >= 0 else _flip(direction)
        case Call("cast", (arg,), type) if type.is_numeric and arg.type.is_numeric:
            return direction_of(arg, directions)
    return None


def _flip(direction: Direction | None) -> Direction | None:
    return None if direction is None else direction.flipped()


def truth_direction(condition: Scalar, directions: Directions) -> Direction | None:
    """How the truth of a condition depends on x, NULL being as good as false."""
    if not any(var in directions for var in scalar_variables(condition)):
        return Direction.FLAT
    match condition:
        case Call(op, (left, right), _) if op in _COMPARISONS and left.type.kind is not Kind.VARCHAR:
            direction = _together([direction_of(left, directions), _flip(direction_of(right, directions))])
            return direction if direction is None or _COMPARISONS[op] > 0 else direction.flipped()
        case Call("and" | "or", args, _):
            return _together([truth_direction(arg, directions) for arg in args])
    return None


@dataclass(frozen=True, slots=True)
class Test:
    """A condition, or its negation."""

    condition: Scalar
    holds: bool = True


@dataclass(frozen=True, slots=True)
class Interval:
    """The rows that satisfy all conditions in `ups` and in `downs`."""

    ups: tuple[Test, ...] = ()
    downs: tuple[Test, ...] = ()


def intervals(conditions: Sequence[Scalar], directions: Directions) -> list[Interval] | None:
    """Disjoint intervals of x that together are where the conditions hold; None where that is not so."""
    found = [Interval()]
    for condition in conditions:
        match truth_direction(condition, directions), condition:
            case Direction.DOWN, _:
                found = [Interval(each.ups, (*each.downs, Test(condition))) for each in found]
            case Direction.UP | Direction.FLAT, _:
                found = [Interval((*each.ups, Test(condition)), each.downs) for each in found]
            case None, Call("and", args, _):
                inner = intervals(args, directions)
                if inner is None:
                    return None
                found = [_meet(each, other) for each in found for other in inner]
            case None, Call("or", args, _):
                outer = _outside(args, directions)
                if outer is None:
                    return None
                found = [_meet(each, other) for each in found for other in outer]
            case _:
                return None
    return found


def _outside(args: Sequence[Scalar], directions: Directions) -> tuple[Interval, Interval] | None:
    """An up condition or a down one: where the first holds, and where only the second does."""
    kinds = [truth_direction(arg, directions) for arg in args]
    if None in kinds:
        return None
    up = _any([arg for arg, kind in zip(args, kinds, strict=True) if kind is not Direction.DOWN])
    down = _any([arg for arg, kind in zip(args, kinds, strict=True) if kind is Direction.DOWN])
    return Interval((Test(up),)), Interval((), (Test(down), Test(up, False)))


def _any(conditions: Sequence[Scalar]) -> Scalar:
    return conditions[0] if len(conditions) == 1 else Call("or", tuple(conditions), BOOLEAN)


def _meet(first: Interval, second: Interval) -> Interval:
    return Interval(first.ups + second.ups, first.downs + second.downs)


@dataclass(frozen=True, slots=True)
class RunningSum:
    """A running sum, `var := Sum[](atom * {of op x})`: the sum over the rows beyond x."""

    var: Var
    atom: View
    of: Var
    op: str

    @property
    def direction(self) -> Direction:
        """With nothing negative to add, the rest above x shrinks as x grows."""
        return Direction.DOWN if self.op in (">", ">=") else Direction.UP


def running_sum(factor: Expr, x: Var, bound: frozenset[Var]) -> RunningSum | None:
    """The factor as a running sum over an order that x cuts."""
    if not isinstance(factor, Lift) or factor.var in bound or factor.var.type.is_float:
        return None
    body = factor.body.body if isinstance(factor.body, Sum) and bound.issuperset(factor.body.keys) else factor.body
    match body:
        case Mul((View() as atom, Cond(Call(op, (Var() as left, Var() as right), _)))) if op in _COMPARISONS:
            of, towards = (left, op) if right == x else (right, _MIRRORED[op])
            fresh = [arg for arg in atom.args if arg not in bound]
            if x in (left, right) and fresh == [of] and x not in atom.args:
                return RunningSum(factor.var, atom, of, towards)
    return None


def without_null(condition: Scalar, dependent: frozenset[Var]) -> tuple[Scalar, list[Scalar]]:
    """A comparison of a sum that is NULL over no rows: the comparison of the sum, and that there are rows.

    `a > case(count = 0, NULL, sum)` is true where `a > sum` is and `count > 0`, the count of rows never being negative.
    """
    guards: list[Scalar] = []

    def go(scalar: Scalar) -> Scalar:
        match scalar:
            case Call("case", (Call("=", (Var() as count, Const(0, _)), _), Const(None, _), other), _) if (
                count in dependent
            ):
                guards.append(Call(">", (count, Const(0, count.type)), BOOLEAN.with_nullable(False)))
                return go(other)
            case Call("+" | "-" | "*" | "neg" | "cast" as op, args, type):
                return Call(op, tuple(go(arg) for arg in args), type)
        return scalar

    if isinstance(condition, Call) and condition.op in _COMPARISONS:
        return Call(condition.op, tuple(go(arg) for arg in condition.args), condition.type), guards
    return condition, []


def is_false_at_null(condition: Scalar, x: Var) -> bool:
    """Whether a condition cannot hold where x is NULL: it compares numbers that are made of x."""
    match condition:
        case Call("and", args, _):
            return any(is_false_at_null(arg, x) for arg in args)
        case Call("or", args, _):
            return all(is_false_at_null(arg, x) for arg in args)
        case Call(op, args, _) if op in _COMPARISONS:
            return any(_is_null_at_null(arg, x) for arg in args)
    return False


def _is_null_at_null(scalar: Scalar, x: Var) -> bool:
    match scalar:
        case Var():
            return scalar == x
        case Call("+" | "-" | "*" | "neg" | "cast", args, _):
            return any(_is_null_at_null(arg, x) for arg in args)
    return False


def is_ordered(var: Var) -> bool:
    """Whether the words of a column are in the order of its values."""
    return var.type.kind is not Kind.VARCHAR and not var.type.is_float
