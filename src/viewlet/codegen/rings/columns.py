"""Values of variables as the words of flat arrays, and back; view trees have no NULLs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.errors import DataError
from viewlet.runtime.dictionary import StringDictionary
from viewlet.types import WORD_DIGITS, Kind, SqlType

Column = npt.NDArray[Any]
_INTEGERS, _DOUBLES = np.dtype(np.int64), np.dtype(np.float64)
_FLOATS = (Kind.REAL, Kind.DOUBLE)


def encode(name: str, type: SqlType, values: Sequence[Any], dictionary: StringDictionary) -> Column:
    """Values as `viewlet.types` holds them as a column: doubles, codes of strings, or integers."""
    wanted: tuple[Any, ...] = (str,) if type.kind is Kind.VARCHAR else (int, np.integer)
    wanted = (int, float, np.integer, np.floating) if type.is_float else wanted
    if wrong := [value for value in values if not isinstance(value, wanted)]:
        raise DataError(f"variable {name!r} is a {type}, and {wrong[0]!r} is not one")
    if type.kind is Kind.VARCHAR:
        return dictionary.encode(list(values))
    try:
        return np.array(values, np.float64 if type.is_float else np.int64)
    except OverflowError as error:
        raise DataError(f"variable {name!r}: a {type} has more than {WORD_DIGITS} digits") from error


def decode(type: SqlType, words: Column, dictionary: StringDictionary) -> list[Any]:
    """Words of keys as values."""
    if type.is_float:
        return list(np.ascontiguousarray(words).view(np.float64).tolist())
    if type.kind is Kind.VARCHAR:
        texts = dictionary.texts
        return [texts[word] for word in words.tolist()]
    numbers: list[Any] = words.tolist()
    return [bool(number) for number in numbers] if type.kind is Kind.BOOLEAN else numbers


def check_column(name: str, type: SqlType, column: Any, rows: int) -> Column:
    """A column as generated code takes it: contiguous, of the right type and length."""
    wanted = _DOUBLES if type.kind in _FLOATS else _INTEGERS
    if not isinstance(column, np.ndarray) or column.dtype != wanted or column.shape != (rows,):
        shape = f"{column.dtype} of shape {column.shape}" if isinstance(column, np.ndarray) else repr(column)
        raise DataError(f"{name!r}, a {type}, takes {rows} values of {wanted.name}, not {shape}")
    return column if column.flags.c_contiguous else np.ascontiguousarray(column)


def encode_arrow(name: str, type: SqlType, column: Any, dictionary: StringDictionary) -> Column:
    """A column of an Arrow table, strings coded and decimals scaled."""
    import pyarrow as pa

    if column.null_count:
        raise DataError(f"variable {name!r} has NULLs, and view trees take none")
    if type.kind is Kind.VARCHAR:
        return dictionary.encode_arrow(column)
    try:
        if type.is_float:
            return np.ascontiguousarray(column.cast(pa.float64()).to_numpy(), np.float64)
        if type.kind is Kind.DECIMAL:
            return _scaled(column.cast(pa.decimal128(38, type.scale)))
        held = {Kind.DATE: pa.date32(), Kind.TIMESTAMP: pa.timestamp("us")}.get(type.kind)
        if held is not None and not pa.types.is_integer(column.type):
            column = column.cast(held)
            column = column.cast(pa.int32()) if type.kind is Kind.DATE else column
        return np.ascontiguousarray(column.cast(pa.int64()).to_numpy(), np.int64)
    except pa.ArrowException as error:
        raise DataError(f"variable {name!r} is a {type}: {error}") from error


def _scaled(column: Any) -> Column:
    """The integers of decimals that fit a word: the low halves of their 128 bits."""
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    words = [np.frombuffer(chunk.buffers()[1], np.int64)[2 * chunk.offset :][: 2 * len(chunk)] for chunk in chunks]
    halves = np.concatenate(words or [np.empty(0, np.int64)]).reshape(-1, 2)
    if (halves[:, 1] != halves[:, 0] >> 63).any():
        raise DataError(f"a decimal has more than {WORD_DIGITS} digits")
    return np.ascontiguousarray(halves[:, 0])
