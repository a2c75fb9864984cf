"""The inputs of one stage as a log record, with which the stage can be replayed on the state before it.

    record ::= length of the head (4 bytes), head (JSON), checksum of the head (4 bytes), shares
    head   ::= token, what each unit runs, what it loads, bytes in files beside the log, and of every share: unit,
               partition, length and checksum
    share  ::= length of the list (4 bytes), list (JSON) of unit, target, partition (-1 for all of them) and length of
               every piece (or its range of a file, see `moves`, or where contents that come again begin, and their
               length), contents of the pieces; all of it compressed

A share is what one unit gets in one partition, so that replaying a partition reads no more than that and the head.
Contents that several units get in a partition are in a share without a unit, once. Shares of a small record would be
mostly overhead: it has one share without unit and partition. Earlier versions wrote no list of shares and no checksum,
but one share after the length of what it compresses.

The token names the version of the state after the stage. Every attempt at a batch uses a new token, so that state left
by a failed attempt is never mistaken for the committed one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewlet.runtime.durable.compression import packed, unpacked
from viewlet.spark.run.exchange.file_range import FileRange

EVERYWHERE = -1
DRIVER = -2
SMALL_RECORD = 16 << 10
"""Bytes of contents up to which a record has one share for everybody."""
_LENGTH = 4
_RANGE_BYTES = 100
"""About what the list says of a piece that is in a file."""

Blob = bytes | memoryview
Sent = Blob | FileRange
"""Contents, or where they are."""
Piece = tuple[str, str, int, Sent]
"""A unit, a temporary of it, a partition (or `EVERYWHERE`, or `DRIVER`), and contents for it."""
Delivery = dict[str, list[Blob]]
"""What a unit gets in one place: by temporary, contents to be added up."""
SentDelivery = dict[str, list[Sent]]
"""The same before it is fetched from files."""
SentDeliveries = dict[str, SentDelivery]
"""The same for several units."""


@dataclass(slots=True)
class Shipment:
    """The data sent to the workers, by unit, temporary and partition."""

    parts: dict[tuple[str, str, int], list[Sent]] = field(default_factory=dict)

    def add(self, unit: str, target: str, partition: int, contents: Sent) -> None:
        if len(contents):
            self.parts.setdefault((unit, target, partition), []).append(contents)

    def inline_bytes(self, partitions: int) -> int:
        """The contents that `deliveries` would hold."""
        return sum(
            (partitions if partition == EVERYWHERE else 1) * sum(map(_inline_size, contents))
            for (_, _, partition), contents in self.parts.items()
        )

    def deliveries(self, partitions: int) -> list[SentDeliveries]:
        found: list[SentDeliveries] = [{} for _ in range(partitions)]
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


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a record: `size` bytes from `at` on, counted from the beginning of the record."""

    unit: str | None
    partition: int | None
    at: int
    size: int
    checksum: int

    def concerns(self, unit: str, partition: int) -> bool:
        return self.unit in (None, unit) and self.partition in (None, partition, EVERYWHERE)

    def is_whole(self, data: Blob) -> bool:
        return len(data) == self.size and zlib.crc32(data) == self.checksum


def write_step(head: StepHead, pieces: Mapping[tuple[str, str, int], Sequence[Sent]]) -> bytes:
    flat = [(*place, contents) for place, several in pieces.items() for contents in several]
    groups: dict[tuple[str | None, int | None], list[Piece]] = {}
    is_small = sum(_inline_size(contents) for *_, contents in flat) <= SMALL_RECORD
    shared = _shared(flat)
    for piece in flat:
        unit, _, partition, contents = piece
        owner = None if (partition, contents) in shared else unit
        groups.setdefault((None, None) if is_small else (owner, partition), []).append(piece)
    shares = [packed(_write_share(group)) for group in groups.values()]
    listed = [[*place, len(share), zlib.crc32(share)] for place, share in zip(groups, shares, strict=True)]
    known = {"token": head.token, "stages": [stage.to_json() for stage in head.stages], "loads": head.loads}
    beside = sum(len(contents) for *_, contents in flat if isinstance(contents, FileRange))
    first = _with_length({**known, "bytes_beside": beside, "shares": listed})
    return b"".join((first, zlib.crc32(first).to_bytes(_LENGTH, "little"), *shares))


