"""The parser of sqlglot, told to be quiet and to say where it gave up.

Where sqlglot cannot parse the rest of a statement, it logs a warning and returns the text as a bare command; where
the generator cannot express something, it logs that. Neither belongs on a user's terminal.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token


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


class _Parser(DuckDBParser):
    """Notes the token at which a statement turned into a bare command."""

    given_up: Token | None = None
    aggregates: Collection[str] = ()
    """Names of user-defined aggregates: they go before functions of the same name that other databases have."""

    def _parse_as_command(self, start: Token) -> exp.Command:
        self.given_up = self._curr or self._prev
        return super()._parse_as_command(start)

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
