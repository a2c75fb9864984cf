"""The progress of a batch as bytes in a file, with which another process continues the batch or rolls it back.

    length of the head | head (JSON) | arrays, one after another

The bytes hold only numbers and names; reading them never runs code.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from viewlet.codegen.node import Contents, Images, Undo

FORMAT = "rows of views before"
"""Says what the bytes look like: state beside bytes of another format is not used."""
_LENGTH = 8
_TYPES = {"i": np.int64, "f": np.float64}


def to_bytes(before: str | None, undo: Undo, images: Images) -> bytes:
    """`before` is the version before the batch, `images` are rows at that version, where they are needed."""
    arrays: list[Any] = []

    def listed(columns: Sequence[Any]) -> list[list[Any]]:
        arrays.extend(np.ascontiguousarray(column) for column in columns)
        return [[column.dtype.kind, len(column)] for column in columns]

    steps = [
        [store, replaced, listed(contents.keys), [listed(number) for number in contents.numbers]]
        for store, contents, replaced in undo
    ]
    rows = [[store, list(image.shape)] for store, held in images.items() for image in held]
    arrays += [np.ascontiguousarray(image) for held in images.values() for image in held]
    head = json.dumps({"before": before, "steps": steps, "rows": rows}).encode()
    return b"".join([len(head).to_bytes(_LENGTH, "little"), head, *(array.tobytes() for array in arrays)])


def from_bytes(data: bytes) -> tuple[str | None, Undo, Images]:
    """What `to_bytes` was given."""
    at = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    head = json.loads(data[_LENGTH:at])

    def read(columns: Sequence[tuple[str, int]]) -> tuple[Any, ...]:
        nonlocal at
        found = []
        for kind, length in columns:
            found.append(np.frombuffer(data, _TYPES[kind], length, at).copy())
            at += 8 * length
        return tuple(found)

    undo = [
        (str(store), Contents(read(keys), tuple(read(number) for number in numbers)), bool(replaced))
        for store, replaced, keys, numbers in head["steps"]
    ]
    images: Images = {}
    for store, (count, width) in head["rows"]:
        (words,) = read([("i", count * width)])
        images.setdefault(str(store), []).append(words.reshape(count, width))
    return head["before"], undo, images
