"""Equality that takes NULLs for equal, in a form that PostgreSQL can hash; it compares all pairs of rows otherwise.

    a IS NOT DISTINCT FROM b   ──►   COALESCE(a, 0) = COALESCE(b, 0) AND (a IS NULL) = (b IS NULL)

What stands in for NULL depends on the type. In queries of users an equality is rewritten where both types are known:
those of columns of the relations that a query reads, and of what is cast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlglot
from sqlglot import exp

from viewlet.types import Column, Kind, SqlType

_STAND_INS = {
    Kind.BOOLEAN: "FALSE",
    Kind.VARCHAR: "''",
    Kind.DATE: "CAST('1970-01-01' AS DATE)",
    Kind.TIMESTAMP: "CAST('1970-01-01' AS TIMESTAMP)",
}
_NUMBER = "0"
_OTHER_NAMES = {"TEXT": Kind.VARCHAR, "INT": Kind.INTEGER, "FLOAT": Kind.REAL}
"""How sqlglot calls types in casts, where that is not our name."""


def same_values(dialect: str, left: str, right: str, type: SqlType) -> str:
    """The condition that two columns of a type are equal or both NULL.

    >>> same_values("duckdb", "a.x", "b.x", SqlType(Kind.BIGINT))
    'a.x IS NOT DISTINCT FROM b.x'
    """
    if not type.nullable:
        return f"{left} = {right}"
    if dialect != "postgres":
        return f"{left} IS NOT DISTINCT FROM {right}"
    return _hashable(left, right, _STAND_INS.get(type.kind, _NUMBER))


def _hashable(left: str, right: str, other: str) -> str:
    return f"(COALESCE({left}, {other}) = COALESCE({right}, {other}) AND ({left} IS NULL) = ({right} IS NULL))"


def to_hashable(query: exp.Expr, columns: Mapping[str, Sequence[Column]]) -> exp.Expr:
    """A query with such equalities in the form for PostgreSQL; `columns` are those of the tables that it reads."""
    for node in list(query.find_all(exp.NullSafeEQ)):
        kinds = [_kind_of(each, columns) for each in (node.this, node.expression)]
        others = {_STAND_INS.get(kind, _NUMBER) for kind in kinds if kind is not None}
        if None not in kinds and len(others) == 1:
            sides = (each.sql("duckdb") for each in (node.this, node.expression))
            node.replace(sqlglot.parse_one(_hashable(*sides, *others), read="duckdb"))
    return query


def _kind_of(node: exp.Expr, columns: Mapping[str, Sequence[Column]]) -> Kind | None:
    """The type of one side of an equality, where it is known."""
    if isinstance(node, exp.Cast):
        name = node.to.this.name
        return _OTHER_NAMES.get(name) or Kind.__members__.get(name)
    if not isinstance(node, exp.Column):
        return None
    select = node.find_ancestor(exp.Select)
    while select is not None:
        for table in _tables_of(select):
            if node.table in (table.alias_or_name, ""):
                found = [each.type.kind for each in columns.get(table.name, ()) if each.name == node.name.lower()]
                if found or node.table:
                    return found[0] if found else None
        select = select.find_ancestor(exp.Select)
    return None


def _tables_of(select: exp.Select) -> list[exp.Table]:
    """The tables that FROM of a query names itself."""
    start = select.args.get("from_")
    found = [start, *select.args.get("joins", ())] if start is not None else []
    return [each.this for each in found if isinstance(each.this, exp.Table)]
