"""Contents of flat stores as bytes, column by column: the format of `wire` without a Python object per row.

Columns that `wire` would write as text (sums beyond 64 bits, sums of doubles) go through Python one value at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.codegen.node import CompiledNode, Contents
from viewlet.codegen.process import number_words
from viewlet.rings import Dyadic
from viewlet.runtime.arithmetic import NULL
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.runtime.wide import from_words
from viewlet.spark.run.exchange.placement import NULL_WORD, partitions_of_words, text_word
from viewlet.spark.run.exchange.wire import bytes_table, table_bytes
from viewlet.types import Kind, SqlType

Words = Any


def encode_contents(node: CompiledNode, store: str, contents: Contents) -> bytes:
    """The bytes of rows of a store; none for no rows."""
    if not len(contents):
        return b""
    kinds = node.stores[store].layout.kinds
    columns = [_key_column(node, words, type) for words, type in zip(contents.keys, node.key_types(store), strict=True)]
    names = [f"key{i}" for i in range(len(columns))]
    plain = [_plain_number(kind, words) for kind, words in zip(kinds, contents.numbers, strict=True)]
    if all(column is not None for column in plain):
        names += [f"value{i}" for i in range(len(plain))]
        schema = {b"rows": str(len(contents)).encode()}
        return table_bytes(pa.table([*columns, *plain], names=names).replace_schema_metadata(schema))
    keys = [column.to_pylist() for column in columns]
    numbers = [numbers_of(kind, words) for kind, words in zip(kinds, contents.numbers, strict=True)]
    rows = zip(zip(*keys, strict=True) if keys else [()] * len(contents), zip(*numbers, strict=True), strict=True)
    return table_bytes(to_arrow(rows, len(keys), len(numbers)))


def decode_contents(node: CompiledNode, store: str, blob: bytes | memoryview) -> Contents:
    """The rows that some bytes are."""
    table = bytes_table(blob)
    types, kinds = node.key_types(store), node.stores[store].layout.kinds
    if any((field.metadata or {}).get(b"held") for field in table.schema):
        rows = from_arrow(table, len(types))
        keys = tuple(node.encode(type, [key[i] for key, _ in rows]) for i, type in enumerate(types))
        numbers = tuple(number_words(kind, [payload[i] for _, payload in rows]) for i, kind in enumerate(kinds))
        return Contents(keys, numbers)
    keys = tuple(_key_words(node, table.column(i), type) for i, type in enumerate(types))
    found = [table.column(len(types) + i).to_numpy() for i in range(len(kinds))]
    return Contents(keys, tuple(_plain_words(kind, column) for kind, column in zip(kinds, found, strict=True)))


def partitions_of(node: CompiledNode, store: str, contents: Contents, positions: Sequence[int], count: int) -> Words:
    """The partition of each row, as `spark.plan.hashing.partition_of` tells it."""
    types = node.key_types(store)
    words = (_hash_words(node, contents.keys[i], types[i]) for i in positions)
    return partitions_of_words(words, len(contents), count)


def _hash_words(node: CompiledNode, words: Words, type: SqlType) -> Words:
    if type.is_float:
        numbers = words.view(np.float64)
        bits = (numbers + 0.0).view(np.uint64)
        return np.where(np.isnan(numbers), NULL_WORD, bits)
    missing = words == NULL
    if type.kind is Kind.VARCHAR:
        codes, places = np.unique(np.where(missing, 0, words), return_inverse=True)
        texts = node.dictionary.texts
        hashes = np.array([text_word(texts[code]) if texts else 0 for code in codes], np.uint64)
        return np.where(missing, NULL_WORD, hashes[places])
    return np.where(missing, NULL_WORD, words.view(np.uint64))


def _key_column(node: CompiledNode, words: Words, type: SqlType) -> Any:
    if type.is_float:
        numbers = words.view(np.float64)
        return pa.array(numbers, mask=np.isnan(numbers))
    missing = words == NULL
    if type.kind is Kind.VARCHAR:
        codes, places = np.unique(np.where(missing, 0, words), return_inverse=True)
        texts = node.dictionary.texts
        known = pa.array([texts[code] if texts else "" for code in codes], pa.large_string())
        return known.take(pa.array(places, mask=missing))
    column = pa.array(words, mask=missing)
    return column.cast(pa.bool_()) if type.kind is Kind.BOOLEAN else column


def _key_words(node: CompiledNode, column: Any, type: SqlType) -> Words:
    column = column.combine_chunks()
    if type.kind is Kind.VARCHAR:
        return node.dictionary.encode_arrow(column.cast(pa.large_string()))
    if type.is_float:
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0  # -0.0 is the key 0.0
        return np.ascontiguousarray(numbers).view(np.int64)
    return np.ascontiguousarray(column.cast(pa.int64()).fill_null(NULL).to_numpy(zero_copy_only=False))


def _plain_number(kind: str, words: tuple[Words, ...]) -> Any:
    """A number as a column of 64-bit integers, if that holds it."""
    if kind == "count":
        return pa.array(words[0])
    if kind == "wide" and bool((words[0] == words[1] >> 63).all()):
        return pa.array(words[1])
    return None


def _plain_words(kind: str, column: Words) -> tuple[Words, ...]:
    if kind == "double":
        return np.ascontiguousarray(column, np.float64), np.zeros(len(column))
    words = np.ascontiguousarray(column, np.int64)
    return (words,) if kind == "count" else (words >> 63, words)


def numbers_of(kind: str, words: tuple[Words, ...]) -> list[Any]:
    """The numbers of a field as Python has them."""
    if kind == "count":
        return list(map(int, words[0]))
    if kind == "wide":
        return [from_words(high, low) for high, low in zip(words[0], words[1], strict=True)]
    return [Dyadic.of(float(a)) + Dyadic.of(float(b)) for a, b in zip(words[0], words[1], strict=True)]
