"""Which parts are still needed, the deletion of the others, and roll-up (sections 4.1 and 5)."""

from __future__ import annotations

from viewlet.streams.catalogue import PartRelation
from viewlet.streams.dead_groups import drop_dead_groups
from viewlet.streams.definition import MICROSECONDS, PartView, part_of
from viewlet.streams.maintainer import Maintainer
from viewlet.streams.roll_up import roll_up


def tidy_up(maintainer: Maintainer) -> None:
    """Rolls up old parts, and deletes those that are older than their relation keeps them and that nothing can read.

    So go the points of searches that no row can reach any more.
    """
    for name, matcher in maintainer.matchers.items():
        horizon = _first_changeable(maintainer, matcher.query.source)
        end = maintainer.catalogue.relations[name].progress.next
        if horizon is not None and end is not None:
            matcher.forget(min(horizon, end))
    for relation in list(maintainer.catalogue.relations.values()):
        watermark = _watermark(maintainer, relation)
        if watermark is not None:
            roll_up(maintainer, relation, watermark)
        floor = _floor(maintainer, relation)
        kept = relation.progress.kept
        if floor is None or (kept is not None and floor <= kept):
            continue
        for number in [number for number in relation.stored if number < floor]:
            if relation.parts.archive:
                checksum = maintainer.archive.write(maintainer.host, relation, number)
                if checksum is not None:
                    maintainer.catalogue.archive(relation.name, number, checksum)
            maintainer.catalogue.set_part(relation.name, number, None)
        maintainer.catalogue.set_progress(relation.name, kept=floor)
        if relation.name in maintainer.views and maintainer.views[relation.name].is_additive:
            drop_dead_groups(maintainer, relation)


def _floor(maintainer: Maintainer, relation: PartRelation) -> int | None:
    """The first part to keep; None keeps all."""
    retention, watermark = relation.parts.retention, _watermark(maintainer, relation)
    if retention is None or watermark is None:
        return None
    needed = _needed(maintainer, relation)
    if needed is None:
        return None
    return min(needed, part_of(watermark - retention * MICROSECONDS, relation.length))


def _needed(maintainer: Maintainer, relation: PartRelation) -> int | None:
    """The first part that some computation may still read; None if every part may be."""
    horizon = _horizon(maintainer, relation, _can_be_replaced(maintainer, relation))
    if horizon is None:
        return None
    found = [part_of(horizon, relation.length)]
    for name, view in maintainer.views.items():
        progress = maintainer.catalogue.relations[name].progress
        for each in view.references():
            if each.relation == relation.name:
                if progress.next is None:
                    return None
                earliest = min(_first_provisional(maintainer, view, progress.next), part_of(horizon, view.length))
                found.append(each.parts(earliest).start)
                if name in maintainer.matchers:
                    changeable = _first_changeable(maintainer, relation.name)
                    earliest = earliest if changeable is None else min(earliest, changeable)
                    open_since = maintainer.matchers[name].oldest_part(earliest)
                    found.append(earliest if open_since is None else open_since)
    return min(found)


def _first_changeable(maintainer: Maintainer, name: str) -> int | None:
    """The first part of a relation whose rows may still be others one day; None if every part may change.

    A change of a part reaches the parts of a view that read it, or what has been decided of matches since then.
    """
    relation = maintainer.catalogue.relations[name]
    if name not in maintainer.views:
        horizon = _horizon(maintainer, relation, False)
        return None if horizon is None else part_of(horizon, relation.length)
    view, end = maintainer.views[name], relation.progress.next
    if end is None:
        return None
    found = [_first_provisional(maintainer, view, end)]
    for each in {*view.references(), *(view.fallback.references if view.fallback else ())}:
        if each.is_table or each.relation in (name, *view.partners):
            continue  # a view reads parts of its own that end earlier
        below = _first_changeable(maintainer, each.relation)
        if below is None:
            return None
        found.append(each.first_reader(below))
    first = min(found)
    if name in maintainer.matchers:
        open_since = maintainer.matchers[name].oldest_part(first)
        first = first if open_since is None else min(first, open_since)
    return first


def _first_provisional(maintainer: Maintainer, view: PartView, end: int) -> int:
    """The first part before `end` that will be computed again, because some of what it reads is not closed."""
    awaited = [each for each in view.references() if each.provisional]

    def is_final(number: int) -> bool:
        relations = maintainer.catalogue.relations
        return all(relations[each.relation].is_closed(part) for each in awaited for part in each.parts(number)[-1:])

    first = maintainer.catalogue.relations[view.name].progress.first
    while first is not None and end > first and not is_final(end - 1):
        end -= 1
    return end


def _can_be_replaced(maintainer: Maintainer, relation: PartRelation) -> bool:
    """All views that read a helper can do without its old parts: they have a query over the sources."""
    readers = [
        view for view in maintainer.views.values() if any(each.relation == relation.name for each in view.references())
    ]
    return bool(readers) and all(view.fallback is not None or view.is_additive for view in readers)


def _horizon(maintainer: Maintainer, below: PartRelation, replaceable: bool) -> int | None:
    """The time from which on rows may still come; a stream without LATENESS takes them as long as it keeps parts.

    A helper that is `replaceable` need not have the parts of rows that come later than what is declared.
    """
    found: list[int] = []
    for relation in _streams(maintainer, below):
        lateness, watermark = relation.parts.lateness, relation.progress.watermark
        if lateness is None and relation.parts.retention is not None:
            lateness = relation.parts.retention * MICROSECONDS
        if lateness is None and replaceable:
            lateness = 0
        if lateness is None or watermark is None:
            return None
        found.append(watermark - lateness)
    return min(found, default=None)


def _watermark(maintainer: Maintainer, relation: PartRelation) -> int | None:
    marks = [stream.progress.watermark for stream in _streams(maintainer, relation)]
    known = [mark for mark in marks if mark is not None]
    return min(known) if known and len(known) == len(marks) else None


def _streams(maintainer: Maintainer, relation: PartRelation) -> list[PartRelation]:
    """The streams under a relation."""
    if relation.is_aside:
        return []
    return [maintainer.catalogue.relations[name] for name in relation.parts.streams or (relation.name,)]
