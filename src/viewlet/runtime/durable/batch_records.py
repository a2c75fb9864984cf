"""A batch as bytes for a log: what was put in, so that replaying it takes the way it took the first time.

    record ::= length of the head (4 bytes), head (JSON), the changes of each table as an Arrow stream

Changes that came as rows are written as rows, and so are products. Those that came as columns are written as the words
of these columns, but strings as strings: their codes mean something only to this process. Strings that came without
codes come back without codes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from viewlet.changes import Change, Changes, ColumnChange, RowChange, describe_row
from viewlet.changes.arrow import one_piece
from viewlet.changes.arrow_change import ArrowChange
from viewlet.changes.part_close import PartClose
from viewlet.changes.staged_change import StagedChange
from viewlet.errors import DataError
from viewlet.runtime.durable.batch_ids import BatchMark
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.types import Kind, Table

_INT64 = 2**63
_LENGTH = 4


def encode_batch(batch: Mapping[str, Change], schemas: Mapping[str, Table], mark: BatchMark | None) -> bytes:
    """The record of a batch."""
    columns = {name: change.held_columns(()) for name, change in batch.items()}
    whole = [name for name, change in batch.items() if isinstance(change, ArrowChange)]
    streams = {name: _stream(_arrow_of(change, columns[name], schemas[name])) for name, change in batch.items()}
    head = json.dumps(
        {
            "mark": None if mark is None else [mark.source, mark.id],
            "arrow": whole,
            "staged": {
                name: [change.name, len(change)] for name, change in batch.items() if isinstance(change, StagedChange)
            },
            "closes": {name: change.closes for name, change in batch.items() if isinstance(change, PartClose)},
            "tables": [
                [name, columns[name] is not None, memoryview(stream).nbytes] for name, stream in streams.items()
            ],
        }
    ).encode()
    return b"".join((len(head).to_bytes(_LENGTH, "little"), head, *streams.values()))


def decode_batch(
    payload: bytes | memoryview, schemas: Mapping[str, Table], dictionary: Any
) -> tuple[dict[str, Change], BatchMark | None]:
    """What `encode_batch` was given; `dictionary` makes the dictionary of the connection."""
    data = memoryview(payload)
    at = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    head = json.loads(bytes(data[_LENGTH:at]))
    batch: dict[str, Change] = {}
    staged = head.get("staged", {})
    closes, whole = head.get("closes", {}), head.get("arrow", ())
    for name, columnar, length in head["tables"]:
        table = pa.ipc.open_stream(pa.py_buffer(data[at : at + length])).read_all()
        at += length
        if name in staged:
            batch[name] = StagedChange(schemas[name], *staged[name])
        elif name in closes:
            batch[name] = PartClose(closes[name])
        elif name in whole:
            batch[name] = ArrowChange(schemas[name], table)
        elif columnar:
            batch[name] = _arrow_to_columns(schemas[name], table, dictionary())
        else:
            rows = from_arrow(table, len(schemas[name].columns))
            batch[name] = RowChange({row: weight for row, (weight,) in rows})
    return batch, None if head["mark"] is None else BatchMark(*head["mark"])


def _arrow_of(change: Change, columns: ColumnChange | None, schema: Table) -> Any:
    """A change as an Arrow table, in the form that it was given in."""
    if isinstance(change, ArrowChange):
        return change.arrow
    if isinstance(change, StagedChange):
        return _rows_to_arrow(schema, {})
    return _rows_to_arrow(schema, change.rows()) if columns is None else _columns_to_arrow(columns)


def _rows_to_arrow(schema: Table, rows: Changes) -> Any:
    for row, weight in rows.items():
        if not -_INT64 < weight < _INT64:
            raise DataError(f"{schema.name}: {describe_row(schema, row)} would change by more than 2^63 rows at once")
    return to_arrow(((row, (weight,)) for row, weight in rows.items()), len(schema.columns), 1)


def _stream(table: Any) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def _columns_to_arrow(change: ColumnChange) -> Any:
    columns = {"multiplicity": pa.array(change.multiplicity)}
    for position, words in change.words.items():
        if position not in change.texts:
            is_text = change.table.columns[position].type.kind is Kind.VARCHAR
            columns[str(position)] = _texts(words, change.dictionary) if is_text else pa.array(words)
    for position, texts in change.texts.items():
        columns[str(position)] = texts
    return pa.table(columns)


def _texts(codes: Any, dictionary: Any) -> Any:
    """Strings by their codes, each distinct one written once."""
    encoded = pa.array(codes).dictionary_encode()
    texts = [dictionary.text(code) for code in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.large_string()))


def _arrow_to_columns(schema: Table, table: Any, dictionary: Any) -> ColumnChange:
    columns: dict[int, Any] = {}
    texts: dict[int, Any] = {}
    for name in table.column_names[1:]:
        column = one_piece(table[name])
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            texts[int(name)] = column
        elif schema.columns[int(name)].type.kind is Kind.VARCHAR:
            codes = dictionary.encode(column.dictionary.to_pylist())
            columns[int(name)] = codes[column.indices.to_numpy()]
        else:
            columns[int(name)] = column.to_numpy().copy()  # triggers are compiled for arrays they may write
    multiplicity = table["multiplicity"].combine_chunks().to_numpy().copy()
    return ColumnChange(columns, multiplicity, schema, dictionary, texts)
