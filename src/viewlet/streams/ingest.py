"""Rows of a stream as parts: each row goes to the part of its time (section 4.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from viewlet.changes import MULTIPLICITY, Change, arrow_type, rows_to_arrow
from viewlet.changes.staged_change import StagedChange
from viewlet.errors import DataError
from viewlet.streams.catalogue import EMPTY, Part, PartRelation, Segment
from viewlet.streams.definition import MICROSECONDS, part_of, start_of
from viewlet.streams.host import StagingHost
from viewlet.streams.maintainer import Changed, Maintainer
from viewlet.streams.render import column_list, union_of
from viewlet.types import Column

MAX_SEGMENTS = 16
"""Segments of a part from which on they are merged."""


def late_name(stream: str) -> str:
    """The relation of the rows of a stream that came too late."""
    return f"{stream} late"


def ingest(maintainer: Maintainer, stream: PartRelation, change: Change) -> list[Changed]:
    """Puts the rows of a change into their parts; returns the closed parts that they changed."""
    rows = change_to_arrow(stream, change)
    changed: list[Changed] = []
    for number, share in _by_part(stream, rows):
        if _is_too_early(maintainer, stream, number):
            before, early = _split(stream, rows, number)
            _set_aside(maintainer, stream, early)
            rows = before
            break
        if _is_too_late(stream, number):
            _set_aside(maintainer, stream, share)
            continue
        _put(maintainer, stream, number, share)
        first = stream.progress.first
        if first is None or number < first:
            maintainer.catalogue.set_progress(stream.name, first=number)
        if stream.is_closed(number):
            changed.append((stream.name, number))
    _move_watermark(maintainer, stream, rows)
    return changed


def ingest_staged(maintainer: Maintainer, stream: PartRelation, change: StagedChange) -> list[Changed]:
    """Likewise for rows that are in files of the host."""
    host = maintainer.host
    assert isinstance(host, StagingHost)
    change = change.under(host.staging)
    changed: list[Changed] = []
    newest: Path | None = None
    for number, place, rows in change.shares():
        if _is_too_late(stream, number) or _is_too_early(maintainer, stream, number):
            late = change.read(place)
            _set_aside(maintainer, stream, late.append_column(MULTIPLICITY, [[1] * late.num_rows]))
            continue
        newest, part, table = place, stream.part(number), maintainer.new_name(stream.name, number)
        maintainer.created.append(table)
        host.adopt(table, str(place))
        part = Part((*part.segments, Segment(table)), part.rows + rows, maintainer.clock())
        if len(part.segments) > MAX_SEGMENTS:
            part = _merged(maintainer, stream, number, part)
        maintainer.catalogue.set_part(stream.name, number, part)
        first = stream.progress.first
        if first is None or number < first:
            maintainer.catalogue.set_progress(stream.name, first=number)
        if stream.is_closed(number):
            changed.append((stream.name, number))
    if newest is not None:
        close_until(maintainer, stream, change.latest(newest) - stream.parts.delay)
    return changed


def close_until(maintainer: Maintainer, stream: PartRelation, watermark: int) -> None:
    """Closes the parts that end at a time (microseconds) or before; parts never open again."""
    before = stream.progress.watermark
    watermark = watermark if before is None else max(before, watermark)
    end = part_of(watermark, stream.length)
    first = stream.progress.first
    maintainer.catalogue.set_progress(stream.name, watermark=watermark, next=end, first=end if first is None else first)


def close_idle(maintainer: Maintainer, seen: Mapping[str, int]) -> set[str]:
    """Closes parts of streams without rows for a while, as far as the others are that the same views read.

    Returns these streams.
    `seen` is when a stream last had a row, by this machine's clock.
    """
    relations, now = maintainer.catalogue.relations, maintainer.clock()
    idle = {
        name
        for name, relation in relations.items()
        if relation.is_stream and relation.parts.idle is not None and now - seen.get(name, now) >= relation.parts.idle
    }
    for name in sorted(idle):
        together = {
            each for view in maintainer.views.values() if name in view.parts.streams for each in view.parts.streams
        }
        marks = [relations[each].progress.watermark for each in sorted(together - idle)]
        known = [mark for mark in marks if mark is not None]
        if known and len(known) == len(marks):
            close_until(maintainer, relations[name], min(known))
    return idle


def change_to_arrow(stream: PartRelation, change: Change) -> Any:
    """The rows of a change as Arrow, with their multiplicities in a column of its own."""
    given = getattr(change, "arrow", None)
    if given is not None:
        return given
    return rows_to_arrow(stream.columns, change.rows().items(), with_multiplicity=True)


def _times(stream: PartRelation, rows: Any) -> Any:
    """The times of rows, in microseconds."""
    import pyarrow as pa

    times = rows.column(stream.parts.time)
    if times.null_count:
        raise DataError(f"stream {stream.name!r}: the time {stream.parts.time!r} of a row is NULL: rows need a time")
    return times.cast(pa.timestamp("us")).cast(pa.int64())


def _by_part(stream: PartRelation, rows: Any) -> Iterator[tuple[int, Any]]:
    """The rows of each part, in the order of time."""
    import pyarrow.compute as pc

    if not rows.num_rows:
        return
    times, span = _times(stream, rows), stream.length * MICROSECONDS
    least, most = (part_of(pc.min_max(times)[side].as_py(), stream.length) for side in ("min", "max"))
    if least == most:
        yield least, rows
        return
    shifted = pc.subtract(times, pc.if_else(pc.less(times, 0), span - 1, 0))
    numbers = pc.divide(shifted, span)
    for number in sorted(pc.unique(numbers).to_pylist()):
        yield number, rows.filter(pc.equal(numbers, number))


def _split(stream: PartRelation, rows: Any, number: int) -> tuple[Any, Any]:
    """The rows before a part, and those of it and of later ones."""
    import pyarrow.compute as pc

    is_before = pc.less(_times(stream, rows), start_of(number, stream.length))
    return rows.filter(is_before), rows.filter(pc.invert(is_before))


def _is_too_early(maintainer: Maintainer, stream: PartRelation, number: int) -> bool:
    ahead = stream.parts.ahead
    return ahead is not None and start_of(number, stream.length) > maintainer.clock() + ahead


def _is_too_late(stream: PartRelation, number: int) -> bool:
    progress, lateness = stream.progress, stream.parts.lateness
    if progress.kept is not None and number < progress.kept:
        return True
    if lateness is None or progress.watermark is None:
        return False
    return (number + 1) * stream.length * MICROSECONDS <= progress.watermark - lateness


def _set_aside(maintainer: Maintainer, stream: PartRelation, rows: Any) -> None:
    """Keeps rows that came too late where they can be read."""
    import pyarrow.compute as pc

    name = late_name(stream.name)
    _put(maintainer, maintainer.catalogue.relations[name], 0, rows, checked=False)
    late = stream.progress.late + int(pc.sum(pc.abs(rows.column(MULTIPLICITY))).as_py())
    maintainer.catalogue.set_progress(stream.name, late=late)


def _put(maintainer: Maintainer, stream: PartRelation, number: int, rows: Any, checked: bool = True) -> None:
    import pyarrow.compute as pc

    weights = rows.column(MULTIPLICITY)
    positive, negative = rows, rows.slice(0, 0)
    if pc.min(weights).as_py() < 0:
        positive, negative = (rows.filter(test(weights, 0)) for test in (pc.greater, pc.less))
    part = stream.part(number)
    if positive.num_rows:
        part = _append(maintainer, stream, number, part, _repeated(stream, positive, 1))
    if negative.num_rows and checked:
        part = _without(maintainer, stream, number, part, _repeated(stream, negative, -1))
    if len(part.segments) > MAX_SEGMENTS:
        part = _merged(maintainer, stream, number, part)
    maintainer.catalogue.set_part(stream.name, number, part)


def _repeated(stream: PartRelation, rows: Any, sign: int) -> Any:
    """Rows as often as their multiplicities say, without these."""
    import pyarrow as pa
    import pyarrow.compute as pc

    weights = rows.column(MULTIPLICITY)
    schema = pa.schema([pa.field(column.name, arrow_type(column.type)) for column in stream.columns])
    plain = rows.select([column.name for column in stream.columns]).cast(schema)
    if pc.all(pc.equal(weights, sign)).as_py():
        return plain
    places = [place for place, weight in enumerate(weights.to_pylist()) for _ in range(sign * weight)]
    return plain.take(pa.array(places, pa.int64()))


def _append(maintainer: Maintainer, stream: PartRelation, number: int, part: Part, rows: Any) -> Part:
    name = maintainer.first_name if part is EMPTY else maintainer.new_name
    table = name(stream.name, number)
    maintainer.load(table, rows)
    return Part((*part.segments, Segment(table)), part.rows + rows.num_rows, maintainer.clock())


def _without(maintainer: Maintainer, stream: PartRelation, number: int, part: Part, rows: Any) -> Part:
    """A part without some rows, which have to be there."""
    host = maintainer.host
    deleted = maintainer.new_name(stream.name, number)
    maintainer.load(deleted, rows)
    names = column_list(host, stream.columns)
    union = union_of(host, stream.columns, ((number, segment) for segment in part.segments))
    table = maintainer.new_name(stream.name, number)
    left = maintainer.create(table, f"({union}) EXCEPT ALL (SELECT {names} FROM {host.source(deleted)})")
    if left != part.rows - rows.num_rows:
        raise DataError(
            f"stream {stream.name!r}: {rows.num_rows} rows are to be deleted from part {number}, of which "
            f"{part.rows - left} are there"
        )
    return Part((Segment(table),), left, maintainer.clock())


def _merged(maintainer: Maintainer, stream: PartRelation, number: int, part: Part) -> Part:
    table = maintainer.new_name(stream.name, number)
    union = union_of(maintainer.host, stream.columns, ((number, segment) for segment in part.segments))
    maintainer.create(table, union)
    return replace(part, segments=(Segment(table),))


def _move_watermark(maintainer: Maintainer, stream: PartRelation, rows: Any) -> None:
    import pyarrow.compute as pc

    if not rows.num_rows:
        return
    inserted = rows
    if pc.min(rows.column(MULTIPLICITY)).as_py() < 0:
        inserted = rows.filter(pc.greater(rows.column(MULTIPLICITY), 0))
    if inserted.num_rows:
        close_until(maintainer, stream, pc.max(_times(stream, inserted)).as_py() - stream.parts.delay)


def late_relation(stream: PartRelation) -> PartRelation:
    """Where rows that came too late are kept: one part."""
    columns: tuple[Column, ...] = stream.columns
    parts = replace(stream.parts, retention=None)
    return PartRelation(late_name(stream.name), columns, parts, is_stream=True, is_aside=True)
