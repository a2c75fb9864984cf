"""The state of view trees as rows of keys and text, for snapshots.

Numbers are written so that they are read back bit by bit: Python writes a double with as many digits as that takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from viewlet.errors import InternalError
from viewlet.rings import Dyadic
from viewlet.rings.factorised import Choices
from viewlet.types import Row

Rows = Iterable[tuple[Row, tuple[Any, ...]]]


def to_rows(entries: Mapping[Row, Any]) -> Iterator[tuple[Row, tuple[str]]]:
    """Keys with their payloads as text."""
    return ((row, (json.dumps(_encoded(payload)),)) for row, payload in entries.items())


def of_rows(rows: Rows) -> dict[Row, Any]:
    """What `to_rows` was given."""
    return {row: _decoded(json.loads(text)) for row, (text,) in rows}


def _encoded(payload: Any) -> Any:
    if isinstance(payload, Choices):
        return [
            "choices",
            [
                [level, payload.totals[level], [[list(value), n] for value, n in block.items()]]
                for level, block in payload.blocks.items()
            ],
        ]
    from viewlet.rings.cofactor import Cofactor

    if isinstance(payload, Cofactor):
        blocks = [[at, [_number(number) for number in block.tolist()]] for at, block in payload.blocks.items()]
        return ["cofactor", payload.variables, blocks, payload.origins]
    raise InternalError(f"{type(payload).__name__} payloads cannot be written to a state")


def _decoded(known: Any) -> Any:
    if known[0] == "choices":
        blocks = {level: {tuple(value): n for value, n in block} for level, _, block in known[1]}
        return Choices(blocks, {level: total for level, total, _ in known[1]})
    import numpy as np

    from viewlet.rings.cofactor import Cofactor

    _, variables, written, *origins = known  # earlier versions had sums about zero only
    found = {}
    for at, numbers in written:
        rounded = all(isinstance(number, float) for number in numbers)
        block: Any = np.empty(len(numbers), dtype=np.float64 if rounded else object)
        block[:] = [_read(number) for number in numbers]
        found[tuple((place, value) for place, value in at)] = block
    return Cofactor(tuple(variables), found, tuple(*origins))


def _number(number: Any) -> Any:
    """A double as it is; exact numbers as their type and parts, so that the two are told apart."""
    match number:
        case float():
            return number
        case Dyadic(mantissa, exponent):
            return ["d", mantissa, exponent]
        case Fraction():
            return ["f", number.numerator, number.denominator]
        case _:
            return ["i", int(number)]


def _read(number: Any) -> Any:
    match number:
        case ["d", mantissa, exponent]:
            return Dyadic(mantissa, exponent)
        case ["f", numerator, denominator]:
            return Fraction(numerator, denominator)
        case ["i", whole]:
            return whole
        case _:
            return number
