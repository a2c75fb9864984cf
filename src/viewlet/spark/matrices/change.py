"""A change of a matrix, P += U V' or entries put in place: a record of the log, and work on a block of rows."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from viewlet.linalg.backends.contract import Thin
from viewlet.linalg.backends.numpy_backend import NumpyBackend
from viewlet.linalg.values import Units

Array: TypeAlias = Any
Chosen: TypeAlias = "tuple[Thin, Thin]"


@dataclass(frozen=True, slots=True)
class Add:
    """P += U V'; the factors have as many rows as P has rows and columns."""

    left: Thin
    right: Thin

    def apply(self, block: Array, begin: int, end: int) -> None:
        """Changes the rows from `begin` to `end`, which are the block."""
        left = self.left if isinstance(self.left, Units) else self.left[begin:end]
        chosen = restrict(left, self.right, begin, end)
        if chosen is not None:
            NumpyBackend(block.dtype).sweep(block, chosen, None, None)


@dataclass(frozen=True, slots=True)
class Put:
    """Entries that are replaced: those of some rows and columns, or of all where these are None."""

    rows: Array | None
    columns: Array | None
    values: Array

    def apply(self, block: Array, begin: int, end: int) -> None:
        """Replaces those of the entries that the block has."""
        rows = np.arange(len(self.values)) if self.rows is None else self.rows
        inside = (rows >= begin) & (rows < end)
        columns = np.arange(block.shape[1]) if self.columns is None else self.columns
        block[np.ix_(rows[inside] - begin, columns)] = self.values[inside]


Change: TypeAlias = Add | Put


def restrict(left: Thin, right: Thin, begin: int, end: int) -> Chosen | None:
    """The factors of a change for a block; unit vectors of rows outside it are left out."""
    if not isinstance(left, Units):
        return left, right
    inside = (left.places >= begin) & (left.places < end)
    if not inside.any():
        return None
    kept = Units(end - begin, left.places[inside] - begin)
    if isinstance(right, Units):
        return kept, Units(right.size, right.places[inside])
    return kept, right[:, inside]


# -- records -----------------------------------------------------------------------------------------------------------


def to_record(change: Change, token: str, before: str) -> bytes:
    """A change as bytes: a line of JSON, and arrays of NumPy."""
    parts: dict[str, Any] = {}
    if isinstance(change, Add):
        kind, sizes = "add", {}
        for name, factor in (("left", change.left), ("right", change.right)):
            if isinstance(factor, Units):
                sizes[name] = factor.size
            parts[name] = factor.places if isinstance(factor, Units) else np.asarray(factor)
    else:
        kind, sizes = "put", {}
        parts["values"] = change.values
        parts |= {
            name: places for name, places in (("rows", change.rows), ("columns", change.columns)) if places is not None
        }
    head = json.dumps({"token": token, "before": before, "kind": kind, "sizes": sizes}).encode()
    body = io.BytesIO()
    np.savez(body, **parts)
    return head + b"\n" + body.getvalue()


def read_head(payload: bytes) -> dict[str, Any]:
    """What a record says of itself: the versions before and after it."""
    found: dict[str, Any] = json.loads(bytes(payload).partition(b"\n")[0])
    return found


def from_record(payload: bytes) -> Change:
    """The change that a record holds."""
    head = read_head(payload)
    body = bytes(payload).partition(b"\n")[2]
    with np.load(io.BytesIO(body), allow_pickle=False) as parts:
        if head["kind"] == "put":
            return Put(parts.get("rows"), parts.get("columns"), parts["values"])
        factors = [
            Units(head["sizes"][name], parts[name]) if name in head["sizes"] else parts[name]
            for name in ("left", "right")
        ]
        return Add(*factors)
