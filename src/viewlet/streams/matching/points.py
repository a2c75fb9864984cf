"""Where the search of a group resumes: a point for every part in which the group has rows.

What the search decided before the point of part q does not depend on rows after part q. So a new part is searched from
the newest point on, and a change of part p from the point of the last part before p.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from viewlet.changes import arrow_type
from viewlet.streams.matching.definition import MatchQuery
from viewlet.streams.matching.rows import GroupRows, Integers, keys_of
from viewlet.streams.matching.search import Attempts
from viewlet.types import BIGINT, Column

Key = tuple[Any, ...]
NONE = -(2**62)
"""The open part of a point whose matches are all decided."""


@dataclass(frozen=True, slots=True)
class Point:
    """The search up to the end of `part`: it resumes with row `place` of part `resume`, after `number` matches.

    The rows from part `since` on are needed for that. Matches that are not decided end in part `open` or later.
    """

    part: int
    resume: int
    place: int
    since: int
    number: int
    open: int

    @property
    def position(self) -> tuple[int, int]:
        return self.resume, self.place

    def settles(self, other: Point, counted: bool) -> bool:
        """The search continues from both in the same way."""
        return (
            self.position == other.position
            and self.since == other.since
            and not (counted and self.number != other.number)
        )


def point_columns(query: MatchQuery) -> tuple[Column, ...]:
    """The columns of stored points: the group, then the fields."""
    types = {column.name: column.type for column in query.columns}
    keys = (Column(f"k{number}", types[name].with_nullable(True)) for number, name in enumerate(query.keys))
    return (*keys, *(Column(f"point_{each.name}", BIGINT) for each in fields(Point)))


def to_arrow(query: MatchQuery, points: Iterable[tuple[Key, Point]]) -> Any:
    """Points as a table."""
    import pyarrow as pa

    found, columns = list(points), point_columns(query)
    rows = [(*key, *(getattr(point, each.name) for each in fields(Point))) for key, point in found]
    arrays = [pa.array([row[at] for row in rows], arrow_type(column.type)) for at, column in enumerate(columns)]
    return pa.table(arrays, names=[column.name for column in columns])


def from_arrow(query: MatchQuery, table: Any) -> dict[Key, list[Point]]:
    """The points of every group, in the order of parts."""
    keys = keys_of(table, [f"k{number}" for number in range(len(query.keys))])
    numbers = zip(*(table.column(f"point_{each.name}").to_pylist() for each in fields(Point)), strict=True)
    found: dict[Key, list[Point]] = {}
    for key, values in zip(keys, numbers, strict=True):
        found.setdefault(key, []).append(Point(*values))
    for points in found.values():
        points.sort(key=lambda point: point.part)
    return found


def point_before(points: Sequence[Point], part: int) -> Point | None:
    """The newest point of a part before `part`."""
    at = bisect_left(points, part, key=lambda point: point.part)
    return points[at - 1] if at else None


@dataclass(slots=True)
class Boundaries:
    """The ends of the parts of one group from a part on, for which points are computed."""

    rows: GroupRows
    first: int
    """The first row of the group."""
    parts: list[int]
    ends: list[int]
    """The row after the last one of each part."""
    lookback: int

    def point(self, at: int, start: int, number: int, open: int | None = None) -> Point:
        """The point of a part, if the first attempt that reached its end began with row `start`."""
        part, end = self.parts[at], self.ends[at]
        needed = max(self.first, min(start, end) - self.lookback)
        since = int(self.rows.parts[needed]) if needed < end else part + 1
        if start >= end:
            resume, place = part, int(self.rows.places[end - 1]) + 1
        else:
            resume, place = int(self.rows.parts[start]), int(self.rows.places[start])
        return Point(part, resume, place, since, number, resume if open is None else open)


def boundaries(rows: GroupRows, group: int, since: int, lookback: int) -> Boundaries:
    """The boundaries of a group from part `since` on."""
    low, high = int(rows.bounds[group]), int(rows.bounds[group + 1])
    own: Integers = rows.parts[low:high]
    ends = np.concatenate([np.flatnonzero(np.diff(own)) + 1, [len(own)]]) + low
    parts = rows.parts[ends - 1]
    chosen = parts >= since
    return Boundaries(rows, low, parts[chosen].tolist(), ends[chosen].tolist(), lookback)


def points_of(found: Attempts, ends: Boundaries, least: int, most: int) -> list[Point]:
    """The points of the boundaries number `least` to `most`, the last excluded."""
    result, record = [], 0
    for at in range(least, most):
        while record < len(found.records) and found.records[record][0] < ends.ends[at]:
            record += 1
        if record < len(found.records):
            _, start, number = found.records[record]
        else:
            start, number = found.next, found.number
        result.append(ends.point(at, start, number))
    return result
