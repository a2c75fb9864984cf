"""Queries about parts as trees: sqlglot parses them, and DuckDB has to parse them too.

sqlglot reads the syntax of many databases, and drops some of it when it writes a query for DuckDB.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from viewlet.sql.parser import quiet
from viewlet.sql.split import tokenize
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
        if not _is_valid_with_quotes(text, nodes):
            raise ParseError(str(error).removeprefix("syntax error ")) from None
    return list(nodes)


def _is_valid_with_quotes(text: str, nodes: Sequence[exp.Expr | None]) -> bool:
    """Names may be words that DuckDB reserves: they are written with quotes for it."""
    names = {each.name for node in nodes if node is not None for each in node.find_all(exp.Identifier)}
    for token in reversed(list(tokenize(text))):
        if token.text in names and text[token.start : token.end + 1] == token.text:
            text = f'{text[: token.start]}"{token.text}"{text[token.end + 1 :]}'
    try:
        check_syntax(text)
    except QueryError:
        return False
    return True


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
