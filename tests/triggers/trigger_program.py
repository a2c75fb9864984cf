"""SQL to a trigger program, without a connection."""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.algebra.nodes import Delta, Expr, Rel
from viewlet.algebra.traverse import walk
from viewlet.sql import CreateTable, CreateView, bind_statement, split_statements
from viewlet.triggers.plan import plan_query
from viewlet.triggers.program import Program
from viewlet.triggers.statistics import UNKNOWN, Statistics
from viewlet.types import Table


def tables_of(script: str) -> dict[str, Table]:
    declared: dict[str, Table] = {}
    for raw in split_statements(script):
        statement = bind_statement(raw, declared)
        assert isinstance(statement, CreateTable)
        declared[statement.table.name] = statement.table
    return declared


def compiled(
    sql: str, tables: Mapping[str, Table], strategy: str = "higher-order", statistics: Statistics = UNKNOWN
) -> Program:
    """The program of a view called v."""
    view = bind_statement(next(split_statements(f"CREATE MATERIALIZED VIEW v AS {sql}")), tables)
    assert isinstance(view, CreateView)
    sources = {name: tables[name] for name in sorted(view.sources)}
    return plan_query("v", view.query, sources, strategy, statistics)


def joined_in(program: Program) -> list[str]:
    """The tables that each auxiliary view joins, in alphabetical order: "r s t" for a view over three of them."""
    return sorted(" ".join(sorted(_atoms(view.fields[0].definition))) for view in program.views[1:])


def _atoms(expr: Expr) -> list[str]:
    return [node.name for node in walk(expr) if isinstance(node, Rel | Delta)]
