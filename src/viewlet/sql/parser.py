"""The parser of sqlglot, told to be quiet and to say where it gave up.

Where sqlglot cannot parse the rest of a statement, it logs a warning and returns the text as a bare command; where
the generator cannot express something, it logs that. Neither belongs on a user's terminal.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

T = TypeVar("T")


class _Silence(logging.Filter):
    """Drops what sqlglot logs while this thread is inside a call of ours, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        return getattr(self.inside, "calls", 0) == 0


_SILENCE = _Silence()
logging.getLogger("sqlglot").addFilter(_SILENCE)


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing of sqlglot's is logged inside."""
    _SILENCE.inside.calls = getattr(_SILENCE.inside, "calls", 0) + 1
    try:
        yield
    finally:
        _SILENCE.inside.calls -= 1


def _date_diff(arguments: list[exp.Expr]) -> exp.DateDiff:
    """DATE_DIFF('unit', start, end); marked as misread where it is written otherwise.

    DATEDIFF(MONTH, a, b) counts other things in other dialects, and sqlglot reads it like DATEDIFF('month', a, b).
    """
    unit, start, end = (*arguments, *[exp.Null()] * 3)[:3]
    node = exp.DateDiff(this=end, expression=start, unit=unit)
    node.meta[MISREAD] = len(arguments) != 3 or not (isinstance(unit, exp.Literal) and unit.is_string)
    return node


MISREAD = "misread"
"""In the meta of a node: its arguments are not those of the function."""


class _Parser(DuckDBParser):
    """Notes the token at which a statement turned into a bare command, and refuses what sqlglot passes over."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
        **DuckDBParser.FUNCTIONS,
        "DATEDIFF": _date_diff,
        "DATE_DIFF": _date_diff,
    }

    TYPE_CONVERTERS: ClassVar[dict[exp.DType, Callable[..., Any]]] = {
        kind: convert for kind, convert in DuckDBParser.TYPE_CONVERTERS.items() if kind is not exp.DType.TEXT
    }
    """DuckDB ignores the length of a VARCHAR(n)."""

    given_up: Token | None = None
    aggregates: Collection[str] = ()
    """Names of user-defined aggregates: they go before functions of the same name that other databases have."""

    def _parse_as_command(self, start: Token) -> exp.Command:
        self.given_up = self._curr or self._prev
        return super()._parse_as_command(start)

    def _parse_csv(self, parse_method: Callable[[], T | None], sep: TokenType = TokenType.COMMA) -> list[T]:
        """A list; like DuckDB, sqlglot lets it end in a comma, but nothing else may be missing from it."""

        def item() -> T | None:
            found = parse_method()
            if found is None and self._curr is not None and self._curr.token_type is sep:
                self.raise_error("something is missing before the comma")
            return found

        return super()._parse_csv(item, sep)

    def _parse_pipe_syntax_query(self, query: exp.Query) -> exp.Query | None:
        self.raise_error("|> is not supported; write a SELECT over a subquery")
        return None

    def _parse_function_call(
        self,
        functions: dict[str, Callable[..., Any]] | None = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        ours = self._curr is not None and self._curr.text.lower() in self.aggregates
        return super()._parse_function_call(functions, anonymous or ours, optional_parens, any_token)


def parse_text(sql: str, aggregates: Collection[str] = ()) -> tuple[exp.Expr | None, Token | None]:
    """The tree of the first statement, and the token where the parser gave up, if it did.

    Calls of user-defined `aggregates` are `AnonymousAggFunc` nodes.
    """
    dialect = Dialect.get_or_raise("duckdb")
    with quiet():
        parser = _Parser(dialect=dialect)
        parser.aggregates = aggregates
        trees = parser.parse(dialect.tokenize(sql), sql)
    tree = trees[0] if trees else None
    if tree is not None and aggregates:
        _mark_aggregates(tree, aggregates)
    return tree, parser.given_up


def _mark_aggregates(tree: exp.Expr, aggregates: Collection[str]) -> None:
    for node in list(tree.find_all(exp.Anonymous)):
        name = str(node.this).lower()
        if name in aggregates:
            call = exp.AnonymousAggFunc(this=name, expressions=node.expressions)
            call.meta.update(node.meta)
            node.replace(call)
