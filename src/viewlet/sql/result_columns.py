"""The names of the columns that a query or an item of FROM has, as far as the text and the catalogue say.

(SELECT a, b + 1 AS c FROM t) AS s      a, c
(VALUES (1, 2)) AS s(x, y)              x, y
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from viewlet.sql.source import name_of
from viewlet.types import Table

Names = tuple[str, ...]


def result_columns(node: exp.Expr, catalog: Mapping[str, Table], with_clause: exp.Expr | None = None) -> Names | None:
    """The names of the columns in their order; None if one of them is not known."""
    known: dict[str, Names | None] = {name: table.column_names for name, table in catalog.items()}
    for each in with_clause.expressions if with_clause is not None else ():
        known[name_of(each.args["alias"].this)] = _columns(each, known)
    return _columns(node, known)


def _columns(node: exp.Expr | None, known: Mapping[str, Names | None]) -> Names | None:
    alias = node.args.get("alias") if node is not None else None
    listed = tuple(map(name_of, alias.columns)) if isinstance(alias, exp.TableAlias) else ()
    found = _unaliased(node, known)
    if found is None:
        return listed or None
    return listed + found[len(listed) :]


def _unaliased(node: exp.Expr | None, known: Mapping[str, Names | None]) -> Names | None:
    match node:
        case exp.Table():
            return known.get(name_of(node.this)) if isinstance(node.this, exp.Identifier) else None
        case exp.Subquery() | exp.CTE() | exp.SetOperation():
            return None if node.args.get("joins") else _columns(node.this, known)
        case exp.Values():
            row = node.expressions[0]
            return tuple(f"col{i}" for i in range(len(row.expressions) if isinstance(row, exp.Tuple) else 1))
        case exp.Select():
            parts = [_selected(each, node, known) for each in node.expressions]
            return None if None in parts else tuple(name for part in parts for name in part or ())
        case _:
            return None


def _selected(column: exp.Expr, query: exp.Select, known: Mapping[str, Names | None]) -> Names | None:
    """The names that one item of a SELECT list stands for."""
    if column.is_star:
        star = column.this if isinstance(column, exp.Column) else column
        is_plain = not any(star.args.values()) and not query.args.get("joins") and query.args.get("from_") is not None
        return _columns(query.args["from_"].this, known) if is_plain else None
    if isinstance(column, exp.Alias):
        return (name_of(column.args["alias"]),)
    return (name_of(column.this),) if isinstance(column, exp.Column) else None
