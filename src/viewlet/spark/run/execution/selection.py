"""What a reader wants of a view: some of its columns, and the rows that satisfy a condition.

Tasks read no other columns and send no other rows. The reader says so itself: Spark's data sources in Python are not
told which columns a query needs, and what they are told of its filters stays in force for later queries (see
`views/data_source.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from viewlet.changes import did_you_mean
from viewlet.duckdb_access import open_duckdb
from viewlet.errors import DataError, SchemaError, SqlError, interruptible

_KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition over columns, as SQL of DuckDB, which says what ad-hoc queries mean too."""

    text: str
    places: tuple[int, ...]
    """The columns that it may name, by their positions."""
    names: tuple[str, ...]

    def check(self, schema: Any) -> None:
        """Refuses what is no condition over columns of these types."""
        if len({name.casefold() for name in self.names}) < len(self.names):
            raise DataError(f"the condition {self.text!r} is about one of several columns of the same name")
        self.kept(schema.empty_table())

    def kept(self, table: Any) -> Any:
        """For every row of a table, which has all columns, whether it satisfies the condition."""
        return self.mask([table.column(place) for place in self.places])

    def mask(self, columns: Sequence[Any]) -> Any:
        """The same for the columns that it may name."""
        import duckdb

        rows = pa.table(dict(zip(self.names, columns, strict=True)))
        with open_duckdb(threads="1") as connection:
            try:
                found = connection.from_arrow(rows).project(f"({self.text}) AS {_KEPT}")
                if [str(type) for type in found.types] != ["BOOLEAN"]:
                    raise SqlError("this is not a condition", self.text)
                with interruptible(connection):
                    return found.to_arrow_table().column(_KEPT)
            except duckdb.Error as error:
                raise SqlError(str(error).splitlines()[0], self.text) from error


@dataclass(frozen=True, slots=True)
class Selection:
    """Columns by their positions, in the order in which they are shown, and a condition."""

    shown: tuple[int, ...]
    condition: Condition | None = None

    @property
    def read(self) -> tuple[int, ...]:
        """The columns that are shown or tested."""
        return tuple(sorted({*self.shown, *(self.condition.places if self.condition is not None else ())}))

    def rows(self, table: Any) -> Any:
        """What is wanted of a table that has the columns `read`."""
        at = {place: i for i, place in enumerate(self.read)}
        if self.condition is not None:
            table = table.filter(self.condition.mask([table.column(at[place]) for place in self.condition.places]))
        return table.select([at[place] for place in self.shown])


def selection(schema: Any, columns: Sequence[str] | None = None, where: str | None = None) -> Selection:
    """What is wanted of rows with an Arrow schema: columns by their names, in any case, and a condition.

    >>> known = pa.schema([("customer", pa.string()), ("total", pa.int64()), ("n", pa.int64())])
    >>> some = selection(known, ["N"], "total > 8")
    >>> some.read, some.rows(pa.table({"total": [7, 43], "n": [1, 2]})).to_pydict()
    ((1, 2), {'n': [2]})
    """
    shown = range(len(schema)) if columns is None else [_position(schema.names, name) for name in columns]
    if not shown:
        raise DataError("name at least one column, or leave the columns out for all of them")
    if len(set(shown)) < len(shown):
        raise DataError(f"a column is named twice in {', '.join(columns or schema.names)}")
    if where is None:
        return Selection(tuple(shown))
    text = where.casefold()
    named = [i for i, name in enumerate(schema.names) if name.casefold().replace('"', '""') in text] or [shown[0]]
    condition = Condition(where, tuple(named), tuple(schema.names[i] for i in named))
    condition.check(schema)
    return Selection(tuple(shown), condition)


def _position(names: Sequence[str], name: str) -> int:
    found = [i for i, each in enumerate(names) if each == name]
    found = found or [i for i, each in enumerate(names) if each.casefold() == name.casefold()]
    if len(found) != 1:
        problem = "are several columns" if found else "is no column"
        raise SchemaError(f"there {problem} {name!r}" + ("" if found else did_you_mean(name, names)))
    return found[0]
