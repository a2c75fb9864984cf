"""New parts of views (section 4.1): which are possible, and in which order they are computed.

    eager       every part that is possible, view by view in the order of what they read
    freshness   the part that has waited longest, times the priority of its view, first; until a batch has had its time

Parts of views that do not read each other are computed at the same time on hosts that can do that, and so are the
corrections of parts of one view (`Maintainer.recompute`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from viewlet.errors import SchemaError
from viewlet.streams.catalogue import PENDING, Part
from viewlet.streams.definition import PartView, start_of
from viewlet.streams.long_gaps import pass_gap
from viewlet.visible import described

if TYPE_CHECKING:
    from viewlet.streams.maintainer import Maintainer

Item = TypeVar("Item")
Answer = TypeVar("Answer")
ORDERS = ("eager", "freshness")


@dataclass(frozen=True, slots=True)
class Updates:
    """How new parts of stream views are computed; late rows correct the parts that are there in any case.

    With the order `"freshness"` a batch ends once it has spent so many `seconds`: the parts that are left wait for the
    next batch, or for `Connection.refresh`. `workers` are the parts that are computed at a time, as many as the
    host says if it is not said; a host that takes one query after the other has one.
    """

    order: str = "eager"
    seconds: float | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise SchemaError(f"the order of updates is {' or '.join(map(repr, ORDERS))}, not {described(self.order)}")
        if self.seconds is not None and self.order == "eager":
            raise SchemaError("eager updates take the time that they need: seconds= is for the order 'freshness'")
        if self.workers is not None and self.workers < 1:
            raise SchemaError(f"at least one part is computed at a time, not {self.workers}")

    def plan(self, streams: Sequence[str], is_whole: bool) -> Callable[[Maintainer], None]:
        """What computes the new parts of views over some streams; all of them if `is_whole`."""

        def compute(maintainer: Maintainer) -> None:
            end = None if self.seconds is None or is_whole else time.monotonic() + self.seconds
            workers = min(self.workers or maintainer.host.workers, maintainer.host.workers)
            names = _views_over(maintainer, streams)
            if self.order == "eager" and workers == 1:
                compute_all(maintainer, names)
            else:
                _compute_in_rounds(maintainer, names, self.order == "freshness", end, workers)

        return compute


def compute_all(maintainer: Maintainer, names: Sequence[str]) -> None:
    """Computes all parts of views that are possible, view by view."""
    while sum(_advance_view(maintainer, maintainer.views[name]) for name in names):
        pass


def _views_over(maintainer: Maintainer, streams: Sequence[str]) -> list[str]:
    """The views that read some of the streams, each after those it reads."""
    wanted = set(streams)
    return [name for name in maintainer.order if not wanted.isdisjoint(maintainer.views[name].parts.streams)]


def _advance_view(maintainer: Maintainer, view: PartView) -> bool:
    """Computes the parts of a view that have become possible; tells whether there were any."""
    found = False
    while (number := next_part(maintainer, view)) is not None:
        if view.name in maintainer.matchers:
            _search_new_parts(maintainer, view)
        else:
            put_new_part(maintainer, view, number, maintainer.compute(view, number, waits=False))
        found = True
    return found


def next_part(maintainer: Maintainer, view: PartView) -> int | None:
    """NEXT of a view, if all parts that it reads are closed."""
    relation = maintainer.catalogue.relations[view.name]
    if relation.progress.next is None:
        low, high = maintainer.bounds(view)
        if low is None or high is None or (high < low and not _has_partners_under_way(maintainer, view)):
            return None
        maintainer.catalogue.set_progress(view.name, first=low, next=low, kept=low)
    number = relation.progress.next
    assert number is not None
    query = view.query(number == relation.progress.first)
    possible = all(
        maintainer.catalogue.relations[each.relation].is_closed(each.parts(number).stop - 1)
        for each in query.references
        if not each.is_table and not each.provisional and each.parts(number)
    )
    return number if possible else None


def _has_partners_under_way(maintainer: Maintainer, view: PartView) -> bool:
    """A view that is declared with others begins before its first part is possible: they may wait for it to begin."""
    sources = {each.relation for each in view.initialize.references if not each.is_table}
    return not sources.isdisjoint(view.partners) and all(
        progress.first is not None and progress.next is not None and progress.first < progress.next
        for progress in (maintainer.catalogue.relations[name].progress for name in sources)
    )


def put_new_part(maintainer: Maintainer, view: PartView, number: int, part: Part) -> None:
    """Enters the next part of a view."""
    maintainer.catalogue.set_part(view.name, number, part)
    maintainer.catalogue.set_progress(view.name, next=number + 1)
    if part.rows == PENDING:
        maintainer.pending.append((view.name, number))
    pass_gap(maintainer, view)
    for name in view.partners:
        next_part(maintainer, maintainer.views[name])  # which may begin now


def _search_new_parts(maintainer: Maintainer, view: PartView) -> None:
    """Searches all new parts at once; matches of earlier parts may have moved to them."""
    maintainer.settle()
    (reference,) = view.references()
    first = maintainer.catalogue.relations[view.name].progress.next
    end = maintainer.catalogue.relations[reference.relation].progress.next
    assert first is not None
    assert end is not None
    changed = maintainer.matchers[view.name].advance(first, end)
    maintainer.catalogue.set_progress(view.name, next=end)
    maintainer.recompute((view.name, number) for number in changed)


# -- rounds ------------------------------------------------------------------------------------------------------------


def _compute_in_rounds(
    maintainer: Maintainer, names: Sequence[str], by_freshness: bool, end: float | None, workers: int
) -> None:
    """Computes a few possible parts of different views at a time, until there are none or it is time to end."""
    while ready := {name: n for name in names if (n := next_part(maintainer, maintainer.views[name])) is not None}:
        chosen = [name for name in ready if not _is_premature(maintainer, name, ready)] or list(ready)
        if by_freshness:
            urgency = _urgency(maintainer, names)
            chosen.sort(key=lambda name: -urgency[name])
        _compute_concurrently(maintainer, {name: ready[name] for name in chosen[:workers]})
        if end is not None and time.monotonic() >= end:
            return


def _is_premature(maintainer: Maintainer, name: str, ready: Mapping[str, int]) -> bool:
    """A part would read what is closed of a view that is about to have more of it."""
    waiting = [each.relation for each in maintainer.views[name].references() if each.provisional]
    seen = {name}
    while waiting:
        read = waiting.pop()
        if read in ready and read != name:
            return True
        if read in maintainer.views and read not in seen:
            waiting += [each.relation for each in maintainer.views[read].references()]
        seen.add(read)
    return False


def _urgency(maintainer: Maintainer, names: Sequence[str]) -> dict[str, int]:
    """How long the next part of a view, or of one that reads it, has waited, times the priority of that view."""
    found: dict[str, int] = {}
    for name in reversed(names):
        view = maintainer.views[name]
        marks = [maintainer.catalogue.relations[stream].progress.watermark for stream in view.parts.streams]
        number = maintainer.catalogue.relations[name].progress.next
        known = [mark for mark in marks if mark is not None]
        waited = 0 if number is None or not known else min(known) - start_of(number, view.length)
        own = max(waited, 0) * view.parts.priority
        found[name] = max(found.get(name, 0), own)
        for each in view.references():
            if each.relation in maintainer.views and each.relation != name:
                found[each.relation] = max(found.get(each.relation, 0), found[name])
    return found


def _compute_concurrently(maintainer: Maintainer, parts: dict[str, int]) -> None:
    """Computes parts of views that do not read each other, since all are possible."""
    searched = next((name for name in parts if name in maintainer.matchers), None)
    if searched is not None:
        _search_new_parts(maintainer, maintainer.views[searched])
        return
    views = [(maintainer.views[name], number) for name, number in parts.items()]
    for table in {table for view, _ in views for table in view.tables()}:
        maintainer.dimension_source(table)  # which all of them read
    made = run_concurrently(lambda each: maintainer.compute(*each), views)
    for (view, number), part in zip(views, made, strict=True):
        put_new_part(maintainer, view, number, part)


def run_concurrently(call: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """What a call answers for each item, all at the same time."""
    if len(items) == 1:
        return [call(items[0])]
    with ThreadPoolExecutor(len(items), thread_name_prefix="viewlet-parts") as pool:
        return list(pool.map(call, items))
