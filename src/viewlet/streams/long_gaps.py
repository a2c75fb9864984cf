"""Long gaps: stretches of time in which a view reads no new rows, and views that begin earlier than they did.

    m has rows in the parts 5 and 2,000,000,000    ──►    SUM(x) ... GROUP BY g has no parts stored between them

Where a query reads the same rows for each part of a gap, one part is computed and stands for the others. If it has no
rows, the gap is a range that takes no room, however long it is. Shorter gaps are computed part by part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from viewlet.errors import DataError
from viewlet.streams.catalogue import Part, PartRelation
from viewlet.streams.compare_parts import are_equal
from viewlet.streams.definition import BEGINNING, PartQuery, PartView, Reference
from viewlet.streams.host import is_partitioning
from viewlet.streams.subscripts import line

if TYPE_CHECKING:
    from viewlet.streams.maintainer import Changed, Maintainer

LONG = 1_000
"""Parts of a gap from which on they are not computed one by one, and not listed if they have no rows."""
MOST = 1_000_000
"""Parts of a gap with rows that a batch may make."""


# -- new parts ---------------------------------------------------------------------------------------------------------


def pass_gap(maintainer: Maintainer, view: PartView) -> None:
    """Enters the parts of a long gap that begins before the next part of a view, if they are known by now."""
    relation = maintainer.catalogue.relations[view.name]
    first, number = relation.progress.first, relation.progress.next
    assert first is not None
    assert number is not None
    if not _is_possible(maintainer, view, number + LONG):
        return
    maintainer.settle()
    query = maintainer.query(view, number)
    end = _gap_end(maintainer, view, query, number - 1)
    if end - number <= LONG:
        return
    part = _part_of_gap(maintainer, view, query, number - 1) if number - 1 > first else None
    if part is None:
        since = number - LONG
        is_endless = bool(view.partners) or (since > first and _gap_end(maintainer, view, query, since) == end)
        if end - number > MOST and is_endless:
            raise _too_long(maintainer, view, end - number)
        return
    if part.rows:
        if end - number > MOST:
            raise _too_long(maintainer, view, end - number)
        for each in range(number, end):
            maintainer.catalogue.set_part(view.name, each, part)
    maintainer.catalogue.set_progress(view.name, next=end)


def _is_possible(maintainer: Maintainer, view: PartView, number: int) -> bool:
    """All parts that part `number` of a view reads of others are closed."""
    relations = maintainer.catalogue.relations
    return all(
        relations[each.relation].is_closed(each.parts(number).stop - 1)
        for each in view.update.references
        if not each.is_table and not each.provisional and each.relation != view.name
    )


def _gap_end(maintainer: Maintainer, view: PartView, query: PartQuery, base: int) -> int:
    """The first part after `base` that reads other rows of other relations than `base`, or that is not possible yet."""
    relations, own = maintainer.catalogue.relations, {view.name, *view.partners}
    others = [each for each in query.references if not each.is_table and each.relation not in own]
    ends = [_closed_until(relations[each.relation], each) for each in others if not each.provisional]
    end = min(ends, default=base + 1)
    for each in others:
        if end <= base + 1:
            break
        end = min(end, max(_other_rows(relations[each.relation], each, base, end), base + 1))
    return end


def _closed_until(relation: PartRelation, reference: Reference) -> int:
    """The first part that reads one that is not closed."""
    assert relation.progress.next is not None
    return reference.first_reader(relation.progress.next)


def _other_rows(relation: PartRelation, reference: Reference, base: int, end: int) -> int:
    """The first part between `base` and `end` for which a reference has other rows than for `base`, or `end`."""
    start, stop, last = reference.parts(base).start, reference.parts(base).stop, reference.parts(end - 1).stop
    if reference.provisional:
        last = min(last, relation.progress.next or last)
    filled = relation.filled(range(start, last))
    coming = next((number for number in filled if number >= stop), None)
    found = end if coming is None else reference.first_reader(coming)
    if not filled or filled[0] >= stop:
        return found
    leaving = min(found, reference.first_above(filled[0] + 1))
    if reference.provisional or not _has_fixed_width(reference):
        return leaving
    rows = relation.part(start).segments
    until = next((number for number in range(start, last) if relation.part(number).segments != rows), None)
    return max(leaving, end if until is None else reference.first_reader(until))


def _has_fixed_width(reference: Reference) -> bool:
    """It reads the same number of parts for each part."""
    assert reference.low is not None
    assert reference.high is not None
    return all(found.low == found.high for found in (line(reference.low), line(reference.high)))


def _part_of_gap(maintainer: Maintainer, view: PartView, query: PartQuery, base: int) -> Part | None:
    """What each part of a gap is whose first one is `base`; None if that is not known."""
    relation = maintainer.catalogue.relations[view.name]
    part = relation.part(base)
    if view.partners or (part.rows and view.statement and is_partitioning(maintainer.host)):
        return None
    reads_rows = any(maintainer.has_rows(each, base) for each in query.references)
    if f'"{query.start_marker}"' in query.sql:
        return part if not reads_rows and not part.rows and maintainer.is_empty(view, query) else None
    own = [each.parts(base).start for each in query.references if each.relation == view.name]
    if not own:
        return part
    before = relation.part(base - 1)
    if part.segments != before.segments and are_equal(maintainer, relation, base, before, part):
        part = replace(before, updated=part.updated)
        maintainer.catalogue.set_part(view.name, base, part)
    return part if all(relation.part(each).segments == part.segments for each in range(min(own), base)) else None


def _too_long(maintainer: Maintainer, view: PartView, parts: int) -> DataError:
    return DataError(
        f"view {maintainer.user_of(view)!r} would have {parts:,} parts with rows at once, in a stretch of time without "
        f"rows of its streams (at most {MOST:,}): AHEAD INTERVAL ... in CREATE STREAM bounds how far rows may be ahead "
        "of the clock"
    )


# -- earlier parts -----------------------------------------------------------------------------------------------------


def extend_back(maintainer: Maintainer, changed: list[Changed]) -> list[Changed]:
    """Lets views begin earlier whose sources have rows before their first part now.

    Returns the parts to compute again. The parts from which on a view is other than before are added to `changed`.
    """
    again: list[Changed] = []
    rebuilt: set[str] = set()
    for name in maintainer.order:
        view, relation = maintainer.views[name], maintainer.catalogue.relations[name]
        first, kept = relation.progress.first, relation.progress.kept
        if first is None or kept is None:
            continue
        start = _earlier_start(maintainer, view, first, changed) if kept == first else first
        is_rebuilt = any(each.relation in rebuilt for each in view.references()) and name not in maintainer.matchers
        is_rebuilt |= first - start > LONG and view.reads_itself and not view.is_additive and not view.partners
        if start < first:
            maintainer.catalogue.set_progress(name, first=start, kept=start)
            changed.append((name, start))
        if is_rebuilt:
            rebuilt.add(name)
            _forget_parts(maintainer, relation, start if kept == first else kept)
        elif start < first and not view.is_additive:
            again += [(name, number) for number in _new_parts(maintainer, view, start, first)]
    return again


def _earlier_start(maintainer: Maintainer, view: PartView, first: int, changed: Iterable[Changed]) -> int:
    """The first part of a view that reads changed parts, if that is before its first part."""
    since = maintainer.catalogue.relations[view.name].progress.since
    least = first
    for each in view.followed(True):
        for source, part in changed:
            if each.relation == source and not each.is_table:
                start = each.first_reader(part)
                if view.start != BEGINNING and since is not None:
                    start = max(start, since)
                least = min([least, *each.read_by(part, range(start, min(start + LONG, least)))[:1]])
    return least


def _forget_parts(maintainer: Maintainer, relation: PartRelation, start: int) -> None:
    """Lets the parts of a view from one on be computed again as new ones."""
    relation.has_taken_names = True  # the tables of its parts are there until the commit
    for number in [number for number in relation.stored if number >= start]:
        maintainer.catalogue.set_part(relation.name, number, None)
    maintainer.catalogue.set_progress(relation.name, next=start)


def _new_parts(maintainer: Maintainer, view: PartView, start: int, first: int) -> Iterable[int]:
    """The parts to compute of a view that begins with `start`, not `first`, but for those that late rows touch."""
    name = view.name
    if first - start <= LONG:
        for number in range(start, first):
            maintainer.catalogue.set_part(name, number, Part((), 0, maintainer.clock()))
    if name in maintainer.matchers:
        return ()  # which is told of changes like of those in other parts
    if maintainer.is_empty(view, view.update):
        return (start, first)
    if first - start > MOST:
        raise _too_long(maintainer, view, first - start)
    return range(start, first + 1)
