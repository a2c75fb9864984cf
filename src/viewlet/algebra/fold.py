"""Partial evaluation of scalars: constants are computed, NULLs and truth values propagate.

1 + 2 -> 3        x and TRUE -> x        NULL > 3 -> NULL        is_null(x) -> FALSE where x cannot be NULL
is_not_null(x * y) -> is_not_null(x) and is_not_null(y)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from viewlet.algebra.bundle import is_bundle
from viewlet.algebra.casts import is_widening
from viewlet.algebra.functions import FUNCTIONS, TOTAL, compile_scalar
from viewlet.algebra.membership import merge_memberships
from viewlet.algebra.nodes import Call, Const, Scalar
from viewlet.errors import DataError
from viewlet.types import BOOLEAN

FALSE = Const(False, BOOLEAN.with_nullable(False))
TRUE = Const(True, BOOLEAN.with_nullable(False))


def fold(scalar: Scalar) -> Scalar:
    """The scalar with every part computed that does not depend on a variable."""
    return _fold_call(scalar) if isinstance(scalar, Call) else scalar


@lru_cache(maxsize=65536)
def _fold_call(scalar: Call) -> Scalar:
    args = tuple(fold(arg) for arg in scalar.args)
    folded = scalar if args == scalar.args else Call(scalar.op, args, scalar.type)
    match scalar.op, args:
        case "and", _:
            return _connective(folded, neutral=True)
        case "or", _:
            return _connective(folded, neutral=False)
        case "is_null", (arg,) if not arg.type.nullable:
            return FALSE
        case "is_not_null", (arg,) if not isinstance(arg, Const):
            return _is_present(arg)
        case "case", _:
            return _case(folded)
    if all(isinstance(arg, Const) for arg in args):
        return _compute(folded)
    if _is_strict(scalar.op) and any(isinstance(arg, Const) and arg.value is None for arg in args):
        return Const(None, scalar.type)
    return folded


def conjuncts(scalar: Scalar) -> tuple[Scalar, ...]:
    """a and b and ... as a tuple, in which a bundle is one."""
    if isinstance(scalar, Call) and scalar.op == "and" and not is_bundle(scalar):
        return tuple(part for arg in scalar.args for part in conjuncts(arg))
    return (scalar,)


def _compute(call: Call) -> Scalar:
    try:
        return Const(compile_scalar(call)({}), call.type)
    except DataError:
        return call  # it may never be evaluated: let it fail when it is


def _connective(call: Call, neutral: bool) -> Scalar:
    rest = tuple(arg for arg in call.args if not (isinstance(arg, Const) and arg.value is neutral))
    if any(isinstance(arg, Const) and arg.value is (not neutral) for arg in rest):
        return FALSE if neutral else TRUE
    if not rest:
        return TRUE if neutral else FALSE
    rest = merge_memberships(rest, call.op)
    if len(rest) == 1:
        return rest[0]
    if all(isinstance(arg, Const) for arg in rest):
        return Const(None, call.type)
    return Call(call.op, rest, call.type)


def _case(call: Call) -> Scalar:
    """Branches that cannot be taken go; a branch that is always taken ends the list."""
    *pairs, otherwise = call.args
    kept: list[Scalar] = []
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        if isinstance(condition, Const) and condition.value is not True:
            continue
        if isinstance(condition, Const):
            otherwise = value
            break
        kept += [condition, value]
    return Call("case", (*kept, otherwise), call.type) if kept else otherwise


def _is_present(scalar: Scalar) -> Scalar:
    return _connective(Call("and", tuple(dict.fromkeys(_presence(scalar))), TRUE.type), neutral=True)


def _presence(scalar: Scalar) -> Iterator[Scalar]:
    """Conditions that hold together where a scalar is not NULL; each is TRUE or FALSE.

    A product of columns of several tables is tested by a condition on each table, so that it can be counted by factors.
    """
    if not scalar.type.nullable:
        return
    match scalar:
        case Call("case", (condition, value, Const(None, _)), _):
            yield Call("is_true", (condition,), TRUE.type) if condition.type.nullable else condition
            yield from _presence(value)
        case Call("case", (*pairs, otherwise), _):
            pairs[1::2] = [_is_present(value) for value in pairs[1::2]]
            yield fold(Call("case", (*pairs, _is_present(otherwise)), TRUE.type))
        case Call(op, args, type) if op in TOTAL or (op == "cast" and is_widening(args[0].type, type)):
            for arg in args:
                yield from _presence(arg)
        case Const(None, _):
            yield FALSE
        case _:
            yield Call("is_not_null", (scalar,), TRUE.type)


def _is_strict(op: str) -> bool:
    return op in FUNCTIONS and FUNCTIONS[op].strict
