"""The primary keys that a condition names: `WHERE k = 5`, `WHERE k IN (1, 2) AND day = DATE '2026-01-02' AND x > 3`.

Every column of the key has to be compared with literals of its type, in parts of the condition that are joined by AND.
The rows with these keys are all that the condition can pick. If it or the statement contains a query, other rows may
matter, and the keys do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from sqlglot import exp

from viewlet.changes.values import Misfit, converter
from viewlet.sql.source import name_of
from viewlet.types import Column, Datum, Kind, Row, Table

MOST_KEYS = 1_000


def keys_of(table: Table, node: exp.Expr) -> tuple[Row, ...] | None:
    """The primary keys that the condition of an UPDATE or DELETE names; None if it may pick other rows."""
    where = node.args.get("where")
    if where is None or not table.primary_key or node.find(exp.Query) is not None:
        return None
    named: dict[str, list[Datum]] = {}
    for part in _conjuncts(where.this):
        found = _comparison(table, part)
        if found is not None:
            named.setdefault(*found)
    if not table.primary_key or any(name not in named for name in table.primary_key):
        return None
    choices = [named[name] for name in table.primary_key]
    return tuple(product(*choices)) if prod(map(len, choices)) <= MOST_KEYS else None


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    match condition:
        case exp.And():
            yield from _conjuncts(condition.left)
            yield from _conjuncts(condition.right)
        case exp.Paren():
            yield from _conjuncts(condition.this)
        case _:
            yield condition


def _comparison(table: Table, part: exp.Expr) -> tuple[str, list[Datum]] | None:
    """A column of the primary key, and the values that it is compared with."""
    match part:
        case exp.EQ():
            column, literals = part.this, [part.expression]
            if not isinstance(column, exp.Column):
                column, literals = part.expression, [part.this]
        case exp.In() if part.expressions:
            column, literals = part.this, part.expressions
        case _:
            return None
    if not isinstance(column, exp.Column):
        return None
    name = name_of(column.this)
    if name not in table.primary_key:
        return None
    target = table.columns[table.column_names.index(name)]
    values = [_value(target, literal) for literal in literals]
    return None if None in values else (name, values)


def _value(column: Column, literal: exp.Expr) -> Datum:
    """A literal of the type of a column, as a row holds it; None for anything else."""
    type = column.type
    value: object = None
    if type.is_integer and _is_whole(literal):
        value = int(_text(literal))
    elif type.kind is Kind.VARCHAR and literal.is_string:
        value = _text(literal)
    elif type.kind is Kind.DATE and isinstance(literal, exp.Cast) and literal.is_type("DATE"):
        value = _text(literal.this) if literal.this.is_string else None
    try:
        return None if value is None else converter(type)(value)
    except Misfit:
        return None


def _text(literal: exp.Expr) -> str:
    match literal:
        case exp.Neg():
            return "-" + _text(literal.this)
        case _:
            return str(literal.this)


def _is_whole(literal: exp.Expr) -> bool:
    number = literal.this if isinstance(literal, exp.Neg) else literal
    return isinstance(number, exp.Literal) and not number.is_string and str(number.this).isdecimal()
