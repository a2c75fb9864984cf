"""The values that a condition asks for: `WHERE k = 5`, `WHERE k IN (1, 2) AND day = DATE '2026-01-02' AND x > 3`.

A column has to be compared with literals of its type, in a part of the condition that is joined to the others by AND.
The rows with these values are all that the condition can pick.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from math import prod

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewlet.changes.values import Misfit, converter
from viewlet.sql.parser import quiet
from viewlet.sql.source import name_of
from viewlet.types import Column, Datum, Kind, Row, Table

MOST_KEYS = 1_000


def keys_of(table: Table, node: exp.Expr) -> tuple[Row, ...] | None:
    """The primary keys that the condition of an UPDATE or DELETE names; None if it may pick other rows.

    If the statement contains a query, other rows may matter.
    """
    where = node.args.get("where")
    if where is None or node.find(exp.Query) is not None:
        return None
    return keys_among(table, _named_values(table.columns, where.this))


def keys_among(table: Table, values: Mapping[str, Sequence[Datum]]) -> tuple[Row, ...] | None:
    """The primary keys that consist of some values of each column; None if they leave a column open."""
    if not table.primary_key or any(name not in values for name in table.primary_key):
        return None
    choices = [values[name] for name in table.primary_key]
    return tuple(product(*choices)) if prod(map(len, choices)) <= MOST_KEYS else None


def queried_values(sql: str, table: Table) -> dict[str, list[Datum]]:
    """What a query asks for of the columns of a table or view: rows with other values cannot matter to it.

    >>> from viewlet.types import BIGINT, Column, Table
    >>> queried_values("SELECT * FROM t AS u WHERE u.k = 5 AND x > 1", Table("t", (Column("k", BIGINT),)))
    {'k': [5]}
    >>> queried_values("SELECT * FROM t WHERE k = (SELECT MIN(k) FROM t)", Table("t", (Column("k", BIGINT),)))
    {}
    """
    if "where" not in sql.lower():
        return {}
    try:
        with quiet():
            node = sqlglot.parse_one(sql, read="duckdb")
    except (SqlglotError, RecursionError):  # whoever evaluates the query says what is wrong with it
        return {}
    name = table.name.lower()
    read = [each for each in node.find_all(exp.Table) if each.name.lower() == name]
    if len(read) != 1 or any(cte.alias.lower() == name for cte in node.find_all(exp.CTE)):
        return {}
    source = read[0]
    select = source.parent.parent if isinstance(source.parent, (exp.From, exp.Join)) else None
    where = select.args.get("where") if isinstance(select, exp.Select) else None
    renamed = isinstance(alias := source.args.get("alias"), exp.TableAlias) and alias.columns
    if select is None or where is None or renamed or source.args.get("pivots") or source.find(exp.TableSample):
        return {}
    qualifiers = {source.alias_or_name.lower()}
    if not select.args.get("joins") and not select.args.get("laterals"):
        qualifiers.add("")
    return _named_values(table.columns, where.this, qualifiers)


def _named_values(
    columns: Sequence[Column], condition: exp.Expr, qualifiers: Collection[str] | None = None
) -> dict[str, list[Datum]]:
    """The values that a condition leaves for columns, with one of these names of their table before them."""
    named: dict[str, list[Datum]] = {}
    for part in _conjuncts(condition):
        found = _comparison({column.name: column for column in columns}, part, qualifiers)
        if found is not None and len(found[1]) <= MOST_KEYS:
            named.setdefault(*found)
    return named


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    match condition:
        case exp.And():
            yield from _conjuncts(condition.left)
            yield from _conjuncts(condition.right)
        case exp.Paren():
            yield from _conjuncts(condition.this)
        case _:
            yield condition


def _comparison(
    columns: Mapping[str, Column], part: exp.Expr, qualifiers: Collection[str] | None
) -> tuple[str, list[Datum]] | None:
    """A column, and the values that it is compared with."""
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
    if name not in columns or (qualifiers is not None and column.table.lower() not in qualifiers):
        return None
    values = [_value(columns[name], literal) for literal in literals]
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
