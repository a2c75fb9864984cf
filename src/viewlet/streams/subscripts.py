"""Subscripts of partition references: arithmetic over the number of the part that is computed.

    subscript ::= number | i | subscript (+ | - | * | /) subscript | - subscript | ( subscript )

Division rounds down: a subscript is Unix time over the length of a part, so `j / 60` is the hour of minute j. A
subscript is linear: rate * i + d, where d stays between two bounds. That is all that is needed to tell which parts
a query reads, and which parts read a given one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

_DIGITS = 15
_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|([-+*/()]))")


class SubscriptError(Exception):
    """A subscript that is not understood; the binder makes an `SqlError` of it."""


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: int


@dataclass(frozen=True, slots=True)
class Index:
    """The number of the part that is computed."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right`; `/` rounds down."""

    operator: str
    left: Subscript
    right: Subscript


Subscript = Number | Index | Arithmetic
INDEX = Index()


def evaluate(node: Subscript, index: int) -> int:
    """The value of a subscript for part `index`."""
    match node:
        case Number(value):
            return value
        case Index():
            return index
        case Arithmetic(operator, left, right):
            a, b = evaluate(left, index), evaluate(right, index)
            return {"+": a + b, "-": a - b, "*": a * b, "/": a // b if b else 0}[operator]
        case _:
            assert_never(node)


@dataclass(frozen=True, slots=True)
class Line:
    """rate * i + d with low <= d <= high."""

    rate: Fraction
    low: Fraction
    high: Fraction


def line(node: Subscript) -> Line:
    """The line that a subscript stays near.

    >>> line(parse_subscript("j / 60 - 1", "j"))
    Line(rate=Fraction(1, 60), low=Fraction(-119, 60), high=Fraction(-1, 1))
    """
    match node:
        case Number(value):
            return Line(Fraction(0), Fraction(value), Fraction(value))
        case Index():
            return Line(Fraction(1), Fraction(0), Fraction(0))
        case Arithmetic("*", left, right):
            factor, other = _constant(left, right)
            return _scaled(line(other), Fraction(factor))
        case Arithmetic("/", left, right):
            if not isinstance(right, Number) or right.value <= 0:
                raise SubscriptError("a subscript is divided by positive numbers only")
            found = _scaled(line(left), Fraction(1, right.value))
            return Line(found.rate, found.low - Fraction(right.value - 1, right.value), found.high)
        case Arithmetic(operator, left, right):
            a, b = line(left), line(right)
            if operator == "+":
                return Line(a.rate + b.rate, a.low + b.low, a.high + b.high)
            return Line(a.rate - b.rate, a.low - b.high, a.high - b.low)
        case _:
            assert_never(node)


def _constant(left: Subscript, right: Subscript) -> tuple[int, Subscript]:
    if isinstance(left, Number):
        return left.value, right
    if isinstance(right, Number):
        return right.value, left
    raise SubscriptError("a subscript is multiplied by numbers only")


def _scaled(found: Line, factor: Fraction) -> Line:
    low, high = sorted((found.low * factor, found.high * factor))
    return Line(found.rate * factor, low, high)


def readers(low: Subscript, high: Subscript, part: int, within: range) -> list[int]:
    """The i of a range for which `part` is among low(i)..high(i); both have the same rate, which is positive.

    >>> readers(parse_subscript("i * 60", "i"), parse_subscript("i * 60 + 59", "i"), 130, range(10))
    [2]
    """
    first, last = line(low), line(high)
    least = max(math.ceil((part - last.high) / last.rate), within.start)
    most = min(math.floor((part - first.low) / first.rate), within.stop - 1)
    return [i for i in range(least, most + 1) if evaluate(low, i) <= part <= evaluate(high, i)]


# -- text -------------------------------------------------------------------------------------------------------------


def to_text(node: Subscript, index: str = "j") -> str:
    """A subscript as it is written.

    >>> to_text(parse_subscript("(i+1)*60-1", "i"))
    '(j + 1) * 60 - 1'
    """
    match node:
        case Number(value):
            return str(value)
        case Index():
            return index
        case Arithmetic(operator, left, right):
            tight = operator in "*/"
            texts = []
            for side, is_right in ((left, False), (right, True)):
                loose = isinstance(side, Arithmetic) and (
                    (tight and side.operator in "+-") or (is_right and (tight or operator == "-"))
                )
                texts.append(f"({to_text(side, index)})" if loose else to_text(side, index))
            return f"{texts[0]} {operator} {texts[1]}"
        case _:
            assert_never(node)


def parse_subscript(text: str, index: str) -> Subscript:
    """The subscript that a text stands for, with the name of its variable."""
    tokens = _tokens(text)
    node, at = _sum(tokens, 0, index)
    if at != len(tokens):
        raise SubscriptError(f"'{tokens[at]}' is not understood in the subscript '{text.strip()}'")
    return node


def _tokens(text: str) -> list[str]:
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        matched = _TOKEN.match(text, at)
        if matched is None:
            raise SubscriptError(
                f"'{text[at:].strip()}' is not understood in a subscript: use numbers, + - * / and ( )"
            )
        found.append(matched[0].strip())
        at = matched.end()
    if not found:
        raise SubscriptError("a subscript is missing between the brackets")
    return found


def _sum(tokens: list[str], at: int, index: str) -> tuple[Subscript, int]:
    node, at = _product(tokens, at, index)
    while at < len(tokens) and tokens[at] in ("+", "-"):
        right, after = _product(tokens, at + 1, index)
        node, at = Arithmetic(tokens[at], node, right), after
    return node, at


def _product(tokens: list[str], at: int, index: str) -> tuple[Subscript, int]:
    node, at = _operand(tokens, at, index)
    while at < len(tokens) and tokens[at] in ("*", "/"):
        right, after = _operand(tokens, at + 1, index)
        node, at = Arithmetic(tokens[at], node, right), after
    return node, at


def _operand(tokens: list[str], at: int, index: str) -> tuple[Subscript, int]:
    if at >= len(tokens):
        raise SubscriptError("a subscript ends too early")
    token = tokens[at]
    if token == "(":
        node, at = _sum(tokens, at + 1, index)
        if at >= len(tokens) or tokens[at] != ")":
            raise SubscriptError("a ')' is missing in a subscript")
        return node, at + 1
    if token == "-":
        node, at = _operand(tokens, at + 1, index)
        return Arithmetic("*", Number(-1), node), at
    if token.isdecimal():
        if len(token) > _DIGITS:
            raise SubscriptError(f"a number of a subscript has at most {_DIGITS} digits")
        return Number(int(token)), at + 1
    if token.lower() == index.lower():
        return INDEX, at + 1
    raise SubscriptError(f"'{token}' is not the variable of this query, which is '{index}'")
