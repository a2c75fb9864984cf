"""Large loads: DuckDB evaluates the definitions of stored views over all rows, instead of triggers row by row.

    rows of the sources ──► Arrow ──► one SELECT per stored view (`sqlgen/`) ──► contents of the interpreter's stores

All rows have to be there: those of tables and views are, those of a stream only in the first batch that has any. Sums
of doubles are exact in the interpreter and rounded in DuckDB, so a view with such sums is not loaded this way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from viewlet.changes import MULTIPLICITY, Change, ColumnChange, RowChange, arrow_type
from viewlet.duckdb_access import open_duckdb
from viewlet.errors import UnsupportedError, interruptible
from viewlet.sqlgen.columns import columns_read
from viewlet.sqlgen.definition import definition_sql
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.program import Program, ViewDefinition
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import MapStore, Payload, RowStore
from viewlet.types import WORD_DIGITS, Column, Kind, Row, SqlType, Table
from viewlet.visible import logger

if TYPE_CHECKING:
    from viewlet.changes.word_codec import Codes

Contents = dict[str, dict[Row, Payload]]
NOTHING = RowChange({})


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A query for each stored view, and the columns that the queries read, by source.

    Sources and columns have names of ours in the queries: `s0`, `s1`, ... and `c0`, `c1`, ...
    """

    queries: Mapping[str, str]
    arity: Mapping[str, int]
    columns: Mapping[str, tuple[int, ...]]
    tables: Mapping[str, Table]

    def name_of(self, source: str) -> str:
        return f"s{list(self.tables).index(source)}"


def plan_load(program: Program, tables: Mapping[str, Table]) -> LoadPlan | None:
    """How to load the views of a program; None if rows have to go through its triggers."""
    if any(_is_rounded(view) for view in program.views):
        return None
    renamed = {name: _renamed(table) for name, table in tables.items()}
    names = {name: f"s{i}" for i, name in enumerate(tables)}
    try:
        queries = {
            view.name: definition_sql(view, renamed, "duckdb", names.__getitem__, MULTIPLICITY)
            for view in program.views
        }
    except UnsupportedError:
        return None
    read = columns_read(program.views, renamed)
    columns = {name: tuple(sorted(int(column[1:]) for column in read.get(name, ()))) for name in tables}
    if any(tables[name].columns[i].type.is_wide for name, places in columns.items() for i in places):
        return None
    return LoadPlan(queries, {view.name: len(view.keys) for view in program.views}, columns, tables)


def _is_rounded(view: ViewDefinition) -> bool:
    return any(field.is_float for field in view.fields) or any(key.type.is_float for key in view.keys)


def _renamed(table: Table) -> Table:
    columns = tuple(Column(f"c{i}", column.type) for i, column in enumerate(table.columns))
    return replace(table, columns=columns, primary_key=(), non_negative=frozenset(), partition_by=())


@dataclass(slots=True)
class ProgramLoad:
    """One load of an interpreter: collects what a batch brings to streams, then finds what the views hold after it."""

    engine: Interpreter
    plan: LoadPlan
    sources: Sources
    dictionary: Codes | None = None
    _given: dict[str, Change] = field(default_factory=dict)

    def apply(self, table: str, change: Change) -> None:
        """The change of one source; those of tables and views are in their stores when it matters."""
        self._given[table] = change

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        """The columns of a source that are read, if changes of it may come as columns."""
        return None if self.dictionary is None else self.plan.columns[table]

    def finish(self) -> Mapping[Row, int]:
        """Fills the views as a part of the batch."""
        self.engine.replace(self._contents())
        return self.engine.finish()

    def load(self) -> None:
        self.engine.restore(self._contents())

    def _contents(self) -> Contents:
        """What the stored views hold; the interpreter evaluates their definitions if DuckDB cannot."""
        import duckdb

        try:
            return evaluate_all(self.plan, {name: self._arrow(name) for name in self.plan.tables})
        except (duckdb.Error, OverflowError, ValueError) as error:
            logger.info("DuckDB could not load views, the interpreter does: %s", error)
            return self.engine.evaluate({name: self._store(name) for name in self.plan.tables})

    def _arrow(self, source: str) -> Any:
        table, places = self.plan.tables[source], self.plan.columns[source]
        streams = self.sources.streams
        given = self._given.get(source, NOTHING) if source in streams else self.sources.stores[source].change()
        columns = given.held_columns(())
        if columns is None or not columns.holds(places):
            return arrow_of_rows(table, places, given.rows())
        return arrow_of_words(places, columns)

    def _store(self, source: str) -> RowStore:
        if source not in self.sources.streams:
            return self.sources.stores[source]
        store = MapStore()
        for row, weight in self._given.get(source, NOTHING).rows().items():
            store.add(row, (weight,))
        return store


