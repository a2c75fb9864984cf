"""The input of one query: which tables it reads, their rows, and the stream they arrive in.

Rows are kept as Arrow tables. `coded` turns the columns a trigger reads into the words the compiled engine works on; it
is called, and timed, before the measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot

from bench.streams import Events, Step, churn_events, insert_events, interleaved, round_robin
from viewlet.sql import CreateTable, parse_statements
from viewlet.types import Column, Kind, Table, TableKind
from workloads import finance, tpch
from workloads.query import NamedQuery
from workloads.streams import Event

WORKLOADS = {"tpch": tpch, "finance": finance}
GENERATED_MESSAGES, GENERATED_BOOK = 100_000, 5_000


@dataclass(frozen=True, slots=True)
class Source:
    """Everything a measurement needs to know about its input; `cut` makes the steps of a batch size."""

    query: NamedQuery
    tables: dict[str, Table]
    rows: dict[str, pa.Table]
    events: dict[str, Events]
    keys: dict[str, list[str]]
    cut: Any

    @property
    def tuples(self) -> int:
        return sum(len(events) for events in self.events.values())

    def steps(self, batch: int) -> Iterator[Step]:
        steps: Iterator[Step] = self.cut(batch)
        return steps


def find_query(workload: str, name: str) -> NamedQuery:
    queries: tuple[NamedQuery, ...] = WORKLOADS[workload].QUERIES
    return next(query for query in queries if query.name == name)


def schema(workload: str) -> dict[str, Table]:
    """The tables as streams: they are seen as changes and kept nowhere."""
    tables: dict[str, Table] = {}
    for ddl in WORKLOADS[workload].TABLES.values():
        for statement in parse_statements(ddl, tables):
            assert isinstance(statement, CreateTable)
            tables[statement.table.name] = replace(statement.table, kind=TableKind.STREAM)
    return tables


def tables_read(query: NamedQuery, tables: Iterable[str]) -> list[str]:
    """The tables a query names, in the order of the schema."""
    named = {table.name.lower() for table in sqlglot.parse_one(query.sql, read="duckdb").find_all(sqlglot.exp.Table)}
    return [name for name in tables if name in named]


def columns_read(query: NamedQuery, table: Table) -> list[str]:
    """The columns a query names, and the primary key, by which a row is deleted; the others are not even read."""
    named = {column.name.lower() for column in sqlglot.parse_one(query.sql, read="duckdb").find_all(sqlglot.exp.Column)}
    key = {table.columns[i].name for i in tpch.KEY_POSITIONS.get(table.name, ())}
    return [column.name for column in table.columns if column.name in named | key]


def read_plain(file: Path, columns: list[str]) -> pa.Table:
    return plain(pq.read_table(file, columns=columns))


def plain(table: pa.Table) -> pa.Table:
    """Strings in the layout that every Arrow function takes."""
    fields = [pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(fields))


def tpch_source(query: NamedQuery, scale: float, directory: Path, stream: str, working_set: float) -> Source:
    """Round-robin inserts, or the same with the oldest rows leaving once the working set is reached."""
    tables = schema("tpch")
    files = tpch.load_tpch(scale, directory)
    names = tables_read(query, tables)
    rows = {name: read_plain(files[name], columns_read(query, tables[name])) for name in names}
    events = {
        name: insert_events(len(table))
        if stream == "insert"
        else churn_events(len(table), max(1, int(working_set * len(table))))
        for name, table in rows.items()
    }
    sizes = {name: len(each) for name, each in events.items()}
    keys = {name: [tables[name].columns[i].name for i in tpch.KEY_POSITIONS[name]] for name in names}
    return Source(query, tables, rows, events, keys, partial(round_robin, sizes))


def finance_source(query: NamedQuery, file: Path | None, limit: int | None = None) -> Source:
    """The changes an order-book log makes to the tables a query reads, in their order."""
    tables = schema("finance")
    names = tables_read(query, tables)
    messages = (
        finance.read_messages(file) if file else finance.generated_messages(1, GENERATED_MESSAGES, GENERATED_BOOK)
    )
    book = finance.OrderBook().events(islice(messages, limit))
    stream = [event for event in book if event[0] in names]
    sequence = np.array([names.index(table) for table, _, _ in stream], np.int64)
    rows: dict[str, pa.Table] = {}
    events: dict[str, Events] = {}
    for name in names:
        rows[name], events[name] = _numbered([event for event in stream if event[0] == name], tables[name])
    keys = {name: [column.name for column in tables[name].columns] for name in names}
    return Source(query, tables, rows, events, keys, partial(interleaved, names, sequence))


def _numbered(stream: list[Event], table: Table) -> tuple[pa.Table, Events]:
    """Distinct rows as a table, and the events as row numbers in it."""
    numbers: dict[Any, int] = {}
    rows = np.array([numbers.setdefault(row, len(numbers)) for _, row, _ in stream], np.int64)
    signs = np.array([sign for _, _, sign in stream], np.int64)
    names = [column.name for column in table.columns]
    columns = list(zip(*numbers, strict=True)) or [()] * len(names)
    arrays = [pa.array(column, pa.int64()) for column in columns]
    return pa.table(arrays, names=names), Events(rows, signs)


def coded(source: Source, name: str, position: int, dictionary: Any) -> Any:
    """One column of one table as words, in the order of its events."""
    column = source.tables[name].columns[position]
    words = words_of(column, source.rows[name].column(column.name), dictionary)
    return np.ascontiguousarray(words[source.events[name].rows])


def words_of(column: Column, values: Any, dictionary: Any) -> Any:
    array = values.combine_chunks()
    if column.type.kind is Kind.VARCHAR:
        return dictionary.encode_arrow(array.cast(pa.string()))
    if column.type.kind is Kind.DECIMAL:
        wide = array.cast(pa.decimal128(38, column.type.scale))
        pairs = np.frombuffer(wide.buffers()[1], np.int64).reshape(-1, 2)
        return pairs[wide.offset : wide.offset + len(wide), 0]
    if column.type.kind is Kind.DATE:
        return array.cast(pa.int32()).to_numpy().astype(np.int64)
    return array.to_numpy().astype(np.float64 if column.type.is_float else np.int64)
