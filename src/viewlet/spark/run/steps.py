"""What one stage was given, as a record of the log: whoever has the state before the stage can run it again.

    record ::= length of the head (4 bytes), head (JSON), contents ...
    head   ::= token, plan, block, and for every piece: target, partition (-1 for all of them), length, checksum

The token names the version of the state that the stage leads to. It is made up anew for every attempt at a batch, so
that what an attempt that failed has left somewhere is never taken for the real thing.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewlet.errors import StateError

EVERYWHERE = -1
_LENGTH = 4

Blob = bytes | memoryview
Delivery = dict[str, list[Blob]]
"""What one place gets: by temporary, contents to be added up."""


@dataclass(slots=True)
class Freight:
    """What is on its way to the workers: by temporary and partition."""

    parts: dict[tuple[str, int], list[Blob]] = field(default_factory=dict)

    def add(self, target: str, partition: int, blob: Blob) -> None:
        if len(blob):
            self.parts.setdefault((target, partition), []).append(blob)

    def deliveries(self, partitions: int) -> list[Delivery]:
        found: list[Delivery] = [{} for _ in range(partitions)]
        for (target, partition), blobs in self.parts.items():
            for number in range(partitions) if partition == EVERYWHERE else (partition,):
                found[number].setdefault(target, []).extend(blobs)
        return found

    @property
    def bytes(self) -> int:
        return sum(len(blob) for blobs in self.parts.values() for blob in blobs)


@dataclass(frozen=True, slots=True)
class StepHead:
    """Which stage it was: a block of a plan; a batch begins at the first one."""

    token: str
    plan: str
    block: int
    first: bool


def write_step(head: StepHead, pieces: Mapping[tuple[str, int], Sequence[Blob]]) -> bytes:
    flat = [(target, part, blob) for (target, part), blobs in pieces.items() for blob in blobs]
    known = {
        "token": head.token,
        "plan": head.plan,
        "block": head.block,
        "first": head.first,
        "pieces": [[target, part, len(blob), zlib.crc32(blob)] for target, part, blob in flat],
    }
    text = json.dumps(known).encode()
    return b"".join((len(text).to_bytes(_LENGTH, "little"), text, *(blob for _, _, blob in flat)))


def read_head(payload: Blob) -> StepHead:
    known = _known(payload)
    return StepHead(known["token"], known["plan"], known["block"], known["first"])


def read_step(payload: Blob, partition: int, where: str) -> Delivery:
    """What one partition was given."""
    data = memoryview(payload)
    at = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    found: Delivery = {}
    for target, part, length, checksum in _known(payload)["pieces"]:
        if part in (partition, EVERYWHERE):
            blob = bytes(data[at : at + length])
            if zlib.crc32(blob) != checksum:
                raise StateError(f"{where} is damaged: the contents of {target} do not fit their checksum")
            found.setdefault(target, []).append(blob)
        at += length
    return found


def _known(payload: Blob) -> dict[str, Any]:
    data = memoryview(payload)
    length = int.from_bytes(data[:_LENGTH], "little")
    known: dict[str, Any] = json.loads(bytes(data[_LENGTH : _LENGTH + length]))
    return known


def total_bytes(deliveries: Iterable[Delivery]) -> int:
    return sum(len(blob) for delivery in deliveries for blobs in delivery.values() for blob in blobs)
