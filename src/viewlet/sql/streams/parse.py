"""Queries about parts as trees: sqlglot parses them, and DuckDB has to parse them too.

sqlglot reads the syntax of many databases, and drops some of it when it writes a query for DuckDB.
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from viewlet.sql.parser import quiet
from viewlet.streams.schema import QueryError, check_syntax


def parse_queries(text: str) -> list[exp.Expr | None]:
    """The trees of the statements in a text.

    >>> parse_queries("SELECT x FROM t FETCH FIRST 3 ROWS WITH TIES")
    Traceback (most recent call last):
    sqlglot.errors.ParseError: at or near "WITH"
    """
    with quiet():
        nodes = sqlglot.parse(text, read="duckdb")
    try:
        check_syntax(text)
    except QueryError as error:
        raise ParseError(str(error).removeprefix("syntax error ")) from None
    return list(nodes)


def parse_query(text: str) -> exp.Expr:
    """The tree of one query."""
    found = parse_queries(text)
    if len(found) != 1 or found[0] is None:
        raise ParseError("one query is expected")
    return found[0]


def parse_term(text: str) -> exp.Expr:
    """The tree of one expression, which may have a name."""
    node = parse_query(f"SELECT {text}")
    clauses = {name for name, value in node.args.items() if value}
    if clauses != {"expressions"} or len(node.expressions) != 1:
        raise ParseError("one expression is expected")
    return node.expressions[0]  # type: ignore[no-any-return]
