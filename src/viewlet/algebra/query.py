"""A query ready for compilation: one expression, and the columns and order of its rows."""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.algebra.nodes import Expr, Var


@dataclass(frozen=True, slots=True)
class OutputColumn:
    name: str
    var: Var


@dataclass(frozen=True, slots=True)
class OrderKey:
    var: Var
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """The bag of rows `expr` denotes, over the variables of `columns` (and of `order`, where it sorts by what it
    hides).

    `order`, `limit` and `offset` are applied when the result is read.
    """

    expr: Expr
    columns: tuple[OutputColumn, ...]
    order: tuple[OrderKey, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def output(self) -> tuple[Var, ...]:
        """The variables of a stored result row: the columns, then hidden sort keys."""
        visible = tuple(dict.fromkeys(column.var for column in self.columns))
        hidden = tuple(dict.fromkeys(key.var for key in self.order if key.var not in visible))
        return visible + hidden
