"""Expressions as text, in the notation of the papers.

    Sum[custkey](orders(orderkey, custkey, total) * {total > 10.00} * total)
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import assert_never

from viewlet.algebra.nodes import (
    Add,
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
)
from viewlet.types import Kind

_INFIX = {"+": 4, "-": 4, "*": 5, "/": 5, "//": 5, "%": 5, "=": 3, "<>": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "and": 2, "or": 1}


def show(expr: Expr) -> str:
    """One line of text for an expression."""
    match expr:
        case Value(scalar):
            return show_scalar(scalar, 6)
        case Cond(scalar):
            return "{" + show_scalar(scalar) + "}"
        case Rel(name, args):
            return f"{name}({_names(args)})"
        case Delta(name, args):
            return f"Δ{name}({_names(args)})"
        case View(name, field, args):
            return f"{name}.{field}[{_names(args)}]"
        case Mul(factors):
            return " * ".join(_in_product(factor) for factor in factors)
        case Add(terms):
            first, *rest = (_signed(term) for term in terms)
            return ("-" if first[0] else "") + first[1] + "".join((" - " if s else " + ") + text for s, text in rest)
        case Neg(body):
            return "-" + _in_product(body)
        case Sum(keys, body):
            return f"Sum[{_names(keys)}]({show(body)})"
        case Lift(var, body):
            return f"({var.name} := {show(body)})"
        case Extremum(var, which, of, body):
            return f"({var.name} := {which.value} {of.name}: {show(body)})"
        case Exists(body):
            return f"Exists({show(body)})"
        case _:
            assert_never(expr)


def show_scalar(scalar: Scalar, precedence: int = 0) -> str:
    match scalar:
        case Var(name, _):
            return name
        case Const():
            return show_constant(scalar)
        case Call(op, (left, right), _) if op in _INFIX:
            own = _INFIX[op]
            text = f"{show_scalar(left, own)} {op} {show_scalar(right, own + 1)}"
            return f"({text})" if own < precedence else text
        case Call("cast", (arg,), type):
            return f"cast({show_scalar(arg)} as {type})"
        case Call(op, args, _):
            return f"{op}({', '.join(show_scalar(arg) for arg in args)})"
        case _:
            assert_never(scalar)


def show_constant(constant: Const) -> str:
    value, type = constant.value, constant.type
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if type.kind is Kind.DECIMAL and isinstance(value, int):
        digits = f"{abs(value):0{type.scale + 1}d}"
        point = len(digits) - type.scale
        text = digits[:point] + ("." + digits[point:] if type.scale else "")
        return "-" + text if value < 0 else text
    if type.kind is Kind.DATE and isinstance(value, int):
        return f"'{date(1970, 1, 1) + timedelta(days=value)}'"
    if type.kind is Kind.TIMESTAMP and isinstance(value, int):
        return f"'{datetime(1970, 1, 1) + timedelta(microseconds=value)}'"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names(variables: tuple[Var, ...]) -> str:
    return ", ".join(var.name for var in variables)


def _in_product(expr: Expr) -> str:
    return f"({show(expr)})" if isinstance(expr, Add | Neg) else show(expr)


def _signed(term: Expr) -> tuple[bool, str]:
    return (True, _in_product(term.body)) if isinstance(term, Neg) else (False, show(term))
