"""The text notation of matrix programs, which follows Octave.

    program    ::= statement (";" statement)* [";"]
    statement  ::= ("input" | "static") NAME "(" size "," size ")" ("," NAME "(" ... ")")*
                 | "output" NAME ("," NAME)*
                 | NAME (":=" | "=") sum
    sum        ::= product (("+" | "-") product)*
    product    ::= factor (("*" | "/" | "\\") factor)*
    factor     ::= "-" factor | atom "'"* ["^" ["-"] NUMBER]
    atom       ::= NUMBER | NAME | NAME "(" argument ("," argument)* ")" | "(" sum ")" | "[" row (";" row)* "]"

`input` matrices take updates, `static` ones do not. Without `output`, every statement whose name no other one reads is
an output. `A \\ B` is `solve(A, B)`, and a negative power is one of the inverse. Functions are `inv`, `solve`, `I`,
`O`, `power`, `power_sum` and `iterate`; `#` and `%` begin a comment.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from viewlet.errors import ViewletError
from viewlet.linalg.errors import NotationError, ProgramError
from viewlet.linalg.expression import (
    Expression,
    Matrix,
    Operators,
    add,
    hstack,
    identity,
    inv,
    matrix,
    named,
    product,
    scale,
    solve,
    transpose,
    vstack,
    zero,
)
from viewlet.linalg.recurrences import iterate, matrix_power, power_sum
from viewlet.linalg.sizes import LARGEST, Size, dim, size

TOKEN = re.compile(
    r"(?P<blank>(?:\s|[#%][^\n]*)+)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)"
    r"|(?P<string>\"[^\"\n]*\")|(?P<sign>:=|\.\*|\./|\.\^|\.'|[-+*/\\^'()\[\],;=])"
)
ELEMENTWISE = {".*": "product", "./": "quotient", ".^": "power"}

_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}

Value = Expression | float
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text and where it begins."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a text declares: the matrices it reads, and the outputs by name."""

    inputs: tuple[Matrix, ...]
    outputs: dict[str, Expression]


def parse(text: str) -> Parsed:
    """Reads a program.

    >>> parse("input A(n, n); B := A * A; C := B * B;").outputs.keys()
    dict_keys(['C'])
    """
    return _Reader(text).program()


