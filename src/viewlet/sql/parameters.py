"""Parameters of statements: `?`, `$1`, `$name` and `:name` stand for values that are handed over beside the text.

    INSERT INTO t VALUES (?, ?)   with (1, "a")   ->   INSERT INTO t VALUES (1, 'a')

A value becomes a literal of its type before the statement is parsed, so a parameter may stand wherever a literal may,
in the query of a view too. A value never becomes anything but one literal.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from viewlet.changes.values import MISSING, Misfit, plain
from viewlet.errors import DataError, SqlError
from viewlet.sql.source import Source
from viewlet.sql.split import RawStatement, identifier, split_statements, tokenize
from viewlet.visible import described

Parameters = Sequence[object] | Mapping[str, object]
Mark = int | str
"""Which value a parameter takes: its position from 0, or its name."""


@dataclass(frozen=True, slots=True)
class InsertedRow:
    """INSERT INTO table [(columns)] VALUES (?, ?, ...): a row whose values are all parameters, of any kind."""

    table: str
    columns: tuple[str, ...] | None
    head: str
    """The statement up to the row."""

    def statement(self, rows: Iterable[Sequence[object]]) -> str:
        """The statement that inserts some rows."""
        return self.head + ", ".join(f"({', '.join(map(literal, row))})" for row in rows)


@dataclass(frozen=True, slots=True)
class Template:
    """A text cut at its parameters."""

    sql: str
    texts: tuple[str, ...]
    marks: tuple[Mark, ...]
    places: tuple[tuple[int, int], ...]
    row: InsertedRow | None

    def filled(self, parameters: Parameters) -> str:
        """The text with literals for its parameters."""
        literals = [self._literal(i, value) for i, value in enumerate(self.values(parameters))]
        return "".join(part for pair in zip(self.texts, (*literals, ""), strict=True) for part in pair)

    def values(self, parameters: Parameters) -> Sequence[object]:
        """The value of each parameter, in the order of the text; those given have to be those that are asked for."""
        if isinstance(parameters, Mapping):
            return self._named_values(parameters)
        if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
            raise DataError(f"parameters are a sequence or a mapping of names to values, not {described(parameters)}")
        names = [mark for mark in self.marks if isinstance(mark, str)]
        if names:
            raise self._error(
                self.marks.index(names[0]), f"a value for {names[0]!r} is needed: give a mapping of names"
            )
        wanted = 1 + max((mark for mark in self.marks if isinstance(mark, int)), default=-1)
        if wanted != len(parameters):
            raise SqlError(
                f"the statement has {_count(wanted, 'parameter')}, and {_count(len(parameters), 'value')} came"
            )
        return [parameters[mark] for mark in self.marks if isinstance(mark, int)]

    def _named_values(self, parameters: Mapping[str, object]) -> Sequence[object]:
        found = []
        for i, mark in enumerate(self.marks):
            if isinstance(mark, int):
                raise self._error(i, "this parameter has no name: give a sequence of values")
            if mark not in parameters:
                raise self._error(i, f"there is no value for {mark!r}")
            found.append(parameters[mark])
        if unused := sorted(parameters.keys() - set(self.marks)):
            raise SqlError(f"the statement has no parameter {unused[0]!r}")
        return found

    def _literal(self, i: int, value: object) -> str:
        try:
            return literal(value)
        except DataError as error:
            raise self._error(i, str(error)) from None

    def _error(self, i: int, message: str) -> SqlError:
        return Source(self.sql, 0, self.sql).error_at(message, *self.places[i])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# -- values ---------------------------------------------------------------------------------------------------------


def literal(value: object) -> str:
    """A value as a literal of SQL.

    >>> [literal(value) for value in (None, -1, 0.5, "it's", True)]
    ['NULL', '(-1)', '0.5e0', "'it''s'", 'TRUE']
    """
    found = _plain(value)
    for kind, write in _LITERALS:
        if isinstance(found, kind):
            return str(write(found))
    if found is None:
        return "NULL"
    raise DataError(f"{described(value)} is no value of SQL: use numbers, strings, dates, times or None")


def _plain(value: Any) -> object:
    """Scalars of NumPy as those of Python; those of NumPy and pandas that stand for no value as None."""
    name = type(value).__name__
    if name in MISSING or (name == "datetime64" and value != value):
        return None
    try:
        found = value.item() if name == "datetime64" and value.dtype == "M8[D]" else plain(value)
    except Misfit as error:
        raise DataError(f"{described(value)} is {error}") from None
    if getattr(found, "nanosecond", 0):
        raise DataError(f"{described(value)} is finer than microseconds")
    return found


def _text(value: Any) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _whole(value: Any) -> str:
    return _signed(str(int(value)))


def _exact(value: Any) -> str:
    if not value.is_finite():
        raise DataError(f"{value} is no DECIMAL")
    text = format(value, "f")
    return _signed(text if "." in text else f"{text}.")


def _double(value: Any) -> str:
    number = float(value)
    if not math.isfinite(number):
        return f"CAST('{number!r}' AS DOUBLE)"
    text = repr(number)
    return _signed(text if "e" in text else f"{text}e0")


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _timestamp(value: Any) -> str:
    if value.tzinfo is not None:
        raise DataError(f"{value} has a time zone: give it in UTC, without one")
    return f"TIMESTAMP '{value.isoformat(sep=' ')}'"


_LITERALS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (bool, lambda value: "TRUE" if value else "FALSE"),
    (int, _whole),
    (float, _double),
    (Decimal, _exact),
    (str, _text),
    (datetime.datetime, _timestamp),
    (datetime.date, lambda value: f"DATE '{value.isoformat()}'"),
)


# -- the text -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def template(sql: str, named: bool) -> Template:
    """A text cut at its parameters; `:name` is one only if they are `named`, because of `list[begin:end]`."""
    found = list(_parameters(sql, tokenize(sql), named))
    marks = tuple(mark for mark, _, _ in found)
    places = tuple((start, end) for _, start, end in found)
    ends = (0, *(end for _, end in places))
    starts = (*(start for start, _ in places), len(sql))
    texts = tuple(sql[end:start] for end, start in zip(ends, starts, strict=True))
    statements = list(split_statements("?".join(texts))) if marks else []
    return Template(sql, texts, marks, places, _inserted_row(statements[0]) if len(statements) == 1 else None)


def _parameters(sql: str, tokens: Sequence[Token], named: bool) -> Iterator[tuple[Mark, int, int]]:
    """Each parameter of a text: what it takes, and where it stands."""
    number, numbered = 0, False
    for i, token in enumerate(tokens):
        after = tokens[i + 1] if i + 1 < len(tokens) else None
        touches = after is not None and after.start == token.end + 1
        if token.token_type is TokenType.PLACEHOLDER and token.text == "?":
            if numbered:
                raise _mixed(sql, token)
            yield number, token.start, token.end + 1
            number += 1
        elif token.token_type is TokenType.PARAMETER and after is not None and touches:
            text = sql[after.start : after.end + 1]
            if text.isdecimal() and text.isascii():
                if number or text.startswith("0"):
                    raise _mixed(sql, token) if number else _from_one(sql, token)
                numbered = True
                yield int(text) - 1, token.start, after.end + 1
            else:
                yield text, token.start, after.end + 1
        elif named and token.token_type is TokenType.COLON and after is not None and touches:
            before = tokens[i - 1] if i else None
            is_slice = before is not None and before.end + 1 == token.start and _ends_operand(before)
            text = sql[after.start : after.end + 1]
            if not is_slice and text.isidentifier():
                yield text, token.start, after.end + 1


def _ends_operand(token: Token) -> bool:
    """A colon right behind this belongs to it: `b[1:n]`, `{'a':n}`, `a:n`."""
    return token.token_type not in (TokenType.L_PAREN, TokenType.COMMA) and (
        token.text[-1:].isalnum() or token.text[-1:] in "_\"')]}["
    )


def _mixed(sql: str, token: Token) -> SqlError:
    return Source(sql, 0, sql).error_at("'?' and '$1' are not used in one text", token.start, token.end + 1)


def _from_one(sql: str, token: Token) -> SqlError:
    return Source(sql, 0, sql).error_at("parameters are numbered from $1", token.start, token.end + 2)


def _inserted_row(raw: RawStatement) -> InsertedRow | None:
    """The row that a statement inserts, if it does nothing else; all its parameters are written as ?."""
    words = raw.words
    if len(words) < 6 or words[:2] != ("INSERT", "INTO") or "VALUES" not in words:
        return None
    at = words.index("VALUES")
    head, row = words[3:at], words[at + 1 :]
    if row[0] != "(" or row[-1] != ")" or row[1:-1:2] != ("?",) * (len(row) // 2) or set(row[2:-1:2]) - {","}:
        return None
    if not head:
        return InsertedRow(identifier(words[2]), None, raw.text[: raw.positions[at][1]] + " ")
    if head[0] != "(" or head[-1] != ")" or set(head[2:-1:2]) - {","}:
        return None
    columns = tuple(identifier(word) for word in head[1:-1:2])
    return InsertedRow(identifier(words[2]), columns, raw.text[: raw.positions[at][1]] + " ")
