"""The catalogue of the view maintainer (section 4.1): relations, their parts, and when each was last updated.

A change is noted with what was there before, so that a batch can be taken back; what was noted is what a commit writes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from viewlet.types import Column, TimeParts


@dataclass(frozen=True, slots=True)
class Segment:
    """A table of a host with rows of a part; a `rolled` one has rows of many parts, told apart by a hidden column."""

    table: str
    rolled: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one part, in segments; `updated` is when they last changed (microseconds, this machine's clock)."""

    segments: tuple[Segment, ...]
    rows: int
    updated: int


EMPTY = Part((), 0, 0)
PENDING = -1
"""The rows of a part whose table is being made, during a batch."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a relation is: parts first..next-1 are closed, and those before `kept` have been deleted.

    `watermark` and `late` are of a stream: the time until which it is complete, and the rows that came too late. No
    part of a view before `since` is computed.
    """

    first: int | None = None
    next: int | None = None
    kept: int | None = None
    watermark: int | None = None
    late: int = 0
    since: int | None = None


@dataclass(slots=True)
class PartRelation:
    """A stream or a stream view with its parts; those that are not stored have no rows."""

    name: str
    columns: tuple[Column, ...]
    parts: TimeParts
    is_stream: bool
    is_aside: bool = False
    """It has the rows of a stream that came too late, in one part."""
    has_taken_names: bool = False
    """The host may have tables that are named as its next ones would be."""
    stored: dict[int, Part] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)

    @property
    def length(self) -> int:
        return self.parts.length

    def is_closed(self, part: int) -> bool:
        """The part is there and complete; parts before the first one are, and have no rows."""
        return self.progress.next is not None and part < self.progress.next

    def part(self, number: int) -> Part:
        return self.stored.get(number, EMPTY)

    def filled(self, numbers: range) -> list[int]:
        """Those of some parts that have rows, in order."""
        if len(numbers) <= len(self.stored):
            return [number for number in numbers if self.part(number).rows]
        return sorted(number for number, part in self.stored.items() if part.rows and number in numbers)

    def closed_parts(self) -> Iterator[int]:
        """The closed parts that are stored, in order."""
        end = self.progress.next
        return iter(sorted(number for number in self.stored if end is not None and number < end))


class Known(Enum):
    """What a host has of a relation that is declared."""

    NOTHING = "nothing of this definition"
    PARTS = "parts that an earlier version has made by other queries"
    ALL = "its parts"


