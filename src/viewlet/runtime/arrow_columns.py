"""Columns of words as Arrow, without a Python object per value; the inverse of `viewlet.runtime.columns`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from viewlet.changes import ColumnChange, arrow_type
from viewlet.changes.arrow import one_piece
from viewlet.changes.word_codec import NULL, Codes
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.durable.rows import is_text
from viewlet.types import Kind, SqlType, Table

Words = Any


def sorted_arrow(change: ColumnChange) -> Any:
    """The rows that a change inserts, each as often as its multiplicity says, sorted by all columns, NULLs last."""
    import pyarrow as pa

    columns = change.table.columns
    keys: list[Words] = []
    for i, column in enumerate(columns):
        if i in change.texts:
            words = _text_ranks(change.texts[i])
            absent = words == NULL
        else:
            words, absent = change.words[i], _absent(column.type, change.words[i])
        if absent.any():
            keys.append(absent)
        is_coded = column.type.kind is Kind.VARCHAR and i not in change.texts
        keys.append(_ranks(words, change.dictionary) if is_coded else words)
    order = np.lexsort(keys[::-1])
    order = np.repeat(order, change.multiplicity[order])
    arrays = [
        change.texts[i].take(pa.array(order)).cast(pa.string())
        if i in change.texts
        else arrow_column(column.type, change.words[i][order], change.dictionary)
        for i, column in enumerate(columns)
    ]
    fields = [pa.field(column.name, arrow_type(column.type)) for column in columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def held_arrow(change: ColumnChange) -> Any:
    """The rows that a change inserts, as `viewlet.runtime.durable.rows.to_arrow` writes them."""
    import pyarrow as pa

    arrays = {
        f"key{i}": change.texts[i].cast(pa.large_string())
        if i in change.texts
        else held_column(column.type, change.words[i], change.dictionary)
        for i, column in enumerate(change.table.columns)
    }
    made = pa.table(arrays | {"value0": pa.array(change.multiplicity)})
    return made.replace_schema_metadata({b"rows": str(len(change)).encode()})


def held_column(type: SqlType, words: Words, dictionary: Codes) -> Any:
    """A column of words as `viewlet.runtime.durable.rows.to_arrow` writes its values."""
    import pyarrow as pa

    if type.kind is Kind.VARCHAR:
        return arrow_column(type, words, dictionary).cast(pa.large_string())
    return pa.array(words == 1 if type.kind is Kind.BOOLEAN else words, mask=_absent(type, words))


def held_change(
    table: Table, held: Any, dictionary: StringDictionary, texts: Collection[int] = ()
) -> ColumnChange | None:
    """The change that inserts the rows of `held_arrow`, without a Python object per value.

    Columns of strings at the positions `texts` stay strings. None if a value does not fit a word: a number of more than
    64 bits, or the word that means NULL.
    """
    import pyarrow as pa

    if any(map(is_text, held.schema)):
        return None
    words: dict[int, Words] = {}
    strings: dict[int, Any] = {}
    for i, column in enumerate(table.columns):
        if i in texts:
            strings[i] = one_piece(held.column(i).cast(pa.large_string()))
            continue
        words[i] = held_words(column.type, held.column(i), dictionary)
        if int(np.count_nonzero(_absent(column.type, words[i]))) != held.column(i).null_count:
            return None
    multiplicity = np.ascontiguousarray(held.column(len(table.columns)).to_numpy())
    return ColumnChange(words, multiplicity, table, dictionary, strings)


def held_words(type: SqlType, column: Any, dictionary: StringDictionary) -> Words:
    """The words of what `held_column` made; one that has nothing but NULLs is held as integers, whatever its type."""
    import pyarrow as pa

    if type.kind is Kind.VARCHAR:
        return dictionary.encode_arrow(column.cast(pa.large_string()))
    if type.is_float:
        return column.cast(pa.float64()).to_numpy() + 0.0  # NULL is NaN, and there is no -0.0
    return np.ascontiguousarray(column.cast(pa.int64()).fill_null(NULL).to_numpy())


def arrow_column(type: SqlType, words: Words, dictionary: Codes) -> Any:
    """The values of words as an Arrow array of their type."""
    import pyarrow as pa

    target, absent = arrow_type(type), _absent(type, words)
    match type.kind:
        case Kind.VARCHAR:
            codes, numbers = np.unique(words, return_inverse=True)
            texts = pa.array([None if code == NULL else dictionary.texts[code] for code in codes.tolist()], target)
            return texts.take(pa.array(numbers))
        case Kind.DECIMAL:
            pairs = np.empty((len(words), 2), np.int64)
            pairs[:, 0], pairs[:, 1] = words, words >> 63
            valid = pa.array(~absent).buffers()[1] if absent.any() else None
            return pa.Array.from_buffers(target, len(words), [valid, pa.py_buffer(pairs)])
        case Kind.DATE:
            return pa.array(words.astype(np.int32), mask=absent).cast(target)
        case Kind.BOOLEAN:
            return pa.array(words == 1, mask=absent)
        case Kind.TIMESTAMP:
            return pa.array(words, mask=absent).cast(target)
        case _:
            return pa.array(words.astype(target.to_pandas_dtype()), mask=absent)


def _absent(type: SqlType, words: Words) -> Words:
    return np.isnan(words) if type.is_float else words == NULL


def _text_ranks(texts: Any) -> Words:
    """The places of strings among all of them when sorted, NULL for NULL: the order of bytes is that of characters."""
    import pyarrow.compute as pc

    encoded = texts.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order) + 1, np.int64)
    ranks[order], ranks[-1] = np.arange(len(order)), NULL
    return ranks[encoded.indices.fill_null(-1).to_numpy()]


def _ranks(codes: Words, dictionary: Codes) -> Words:
    """The places of strings among all of them when sorted."""
    found, numbers = np.unique(codes, return_inverse=True)
    texts = ["" if code == NULL else dictionary.texts[code] for code in found.tolist()]
    ranks = np.empty(len(texts), np.int64)
    ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return ranks[numbers]
