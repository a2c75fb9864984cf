"""Ad-hoc queries: DuckDB reads the tables and views a query names, handed over as Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from viewlet.errors import SqlError, ViewletError

SETTINGS = {
    "python_enable_replacements": "false",  # a name in a query is a table, never a variable of the calling program
    "error_on_division_by_zero": "false",  # as in views, a division by zero is NULL, ...
    "ieee_floating_point_ops": "false",  # ... for floats too
}
_MISSING_TABLE = re.compile(r'Table with name "?(.+?)"? does not exist')


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

    def query(self, sql: str, tables: Mapping[str, Any], missing: Callable[[str], ViewletError]) -> Any:
        """The answer of `sql` over Arrow tables, as one; `missing` makes the error for a name that is none of them."""
        try:
            for name, table in tables.items():
                self._connection.register(name, table)
            return self._connection.sql(sql).to_arrow_table()
        except self._duckdb.Error as error:
            unknown = _MISSING_TABLE.search(str(error))
            raise (missing(unknown[1]) if unknown else SqlError(str(error), sql)) from error
        finally:
            for name in tables:
                self._connection.unregister(name)

    def close(self) -> None:
        self._connection.close()
