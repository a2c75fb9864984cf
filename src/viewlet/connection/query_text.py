"""The statement that declares a view of a query: of signals, a text, or an expression of another library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viewlet.errors import DataError
from viewlet.visible import described


def view_statement(name: str, query: object, retain: Any = None) -> str:
    """CREATE MATERIALIZED VIEW for a query: one of signals, a text, or an expression of one of these libraries."""
    from viewlet.sql import split_statements
    from viewlet.sql.source import quoted

    if not isinstance(name, str) or not name:
        raise DataError(f"a view is named by a string, not by {described(name)}")
    home = "" if isinstance(query, str) else type(query).__module__.partition(".")[0]
    if home == "viewlet":
        from viewlet.signals import declare

        return declare.view_statement(name, query, retain)
    if retain is not None:
        raise DataError("create_view(retain=...) is for views of samples")
    write = _WRITERS.get(home)
    if write is None:
        raise DataError(
            "create_view() takes a query of signals, SQL, or an expression of Ibis, SQLAlchemy or sqlglot, not "
            + described(query)
        )
    statements = [each.text for each in split_statements(write(query))]
    if len(statements) != 1:
        raise DataError(f"create_view() takes one query, not {len(statements)} statements")
    return f"CREATE MATERIALIZED VIEW {quoted(name)} AS {statements[0]}"


def _of_ibis(query: Any) -> str:
    import ibis

    return str(ibis.to_sql(query, dialect="duckdb"))


def _of_sqlalchemy(query: Any) -> str:
    from viewlet.sqlalchemy import Dialect

    return str(query.compile(dialect=Dialect(), compile_kwargs={"literal_binds": True}))


def _of_sqlglot(query: Any) -> str:
    return str(query.sql(dialect="duckdb"))


_WRITERS: dict[str, Callable[[Any], str]] = {
    "": str,
    "ibis": _of_ibis,
    "sqlalchemy": _of_sqlalchemy,
    "sqlglot": _of_sqlglot,
}
