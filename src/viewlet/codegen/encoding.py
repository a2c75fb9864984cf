"""Single values as the words of generated code, and back."""

from __future__ import annotations

import struct

from viewlet.changes.word_codec import too_wide
from viewlet.runtime.arithmetic import NULL
from viewlet.runtime.dictionary import StringDictionary
from viewlet.types import Datum, Kind, SqlType

_WORD = 1 << 63


def word_of(value: Datum, type: SqlType, dictionary: StringDictionary) -> int:
    """The word of a value: the bits of a double, the code of a string."""
    if type.is_float:
        bits: int = struct.unpack("<q", struct.pack("<d", float("nan") if value is None else value))[0]
        return bits
    if value is None:
        return NULL
    if isinstance(value, str):
        return dictionary.code(value)
    if not -_WORD < value < _WORD:
        raise too_wide(type)
    return int(value)


def decode(word: int, type: SqlType, dictionary: StringDictionary) -> Datum:
    """The value of a word."""
    if type.is_float:
        number: float = struct.unpack("<d", struct.pack("<q", word))[0]
        return None if number != number else number
    if word == NULL:
        return None
    if type.kind is Kind.VARCHAR:
        return dictionary.texts[word]
    return bool(word) if type.kind is Kind.BOOLEAN else int(word)
