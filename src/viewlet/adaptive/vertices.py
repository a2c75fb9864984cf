"""Values of variables that stand for several columns, as one text each.

    (3, 'x')  ->  '[3,"x"]'

A text is what every engine can keep as a value: flat arrays have its code in the dictionary of strings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from viewlet.algebra.functions import compile_scalar
from viewlet.algebra.nodes import Call, Scalar
from viewlet.algebra.triangle_query import PACK
from viewlet.types import Datum, Row

Reader = Callable[[Mapping[str, Datum]], Datum]


def pack(values: Row) -> Datum:
    """One value for several; a NULL among them makes it NULL."""
    return None if None in values else json.dumps(values, separators=(",", ":"))


def unpack(value: Datum) -> Row:
    """The values that a text was made of."""
    return tuple(json.loads(value))  # type: ignore[arg-type]


def last_of(value: Datum, count: int) -> Datum:
    """The last columns of a packed value, packed if they are several."""
    values = unpack(value)[-count:]
    return values[0] if count == 1 else pack(values)


def compile_variable(scalar: Scalar) -> Reader:
    """A function from the columns of a row to the value of a variable."""
    match scalar:
        case Call(op, args, _) if op == PACK:
            reads = [compile_scalar(each) for each in args]
            return lambda environment: pack(tuple([read(environment) for read in reads]))
        case _:
            return compile_scalar(scalar)
