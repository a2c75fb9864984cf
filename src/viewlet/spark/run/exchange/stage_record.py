"""The inputs of one stage as a log record, with which the stage can be replayed on the state before it.

    record ::= length of the head (4 bytes), head (JSON), length of the body (8 bytes), body (compressed)
    head   ::= token, what each unit runs, what it loads
    body   ::= length of the list (4 bytes), list (JSON) of unit, target, partition (-1 for all of them) and length of
               every piece, contents of the pieces

The token names the version of the state after the stage. Every attempt at a batch uses a new token, so that state left
by a failed attempt is never mistaken for the committed one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewlet.runtime.durable.compression import packed, unpacked

EVERYWHERE = -1
DRIVER = -2
_LENGTH = 4

Blob = bytes | memoryview
Piece = tuple[str, str, int, bytes]
"""A unit, a temporary of it, a partition (or `EVERYWHERE`, or `DRIVER`), and contents for it."""
Delivery = dict[str, list[Blob]]
"""What a unit gets in one place: by temporary, contents to be added up."""
Deliveries = dict[str, Delivery]
"""The same for several units."""


@dataclass(slots=True)
class Shipment:
    """The data sent to the workers, by unit, temporary and partition."""

    parts: dict[tuple[str, str, int], list[Blob]] = field(default_factory=dict)

    def add(self, unit: str, target: str, partition: int, blob: Blob) -> None:
        if len(blob):
            self.parts.setdefault((unit, target, partition), []).append(blob)

    def deliveries(self, partitions: int) -> list[Deliveries]:
        found: list[Deliveries] = [{} for _ in range(partitions)]
        for (unit, target, partition), blobs in self.parts.items():
            for number in range(partitions) if partition == EVERYWHERE else (partition,):
                found[number].setdefault(unit, {}).setdefault(target, []).extend(blobs)
        return found


@dataclass(frozen=True, slots=True)
class UnitStage:
    """The work of a unit in a stage: a block of a plan for the tables that change.

    A batch begins at the first block. The last block checks constraints and reports the changes.
    """

    unit: str
    plan: str
    tables: tuple[str, ...]
    block: int
    first: bool
    last: bool

    def to_json(self) -> list[Any]:
        return [self.unit, self.plan, list(self.tables), self.block, self.first, self.last]

    @staticmethod
    def of_json(known: Sequence[Any]) -> UnitStage:
        unit, plan, tables, block, first, last = known
        return UnitStage(unit, plan, tuple(tables), block, first, last)


@dataclass(frozen=True, slots=True)
class StepHead:
    """The head of a stage; `loads` names, by unit, the files whose contents replace those of its views."""

    token: str
    stages: tuple[UnitStage, ...] = ()
    loads: Mapping[str, Any] = field(default_factory=dict)

    def stage(self, unit: str) -> UnitStage | None:
        return next((stage for stage in self.stages if stage.unit == unit), None)

    def concerns(self, unit: str) -> bool:
        return unit in self.loads or self.stage(unit) is not None


def write_step(head: StepHead, pieces: Mapping[tuple[str, str, int], Sequence[Blob]]) -> bytes:
    flat = [(*place, blob) for place, blobs in pieces.items() for blob in blobs]
    known = {"token": head.token, "stages": [stage.to_json() for stage in head.stages], "loads": head.loads}
    listed = [[*place, len(blob)] for *place, blob in flat]
    body = b"".join((_with_length(listed), *(blob for *_, blob in flat)))
    return _with_length(known) + packed(body)


def read_head(payload: Blob) -> StepHead:
    known, _ = _read_json(memoryview(payload))
    return StepHead(known["token"], tuple(map(UnitStage.of_json, known["stages"])), known["loads"])


def read_step(payload: Blob, unit: str, partition: int) -> Delivery:
    """What a unit was given in one partition."""
    _, rest = _read_json(memoryview(payload))
    listed, contents = _read_json(memoryview(unpacked(rest)))
    found: Delivery = {}
    at = 0
    for owner, target, part, length in listed:
        if owner == unit and part in (partition, EVERYWHERE):
            found.setdefault(target, []).append(contents[at : at + length])
        at += length
    return found


def _with_length(known: object) -> bytes:
    text = json.dumps(known, separators=(",", ":")).encode()
    return len(text).to_bytes(_LENGTH, "little") + text


def _read_json(data: memoryview) -> tuple[Any, memoryview]:
    """What `_with_length` wrote, and what follows it."""
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    return json.loads(bytes(data[_LENGTH:end])), data[end:]
