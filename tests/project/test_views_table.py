"""docs/views.md is current: what every query of the workloads is maintained with.

Run as a program (`python -m tests.project.test_views_table`), this rewrites the table.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from viewlet.algebra.nodes import View
from viewlet.algebra.traverse import walk
from viewlet.sql import CreateTable, bind_query, parse_statements
from viewlet.triggers.plan import plan_query
from viewlet.triggers.program import Program
from workloads import finance, tpch

DOCUMENT = Path(__file__).parents[2] / "docs" / "views.md"
HEAD = """\
# Views per query

What `strategy = 'higher-order'` maintains for each query of the two workloads: auxiliary views are those the result
does not read, kept only to make changes cheap, and each field is one number per key. A statement changes the fields of
one view when one table changes; one that re-evaluates computes its view again from other views, because the change
does not tell which keys it affects. The columns "in a tree" say the same of `strategy = 'view-tree'` where nothing is
known of the tables.

This page is written by `python -m tests.project.test_views_table`.
"""
COLUMNS = (
    "query",
    "auxiliary views",
    "fields",
    "statements",
    "that re-evaluate",
    "auxiliary views in a tree",
    "statements in a tree",
)


def page() -> str:
    return "\n".join([HEAD, "## TPC-H\n", *table(tpch), "\n## Finance\n", *table(finance), ""])


def table(workload: ModuleType) -> list[str]:
    bound = parse_statements(";".join(workload.TABLES.values()), {})
    schemas = {each.table.name: each.table for each in bound if isinstance(each, CreateTable)}
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" + "|---:" * (len(COLUMNS) - 1) + "|"]
    for query in workload.QUERIES:
        bound_query = bind_query(query.sql, schemas).query
        every = numbers(plan_query(query.name, bound_query, schemas, "higher-order"))
        auxiliary, _, statements, _ = numbers(plan_query(query.name, bound_query, schemas, "view-tree"))
        lines.append(f"| {query.name} | {' | '.join(map(str, (*every, auxiliary, statements)))} |")
    return lines


def numbers(program: Program) -> tuple[int, int, int, int]:
    read = {node.name for node in walk(program.result) if isinstance(node, View)}
    statements = [statement for trigger in program.triggers for statement in trigger.statements]
    return (
        sum(view.name not in read for view in program.views),
        sum(len(view.fields) for view in program.views),
        len(statements),
        sum(statement.replaces for statement in statements),
    )


def test_the_table_of_views_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == page(), "run python -m tests.project.test_views_table"


if __name__ == "__main__":
    DOCUMENT.write_text(page(), encoding="utf-8")
