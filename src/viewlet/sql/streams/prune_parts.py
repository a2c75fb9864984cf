"""Which parts an ad-hoc query can need: what its WHERE says of `part_timestamp`."""

from __future__ import annotations

from collections.abc import Collection

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewlet.errors import DataError
from viewlet.sql.parser import quiet
from viewlet.streams.definition import PART_TIMESTAMP
from viewlet.streams.times import to_microseconds

_MIRRORED = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ}
Bounds = tuple[int | None, int | None]
"""The first and the last start of a part (microseconds), both included."""


def part_bounds(sql: str, view: str) -> Bounds | None:
    """The bounds of `part_timestamp` in a query over a view; None if all parts may be needed.

    >>> part_bounds("SELECT * FROM v WHERE part_timestamp >= TIMESTAMP '1970-01-01 00:01:00' AND x > 1", "v")
    (60000000, None)
    """
    try:
        with quiet():
            node = sqlglot.parse_one(sql, read="duckdb")
    except (SqlglotError, RecursionError):
        return None
    named = [table for table in node.find_all(exp.Table) if table.name.lower() == view.lower()]
    if len(named) != 1:
        return None
    select = named[0].find_ancestor(exp.Select)
    where = select.args.get("where") if select is not None else None
    if where is None or select is None:
        return None
    names = {named[0].alias_or_name.lower()} | (set() if select.args.get("joins") else {""})
    tests = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    found = [bounds for bounds in (_bound(each, names) for each in tests) if bounds is not None]
    low = max((first for first, _ in found if first is not None), default=None)
    high = min((last for _, last in found if last is not None), default=None)
    return None if low is None and high is None else (low, high)


def _bound(node: exp.Expr, names: Collection[str]) -> Bounds | None:
    if isinstance(node, exp.Paren):
        return _bound(node.this, names)
    if isinstance(node, exp.Between) and _is_start(node.this, names):
        low, high = _time(node.args["low"]), _time(node.args["high"])
        return None if low is None or high is None else (low, high)
    kind = type(node)
    if kind not in _MIRRORED:
        return None
    left, right = node.this, node.expression
    if _is_start(right, names):
        left, right, kind = right, left, _MIRRORED[kind]
    moment = _time(right) if _is_start(left, names) else None
    if moment is None:
        return None
    return (
        moment if kind in (exp.EQ, exp.GT, exp.GTE) else None,
        moment if kind in (exp.EQ, exp.LT, exp.LTE) else None,
    )


def _is_start(node: exp.Expr, names: Collection[str]) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() == PART_TIMESTAMP and node.table.lower() in names


def _time(node: exp.Expr) -> int | None:
    """The time that a literal says."""
    inner = node.this if isinstance(node, exp.Cast) else node
    if not isinstance(inner, exp.Literal) or not inner.is_string:
        return None
    try:
        return to_microseconds(str(inner.this))
    except DataError:
        return None
