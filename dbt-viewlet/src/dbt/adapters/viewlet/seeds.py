"""Seeds: CSV files as Arrow, with types that all of their rows fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb

_FOUND = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), "BIGINT"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "DOUBLE"),
    **{name: name for name in ("BOOLEAN", "DATE", "TIMESTAMP")},
}
"""The types of columns by those that DuckDB finds in a file; where it finds another one the column is VARCHAR."""


def read_seed(path: str, delimiter: str, types: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
    """The rows of a file as an Arrow table, and the types of its columns; `types` are given by the user.

    Other columns have the narrowest type that all values fit: whole numbers, numbers, true and false, dates and times
    in ISO form, text. Empty fields and the word null are NULL, as dbt has it.
    """
    with duckdb.connect() as connection:

        def read(columns: Mapping[str, str]) -> Any:
            known = ", ".join(f"{_text(name)}: {_text(type)}" for name, type in columns.items())
            return connection.sql(
                f"SELECT * FROM read_csv({_text(path)}, header = true, delim = {_text(delimiter)}, quote = '\"',"
                " escape = '\"', sample_size = -1, dateformat = '%Y-%m-%d', nullstr = ['', 'null', 'NULL', 'Null']"
                + (f", types = {{{known}}})" if known else ")")
            )

        found = read({})
        given = {name.lower(): type for name, type in types.items()}
        columns = {
            name: given.get(name.lower()) or _FOUND.get(str(type), "VARCHAR")
            for name, type in zip(found.columns, found.types, strict=True)
        }
        return read(columns).to_arrow_table(), columns


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
