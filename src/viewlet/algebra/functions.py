"""The open table of scalar functions, and the compilation of a scalar to a Python closure.

    compile_scalar(a + 1)({"a": 41}) = 42

A strict function is NULL where an argument is NULL, and its implementation never sees one. Logic, CASE and COALESCE
evaluate only the arguments they need, so that a guarded expression cannot fail; they are the special forms.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, assert_never

from viewlet.algebra.arithmetic import NUMERIC
from viewlet.algebra.casts import cast, is_widening
from viewlet.algebra.moments import TEMPORAL
from viewlet.algebra.nodes import Call, Const, Scalar, Var
from viewlet.algebra.scalar_function import Function, Implementation, Types, simple
from viewlet.algebra.text import TEXTUAL
from viewlet.errors import DataError, InternalError
from viewlet.types import Datum, SqlType

Environment = Mapping[str, Datum]
Closure = Callable[[Environment], Any]


@lru_cache(maxsize=65536)
def compile_scalar(scalar: Scalar) -> Closure:
    """A closure that computes the scalar from the values of its variables."""
    match scalar:
        case Var(name, _):
            return operator.itemgetter(name)
        case Const(value, _):
            return lambda env: value
        case Call(op, args, type):
            closures = tuple(compile_scalar(arg) for arg in args)
            if op in _SPECIAL_FORMS:
                return _SPECIAL_FORMS[op](scalar, closures)
            if op not in FUNCTIONS:
                raise InternalError(f"unknown scalar function {op!r}")
            function = FUNCTIONS[op]
            implementation = function.build(tuple(arg.type for arg in args), type)
            return _strict(implementation, closures) if function.strict else _eager(implementation, closures)
        case _:
            assert_never(scalar)


def _strict(implementation: Implementation, closures: tuple[Closure, ...]) -> Closure:
    if len(closures) == 1:
        (only,) = closures

        def unary(env: Environment) -> Any:
            value = only(env)
            return None if value is None else implementation(value)

        return unary
    if len(closures) == 2:
        first, second = closures

        def binary(env: Environment) -> Any:
            left = first(env)
            if left is None:
                return None
            right = second(env)
            return None if right is None else implementation(left, right)

        return binary

    def general(env: Environment) -> Any:
        values = [closure(env) for closure in closures]
        return None if None in values else implementation(*values)

    return general


def _eager(implementation: Implementation, closures: tuple[Closure, ...]) -> Closure:
    return lambda env: implementation(*(closure(env) for closure in closures))


# Special forms


def _and(node: Call, closures: tuple[Closure, ...]) -> Closure:
    def conjunction(env: Environment) -> bool | None:
        result: bool | None = True
        for closure in closures:
            value = closure(env)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return conjunction


def _or(node: Call, closures: tuple[Closure, ...]) -> Closure:
    def disjunction(env: Environment) -> bool | None:
        result: bool | None = False
        for closure in closures:
            value = closure(env)
            if value is True:
                return True
            if value is None:
                result = None
        return result

    return disjunction


def _case(node: Call, closures: tuple[Closure, ...]) -> Closure:
    branches = tuple(zip(closures[:-1:2], closures[1::2], strict=True))
    otherwise = closures[-1]

    def case(env: Environment) -> Any:
        for condition, value in branches:
            if condition(env) is True:
                return value(env)
        return otherwise(env)

    return case


def _coalesce(node: Call, closures: tuple[Closure, ...]) -> Closure:
    def coalesce(env: Environment) -> Any:
        for closure in closures:
            value = closure(env)
            if value is not None:
                return value
        return None

    return coalesce


def _in(node: Call, closures: tuple[Closure, ...]) -> Closure:
    """x in (c1, c2, ...): the members are constants other than NULL."""
    needle = closures[0]
    members = frozenset(closure({}) for closure in closures[1:])

    def contains(env: Environment) -> bool | None:
        value = needle(env)
        return None if value is None else value in members

    return contains


_SPECIAL_FORMS: dict[str, Callable[[Call, tuple[Closure, ...]], Closure]] = {
    "and": _and,
    "or": _or,
    "case": _case,
    "coalesce": _coalesce,
    "in": _in,
}

# The table


def _only_row(rows: int, value: Datum) -> Datum:
    if rows > 1:
        raise DataError("scalar subquery returned more than one row")
    return value


def _not_distinct(a: Datum, b: Datum) -> bool:
    return a == b


def _extreme(pick: Callable[..., Any]) -> Function:
    """least and greatest: NULLs are left out, as in DuckDB and Spark."""

    def apply(*values: Datum) -> Datum:
        present = [value for value in values if value is not None]
        return pick(present) if present else None

    return simple(apply, strict=False)


def _form(op: str) -> Function:
    """The eager reading of a special form, for callers that hold values already."""

    def build(types: Types, result: SqlType) -> Implementation:
        def apply(*values: Datum) -> Datum:
            args = tuple(Const(value, type) for value, type in zip(values, types, strict=True))
            return _SPECIAL_FORMS[op](Call(op, args, result), tuple(map(compile_scalar, args)))({})  # type: ignore[no-any-return]

        return apply

    return Function(False, build)


FUNCTIONS: dict[str, Function] = {
    **NUMERIC,
    **TEXTUAL,
    **TEMPORAL,
    "=": simple(operator.eq),
    "<>": simple(operator.ne),
    "<": simple(operator.lt),
    "<=": simple(operator.le),
    ">": simple(operator.gt),
    ">=": simple(operator.ge),
    "not": simple(operator.not_),
    "is_null": simple(lambda value: value is None, strict=False),
    "is_not_null": simple(lambda value: value is not None, strict=False),
    "is_not_distinct": simple(_not_distinct, strict=False),
    "is_true": simple(lambda value: value is True, strict=False),
    "nullif": simple(lambda a, b: None if a is not None and a == b else a, strict=False),
    "least": _extreme(min),
    "greatest": _extreme(max),
    "cast": Function(True, lambda types, result: cast(types[0], result)),
    "only_row": simple(_only_row, strict=False),
    **{op: _form(op) for op in _SPECIAL_FORMS},
}

TOTAL = frozenset(("+", "-", "*", "neg", "abs", "sign", "=", "<>", "<", "<=", ">", ">=", "not", "||", "length"))
"""Strict functions with a result for all arguments that are not NULL, but for numbers too large for their type."""
_HARMLESS = TOTAL.union(
    ("and", "or", "case", "coalesce", "in", "is_null", "is_not_null", "is_true", "is_not_distinct", "nullif"),
    ("least", "greatest", "/", "//", "%", "floor", "ceil", "like", "contains", "starts_with", "ends_with"),
)


def cannot_fail(scalar: Scalar) -> bool:
    """Whether a scalar may be computed where its query does not ask for it; then it may be NULL, or overflow."""
    match scalar:
        case Call("cast", (arg,), type):
            return is_widening(arg.type, type) and cannot_fail(arg)
        case Call(op, args, _):
            return op in _HARMLESS and all(map(cannot_fail, args))
        case _:
            return True
