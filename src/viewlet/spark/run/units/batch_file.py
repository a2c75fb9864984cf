"""The progress of a batch as bytes in a file, with which another process continues the batch or rolls it back.

    length of the head | head (JSON) | rows of results before the batch (Arrow) | arrays, one after another

The bytes hold only numbers, names and rows; reading them never runs code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from viewlet.changes import Changes
from viewlet.codegen.node import Contents, Undo
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.spark.run.exchange.wire import bytes_table, table_bytes

FORMAT = "results by digest"
"""Says what the bytes look like: state beside bytes of another format is not used."""
_LENGTH = 8
_TYPES = {"i": np.int64, "f": np.float64}


def to_bytes(before: str | None, undo: Undo, rows: Mapping[str, Changes]) -> bytes:
    """`before` is the version before the batch, `rows` those results at that version that are needed, by digest."""
    arrays: list[Any] = []

    def listed(columns: Sequence[Any]) -> list[list[Any]]:
        arrays.extend(np.ascontiguousarray(column) for column in columns)
        return [[column.dtype.kind, len(column)] for column in columns]

    steps = [
        [store, replaced, listed(contents.keys), [listed(number) for number in contents.numbers]]
        for store, contents, replaced in undo
    ]
    tables = {digest: _table(each) for digest, each in rows.items()}
    results = [[digest, len(next(iter(rows[digest]), ())), len(table)] for digest, table in tables.items()]
    head = json.dumps({"before": before, "steps": steps, "results": results}).encode()
    parts = [len(head).to_bytes(_LENGTH, "little"), head, *tables.values(), *(array.tobytes() for array in arrays)]
    return b"".join(parts)


def _table(rows: Changes) -> bytes:
    arity = len(next(iter(rows), ()))
    return table_bytes(to_arrow([(row, (count,)) for row, count in rows.items()], arity, 1)) if rows else b""


def _rows(table: bytes, arity: int) -> Changes:
    return {row: int(count) for row, (count,) in from_arrow(bytes_table(table), arity)} if table else {}


def from_bytes(data: bytes) -> tuple[str | None, Undo, dict[str, Changes]]:
    """What `to_bytes` was given."""
    at = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    head = json.loads(data[_LENGTH:at])
    rows: dict[str, Changes] = {}
    for digest, arity, length in head["results"]:
        rows[digest] = _rows(data[at : at + length], arity)
        at += length

    def read(columns: Sequence[tuple[str, int]]) -> tuple[Any, ...]:
        nonlocal at
        found = []
        for kind, length in columns:
            found.append(np.frombuffer(data, _TYPES[kind], length, at).copy())
            at += 8 * length
        return tuple(found)

    undo = [
        (str(store), Contents(read(keys), tuple(read(number) for number in numbers)), bool(replaced))
        for store, replaced, keys, numbers in head["steps"]
    ]
    return head["before"], undo, rows
