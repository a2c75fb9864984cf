"""Ad-hoc queries: DuckDB reads the tables and views a query names, handed over as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from viewlet.changes import did_you_mean
from viewlet.errors import SqlError

SETTINGS = {
    "python_enable_replacements": "false",  # a name in a query is a table, never a variable of the calling program
    "error_on_division_by_zero": "false",  # as in views, a division by zero is NULL, ...
    "ieee_floating_point_ops": "false",  # ... for floats too
}


class AdHoc:
    """An in-memory DuckDB that holds nothing between queries."""

    def __init__(self) -> None:
        import duckdb

        self._duckdb = duckdb
        self._connection = duckdb.connect(":memory:")
        known = {name for (name,) in self._connection.execute("SELECT name FROM duckdb_settings()").fetchall()}
        for name, value in SETTINGS.items():
            if name in known:
                self._connection.execute(f"SET {name} = {value}")

    def query(self, sql: str, lookup: Callable[[str], Any | None], known: Iterable[str] = ()) -> Any:
        """The answer of `sql` as a pyarrow Table.

        `lookup` gives the Arrow table behind a name, if it has one; `known` are the names to suggest for a wrong one.
        """
        registered: list[str] = []
        missing: list[str] = []
        try:
            for name in sorted(self._connection.get_table_names(sql)):
                table = lookup(name)
                if table is None:
                    missing.append(name)
                else:
                    self._connection.register(name, table)
                    registered.append(name)
            return self._connection.sql(sql).to_arrow_table()
        except self._duckdb.CatalogException as error:
            unknown = next((name for name in missing if f"name {name} does" in str(error)), None)
            if unknown is None:
                raise SqlError(str(error), sql) from error
            raise SqlError(f"there is no table or view {unknown!r}" + did_you_mean(unknown, known), sql) from error
        except self._duckdb.Error as error:
            raise SqlError(str(error), sql) from error
        finally:
            for name in registered:
                self._connection.unregister(name)

    def close(self) -> None:
        self._connection.close()
