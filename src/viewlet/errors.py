"""The error family: five kinds a user or a disk can cause, and one that is our bug.

Every user error names the offending fragment and, where there is one, the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from viewlet.interrupts import SIGNAL_WATCH
from viewlet.visible import one_line, pictured, visible

EXCERPT = 240
"""Characters of a line that an error shows; of longer lines, those around the fragment."""


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters of a SQL text."""

    start: int
    end: int


class ViewletError(Exception):
    """The base class of all errors that Viewlet raises on purpose."""

    def __str__(self) -> str:
        """The message as it may be shown: in one line, without control characters of names and values."""
        return one_line(super().__str__())


class SqlError(ViewletError):
    """The SQL text is wrong: a syntax error, an unknown name, or mismatched types.

    `sql` and `span` point at the fragment; the message shows the line with a caret under it.
    """

    def __init__(self, message: str, sql: str | None = None, span: Span | None = None) -> None:
        self.message = message
        self.sql = sql
        self.span = span
        super().__init__(message + _excerpt(sql, span))

    def __str__(self) -> str:
        return one_line(self.message) + _excerpt(self.sql, self.span)

    @property
    def fragment(self) -> str | None:
        """The part of the SQL text that the error points at."""
        if self.sql is None or self.span is None:
            return None
        return self.sql[self.span.start : self.span.end]


class UnsupportedError(SqlError):
    """The SQL is valid, but Viewlet does not maintain this construct."""

    def __init__(
        self,
        construct: str,
        hint: str = "",
        stage: str = "sql",
        sql: str | None = None,
        span: Span | None = None,
    ) -> None:
        self.construct = construct
        self.hint = hint
        self.stage = stage
        super().__init__(f"{construct} is not supported" + (f": {hint}" if hint else ""), sql, span)


class SchemaError(ViewletError):
    """A table or view is missing, exists already, or cannot be changed this way."""


class DataError(ViewletError):
    """The data is invalid: a wrong type, a NULL in a key, an overflow, or a delete of an absent row."""


class ConstraintError(DataError):
    """A batch would leave two rows with one key, or rows that break a constraint."""


class StateError(ViewletError):
    """A database directory cannot be opened, read or written; committed data is unchanged."""


class MissingExtraError(ViewletError, ImportError):
    """An optional dependency is not installed; the message names the `pip install` command to run."""


class InternalError(ViewletError):
    """An invariant of Viewlet itself does not hold. Please report it."""

    def __str__(self) -> str:
        """It may have the lines of another error in it."""
        return visible(Exception.__str__(self))


def _excerpt(sql: str | None, span: Span | None) -> str:
    if sql is None or span is None:
        return ""
    line_start = sql.rfind("\n", 0, span.start) + 1
    line_end = sql.find("\n", span.start)
    line = sql[line_start : line_end if line_end >= 0 else len(sql)]
    number = sql.count("\n", 0, span.start) + 1
    column = span.start - line_start
    width = max(1, min(span.end, line_start + len(line)) - span.start)
    line, column, width = _window(line, column, width)
    prefix = f"  line {number}: "
    return f"\n{prefix}{pictured(line)}\n{' ' * (len(prefix) + column)}{'^' * width}"


def _window(line: str, column: int, width: int) -> tuple[str, int, int]:
    """The part of a long line around a fragment, and where the fragment is in it."""
    if len(line) <= EXCERPT:
        return line, column, width
    width = min(width, EXCERPT // 2)
    start = max(0, column - EXCERPT // 4)
    lead = "..." if start else ""
    tail = "..." if start + EXCERPT < len(line) else ""
    return f"{lead}{line[start : start + EXCERPT]}{tail}", column - start + len(lead), width


@contextmanager
def interruptible(connection: Any) -> Iterator[None]:
    """Around calls of DuckDB: Ctrl-C interrupts the query and raises KeyboardInterrupt, not an error of DuckDB."""
    try:
        with SIGNAL_WATCH.interrupting(connection):
            yield
    except Exception as error:
        if str(error) != "Query interrupted" and type(error).__name__ != "InterruptException":
            raise
        raise KeyboardInterrupt from error