def read_head(payload: Blob) -> StepHead:
    known, _ = _read_json(memoryview(payload))
    return StepHead(known["token"], tuple(map(UnitStage.of_json, known["stages"])), known["loads"])


def layout(payload: Blob) -> tuple[int | None, int]:
    """How many bytes of a record tell where its shares are, and how many bytes are in files that it refers to.

    None for the first if reading the head alone would save nothing.
    """
    known, _ = _read_json(memoryview(payload))
    is_split = all(partition is not None for _, partition, *_ in known.get("shares", [[None, None]]))
    return _end_of_head(payload) if is_split else None, int(known.get("bytes_beside", 0))


def read_shares(start: Blob) -> list[Share] | None:
    """The shares of the record that begins with these bytes.

    None if this is no head that lists any: it is damaged, or an earlier version wrote it.
    """
    at = _end_of_head(start)
    if len(start) < at or zlib.crc32(start[: at - _LENGTH]) != int.from_bytes(start[at - _LENGTH : at], "little"):
        return None
    known, _ = _read_json(memoryview(start))
    found = []
    for unit, partition, size, checksum in known["shares"]:
        found.append(Share(unit, partition, at, size, checksum))
        at += size
    return found


def read_step(payload: Blob, unit: str, partition: int) -> SentDelivery:
    """What a unit was given in one partition."""
    shares = read_shares(payload)
    if shares is None:
        _, rest = _read_json(memoryview(payload))
        return read_contents([rest], unit, partition)
    view = memoryview(payload)
    wanted = [view[share.at : share.at + share.size] for share in shares if share.concerns(unit, partition)]
    return read_contents(wanted, unit, partition)


def read_contents(shares: Iterable[Blob], unit: str, partition: int) -> SentDelivery:
    """What a unit was given in one partition, from the bytes of some shares."""
    found: SentDelivery = {}
    for share in shares:
        listed, contents = _read_json(memoryview(unpacked(share)))
        at = 0
        for owner, target, part, what in listed:
            if owner == unit and part in (partition, EVERYWHERE):
                found.setdefault(target, []).append(_sent(contents, at, what))
            at += what if isinstance(what, int) else 0
    return found


def _sent(contents: memoryview, at: int, what: int | list[Any]) -> Sent:
    """A piece of a share; its contents begin there if they come for the first time."""
    if isinstance(what, int):
        return contents[at : at + what]
    if len(what) == 2:
        first, size = what
        return contents[first : first + size]
    return FileRange(*what)


def _shared(pieces: Iterable[Piece]) -> set[tuple[int, Sent]]:
    """Contents that several units get in the same partition."""
    owners: dict[tuple[int, Sent], str] = {}
    found: set[tuple[int, Sent]] = set()
    for unit, _, partition, contents in pieces:
        if not isinstance(contents, FileRange) and owners.setdefault((partition, contents), unit) != unit:
            found.add((partition, contents))
    return found


def _write_share(pieces: Sequence[Piece]) -> bytes:
    listed: list[list[Any]] = []
    blobs: list[Blob] = []
    places: dict[Blob, int] = {}
    at = 0
    for unit, target, partition, contents in pieces:
        if isinstance(contents, FileRange):
            told: int | list[Any] = [contents.file, contents.at, contents.size, contents.checksum]
        elif contents in places:
            told = [places[contents], len(contents)]
        else:
            places[contents], told = at, len(contents)
            blobs.append(contents)
            at += len(contents)
        listed.append([unit, target, partition, told])
    return b"".join((_with_length(listed), *blobs))


def _inline_size(contents: Sent) -> int:
    return _RANGE_BYTES if isinstance(contents, FileRange) else len(contents)


def _end_of_head(start: Blob) -> int:
    return 2 * _LENGTH + int.from_bytes(start[:_LENGTH], "little")


def _with_length(known: object) -> bytes:
    text = json.dumps(known, separators=(",", ":")).encode()
    return len(text).to_bytes(_LENGTH, "little") + text


def _read_json(data: memoryview) -> tuple[Any, memoryview]:
    """What `_with_length` wrote, and what follows it."""
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    return json.loads(bytes(data[_LENGTH:end])), data[end:]
