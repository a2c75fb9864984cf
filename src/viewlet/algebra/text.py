"""Functions of strings: LIKE, substrings, trimming."""

from __future__ import annotations

import operator
import re
from functools import lru_cache

from viewlet.algebra.scalar_function import Function, simple
from viewlet.errors import DataError


@lru_cache(maxsize=1024)
def _pattern(pattern: str, escape: str, flags: int) -> re.Pattern[str]:
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            following = next(characters, None)
            if following is None:
                raise DataError(f"LIKE pattern '{pattern}' ends in its escape character")
            parts.append(re.escape(following))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL | flags)


def _like(flags: int) -> Function:
    def like(value: str, pattern: str, escape: str = "") -> bool:
        return _pattern(pattern, escape, flags).fullmatch(value) is not None

    return simple(like)


def _substring(value: str, start: int, length: int | None = None) -> str:
    """Positions count from 1; a negative start counts from the end."""
    if start < 0:
        start = max(len(value) + start, 0) + 1 if -start <= len(value) else len(value) + start + 1
    begin = start - 1
    end = len(value) if length is None else begin + length
    if length is not None and length < 0:
        begin, end = end, begin
    return value[max(begin, 0) : max(end, 0)]


def _left(value: str, count: int) -> str:
    return value[:count] if count >= 0 else value[: max(len(value) + count, 0)]


def _right(value: str, count: int) -> str:
    return value[len(value) - min(count, len(value)) :] if count >= 0 else value[-count:]


def _concat(*values: str | None) -> str:
    return "".join(value for value in values if value is not None)


TEXTUAL: dict[str, Function] = {
    "like": _like(0),
    "ilike": _like(re.IGNORECASE),
    "substring": simple(_substring),
    "upper": simple(str.upper),
    "lower": simple(str.lower),
    "trim": simple(lambda value, characters=" ": value.strip(characters)),
    "ltrim": simple(lambda value, characters=" ": value.lstrip(characters)),
    "rtrim": simple(lambda value, characters=" ": value.rstrip(characters)),
    "length": simple(len),
    "position": simple(lambda value, part: value.find(part) + 1),
    "contains": simple(lambda value, part: part in value),
    "starts_with": simple(str.startswith),
    "ends_with": simple(str.endswith),
    "replace": simple(lambda value, old, new: value.replace(old, new) if old else value),
    "left": simple(_left),
    "right": simple(_right),
    "reverse": simple(lambda value: value[::-1]),
    "concat": simple(_concat, strict=False),
    "||": simple(operator.add),
}