class Catalogue:
    """The relations by name. `epoch` is the last batch that is in the parts."""

    def __init__(self, entries: dict[str, str]) -> None:
        self.relations: dict[str, PartRelation] = {}
        self.epoch = 0
        self.stamp = stamp_of(entries)
        """Tells these parts from older ones, and from those of others (`viewlet.streams.stamps`)."""
        self._digests: dict[str, tuple[str, str | None]] = {}
        self.uses: Counter[str] = Counter()
        """How many parts name a table: a late correction of running totals is a segment of many."""
        self._saved: dict[str, dict[str, Any]] = {}
        """What a host has of relations that are not declared yet."""
        self._saved_parts: dict[str, dict[int, Part]] = {}
        self.dropped: dict[tuple[str, int], Part] = {}
        """Parts of definitions that nobody declares any more, until a commit has removed them."""
        self.archived: dict[str, dict[int, int]] = {}
        """The checksums of the files of parts in the archive, by relation."""
        self._archived_now: set[tuple[str, int]] = set()
        """Those that the batch under way has written."""
        self._before: dict[tuple[str, int], Part | None] = {}
        self._progress_before: dict[str, Progress] = {}
        self._removed: set[str] = set()
        self._epoch_before: int | None = None
        for key, value in entries.items():
            if key != _key("stamp"):
                self._read(json.loads(key), json.loads(value))

    def _read(self, key: list[Any], value: Any) -> None:
        match key:
            case ["epoch"]:
                self.epoch = value
            case ["relation", name]:
                self._saved[name] = value
            case ["archived", name, number]:
                self.archived.setdefault(name, {})[number] = value
            case ["part", name, number]:
                segments = tuple(Segment(table, rolled) for table, rolled in value["segments"])
                part = Part(segments, value["rows"], value["updated"])
                self._saved_parts.setdefault(name, {})[number] = part
                self._count(part, 1)

    def damage(self, rows: Mapping[str, int]) -> str | None:
        """How tables with so many rows differ from what a host has of relations that are not declared yet."""
        shared: Counter[str] = Counter()
        """The rows that parts have in tables of many parts, which may have those of parts that are gone."""
        for name, parts in self._saved_parts.items():
            for number, part in parts.items():
                missing = next((each.table for each in part.segments if each.table not in rows), None)
                if missing is not None:
                    return f"the table {missing!r} of part {number} of {name!r} is missing"
                rolled = [segment.table for segment in part.segments if segment.rolled]
                own = sum(rows[segment.table] for segment in part.segments if not segment.rolled)
                if own > part.rows or (own < part.rows and not rolled):
                    return f"part {number} of {name!r} has {own} rows instead of {part.rows}"
                for table in rolled:
                    shared[table] += part.rows - own
        for table, least in shared.items():
            if rows[table] < least:
                return f"the table {table!r} has {rows[table]} rows instead of {least}"
        strange = next((table for table in rows if table not in self.uses), None)
        return None if strange is None else f"the table {strange!r} belongs to no part"

    def _count(self, part: Part | None, sign: int) -> None:
        for segment in () if part is None else part.segments:
            self.uses[segment.table] += sign
            if not self.uses[segment.table]:
                del self.uses[segment.table]

    # -- relations --------------------------------------------------------------------------------------------------

    def declare(self, relation: PartRelation, digest: str, statement: str | None = None) -> Known:
        """Adds a relation, with the parts that the host has of it; those of another definition are dropped.

        A view has another definition if its statement is another one; its queries may be those of an earlier version.
        """
        known = self.known(relation.name, digest, statement)
        saved = self._saved.pop(relation.name, None)
        parts = self._saved_parts.pop(relation.name, {})
        if saved is not None and known is not Known.NOTHING:
            relation.stored = parts
            relation.progress = _progress(saved["progress"])
        else:
            self._drop(relation.name, parts)
        relation.has_taken_names = saved is not None and known is not Known.ALL
        self.relations[relation.name] = relation
        self._digests[relation.name] = digest, statement
        if known is Known.PARTS:
            self.set_progress(relation.name)
        return known

    def known(self, name: str, digest: str, statement: str | None = None) -> Known:
        """What the host has of a relation that is not declared yet."""
        saved = self._saved.get(name)
        if saved is None:
            return Known.NOTHING
        if saved["digest"] == digest:
            return Known.ALL
        is_same = statement is not None and saved.get("statement", statement) == statement
        return Known.PARTS if is_same else Known.NOTHING

    def drop_undeclared(self) -> list[str]:
        """Forgets what the host has of relations that nobody has declared: helpers of earlier versions."""
        names = list(self._saved)
        for name in names:
            del self._saved[name]
            self._drop(name, self._saved_parts.pop(name, {}))
            self._removed.add(name)
        return names

    def _drop(self, name: str, parts: Mapping[int, Part]) -> None:
        for number, part in parts.items():
            self.dropped[name, number] = part
            self._count(part, -1)

    def remove(self, name: str) -> None:
        """Forgets a relation and its parts. It cannot be taken back."""
        relation = self.relations.get(name)
        if relation is None:
            return
        for number in list(relation.stored):
            self.set_part(name, number, None)
        self._removed.add(name)
        del self.relations[name], self._digests[name]

    # -- changes ----------------------------------------------------------------------------------------------------

    def set_part(self, name: str, number: int, part: Part | None) -> None:
        self._before.setdefault((name, number), self.relations[name].stored.get(number))
        self._store(name, number, part)

    def _store(self, name: str, number: int, part: Part | None) -> None:
        stored = self.relations[name].stored
        before = stored.pop(number, None)
        if part is not None:
            stored[number] = part
        self._count(part, 1)
        self._count(before, -1)

    def archive(self, name: str, number: int, checksum: int) -> None:
        """A part has been written to a file, before it is deleted."""
        self.archived.setdefault(name, {})[number] = checksum
        self._archived_now.add((name, number))

    def set_progress(self, name: str, **facts: int | None) -> None:
        relation = self.relations[name]
        self._progress_before.setdefault(name, relation.progress)
        relation.progress = replace(relation.progress, **facts)  # type: ignore[arg-type]

    def set_epoch(self, epoch: int) -> None:
        if self._epoch_before is None:
            self._epoch_before = self.epoch
        self.epoch = epoch

    def end_before(self, name: str) -> int | None:
        """Until which part a relation was closed at the last commit."""
        relation = self.relations[name]
        return self._progress_before.get(name, relation.progress).next

    def changed_parts(self) -> dict[tuple[str, int], Part | None]:
        """The parts that were changed since the last commit, as they were."""
        return self._before

    def take_back(self) -> None:
        """Undoes the changes since the last commit; may be called again."""
        for (name, number), part in self._before.items():
            if name in self.relations:
                self._store(name, number, part)
        for name, progress in self._progress_before.items():
            if name in self.relations:
                self.relations[name].progress = progress
        for name, number in self._archived_now:
            self.archived[name].pop(number, None)
        if self._epoch_before is not None:
            self.epoch = self._epoch_before
        self.forget_changes()

    def forget_changes(self) -> None:
        self._before, self._progress_before, self._removed, self._epoch_before = {}, {}, set(), None
        self._archived_now = set()

    def entries(self, stamp: str) -> dict[str, str | None]:
        """What a commit writes: the entries that have changed."""
        found: dict[str, str | None] = {} if stamp == self.stamp else {_key("stamp"): stamp}
        for name in {*self._progress_before, *(name for name, _ in self._before), *self._removed}:
            found[_key("relation", name)] = self._relation_entry(name)
        for name, number in {**self.dropped, **self._before}:
            relation = self.relations.get(name)
            part = None if relation is None else relation.stored.get(number)
            found[_key("part", name, number)] = None if part is None else _part_entry(part)
        for name, number in self._archived_now:
            found[_key("archived", name, number)] = json.dumps(self.archived[name][number])
        if self._epoch_before is not None:
            found[_key("epoch")] = json.dumps(self.epoch)
        return found

    def _relation_entry(self, name: str) -> str | None:
        relation = self.relations.get(name)
        if relation is None:
            return None
        progress = {each: getattr(relation.progress, each) for each in Progress.__slots__}
        digest, statement = self._digests[name]
        return json.dumps({"digest": digest, "statement": statement, "progress": progress})

    def is_empty_of_changes(self) -> bool:
        changes = self.dropped or self._before or self._progress_before or self._removed
        return not changes and self._epoch_before is None


def stamp_of(entries: Mapping[str, str]) -> str:
    """The stamp of parts, as a host has it (`viewlet.streams.stamps`)."""
    return entries.get(_key("stamp"), "")


def _progress(saved: Mapping[str, Any]) -> Progress:
    """What an entry says of a relation; one of an earlier version has no `since`."""
    return Progress(**{"since": saved["first"], **saved})


def _part_entry(part: Part) -> str:
    segments = [[segment.table, segment.rolled] for segment in part.segments]
    return json.dumps({"segments": segments, "rows": part.rows, "updated": part.updated})


def _key(*parts: object) -> str:
    return json.dumps(parts)
