"""The parser of sqlglot, told to be quiet and to say where it gave up.

Where sqlglot cannot parse the rest of a statement, it logs a warning and returns the text as a bare command; where
the generator cannot express something, it logs that. Neither belongs on a user's terminal.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
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
OVERRIDING = "overriding"
"""In the meta of the table of an INSERT: values are given to columns that are always generated."""
BY_NAME = "by_name"
"""In the meta of the star of a clause of MERGE: it stands for the columns of the source by their names."""


class _WithoutDollarQuotes(DuckDB.Tokenizer):
    HEREDOC_STRINGS: ClassVar[list[str | tuple[str, str]]] = []


_DOLLAR_QUOTE = re.compile(r"\$([^\W\d]\w*)?\$")


def tokens_of(sql: str) -> list[Token]:
    """The tokens of a text. sqlglot takes the `$1+$` of `$1+$2` for an opening quote."""
    dialect = Dialect.get_or_raise("duckdb")
    if _DOLLAR_QUOTE.search(sql) is None:
        return list(_WithoutDollarQuotes(dialect=dialect).tokenize(sql))
    return list(dialect.tokenize(sql))


class _Parser(DuckDBParser):
    """Notes the token at which a statement turned into a bare command, and refuses what sqlglot passes over."""

    CONFLICT_ACTIONS: ClassVar[dict[str, Sequence[str | Sequence[str]]]] = {
        **DuckDBParser.CONFLICT_ACTIONS,
        "ERROR": (),  # what a clause of MERGE may do
    }

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

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        begins = self._curr is not None and self._curr.token_type is TokenType.ALIAS
        alias = super()._parse_table_alias(alias_tokens)
        if alias is None and begins and self._index >= len(self._tokens):
            self.raise_error("a name is expected after AS", self._prev)
        return alias

    def _parse_insert_table(self) -> exp.Expr | None:
        """With BY POSITION, which is what INSERT does, and OVERRIDING, which is noted."""
        table = super()._parse_insert_table()
        self._match_text_seq("BY", "POSITION")
        if table is not None and self._match_text_seq("OVERRIDING"):
            if not (self._match_texts(("SYSTEM", "USER")) and self._match_text_seq("VALUE")):
                self.raise_error("SYSTEM VALUE or USER VALUE is expected after OVERRIDING")
            table.meta[OVERRIDING] = True
        return table

    def _parse_star(self) -> exp.Expr | None:
        """With BY NAME and BY POSITION, which stand for a star in the clauses of MERGE."""
        if self._prev is not None and self._prev.text.upper() in ("INSERT", "UPDATE"):
            for order in ("NAME", "POSITION"):
                if self._match_text_seq("BY", order):
                    star = super()._parse_star() or exp.Star()
                    star.meta[BY_NAME] = order == "NAME"
                    return star
        return super()._parse_star()

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
        trees = parser.parse(tokens_of(sql), sql)
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
