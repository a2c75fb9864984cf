"""The statements of a script, each with its place in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from viewlet.errors import DataError, Span, SqlError


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement; `place` is blank space that has as many lines and columns as the script in front of it."""

    text: str
    words: tuple[str, ...]
    place: str = ""

    @property
    def creates_something(self) -> bool:
        return self.words[0] == "CREATE"

    @property
    def creates_stream(self) -> bool:
        return self.words[:2] == ("CREATE", "STREAM")

    def as_view(self, name: str) -> str:
        """The statement, a query, as the declaration of a view."""
        return f"CREATE MATERIALIZED VIEW {name} AS {self.text}"

    @contextmanager
    def placing_errors(self) -> Iterator[None]:
        """Errors that show a line of the statement show its number in the script."""
        try:
            yield
        except SqlError as error:
            if error.span is not None and error.sql == self.text:
                shift = len(self.place)
                error.sql, error.span = self.place + self.text, Span(error.span.start + shift, error.span.end + shift)
            raise


def split(script: str, lines_before: int = 0) -> Iterator[Statement]:
    """The statements of a script; semicolons inside strings and comments do not count.

    >>> [statement.text for statement in split("SELECT ';' ; -- no; \\n SELECT 2;")]
    ["SELECT ';'", 'SELECT 2']
    """
    from viewlet.sql.split import split_statements

    for raw in split_statements(script):
        start = raw.source.offset
        line_start = script.rfind("\n", 0, start) + 1
        lines = lines_before + script.count("\n", 0, start)
        yield Statement(raw.text, raw.words, "\n" * lines + " " * (start - line_start))


def is_complete(text: str) -> bool:
    """A semicolon ends what is typed; not one in a comment, or in a string that is still open.

    >>> is_complete("SELECT ';"), is_complete("SELECT 1; -- one")
    (False, True)
    """
    from viewlet.sql.split import ends_statement

    try:
        return ends_statement(text)
    except SqlError:
        return False


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not a UTF-8 text file") from None
