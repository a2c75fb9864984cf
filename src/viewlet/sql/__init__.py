"""SQL: text in, statements out; a SELECT becomes a `Query` of the calculus.

    for raw in split_statements(script):
        statement = bind_statement(raw, catalog)

Statements are bound one at a time, so that each sees what the earlier ones created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from viewlet.sql.bind import bind_query, bind_statement
from viewlet.sql.constraints import columns_checked, constraint_statement
from viewlet.sql.split import RawStatement, split_statements
from viewlet.sql.statements import (
    STRATEGIES,
    AlterTable,
    AlterView,
    Comment,
    Copy,
    CreateSequence,
    CreateTable,
    CreateType,
    CreateView,
    Deallocate,
    Drop,
    Execute,
    Explain,
    Ignored,
    Modify,
    Prepare,
    Select,
    Show,
    Statement,
    Transact,
)
from viewlet.sql.streams.determinism import refuse_unstable
from viewlet.sql.type_aliases import expanded
from viewlet.types import Table

__all__ = [
    "STRATEGIES",
    "AlterTable",
    "AlterView",
    "Comment",
    "Copy",
    "CreateSequence",
    "CreateTable",
    "CreateType",
    "CreateView",
    "Deallocate",
    "Drop",
    "Execute",
    "Explain",
    "Ignored",
    "Modify",
    "Prepare",
    "RawStatement",
    "Select",
    "Show",
    "Statement",
    "Transact",
    "bind_query",
    "bind_statement",
    "columns_checked",
    "constraint_statement",
    "expanded",
    "parse_statements",
    "refuse_unstable",
    "split_statements",
]


def parse_statements(sql: str, catalog: Mapping[str, Table]) -> Iterator[Statement]:
    """Binds a script statement by statement; what it creates is visible to what follows."""
    known = dict(catalog)
    for raw in split_statements(sql):
        statement = bind_statement(raw, known)
        if isinstance(statement, CreateTable):
            known[statement.table.name] = statement.table
        elif isinstance(statement, CreateView):
            known.update((each.name, each.result) for each in (statement, *statement.together))
        elif isinstance(statement, Drop):
            for name in statement.names:
                known.pop(name, None)
        yield statement
