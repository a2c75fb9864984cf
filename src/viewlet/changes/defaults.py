"""Defaults of columns, for rows that do not say what is in them.

CREATE TABLE t (k INTEGER, at TIMESTAMP DEFAULT now());  insert("t", [{"k": 1}])   ->   {"k": 1, "at": the time}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from viewlet.changes.sequences import Sequences, called_sequences
from viewlet.changes.values import plain
from viewlet.duckdb_access import open_duckdb
from viewlet.errors import DataError
from viewlet.types import Column, Kind, Table


def completed(table: Table, data: Any, sequences: Sequences) -> Any:
    """The rows of a user with the defaults of columns that they do not have; tuples have all columns."""
    defaults = [column for column in table.columns if column.default is not None]
    if not defaults:
        return data
    if isinstance(data, list | tuple):
        return _rows(defaults, data, sequences)
    names: Any = getattr(data, "column_names", None) or getattr(data, "columns", ())
    missing = _missing(defaults, map(str, names))
    if not missing:
        return data
    values = {column.name: default_values(column, len(data), sequences) for column in missing}
    if type(data).__module__.split(".")[0] == "pandas":
        return data.assign(**values)
    import pyarrow as pa

    frame = pa.table(data)
    for name, cells in values.items():
        frame = frame.append_column(name, pa.array(cells))
    return frame


def _rows(defaults: Sequence[Column], rows: Sequence[Any], sequences: Sequences) -> Sequence[Any]:
    if not any(isinstance(row, Mapping) for row in rows):
        return rows
    made = [dict(row) if isinstance(row, Mapping) else row for row in rows]
    named = [row for row in made if isinstance(row, dict)]
    spelt = {str(name).casefold(): name for row in named for name in row}
    for column in defaults:
        name = spelt.get(column.name.casefold(), column.name)
        lacking = [row for row in named if name not in row]
        for row, value in zip(lacking, default_values(column, len(lacking), sequences), strict=True):
            row[name] = value
    return made


def _missing(defaults: Sequence[Column], names: Iterable[str]) -> list[Column]:
    folded = {name.casefold() for name in names}
    return [column for column in defaults if column.name.casefold() not in folded]


def default_values(column: Column, count: int, sequences: Sequences) -> list[Any]:
    """The values of a default for this many rows."""
    assert column.default is not None
    if not count:
        return []
    if _NEXT_VALUE.fullmatch(column.default):
        (name,) = called_sequences(column.default)
        return sequences.take(name, count)
    fixed = _fixed_value(column.default)
    return [fixed[0]] * count if fixed is not None else _evaluated(column.default, count, sequences)


_NEXT_VALUE = re.compile(r"CAST\(nextval\('(?:[^']|'')*'\) AS \w+\)", re.IGNORECASE)
_TEXT = re.compile(r"'(?:[^']|'')*'")
_CONSTANT_WORDS = {"CAST", "AS", "TRUE", "FALSE", "NULL", "AND", "OR", "NOT"} | {kind.value for kind in Kind}


@lru_cache(1024)
def _fixed_value(text: str) -> tuple[Any] | None:
    """The value of an expression of literals; one with any other word may have another value for each row."""
    words = re.findall(r"[^\W\d]\w*", _TEXT.sub("", text))
    return (
        (_evaluated(text, 1, Sequences())[0],) if _CONSTANT_WORDS.issuperset(word.upper() for word in words) else None
    )


def _evaluated(text: str, count: int, sequences: Sequences) -> list[Any]:
    connection = open_duckdb()
    try:
        with sequences.lent(connection, text):
            found = connection.execute(f"SELECT {text} FROM range({count})").fetchall()
    except Exception as error:
        raise DataError(f"DEFAULT {text} has no value: {error}") from error
    finally:
        connection.close()
    return [plain(value) for (value,) in found]
