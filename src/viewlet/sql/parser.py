"""The parser of sqlglot, told to be quiet and to say where it gave up.

Where sqlglot cannot parse the rest of a statement, it logs a warning and returns the text as a bare command; where
the generator cannot express something, it logs that. Neither belongs on a user's terminal.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

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

    def _parse_as_command(self, start: Token) -> exp.Command:
        self.given_up = self._curr or self._prev
        return super()._parse_as_command(start)


def parse_text(sql: str) -> tuple[exp.Expr | None, Token | None]:
    """The tree of the first statement, and the token where the parser gave up, if it did."""
    dialect = Dialect.get_or_raise("duckdb")
    with quiet():
        parser = _Parser(dialect=dialect)
        trees = parser.parse(dialect.tokenize(sql), sql)
    return (trees[0] if trees else None), parser.given_up
