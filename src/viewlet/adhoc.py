"""Ad-hoc queries: DuckDB reads the tables and views that a query names, passed as Arrow.

Without external access, a query reaches nothing else (`duckdb_access`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from viewlet.changes import did_you_mean
from viewlet.changes.sequences import Sequences
from viewlet.duckdb_access import open_duckdb
from viewlet.errors import DataError, Span, SqlError, UnsupportedError, ViewletError, interruptible

_QUERIES = ("SELECT", "MULTI")  # MULTI is PIVOT, which asks for its columns first

_MISSING_TABLE = re.compile(r'Table with name "?(.+?)"? does not exist')
_MISSING_COLUMN = re.compile(
    r'(?:Referenced column|Referenced table|Values list "[^"]*" does not have a column named) "([^"]*)"'
)
_MISSING_FUNCTION = re.compile(r"(?:Function|Macro) with name (\S+) does not exist")
_CANDIDATES = re.compile(r"Candidate bindings: (.*)|Candidate tables: (.*)")
_PLACE = re.compile(r"\n+LINE \d+: (.*)\n( *)(\^+)")
_KIND = re.compile(r"^(?:[A-Z][A-Za-z]* (?:implemented )?)+(?:Error|Exception): ")
_NO_TABLES: Mapping[str, Any] = MappingProxyType({})
_REPLACED = """
    (SELECT * FROM system.main.{name}() LIMIT 0)
    UNION ALL BY NAME
    SELECT * FROM "rows of {name}()" JOIN
        (SELECT database_name, schema_name, database_oid, oid AS schema_oid FROM duckdb_schemas())
    USING (database_name, schema_name)"""
"""The columns that DuckDB has, and those of a table instead of its rows; DuckDB numbers databases and schemas."""


def _place_of(function: str) -> str:
    """The name of the table that a function about the catalogue reads."""
    return f"rows of {function}()"


class AdHoc:
    """An in-memory DuckDB that holds nothing between queries; it is started by the first one."""

    def __init__(self, external_access: bool = False) -> None:
        self._external_access = external_access
        self._connection: Any = None
        self._in_use = False

    def query(
        self,
        sql: str,
        tables: Mapping[str, Any],
        missing: Callable[[str], ViewletError],
        text: str = "",
        catalogue: Mapping[str, Any] = _NO_TABLES,
        sequences: Sequences | None = None,
        most_rows: int | None = None,
    ) -> Any:
        """The answer of `sql` over Arrow tables, as one; `missing` makes the error for a name that is none of them.

        `text` is what the user wrote, where `sql` was made from it; errors quote it. What DuckDB's functions about its
        `catalogue` return is replaced by tables. The query may take values from `sequences`.
        """
        import duckdb

        connection = self._open()
        self._in_use = True
        try:
            for name, table in tables.items():
                connection.register(name, table)
            for name, table in catalogue.items():
                connection.register(_place_of(name), table)
                connection.execute(f"CREATE OR REPLACE TEMP MACRO {name}() AS TABLE {_REPLACED.format(name=name)}")
            with (
                (sequences or Sequences()).lent(connection, sql),
                interruptible(connection),
            ):
                answer = connection.sql(_only_query(connection, sql))
                return (answer if most_rows is None else answer.limit(most_rows)).to_arrow_table()
        except (duckdb.InternalException, duckdb.FatalException) as error:
            self.close()  # it answers no query after such an error
            raise SqlError(f"DuckDB cannot answer this query: {_first_line(str(error))}", text or sql) from error
        except ViewletError:
            raise
        except Exception as error:
            raise translate_error(error, text or sql, missing) from error
        finally:
            if self._connection is not None:
                for name in catalogue:
                    connection.execute(f"DROP MACRO TABLE IF EXISTS {name}")
                for name in (*tables, *map(_place_of, catalogue)):
                    connection.unregister(name)
            self._in_use = False

    def check_access(self, sql: str, place: str) -> None:
        """Refuses a statement that names a file, unless files are open to SQL."""
        if not self._external_access:
            raise _closed(f'"{place}"', sql)

    def interrupt(self) -> None:
        """Ends the query that is being answered, if any, with KeyboardInterrupt; for other threads."""
        if (connection := self._connection) is not None:
            connection.interrupt()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> Any:
        """The connection; another one after an exception, such as Ctrl-C, has kept a query from clearing it."""
        if self._in_use:
            self.close()
        if self._connection is None:
            self._connection = open_duckdb(external_access=self._external_access)
        return self._connection


def _only_query(connection: Any, sql: str) -> Any:
    """The text as DuckDB cuts it, which has to be one query, wherever our own tokenizer saw its end."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type.name not in _QUERIES:
        raise SqlError("one query is expected", sql)
    return statements[0]


