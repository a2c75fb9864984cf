"""Statements and the names in them, looked up in the catalogue, and what is said of names that are not there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from viewlet.adhoc import span_of
from viewlet.changes import did_you_mean
from viewlet.connection.database import Database
from viewlet.errors import SqlError, ViewletError
from viewlet.hosts.catalogue import LostView, unreadable_stream

if TYPE_CHECKING:
    from viewlet.sql import Statement
    from viewlet.sql.split import RawStatement


def readable_names(sql: str, database: Database) -> list[str]:
    """The tables and views whose names occur in a query, if only as a column: DuckDB sorts out which is meant."""
    from viewlet.sql import split_statements
    from viewlet.sql.split import unquoted

    words = {unquoted(word).casefold() for raw in split_statements(sql) for word in raw.words}
    return [
        name
        for name, schema in database.catalogue.schemas().items()
        if name.casefold() in words and not schema.is_forgetful and database.is_readable(name)
    ]


def bound_statement(raw: RawStatement, database: Database) -> Statement:
    from viewlet.sql import bind_statement

    known = database.catalogue
    return bind_statement(raw, known.schemas(), known.aggregates, known.layered)


@contextmanager
def naming_lost_views(raw: RawStatement, database: Database) -> Iterator[None]:
    """Errors of a statement that names a lost view say what it misses."""
    try:
        yield
    except SqlError as error:
        if lost := _lost_among(raw.words, database):
            raise lost.error() from error
        raise
    except RecursionError:
        raise raw.source.error("nested too deeply for the stack of the calling thread") from None


def _lost_among(words: Iterable[str], database: Database) -> LostView | None:
    """A lost view whose name is in a statement that could not be bound."""
    from viewlet.sql.split import unquoted

    named = {unquoted(word).casefold() for word in words} if database.catalogue.lost else set()
    return next((view for view in database.catalogue.lost.values() if view.name.casefold() in named), None)


def missing_name(name: str, sql: str, database: Database) -> ViewletError:
    """The error for a table that DuckDB was not given: a stream, or nothing at all."""
    found = database.catalogue.find(name)
    if found in database.catalogue.lost:
        return database.catalogue.lost[found].error()
    if found is not None:
        database.check_readable(found)
    if found is not None and database.catalogue.schemas()[found].is_forgetful:
        return unreadable_stream(found)
    span = span_of(sql, name)
    if found is not None:
        return SqlError(f"tables and views are in no database and no schema: write {found!r}", sql, span)
    return SqlError(f"there is no table or view {name!r}" + did_you_mean(name, database.catalogue.schemas()), sql, span)
