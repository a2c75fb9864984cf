"""Errors of tasks on their way to the driver: the name of a class of ours and its text, never an object.

>>> str(from_bytes(to_bytes(DataError("a sum overflows its type"))))
'a sum overflows its type'
"""

from __future__ import annotations

import json

from viewlet.errors import (
    DataError,
    InternalError,
    MissingExtraError,
    SchemaError,
    SqlError,
    StateError,
    UnsupportedError,
    ViewletError,
)

_FAMILY: dict[str, type[ViewletError]] = {
    kind.__name__: kind
    for kind in (ViewletError, SqlError, SchemaError, DataError, StateError, MissingExtraError, InternalError)
}


def to_bytes(error: ViewletError) -> bytes:
    if isinstance(error, UnsupportedError):
        facts = {"construct": error.construct, "hint": error.hint, "stage": error.stage}
    else:
        kind = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _FAMILY)
        facts = {"kind": kind, "message": str(error)}
    return json.dumps(facts).encode()


def from_bytes(data: bytes) -> ViewletError:
    facts = json.loads(data)
    if "construct" in facts:
        return UnsupportedError(facts["construct"], facts["hint"], facts["stage"])
    return _FAMILY[facts["kind"]](facts["message"])