def translate_error(error: Exception, sql: str, missing: Callable[[str], ViewletError]) -> ViewletError:
    """An error of DuckDB, or of the conversion of its answer, as one of ours about the user's text."""
    import duckdb

    message = str(error)
    unknown = _MISSING_TABLE.search(message)
    if unknown is not None:
        return missing(unknown[1])
    if "Values were not provided" in message:
        return SqlError("the statement has parameters: execute(sql, parameters) takes their values", sql)
    place = _PLACE.search(message)
    fragment = place[1][len(place[2]) :][: len(place[3])] if place is not None else ""
    problem = _KIND.sub("", message[: place.start()] if place is not None else message).strip()
    if isinstance(error, duckdb.PermissionException) or "configuration has been locked" in message:
        return _closed(problem, sql)
    if isinstance(error, duckdb.DataError | duckdb.SequenceException):
        return DataError(f"{_first_line(problem)}, in: {_shortened(sql)}")
    if isinstance(error, duckdb.ParserException):
        return SqlError(f"syntax error: {_first_line(problem)}", sql, span_of(sql, fragment))
    if not isinstance(error, duckdb.Error):
        return UnsupportedError(
            "the answer of this query", f"it has no form as Arrow ({_first_line(problem)})", sql=sql
        )
    return SqlError(*_described(problem, sql, fragment))


def _described(problem: str, sql: str, fragment: str) -> tuple[str, str, Span | None]:
    column, function = _MISSING_COLUMN.search(problem), _MISSING_FUNCTION.search(problem)
    if column is not None:
        listed = _CANDIDATES.search(problem)
        known = re.findall(r'"([^"]*)"', listed[1] or listed[2]) if listed is not None else []
        kind = "table" if "Referenced table" in problem else "column"
        return f"{kind} {column[1]!r} does not exist{did_you_mean(column[1], known)}", sql, span_of(sql, column[1])
    if "same number of result columns" in problem:
        return "the rows have more or fewer columns than those of the table or query that they are added to", sql, None
    if function is not None:
        return f"function {function[1]}() does not exist", sql, span_of(sql, function[1])
    return _first_line(problem), sql, span_of(sql, fragment)


def _closed(problem: str, sql: str) -> SqlError:
    quoted = re.search(r'"([^"]+)"', problem)
    span = span_of(sql, quoted[1]) if quoted is not None else None
    what = f" ({quoted[1]})" if quoted is not None and span is not None else ""
    return SqlError(
        f"this statement reaches outside the database{what}: files, extensions and settings are closed to SQL "
        "unless the database is opened with connect(external_access=True)",
        sql,
        span,
    )


def shortened(message: str) -> str:
    """The first line of a message of DuckDB, without the class of the error."""
    return _first_line(_KIND.sub("", message.strip()))


def _first_line(problem: str) -> str:
    """What is wrong, without advice about settings and lists of DuckDB's own functions."""
    line = problem.splitlines()[0] if problem else "no reason is given"
    line = re.split(r" You might need to add| Use \"SET| Did you mean", line)[0]
    return line.rstrip(" .!")


def span_of(sql: str, fragment: str) -> Span | None:
    """Where a fragment stands in a text: as whole words, if it is not only found inside longer ones."""
    whole = re.search(rf"(?<!\w){re.escape(fragment)}(?!\w)", sql, re.IGNORECASE) if fragment else None
    start = whole.start() if whole is not None else sql.lower().find(fragment.lower()) if fragment else -1
    return Span(start, start + len(fragment)) if start >= 0 else None


def _shortened(sql: str) -> str:
    flat = " ".join(sql.split())
    return flat if len(flat) <= 80 else flat[:77] + "..."
