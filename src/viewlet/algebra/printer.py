"""Expressions as text, in the notation of the papers.

    Sum[custkey](orders(orderkey, custkey, total) * {total > 10.00} * total)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
from viewlet.algebra.scope import outputs
from viewlet.algebra.traverse import scalar_variables, walk
from viewlet.types import Kind

_INFIX = {"+": 4, "-": 4, "*": 5, "/": 5, "//": 5, "%": 5, "=": 3, "<>": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "and": 2, "or": 1}


def show(expr: Expr, keep: Iterable[Var] = ()) -> str:
    """One line of text for an expression. Columns nobody reads are shown as `_`.

    A column is read if its variable occurs a second time, is visible outside the expression, or is one to `keep`.
    """
    return _Printer(_unread(expr, frozenset(keep))).text(expr)


def show_block(expr: Expr, width: int = 100, keep: Iterable[Var] = ()) -> str:
    """The same text, with products and sums that do not fit in `width` broken over indented lines."""
    return "\n".join(_Printer(_unread(expr, frozenset(keep))).lines(expr, width))


@dataclass(frozen=True, slots=True)
class _Printer:
    unread: frozenset[Var]

    def text(self, expr: Expr) -> str:
        match expr:
            case Value(scalar):
                return show_scalar(scalar, 6)
            case Cond(scalar):
                return "{" + show_scalar(scalar) + "}"
            case Rel(name, args):
                return f"{name}({self._names(args)})"
            case Delta(name, args):
                return f"Δ{name}({self._names(args)})"
            case View(name, field, args):
                return f"{name}.{field}[{_names(args)}]"
            case Mul(factors):
                return " * ".join(self._factor(factor) for factor in factors)
            case Add(terms):
                return "".join(sign + self._factor(body) for sign, body in _signed(terms))
            case Neg(body):
                return "-" + self._factor(body)
            case Sum() | Lift() | Extremum() | Exists():
                return f"{_opening(expr)}{self.text(expr.body)})"
            case _:
                assert_never(expr)

    def lines(self, expr: Expr, width: int) -> list[str]:
        """The text in lines of `width` where there is a place to break it."""
        whole = self.text(expr)
        if len(whole) <= width:
            return [whole]
        match expr:
            case Mul(factors):
                parts = [self._factor_lines(factor, width - 2) for factor in factors]
                return _filled(parts, width)
            case Add(terms):
                return [
                    (sign.strip() or " " if i == 0 else " ") + " " + line
                    for sign, body in _signed(terms)
                    for i, line in enumerate(self._factor_lines(body, width - 2))
                ]
            case Neg(body):
                first, *rest = self._factor_lines(body, width - 1)
                return ["-" + first, *rest]
            case Sum() | Lift() | Extremum() | Exists():
                return [_opening(expr), *("  " + line for line in self.lines(expr.body, width - 2)), ")"]
            case _:
                return [whole]

    def _factor(self, expr: Expr) -> str:
        return f"({self.text(expr)})" if isinstance(expr, Add | Neg) else self.text(expr)

    def _factor_lines(self, expr: Expr, width: int) -> list[str]:
        if not isinstance(expr, Add | Neg):
            return self.lines(expr, width)
        if len(self._factor(expr)) <= width:
            return [self._factor(expr)]
        return ["(", *("  " + line for line in self.lines(expr, width - 2)), ")"]

    def _names(self, variables: tuple[Var, ...]) -> str:
        return ", ".join("_" if var in self.unread else var.name for var in variables)


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
    """Factors joined by `*`, as many to a line as fit; a factor of several lines continues on its last one."""
    lines = list(parts[0])
    for part in parts[1:]:
        if len(lines[-1]) + 3 + len(part[0]) <= width:
            lines[-1] += " * " + part[0]
        else:
            lines.append("* " + part[0])
        lines += part[1:]
    return lines


def _unread(expr: Expr, keep: frozenset[Var]) -> frozenset[Var]:
    """Columns of tables and changes that nothing else mentions."""
    uses: Counter[Var] = Counter(keep | outputs(expr))
    columns: set[Var] = set()
    for node in walk(expr):
        match node:
            case Value(scalar) | Cond(scalar):
                uses.update(scalar_variables(scalar))
            case Rel(_, args) | Delta(_, args):
                uses.update(args)
                columns.update(args)
            case View(_, _, args):
                uses.update(args)
            case Sum(keys, _):
                uses.update(keys)
            case Lift(var, _):
                uses[var] += 1
            case Extremum(var, _, of, _):
                uses.update((var, of))
            case _:
                pass
    return frozenset(var for var in columns if uses[var] == 1)
