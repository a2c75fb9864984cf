"""Handles to read tables and views, and subscriptions to the changes of a view.

`Connection.table` and `Connection.view` return them. A handle holds only a name: it reads the state after the last
batch, and raises an error once its table or view has been dropped.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from viewlet.changes import did_you_mean, row_to_python, rows_to_arrow, to_changes, to_python
from viewlet.errors import DataError, MissingExtraError, SchemaError, ViewletError
from viewlet.types import Column, Kind, Row, Table
from viewlet.visible import one_line

if TYPE_CHECKING:
    from viewlet.asynchronous import ChangeStream

Callback = Callable[[int, Any], object]
"""Called as callback(epoch, pyarrow.Table of the changed rows with a `_multiplicity` column)."""

PREVIEW_ROWS = 10
T = TypeVar("T")


MUTABLE = {Kind.ARRAY, Kind.COFACTOR}
"""Kinds of types whose values users may change."""
MOST_ROWS_REMEMBERED = 1_000_000
"""Rows whose Python values a snapshot keeps for the next reading."""


@dataclass(slots=True)
class Snapshot:
    """The rows of a relation after one batch, in reading order, each with its multiplicity."""

    columns: tuple[Column, ...]
    rows: Sequence[tuple[Row, int]]
    _python: list[tuple[object, ...]] | None = None

    def __len__(self) -> int:
        return sum(weight for _, weight in self.rows)

    def to_arrow(self) -> Any:
        return rows_to_arrow(self.columns, self.rows)

    def to_python(self) -> list[tuple[object, ...]]:
        """The rows as users see them: a new list, of tuples that are made once."""
        if self._python is not None:
            return list(self._python)
        convert = row_to_python([column.type for column in self.columns])
        python: list[tuple[object, ...]] = []
        for row, weight in self.rows:
            if weight == 1:
                python.append(convert(row))
            else:
                python.extend([convert(row)] * weight)
        if len(python) <= MOST_ROWS_REMEMBERED and not any(column.type.kind in MUTABLE for column in self.columns):
            self._python = list(python)
        return python

    def head(self, count: int) -> Snapshot:
        """The first `count` rows, or fewer."""
        rows: list[tuple[Row, int]] = []
        for row, weight in self.rows:
            if not count:
                break
            rows.append((row, min(weight, count)))
            count -= min(weight, count)
        return Snapshot(self.columns, rows)


class ViewProvider(Protocol):
    """The interface between a handle and its connection; every call takes the connection's lock."""

    def columns_of(self, name: str) -> tuple[Column, ...]: ...

    def comment_of(self, name: str) -> str | None: ...

    def snapshot_of(self, name: str) -> Snapshot: ...

    def arrow_of(self, name: str) -> Any: ...

    def rows_with(self, name: str, key: tuple[object, ...], columns: Mapping[str, object]) -> Snapshot:
        """The rows with a key, or with values in columns."""

    def stats_of(self, name: str) -> dict[str, object]: ...

    def explain(self, name: str, stage: str | None = None, format: str = "text") -> str: ...

    def count_of(self, name: str) -> int: ...

    def subscribe(self, name: str, callback: Callback) -> Callable[[], None]: ...

    def follow(self, name: str, handle: type[View], callback: Callback) -> Callable[[], None]:
        """Calls back with changes in the form of the engine, which a handle of this class understands."""

    def read(self, name: str, handle: type[View], question: Callable[[Any], T]) -> T:
        """What the engine of a view answers to a question that only a handle of this class may ask."""

    def stream(self, name: str, handle: type[View], question: Callable[[Any], Iterator[T]]) -> Iterator[T]:
        """Like `read`, for an answer of many items, read a few at a time; the lock is free in between."""