def evaluate_all(plan: LoadPlan, given: Mapping[str, Any]) -> Contents:
    """The contents of every view over Arrow tables, as a store holds them."""
    contents: Contents = {}
    with open_duckdb() as connection, interruptible(connection):
        for source, arrow in given.items():
            connection.register(plan.name_of(source), arrow)
        for view, query in plan.queries.items():
            width = plan.arity[view]
            contents[view] = {row[:width]: row[width:] for row in connection.execute(query).fetchall()}
    return contents


# -- rows and words as Arrow ------------------------------------------------------------------------------------------


def arrow_of_rows(table: Table, places: Sequence[int], rows: Mapping[Row, int]) -> Any:
    """Some columns of rows in the representation of `viewlet.types`, and a column of their multiplicities."""
    import pyarrow as pa

    arrays = {}
    for i in places:
        type, values = table.columns[i].type, [row[i] for row in rows]
        arrays[f"c{i}"] = _typed(pa.array(values, _held_as(type)), type)
    return pa.table(arrays | {MULTIPLICITY: pa.array(rows.values(), pa.int64())})


def arrow_of_words(places: Sequence[int], change: ColumnChange) -> Any:
    """Like `arrow_of_rows`, for columns of words."""
    import numpy as np
    import pyarrow as pa

    arrays = {}
    for i in places:
        if i in change.texts:
            arrays[f"c{i}"] = change.texts[i]
            continue
        type, words = change.table.columns[i].type, change.words[i]
        absent = np.isnan(words) if type.is_float else words == np.iinfo(np.int64).min
        array = pa.array(words, mask=absent)
        if type.kind is Kind.VARCHAR:
            texts = pa.array(change.dictionary.texts, pa.string())
            array = pa.DictionaryArray.from_arrays(array, texts).dictionary_decode()
        arrays[f"c{i}"] = _typed(array, type)
    return pa.table(arrays | {MULTIPLICITY: pa.array(change.multiplicity)})


def _held_as(type: SqlType) -> Any:
    """The Arrow type of the engine's representation: integers stand for decimals and for points in time."""
    import pyarrow as pa

    if type.kind in (Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP):
        return pa.int64()
    return pa.float64() if type.is_float else arrow_type(type)


def _typed(array: Any, type: SqlType) -> Any:
    """An array of the engine's representation as one of the SQL type."""
    import pyarrow as pa

    match type.kind:
        case Kind.DECIMAL:
            units = array.cast(pa.decimal128(WORD_DIGITS + 1, 0))
            return pa.Array.from_buffers(
                pa.decimal128(WORD_DIGITS, type.scale), len(units), units.buffers(), offset=units.offset
            )
        case Kind.DATE:
            return array.cast(pa.int32()).view(pa.date32())
        case Kind.TIMESTAMP:
            return array.view(pa.timestamp("us"))
        case Kind.REAL | Kind.DOUBLE | Kind.VARCHAR:
            return array
        case _:
            return array.cast(arrow_type(type))
