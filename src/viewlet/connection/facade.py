"""`Connection`: the methods users call."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from viewlet.changes import Changes, to_changes
from viewlet.changes.columnar import ColumnarChanges
from viewlet.connection.database import Database
from viewlet.connection.engines import check_engine
from viewlet.connection.reading import net
from viewlet.connection.session import Session
from viewlet.connection.statements import StatementRunner
from viewlet.errors import DataError, SqlError, UnsupportedError
from viewlet.types import Table
from viewlet.view import StoredTable, View


def connect(path: str | None = None, *, engine: str = "auto", spark: object | None = None) -> Connection:
    """Opens an empty database in memory.

    `engine` says what runs the views: `"interpreter"`, `"compiled"` (generated code, with Numba), or `"auto"`, which
    compiles a view over tables once it has seen many rows.
    """
    if path is not None:
        raise UnsupportedError(f"connect({path!r})", "databases live in memory so far; call connect() without a path")
    if spark is not None:
        raise UnsupportedError("connect(spark=...)", "views run in this process so far; call connect() without spark")
    return Connection(check_engine(engine))


class Connection:
    """Tables, views over them, and the batches that move both from one consistent state to the next.

    A connection may be shared by threads. Used in a `with` statement, it is closed at the end of the block.
    """

    def __init__(self, engine: str = "auto") -> None:
        self._session = Session(engine)
        self._statements = StatementRunner(self._session)

    def close(self) -> None:
        """Forgets everything; closing twice is harmless."""
        self._session.close()
        self._statements.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._session.closed:
            return "<viewlet.Connection, closed>"
        return f"<viewlet.Connection: tables {list(self.tables)}, views {list(self.views)}, epoch {self.epoch}>"

    # -- changing ---------------------------------------------------------------------------------------------------

    def insert(self, table: str, rows: object) -> int:
        """Inserts rows (tuples, dicts, Arrow, pandas, Polars) as one batch; returns the epoch."""
        return self._change(table, [(rows, 1)])

    def delete(self, table: str, rows: object) -> int:
        """Deletes rows, given in full, as one batch; returns the epoch. An absent row is an error."""
        return self._change(table, [(rows, -1)])

    def update(self, table: str, old: object, new: object) -> int:
        """Replaces the rows `old` by the rows `new` in one batch; returns the epoch."""
        return self._change(table, [(old, -1), (new, 1)])

    def apply(self, batch: Mapping[str, object]) -> int:
        """Applies changes of several tables as one atomic batch; returns the epoch.

        Changes are rows or frames with a `_multiplicity` column (an integer) or a `_change_type` column ('insert',
        'delete', 'update_preimage', 'update_postimage'); without one they are inserts. The epoch counts batches that
        change something: an empty batch, and one whose changes cancel out, leave it alone.
        """
        if not isinstance(batch, Mapping):
            raise DataError(f"apply() takes {{table: changes}}, not {type(batch).__name__}")
        with self._session.open() as database:
            changes: dict[str, Changes | ColumnarChanges] = {}
            for name, data in batch.items():
                schema = database.find_table(name).schema
                if schema.name in changes:
                    raise DataError(f"table {schema.name!r} is given twice in one batch")
                changes[schema.name] = _changes(database, schema, data, 1, encoded=True)
            return self._session.commit(changes)

    def _change(self, table: str, signed: list[tuple[object, int]]) -> int:
        with self._session.open() as database:
            schema = database.find_table(table).schema
            if len(signed) == 1:
                return self._session.commit({schema.name: _changes(database, schema, *signed[0], encoded=False)})
            parts = [to_changes(schema, rows, sign) for rows, sign in signed]
            return self._session.commit({schema.name: net(item for part in parts for item in part.items())})

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The number of batches that changed something since the connection was opened."""
        with self._session.open() as database:
            return database.epoch

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables, in the order of their declaration."""
        with self._session.open() as database:
            return tuple(database.tables)

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the views, in the order of their declaration."""
        with self._session.open() as database:
            return tuple(database.views)

    def table(self, name: str) -> StoredTable:
        """A handle to read the rows of a table."""
        with self._session.open() as database:
            return StoredTable(self._session, database.find_table(name).schema.name)

    def view(self, name: str) -> View:
        """A handle to read a view and to subscribe to its changes."""
        with self._session.open() as database:
            return View(self._session, database.find_view(name).name)

    def stats(self) -> dict[str, object]:
        """The epoch, and what is known about every table and view."""
        with self._session.open() as database:
            return {
                "epoch": database.epoch,
                "tables": {name: database.stats(name) for name in database.tables},
                "views": {name: database.stats(name) for name in database.views},
            }

    def explain(self, name: str, stage: str | None = None) -> str:
        """How a view is maintained: one stage of its compilation, or all of them."""
        return self._session.explain(name, stage)

    # -- SQL --------------------------------------------------------------------------------------------------------

    def execute(self, sql: str) -> Any:
        """Runs SQL statements separated by semicolons; returns the answer of the last one.

        A SELECT answers with a pyarrow Table, EXPLAIN with a table of lines, a statement that changes rows with their
        number, and a declaration with None.
        """
        if not isinstance(sql, str):
            raise SqlError(f"execute() takes SQL as a string, not {type(sql).__name__}")
        return self._statements.run(sql)


def _changes(database: Database, table: Table, data: object, sign: int, encoded: bool) -> Changes | ColumnarChanges:
    """As columns where everyone can take them and their types allow it, else as rows."""
    wanted = database.columns_wanted(table.name)
    if wanted is not None:
        from viewlet.connection.columns import to_columns

        columns = to_columns(table, data, wanted, database.dictionary, sign, encoded)
        if columns is not None:
            return columns
    return to_changes(table, data, sign, encoded)
