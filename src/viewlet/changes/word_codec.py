"""Values as the 64-bit words of generated code, a column at a time, and back.

A word is an int64, the smallest one for NULL, or for REAL and DOUBLE a float64, NaN for NULL. The word of a string is
its code in a dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from viewlet.errors import DataError
from viewlet.types import Datum, Kind, SqlType

if TYPE_CHECKING:
    from viewlet.changes.change import ColumnChange

NULL = -(2**63)
LIMIT = 2**63


class Codes(Protocol):
    """The dictionary of a connection, which gives every string a code."""

    texts: list[str | None]

    def encode(self, texts: Sequence[str | None]) -> Any:
        """The codes of strings, as an array; new strings get one."""

    def encode_arrow(self, column: Any) -> Any:
        """The codes of an Arrow column of strings."""

    def add_change(self, change: ColumnChange) -> None:
        """Codes in this change stay in use while it lives."""


def encode_words(type: SqlType, values: Sequence[Datum], dictionary: Codes) -> Any:
    """The words of values, as an array that generated code may write to."""
    if len(values) == 1:
        return _encode_one(type, values[0], dictionary)
    if type.kind is Kind.VARCHAR:
        return dictionary.encode(values)  # type: ignore[arg-type]
    if type.is_float:
        return np.array([np.nan if value is None else value for value in values], np.float64) + 0.0  # no -0.0
    try:
        words = np.array([NULL if value is None else value for value in values], np.int64)
    except OverflowError as error:
        raise too_wide(type) from error
    if int(np.count_nonzero(words == NULL)) != values.count(None):
        raise too_wide(type)
    return words


def _encode_one(type: SqlType, value: Datum, dictionary: Codes) -> Any:
    """The word of a single value, as an array."""
    if type.kind is Kind.VARCHAR:
        return dictionary.encode((value,))  # type: ignore[arg-type]
    if type.is_float:
        return np.array((np.nan if value is None else value + 0.0,), np.float64)  # type: ignore[operator]
    if value is None:
        return np.array((NULL,), np.int64)
    if not -LIMIT < value < LIMIT:  # type: ignore[operator]
        raise too_wide(type)
    return np.array((value,), np.int64)


def decode_words(type: SqlType, words: Any, dictionary: Codes) -> list[Datum]:
    """The values of words."""
    held = words.tolist()
    if type.is_float:
        return [None if word != word else word for word in held]
    if type.kind is Kind.VARCHAR:
        texts = dictionary.texts
        return [None if word == NULL else texts[word] for word in held]
    if type.kind is Kind.BOOLEAN:
        return [None if word == NULL else bool(word) for word in held]
    return [None if word == NULL else word for word in held]


def too_wide(number: SqlType | str) -> DataError:
    """The error for a number that does not fit a word."""
    return DataError(f"a {number} does not fit the 64-bit words of the compiled engine; connect(engine='interpreter')")
