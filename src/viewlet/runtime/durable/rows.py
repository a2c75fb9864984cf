"""Rows with payloads as Arrow, whatever values they hold.

A column is of the Arrow type that holds its values as they are: integers of 64 bits, doubles, booleans or strings. One
with larger integers, with exact sums of doubles, or with values of several types is written as text, each value with a
letter for its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from viewlet.errors import InternalError
from viewlet.rings import Dyadic
from viewlet.types import Row

Payload = tuple[Any, ...]
_HELD = b"held"
_AS_TEXT = {_HELD: b"text"}
_PLAIN: dict[type, Any] = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.large_string()}


def to_arrow(rows: Iterable[tuple[Row, Payload]], arity: int, width: int) -> Any:
    """A pyarrow Table of keys with `arity` values, followed by payloads with `width` numbers."""
    flat = [key + payload for key, payload in rows]
    columns: Sequence[Sequence[Any]] = list(zip(*flat, strict=True)) or [()] * (arity + width)
    names = [f"key{i}" for i in range(arity)] + [f"value{i}" for i in range(width)]
    encoded = [_encode(name, values) for name, values in zip(names, columns, strict=True)]
    schema = pa.schema([held for held, _ in encoded], {b"rows": str(len(flat)).encode()})
    return pa.Table.from_arrays([array for _, array in encoded], schema=schema)


def from_arrow(table: Any, arity: int) -> list[tuple[Row, Payload]]:
    """What `to_arrow` was given."""
    if not table.num_columns:
        return [((), ())] * int(table.schema.metadata[b"rows"])
    columns = [values_of(table.schema.field(i), table.column(i)) for i in range(table.num_columns)]
    return [(flat[:arity], flat[arity:]) for flat in zip(*columns, strict=True)]


def _encode(name: str, values: Sequence[Any]) -> tuple[Any, Any]:
    kinds = set(map(type, values)) - {type(None)}
    kind = kinds.pop() if len(kinds) == 1 else int if not kinds else None
    target = _PLAIN.get(kind) if kind is not None else None
    if target is not None:
        try:
            return pa.field(name, target), pa.array(values, target)
        except (OverflowError, pa.ArrowInvalid):  # an integer of more than 64 bits
            pass
    return as_text(name, values)


def as_text(name: str, values: Iterable[Any]) -> tuple[Any, Any]:
    """A column that no Arrow type holds as it is: its field, and its values as text."""
    text = pa.large_string()
    return pa.field(name, text, metadata=_AS_TEXT), pa.array([_write(value) for value in values], text)


def is_text(held: Any) -> bool:
    """Whether a field is one of those."""
    return (held.metadata or {}).get(_HELD) == _AS_TEXT[_HELD]


def values_of(held: Any, column: Any) -> list[Any]:
    """The values of a column, however its field says they are held."""
    values: list[Any] = column.to_pylist()
    if not is_text(held):
        return values
    return [None if text is None else _READ[text[0]](text[1:]) for text in values]


def _write(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return f"b{int(value)}"
        case int():
            return f"i{value:x}"  # decimal digits would take quadratic time
        case float():
            return f"f{value.hex()}"
        case str():
            return f"s{value}"
        case Dyadic(mantissa, exponent):
            return f"d{mantissa:x}*{exponent}"
        case _:
            raise InternalError(f"{value!r} cannot be written to a state")


def _dyadic(text: str) -> Dyadic:
    mantissa, _, exponent = text.partition("*")
    return Dyadic(int(mantissa, 16), int(exponent))


_READ: dict[str, Callable[[str], Any]] = {
    "b": lambda text: text == "1",
    "i": lambda text: int(text, 16),
    "f": float.fromhex,
    "s": str,
    "d": _dyadic,
}