class _Reader:
    """Reads one text from left to right; `at` is the token it looks at."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0
        self.inputs: dict[str, Matrix] = {}
        self.views: dict[str, Expression] = {}
        self.read: set[str] = set()
        self.wanted: dict[str, Token] = {}

    # -- statements ----------------------------------------------------------------------------------------------------

    def program(self) -> Parsed:
        try:
            return self._program()
        except RecursionError:
            raise self._error("this is nested too deeply: give parts of it names", self.tokens[self.at]) from None

    def _program(self) -> Parsed:
        while self.tokens[self.at].kind != "end":
            if not self._take(";"):
                self._statement()
                if self.tokens[self.at].kind != "end":
                    self._need(";")
        if missing := [token for name, token in self.wanted.items() if name not in self.views]:
            raise self._error(f"output {missing[0].text!r} is not computed by a statement", missing[0])
        outputs = self.wanted or [name for name in self.views if name not in self.read]
        return Parsed(tuple(self.inputs.values()), {name: self.views[name] for name in outputs})

    def _statement(self) -> None:
        name = self._name()
        if name.text in ("input", "static") and self.tokens[self.at].kind == "name":
            self._declare(dynamic=name.text == "input")
        elif name.text == "output" and self.tokens[self.at].kind == "name":
            self._outputs()
        else:
            self._assign(name)

    def _declare(self, *, dynamic: bool) -> None:
        while True:
            name = self._new_name()
            self._need("(")
            rows = self._size()
            self._need(",")
            columns = self._size()
            self._need(")")
            definite = self.tokens[self.at].text == "definite"
            self.at += definite
            if definite and rows != columns:
                raise self._error(f"{name.text} is not square: only a square matrix is positive definite", name)
            make = partial(matrix, name.text, rows, columns, dynamic=dynamic, definite=definite)
            self.inputs[name.text] = self._checked(name, make)
            if not self._take(","):
                return

    def _outputs(self) -> None:
        while True:
            name = self._name()
            self.wanted[name.text] = name
            if not self._take(","):
                return

    def _assign(self, name: Token) -> None:
        self.at -= 1
        name = self._new_name()
        if not self._take("="):
            self._need(":=")
        first = self.tokens[self.at]
        value = self._sum()
        if isinstance(value, float):
            raise self._error(f"{name.text} would be a number, not a matrix", first)
        self.views[name.text] = named(name.text, value)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def _sum(self) -> Value:
        total = self._product()
        while (sign := self.tokens[self.at]).text in ("+", "-") and sign.kind == "sign":
            self.at += 1
            total = self._apply(sign, total, self._product())
        return total

    def _product(self) -> Value:
        total = self._factor()
        while (sign := self.tokens[self.at]).kind == "sign" and (
            sign.text in ("*", "/", "\\") or sign.text in ELEMENTWISE
        ):
            self._refuse_elementwise(sign)
            self.at += 1
            total = self._apply(sign, total, self._factor())
        return total

    def _factor(self) -> Value:
        if self._take("-"):
            value = self._factor()
            return -value
        value = self._atom()
        while (sign := self.tokens[self.at]).kind == "sign" and sign.text in ("'", ".'", "^", ".^"):
            self._refuse_elementwise(sign)
            self.at += 1
            if sign.text == "^":
                value = self._power(sign, value)
            elif isinstance(value, Operators):
                value = transpose(value)
        return value

    def _power(self, sign: Token, value: Value) -> Value:
        if self._take("-"):
            value = 1.0 / value if isinstance(value, float) and value else self._checked(sign, lambda: _inverse(value))
        steps = self.tokens[self.at]
        if steps.kind != "number" or not steps.text.isdigit():
            raise self._error("a power is a whole number", steps)
        self.at += 1
        count = self._whole(steps, LARGEST)
        if isinstance(value, float):
            try:
                return float(value**count)
            except OverflowError:
                raise self._error("this power is too large for a double", sign) from None
        return self._checked(sign, lambda: matrix_power(value, count))

    def _atom(self) -> Value:
        token = self.tokens[self.at]
        self.at += 1
        if token.kind == "number":
            return self._number(token)
        if token.kind == "name":
            return self._call(token) if self.tokens[self.at].text == "(" else self._lookup(token)
        if token.text == "(":
            value = self._sum()
            self._need(")")
            return value
        if token.text == "[":
            return self._stack(token)
        raise self._error("an expression was expected here", token)

    def _number(self, token: Token) -> float:
        """A number of the text, which a double can have."""
        found = float(token.text)
        if not math.isfinite(found) or (not found and token.text.lower().split("e")[0].strip("0.")):
            raise self._error(f"this number is too {'large' if found else 'small'} for a double", token)
        return found

    def _whole(self, token: Token, most: int) -> int:
        """A whole number of the text."""
        if len(token.text) > 18 or int(token.text) > most:
            raise self._error(f"this number is larger than {most}", token)
        return int(token.text)

    def _stack(self, opening: Token) -> Expression:
        rows = [self._row()]
        while self._take(";"):
            rows.append(self._row())
        self._need("]")
        return self._checked(opening, lambda: vstack([hstack(row) for row in rows]))

    def _row(self) -> list[Expression]:
        row = [self._matrix()]
        while self._take(","):
            row.append(self._matrix())
        return row

    def _matrix(self) -> Expression:
        first = self.tokens[self.at]
        value = self._sum()
        if isinstance(value, float):
            raise self._error("a matrix was expected here, not a number", first)
        return value

    def _call(self, name: Token) -> Expression:
        self._need("(")
        if name.text in ("I", "O", "eye", "zeros"):
            sizes = [self._size()]
            while self._take(","):
                sizes.append(self._size())
            self._need(")")
            if name.text in ("I", "eye") and len(sizes) == 1:
                return identity(sizes[0])
            if name.text in ("O", "zeros") and len(sizes) == 2:
                return zero(*sizes)
            raise self._error(f"{name.text} takes {'one size' if name.text in ('I', 'eye') else 'two sizes'}", name)
        arguments, counts, model = self._arguments()
        makers: dict[str, tuple[int, int, Callable[[], Expression]]] = {
            "inv": (1, 0, lambda: inv(arguments[0])),
            "solve": (2, 0, lambda: solve(*arguments)),
            "power": (1, 1, lambda: matrix_power(arguments[0], counts[0], model=model)),
            "power_sum": (1, 1, lambda: power_sum(arguments[0], counts[0], model=model)),
            "iterate": (3, 1, lambda: iterate(*arguments, steps=counts[0], model=model)),
        }
        if name.text not in makers:
            raise self._error(f"there is no function {name.text!r}, only {', '.join(sorted(makers))}, I and O", name)
        matrices, numbers, make = makers[name.text]
        if (len(arguments), len(counts)) != (matrices, numbers):
            steps = " and a number of steps" if numbers else ""
            raise self._error(f"{name.text} takes {matrices} matri{'x' if matrices == 1 else 'ces'}{steps}", name)
        return self._checked(name, make)

    def _arguments(self) -> tuple[list[Expression], list[int], str]:
        """The matrices, whole numbers and the model of a call."""
        found: list[Expression] = []
        counts: list[int] = []
        model = "auto"
        while True:
            token = self.tokens[self.at]
            if token.kind == "string":
                self.at += 1
                model = token.text[1:-1]
            else:
                value = self._sum()
                if isinstance(value, float):
                    if not value.is_integer():
                        raise self._error("a number of steps is a whole number", token)
                    counts.append(int(value))
                else:
                    found.append(value)
            if not self._take(","):
                self._need(")")
                return found, counts, model

    def _lookup(self, token: Token) -> Expression:
        name = token.text
        if name in self.views:
            self.read.add(name)
            return self.views[name]
        if name in self.inputs:
            return self.inputs[name]
        known = ", ".join([*self.inputs, *self.views]) or "none so far"
        raise self._error(f"{name!r} is neither an input nor an earlier statement (known: {known})", token)

    def _size(self) -> Size:
        total = self._one_size()
        while self._take("+"):
            total = total + self._one_size()
        return total

    def _one_size(self) -> Size:
        token = self.tokens[self.at]
        self.at += 1
        if token.kind == "name":
            return self._checked(token, lambda: dim(token.text))
        if token.kind == "number" and token.text.isdigit():
            factor = size(self._whole(token, LARGEST))
            if self.tokens[self.at].kind == "name":  # 2n
                name = self._name()
                return self._checked(name, lambda: factor * dim(name.text))
            return factor
        raise self._error("a size is a name such as n, or a whole number", token)

    def _apply(self, sign: Token, left: Value, right: Value) -> Value:
        return self._checked(sign, lambda: _combine(sign.text, left, right))

    # -- tokens --------------------------------------------------------------------------------------------------------

    def _take(self, sign: str) -> bool:
        token = self.tokens[self.at]
        if token.kind == "sign" and token.text == sign:
            self.at += 1
            return True
        return False

    def _need(self, sign: str) -> None:
        if not self._take(sign):
            raise self._error(f"{sign!r} was expected here", self.tokens[self.at])

    def _name(self) -> Token:
        token = self.tokens[self.at]
        if token.kind != "name":
            raise self._error("a name was expected here", token)
        self.at += 1
        return token

    def _new_name(self) -> Token:
        name = self._name()
        if name.text in self.inputs or name.text in self.views:
            raise self._error(f"{name.text!r} has a value already: a name is given one value", name)
        return name

    def _refuse_elementwise(self, sign: Token) -> None:
        if sign.text in ELEMENTWISE:
            raise self._error(f"the element-wise {ELEMENTWISE[sign.text]} is not linear algebra", sign)

    def _checked(self, token: Token, make: Callable[[], Made]) -> Made:
        try:
            return make()
        except NotationError:
            raise
        except ViewletError as wrong:
            raise self._error(str(wrong), token) from wrong

    def _error(self, message: str, token: Token) -> NotationError:
        return NotationError(message, self.text, token.start, max(token.end, token.start + 1))


def _inverse(value: Value) -> Value:
    if isinstance(value, float):
        raise ProgramError("this divides by zero")
    return inv(value)


def _combine(sign: str, left: Value, right: Value) -> Value:
    if (sign == "/" and right == 0.0) or (sign == "\\" and left == 0.0):
        raise ProgramError("this divides by zero")
    if sign == "\\":
        return right / left if isinstance(left, float) else solve(left, _matrix(right))
    if isinstance(left, float) or isinstance(right, float):
        found: Value = _OPERATORS[sign](left, right)
        return found
    if sign == "*":
        return product(left, right)
    if sign == "/":
        return left / right
    return add((left, right if sign == "+" else scale(-1.0, right)))


def _matrix(value: Value) -> Expression:
    if isinstance(value, float):
        raise ProgramError(f"the right side of a system is a matrix, not {value:g}")
    return value


def _tokens(text: str) -> list[Token]:
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise NotationError(f"{text[at]!r} has no meaning here", text, at, at + 1)
        if match.lastgroup != "blank":
            found.append(Token(str(match.lastgroup), match.group(), at))
        at = match.end()
    return [*found, Token("end", "", len(text.rstrip()))]
