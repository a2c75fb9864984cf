"""Contents of views and temporaries as bytes: an Arrow stream, keys first, then the fields of the payload.

What a column holds decides its Arrow type (see `viewlet.runtime.durable.rows`): integers, doubles, booleans and
strings as they are, sums beyond 64 bits and exact sums of doubles as text. Nothing is written for no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from viewlet.changes import MULTIPLICITY, arrow_type
from viewlet.rings import Dyadic
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.triggers.program import ViewDefinition
from viewlet.triggers.store import Payload
from viewlet.types import Column, Row

Contents = Iterable[tuple[Row, Payload]]
PARTS = b"parts"
"""Tells in the schema of contents that a key may come several times."""


def encode(view: ViewDefinition, contents: Contents) -> bytes:
    """The bytes of some rows of a view; none for no rows."""
    rows = list(contents)
    return table_bytes(to_arrow(rows, len(view.keys), len(view.fields))) if rows else b""


def decode(view: ViewDefinition, blob: bytes | memoryview) -> list[tuple[Row, Payload]]:
    """The rows that some bytes are; doubles that are sums are exact from here on."""
    rows = from_arrow(bytes_table(blob), len(view.keys)) if len(blob) else []
    if not any(field.is_float for field in view.fields):
        return rows
    return [(key, tuple(Dyadic.of(n) if isinstance(n, float) else n for n in payload)) for key, payload in rows]


def has_parts(blob: bytes | memoryview) -> bool:
    """The rows of these contents are parts of those of a view: the numbers of equal keys are to be added up."""
    import pyarrow as pa

    return len(blob) > 0 and PARTS in (pa.ipc.open_stream(pa.py_buffer(blob)).schema.metadata or {})


def table_bytes(table: Any) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def split_table(table: Any, keys: Sequence[int], partitions: int) -> dict[int, bytes]:
    """The rows of a table by the partitions that some of its columns name; empty parts are left out."""
    import numpy as np
    import pyarrow as pa

    from viewlet.spark.run.exchange.placement import partitions_of_arrow

    columns = [table.column(i).combine_chunks() for i in keys]
    numbers = partitions_of_arrow(columns, table.num_rows, partitions)
    found, counts = np.unique(numbers, return_counts=True)
    if len(found) == 1:
        return {int(found[0]): table_bytes(table)}
    ordered = table.take(pa.array(np.argsort(numbers, kind="stable")))
    starts = np.cumsum(counts) - counts
    places = zip(found.tolist(), starts.tolist(), counts.tolist(), strict=True)
    return {number: table_bytes(ordered.slice(start, count)) for number, start, count in places}


def weighted_table(columns: Sequence[Column], arrays: Sequence[Any], multiplicities: Any) -> Any:
    """A table of rows with their multiplicities in the last column."""
    import pyarrow as pa

    fields = [pa.field(column.name, arrow_type(column.type)) for column in columns]
    schema = pa.schema([*fields, pa.field(MULTIPLICITY, pa.int64(), nullable=False)])
    return pa.Table.from_arrays([*arrays, pa.array(multiplicities)], schema=schema)


def bytes_table(blob: bytes | memoryview) -> Any:
    import pyarrow as pa

    return pa.ipc.open_stream(pa.py_buffer(blob)).read_all()