@dataclass(frozen=True, slots=True, repr=False)
class Relation:
    """The base class of handles: a table or view that can be read."""

    _provider: ViewProvider
    name: str

    @property
    def schema(self) -> tuple[Column, ...]:
        """The columns with their SQL types."""
        return self._provider.columns_of(self.name)

    @property
    def comment(self) -> str | None:
        """What `COMMENT ON` says of it; the columns of `schema` have theirs."""
        return self._provider.comment_of(self.name)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.schema)

    def rows(self) -> list[tuple[object, ...]]:
        """All rows as tuples of Python values, in the view's order, or sorted by all columns (NULLs last)."""
        return self._provider.snapshot_of(self.name).to_python()

    def to_arrow(self) -> Any:
        """All rows as a pyarrow Table, in the same order as `rows`."""
        return self._provider.arrow_of(self.name)

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame."""
        try:
            import pandas as pd  # noqa: F401 - Arrow imports it itself, but with a less helpful message
        except ImportError as error:
            raise MissingExtraError("to_pandas() needs pandas: pip install 'viewlet[pandas]'") from error
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """All rows as a Polars DataFrame."""
        try:
            import polars as pl
        except ImportError as error:
            raise MissingExtraError("to_polars() needs Polars: pip install 'viewlet[polars]'") from error
        return pl.from_arrow(self.to_arrow())

    def to_numpy(self) -> Any:
        """All rows as a NumPy structured array, with a field for each column."""
        import numpy as np

        arrow = self.to_arrow()
        columns = {name: column.to_numpy() for name, column in zip(arrow.column_names, arrow.columns, strict=True)}
        found = np.empty(arrow.num_rows, [(name, values.dtype) for name, values in columns.items()])
        for name, values in columns.items():
            found[name] = values
        return found

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows as an Arrow stream, for pyarrow, Polars, DuckDB, pandas and others that read one."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def get(self, *key: object, **columns: object) -> tuple[object, ...] | None:
        """The row with a key, or with values in columns that are named; None if there is none.

        The key is the primary key of a table, and the leading columns of a view. It is looked up, not searched for,
        where the table has an index on it or the engine of the view can find it. Several such rows are an error.

        `db.view("sales").get("Oslo")`, `db.table("orders").get(7)`, `db.view("sales").get(city="Oslo", year=2026)`.
        """
        found = self._provider.rows_with(self.name, key, columns)
        if len(found) > 1:
            raise DataError(f"{self.name!r} has {len(found)} rows with this key: read them with SELECT ... WHERE")
        return found.to_python()[0] if len(found) else None

    def stats(self) -> dict[str, object]:
        """Statistics about the relation, such as its number of rows."""
        return self._provider.stats_of(self.name)

    def __len__(self) -> int:
        return self._provider.count_of(self.name)

    def __bool__(self) -> bool:
        return True  # an empty view is still a view

    def __repr__(self) -> str:
        try:
            header, body, total = self._preview()
        except ViewletError as error:  # a stream keeps no rows, and a closed connection has none
            return f"{type(self).__name__} {one_line(self.name)}: {error}"
        widths = [max(map(len, cells)) for cells in zip(header, *body, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [header, *body]
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        title = f"{type(self).__name__} {one_line(self.name)} ({_count(total)})"
        return "\n".join(line.rstrip() for line in [title, *lines, *(["..."] if total > len(body) else [])])

    def _repr_html_(self) -> str:
        try:
            header, body, total = self._preview()
        except ViewletError as error:
            return f"<p>{html.escape(f'{one_line(self.name)}: {error}')}</p>"
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        rows = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in body)
        more = f", first {len(body)} shown" if total > len(body) else ""
        caption = f"<caption>{html.escape(one_line(self.name))}: {_count(total)}{more}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def _preview(self) -> tuple[list[str], list[list[str]], int]:
        """The names of the columns, the first rows and the number of rows, as people may see them."""
        rows, total = self._first_rows()
        body = [["NULL" if value is None else one_line(str(value)) for value in row] for row in rows]
        return [one_line(name) for name in self.columns], body, total

    def _first_rows(self) -> tuple[Iterable[tuple[object, ...]], int]:
        snapshot = self._provider.snapshot_of(self.name)
        return snapshot.head(PREVIEW_ROWS).to_python(), len(snapshot)


@dataclass(frozen=True, slots=True, repr=False)
class StoredTable(Relation):
    """A handle to a base table of a connection."""


@dataclass(frozen=True, slots=True, repr=False)
class View(Relation):
    """A handle to a maintained view of a connection."""

    def subscribe(self, callback: Callback) -> Subscription:
        """Calls `callback(epoch, changes)` after every batch that changes the view's rows, until cancelled.

        `changes` is a pyarrow Table of the changed rows with a `_multiplicity` column. The callback runs in the thread
        that applied the batch, after the batch is committed and before `apply` returns. A batch applied from inside a
        callback is announced after the current one. An error of a callback is logged: the batch is committed, and every
        other subscriber is called.
        """
        return Subscription(self._provider.subscribe(self.name, callback))

    def changes(self) -> ChangeStream:
        """The changes from now on, for programs of asyncio: `async for epoch, changes in view.changes()`.

        What an item holds is said at `subscribe`. Items that nobody has read yet wait in memory.
        """
        from viewlet.asynchronous import ChangeStream

        return ChangeStream(self.subscribe)

    def cofactor(self) -> Any:
        """The contents of a COFACTOR view (see `CofactorView`); an error for other views."""
        raise SchemaError(f"{self.name!r} is not a COFACTOR view: it has rows() only")

    def explain(self, stage: str | None = None, format: str = "text") -> str:
        """Shows how the view is maintained: one stage of its compilation, or a summary of all stages.

        With `format="svg"` the stage `"view-tree"` is a drawing.
        """
        return self._provider.explain(self.name, stage, format)


@dataclass(frozen=True, slots=True, repr=False)
class CofactorView(View):
    """A handle to a COFACTOR view: sums of products, from which models are fitted."""

    def cofactor(self) -> Any:
        """The contents of the view: an object with `variables`, `count`, and NumPy arrays `sums` and `matrix`.

        For a view with GROUP BY, a dictionary with one such object per group. Its keys are values of the group column,
        or tuples if there are several group columns.
        """
        return self._provider.read(self.name, CofactorView, lambda engine: engine.cofactor())


@dataclass(frozen=True, slots=True, repr=False)
class FactorisedView(View):
    """A handle to a FACTORIZED view: a join stored as factors, whose rows are enumerated on demand."""

    def rows(self) -> Iterator[tuple[object, ...]]:  # type: ignore[override]
        """An iterator over the rows, in no particular order; the result is never materialised.

        If a batch changes the view during the iteration, the next step raises an error, so that rows of two states
        never mix.
        """
        convert = row_to_python([column.type for column in self.schema])
        for row, weight in self._provider.stream(self.name, FactorisedView, lambda engine: engine.rows()):
            values = convert(row)
            for _ in range(weight):
                yield values

    def count(self) -> int:
        """The number of rows, computed without enumerating them."""
        return self._provider.count_of(self.name)

    def aggregate(self, function: str, *columns: str) -> object:
        """Computes `"count"`, `"sum"` or `"avg"` of a column, or of a product of columns, without enumeration."""
        schema = self.schema
        return self._provider.read(
            self.name, FactorisedView, lambda engine: engine.aggregate(schema, function, columns)
        )

    def _first_rows(self) -> tuple[Iterable[tuple[object, ...]], int]:
        return islice(self.rows(), PREVIEW_ROWS), self.count()


@dataclass(frozen=True, slots=True, repr=False)
class TriangleView(View):
    """A handle to an adaptive view, which is over the triangles of three tables."""

    def common_neighbours(self, **ends: object) -> list[object]:
        """The vertices that make a triangle with an edge, given by two columns of a view that lists all three vertices.

        `view.common_neighbours(one=1, two=2)` are the values of `three` in the rows with these values, each once and in
        order. They are enumerated from the parts of the tables, in the time of an update; the rows of the view are not
        searched.
        """
        columns = {column.name: column for column in self.schema}
        for name in ends:
            if name not in columns:
                raise SchemaError(f"view {self.name!r} has no column {name!r}{did_you_mean(name, columns)}")
        asked = Table(self.name, tuple(columns[name] for name in ends))
        (row,) = to_changes(asked, [tuple(ends.values())]) if ends else [()]
        given = dict(zip(ends, row, strict=True))
        found, type = self._provider.read(self.name, TriangleView, lambda engine: engine.common_neighbours(given))
        return [to_python(type)(value) for value in sorted(found)]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription to the changes of a view; as a context manager, it is cancelled at the end of the block."""

    _cancel: Callable[[], None]

    def cancel(self) -> None:
        """Cancels the subscription; cancelling it twice is harmless."""
        self._cancel()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()


def _count(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows} rows"
