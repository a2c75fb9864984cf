"""Expressions as text, in the notation of the papers.

Sum[custkey](orders(orderkey, custkey, total) * {total > 10.00} * total)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
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
from viewlet.algebra.scope import NONE, Vars, outputs
from viewlet.algebra.traverse import has_delta, has_relations, mentioned, walk
from viewlet.types import Kind

_LEVELS = (("or",), ("and",), ("=", "<>", "<", "<=", ">", ">="), ("+", "-"), ("*", "/", "//", "%"))
_INFIX = {op: level for level, ops in enumerate(_LEVELS, start=1) for op in ops}


def show(expr: Expr) -> str:
    """One line of text for an expression; a column that nothing reads is shown as `_`."""
    return _text(_blank(expr, NONE, outputs(expr)))


def show_block(expr: Expr, width: int = 100) -> str:
    """The same text, with products and sums that do not fit in `width` broken over indented lines."""
    return "\n".join(_lines(_blank(expr, NONE, outputs(expr)), width))


def _text(expr: Expr) -> str:
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
            return " * ".join(_factor(factor) for factor in factors)
        case Add(terms):
            return "".join(sign + _factor(body) for sign, body in _signed(terms))
        case Neg(body):
            return "-" + _factor(body)
        case Sum() | Lift() | Extremum() | Exists():
            return f"{_opening(expr)}{_text(expr.body)})"
        case _:
            assert_never(expr)


def _lines(expr: Expr, width: int) -> list[str]:
    """The text in lines of `width` where there is a place to break it."""
    whole = _text(expr)
    if len(whole) <= width:
        return [whole]
    match expr:
        case Mul(factors):
            return _filled([_factor_lines(factor, width - 2) for factor in factors], width)
        case Add(terms):
            return [
                (sign.strip() or " " if i == 0 else " ") + " " + line
                for sign, body in _signed(terms)
                for i, line in enumerate(_factor_lines(body, width - 2))
            ]
        case Neg(body):
            first, *rest = _factor_lines(body, width - 1)
            return ["-" + first, *rest]
        case Sum() | Lift() | Extremum() | Exists():
            return [_opening(expr).rstrip(), *("  " + line for line in _lines(expr.body, width - 2)), ")"]
        case _:
            return [whole]


def _factor(expr: Expr) -> str:
    return f"({_text(expr)})" if isinstance(expr, Add | Neg) else _text(expr)


def _factor_lines(expr: Expr, width: int) -> list[str]:
    if not isinstance(expr, Add | Neg):
        return _lines(expr, width)
    if len(_factor(expr)) <= width:
        return [_factor(expr)]
    return ["(", *("  " + line for line in _lines(expr, width - 2)), ")"]


def _opening(expr: Sum | Lift | Extremum | Exists) -> str:
    """What stands in front of the body, up to the parenthesis that the body's end closes."""
    match expr:
        case Sum(keys, _):
            return f"Sum[{_names(keys)}]("
        case Lift(var, _):
            return f"({var.name} := "
        case Extremum(var, which, of, _):
            return f"({var.name} := {which.value} {of.name}: "
        case Exists():
            return "Exists("
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


def _signed(terms: Sequence[Expr]) -> Iterator[tuple[str, Expr]]:
    """The terms of a sum, each with the sign in front of it."""
    for i, term in enumerate(terms):
        negative = isinstance(term, Neg)
        sign = ("-" if negative else "") if i == 0 else (" - " if negative else " + ")
        yield sign, term.body if isinstance(term, Neg) else term


def _filled(parts: Sequence[list[str]], width: int) -> list[str]:
    """Factors joined by `*`, as many to a line as fit; a factor of several lines stands by itself."""
    lines = list(parts[0])
    alone = len(parts[0]) > 1
    for first, *rest in parts[1:]:
        if alone or rest or len(lines[-1]) + 3 + len(first) > width:
            lines += ["* " + first, *("  " + line for line in rest)]
        else:
            lines[-1] += " * " + first
        alone = bool(rest)
    return lines


def _blank(expr: Expr, unread: Vars, visible: Vars) -> Expr:
    """The expression with `_` in place of columns that are local to a Sum and occur in it only once."""
    if not has_relations(expr) and not has_delta(expr):
        return expr
    match expr:
        case Value() | Cond() | View():
            return expr
        case Rel(name, args):
            return Rel(name, _blanked(args, unread))
        case Delta(name, args):
            return Delta(name, _blanked(args, unread))
        case Mul(factors):
            shown = [outputs(factor) for factor in factors]
            return Mul(
                tuple(
                    _blank(factor, unread, visible.union(*shown[:i], *shown[i + 1 :]))
                    for i, factor in enumerate(factors)
                )
            )
        case Add(terms):
            return Add(tuple(_blank(term, unread, visible) for term in terms))
        case Neg(body):
            return Neg(_blank(body, unread, visible))
        case Exists(body):
            return Exists(_blank(body, unread, visible))
        case Sum(keys, body):
            uses = Counter(var for node in walk(body) for var in mentioned(node))
            local = outputs(body) - visible - set(keys)
            return Sum(keys, _blank(body, unread | {var for var in local if uses[var] == 1}, visible | set(keys)))
        case Lift(var, body):
            return Lift(var, _blank(body, unread, visible))
        case Extremum(var, which, of, body):
            return Extremum(var, which, of, _blank(body, unread, visible | {of}))
        case _:
            assert_never(expr)


def _blanked(args: tuple[Var, ...], unread: Vars) -> tuple[Var, ...]:
    return tuple(Var("_", arg.type) if arg in unread else arg for arg in args)
