"""The view maintainer (section 4.1): which part of which view is computed next, and from what.

A view is computed for part NEXT as soon as all parts that its query reads are closed. Where rows come for closed parts,
the parts that read them are computed again, in the order of time, until a part comes out as it was (section 4.3).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from viewlet.errors import DataError, UnsupportedError
from viewlet.streams.archive import Archive
from viewlet.streams.catalogue import PENDING, Catalogue, Part, Segment
from viewlet.streams.check import computation_order
from viewlet.streams.compare_parts import are_equal
from viewlet.streams.definition import BEGINNING, PartQuery, PartView, Reference, part_of
from viewlet.streams.host import PartHost, is_pipelining, runs_jobs
from viewlet.streams.long_gaps import extend_back
from viewlet.streams.native_windows import compute_natively
from viewlet.streams.new_parts import next_part, put_new_part, run_concurrently
from viewlet.streams.readable import guards
from viewlet.streams.render import Queries, no_rows, read_parts, rows_of, start_literal, typed
from viewlet.streams.running_totals import add_differences
from viewlet.streams.times import now

if TYPE_CHECKING:
    from viewlet.streams.matching.matcher import Matcher
    from viewlet.streams.matching.rows import Calculator
    from viewlet.streams.window_kernel import WindowKernel

Changed = tuple[str, int]
"""A relation and the number of one of its parts."""


@dataclass(slots=True)
class Work:
    """What the maintainer has done: parts computed, parts computed again, and those that came out as they were."""

    computed: int = 0
    recomputed: int = 0
    unchanged: int = 0
    skipped: int = 0


@dataclass(slots=True)
class Maintainer:
    """Keeps the views of a catalogue; `dimension` gives the rows of a table without parts as Arrow."""

    host: PartHost
    catalogue: Catalogue
    dimension: Callable[[str], Any]
    views: dict[str, PartView] = field(default_factory=dict)
    declared: dict[str, PartView] = field(default_factory=dict)
    """The views of users, from the moment on that they are added with their helpers."""
    work: Work = field(default_factory=Work)
    queries: Queries = field(init=False)
    clock: Callable[[], int] = now
    matchers: dict[str, Matcher] = field(default_factory=dict)
    """What keeps the matches of row patterns, by the name of their view."""
    _calculator: Calculator | None = None
    order: list[str] = field(default_factory=list)
    """The views, each after those it reads."""
    _empty: dict[tuple[str, PartQuery], bool] = field(default_factory=dict)
    """Whether a query over parts without rows has none, where that was found out."""
    _guards: dict[str, dict[str, str]] = field(default_factory=dict)
    """What refuses values of views that nobody could read."""
    archive: Archive = field(default_factory=lambda: Archive(None))
    kernels: dict[str, WindowKernel] = field(default_factory=dict)
    """What is kept in memory of windows that are merged in this process."""
    _serial: Iterator[int] = field(default_factory=lambda: count(1))
    created: list[str] = field(default_factory=list)
    """The tables that the batch has made."""
    pending: list[Changed] = field(default_factory=list)
    """New parts whose tables are being made."""
    _dimensions: dict[str, str] = field(default_factory=dict)
    """The tables that hold dimensions during a batch."""

    def __post_init__(self) -> None:
        self.queries = Queries(self.host, self.catalogue.relations)

    def calculator(self) -> Calculator:
        """Where matchers compute, in this process on every host."""
        if self._calculator is None:
            from viewlet.streams.matching.rows import Calculator

            self._calculator = Calculator()
        return self._calculator

    def add(self, view: PartView) -> None:
        self.views[view.name] = view
        if view.matching is not None:
            from viewlet.streams.matching.matcher import Matcher

            self.matchers[view.name] = Matcher(self, view)
        self.order = computation_order(self.views)

    def remove(self, name: str) -> None:
        self.views.pop(name, None)
        self.matchers.pop(name, None)
        self.kernels.pop(name, None)
        self._guards.pop(name, None)
        self._empty.clear()
        self.queries.forget()
        self.order = computation_order(self.views)

    # -- new parts --------------------------------------------------------------------------------------------------

    def advance(
        self, changed: Iterable[Changed], new_parts: Callable[[Maintainer], None], is_eager: bool = False
    ) -> None:
        """Follows changes of closed parts of streams, then computes parts that have become possible.

        If `is_eager`, all of these are to be computed.
        """
        ends = {name: self.catalogue.relations[name].progress.next for name in self.views}
        self.recompute(changed, is_eager=is_eager)
        new_parts(self)
        self.settle()
        self._recompute_provisional(ends)

    def begin_view(self, view: PartView) -> None:
        """Places a new view: it begins at its start, or with the newest parts of what it reads."""
        relation = self.catalogue.relations[view.name]
        if relation.progress.next is not None:
            return
        low, high = self.bounds(view)
        is_possible = low is not None and high is not None and low <= high
        first, since = low if is_possible else None, None
        if view.start is None:
            first = since = high if is_possible else None
        elif view.start != BEGINNING:
            first = since = part_of(view.start, view.length)
        if first is not None:
            self.catalogue.set_progress(view.name, first=first, next=first, kept=first, since=since)

    def bounds(self, view: PartView) -> tuple[int | None, int | None]:
        """The parts i for which INITIALIZE can run: from the first that reads something, to the last that is closed.

        Parts that would read what is no longer kept are not among them.
        """
        lowest: list[int] = []
        highest: list[int] = []
        floors: list[int] = []
        for each in view.followed(True):
            if each.is_table:
                continue
            progress = self.catalogue.relations[each.relation].progress
            first, end = progress.first, progress.next
            if first is None or end is None:
                return None, None
            lowest.append(each.first_reader(max(first, progress.kept or first)))
            if progress.kept is not None and progress.kept > first:
                floors.append(each.first_above(progress.kept))
        for each in view.initialize.references:
            end = None if each.is_table else self.catalogue.relations[each.relation].progress.next
            if end is not None and not each.provisional:
                highest.append(each.first_reader(end) - 1)
        return (max([min(lowest), *floors]), min(highest)) if highest else (None, None)

    def required(self, view: PartView, number: int) -> list[tuple[str, range]]:
        """The parts that part `number` of a view needs, by relation."""
        query = view.query(number == self.catalogue.relations[view.name].progress.first)
        return [
            (each.relation, each.parts(number))
            for each in query.references
            if not each.is_table and not each.provisional
        ]

    # -- queries ----------------------------------------------------------------------------------------------------

    def compute(self, view: PartView, number: int, retry: bool = False, waits: bool = True) -> Part:
        """Part `number` of a view, in a new table unless it has no rows.

        Unless it `waits` for the table, the part may have PENDING rows until `settle`.
        """
        query = self.query(view, number)
        if self._is_known_empty(view, query, number):
            return Part((), 0, self.clock())
        table, now = self._table_of(view, number, retry), self.clock()
        self.work.computed += 1
        try:
            quickly = self._compute_quickly(view, number, table, waits)
            if quickly is not None:
                return Part((Segment(f"{table} quick"),), quickly, now)
            rows = compute_natively(self, view, query, number, table)
            if rows is None:
                rows = self.create(table, self.typed(view, self._sql(view, query, number)), waits)
        except DataError as error:
            remedy = "delete the rows that its query cannot take, or DROP VIEW"
            raise DataError(f"{error} (view {self.user_of(view)!r}: {remedy})") from error
        return Part((Segment(table),), rows, now)

    def user_of(self, view: PartView) -> str:
        """The name of a view, or of one whose helper it is."""
        users = (each.name for each in self.declared.values() if view.name in [helper.name for helper in each.helpers])
        return next(users, view.name)

    def compute_parts(self, view: PartView, again: Sequence[int], new: Sequence[int] = ()) -> dict[int, Part]:
        """Parts of a view that do not read each other, those that are computed `again` and new ones."""
        numbers = [*again, *new]
        if view.quick is not None or not runs_jobs(self.host):
            made = run_concurrently(lambda number: self.compute(view, number, number in again), numbers)
            return dict(zip(numbers, made, strict=True))
        queries = {number: self.part_query(view, number, number in again) for number in numbers}
        rows, now = self.create_all(dict(each for each in queries.values() if each is not None)), self.clock()
        return {
            number: Part((), 0, now) if each is None else Part((Segment(each[0]),), rows[each[0]], now)
            for number, each in queries.items()
        }

    def part_query(self, view: PartView, number: int, retry: bool = False) -> tuple[str, str] | None:
        """The table that a part gets and the query that makes it; None if it has no rows."""
        query = self.query(view, number)
        if self._is_known_empty(view, query, number):
            return None
        self.work.computed += 1
        return self._table_of(view, number, retry), self.typed(view, self._sql(view, query, number))

    def _is_known_empty(self, view: PartView, query: PartQuery, number: int) -> bool:
        """No part that is read has rows, and the query has none then."""
        if any(self.has_rows(each, number) for each in query.references) or not self.is_empty(view, query):
            return False
        self.work.skipped += 1
        return True

    def _table_of(self, view: PartView, number: int, retry: bool) -> str:
        return self.new_name(view.name, number) if retry else self.first_name(view.name, number)

    def typed(self, view: PartView, sql: str) -> str:
        """A query for a part of a view in its types; what nobody could read of a view of a user's is refused."""
        if view.name not in self._guards:
            self._guards[view.name] = guards(view, self.host.dialect, self.user_of(view))
        return typed(self.host, view.columns, sql, self._guards[view.name])

    def sql(self, view: PartView, number: int) -> str:
        """The query for part `number` of a view, over the tables of the host."""
        return self._sql(view, self.query(view, number), number)

    def _sql(self, view: PartView, query: PartQuery, number: int) -> str:
        start = start_literal(self.host, number, view.length)
        return self.queries.render(query, lambda at: self._source(query.references[at], number), start)

    def query(self, view: PartView, number: int) -> PartQuery:
        """The query for a part: that over the sources, if the helpers do not reach so far back."""
        query = view.query(number == self.catalogue.relations[view.name].progress.first)
        if view.fallback is not None and not all(self._is_covered(view, each, number) for each in query.references):
            return view.fallback
        return query

    def _compute_quickly(self, view: PartView, number: int, table: str, waits: bool) -> int | None:
        """Makes a part by the cheaper query of its view; None if that is not right for its rows."""
        if view.quick is None:
            return None
        is_first = number == self.catalogue.relations[view.name].progress.first
        query, check = view.quick.initialize if is_first else view.quick.update, view.quick.check
        made = f"{table} quick"
        sql = self.typed(view, self._sql(view, query, number))
        rows = self.create(made, sql, waits or check is not None)
        if check is None:
            return rows

        def source(at: int) -> str:
            each = check.references[at]
            return self.host.source(made) if each.relation == view.name else self._source(each, number)

        counted = self.host.read(self.queries.render(check, source, "NULL"))
        return rows if counted.column(0)[0].as_py() == rows else None

    def _is_covered(self, view: PartView, reference: Reference, number: int) -> bool:
        """A helper has the parts that are read, or all there are of what it reads itself."""
        if reference.is_table or reference.relation not in self.views:
            return True
        helper = self.catalogue.relations[reference.relation].progress
        if helper.kept is None or reference.parts(number).start >= helper.kept:
            return True
        below = (each.relation for each in self.views[reference.relation].references())
        starts = [self.catalogue.relations[name].progress.first for name in below if name != reference.relation]
        return all(start is None or helper.kept <= start for start in starts)

    def _source(self, reference: Reference, number: int) -> str:
        if reference.is_table:
            return self.dimension_source(reference.relation)
        relation = self.catalogue.relations[reference.relation]
        return rows_of(self.host, relation, read_parts(reference, relation, number))

    def dimension_source(self, name: str) -> str:
        if name not in self._dimensions:
            table = self._dimensions[name] = f"{name}[dimension {self._next_serial()}]"
            self.load(table, self.dimension(name))
        return self.host.source(self._dimensions[name])

    def has_rows(self, reference: Reference, number: int) -> bool:
        if reference.is_table:
            return False
        source = self.catalogue.relations[reference.relation]
        return any(source.part(part).rows for part in read_parts(reference, source, number))

    def is_empty(self, view: PartView, query: PartQuery) -> bool:
        """Whether a query has no rows where none of the parts that it reads has: a total without GROUP BY has one."""
        key = view.name, query
        if key not in self._empty:
            counted = f"SELECT COUNT(*) AS n FROM ({self._over_nothing(query)}) AS computed"
            self._empty[key] = self.host.read(counted).column(0)[0].as_py() == 0
        return self._empty[key]

    def _over_nothing(self, query: PartQuery) -> str:
        """A query over parts without rows."""

        def source(at: int) -> str:
            each = query.references[at]
            if each.is_table:
                return self.dimension_source(each.relation)
            return f"({no_rows(self.host, self.catalogue.relations[each.relation].columns)})"

        return self.queries.render(query, source, start_literal(self.host, 0, 1))

    def check_on_host(self, view: PartView) -> None:
        """Refuses a view one of whose queries the host cannot run."""
        if view.matching is not None:
            return
        quick = view.quick
        found = (view.initialize, view.update, view.fallback, *((quick.initialize, quick.update) if quick else ()))
        try:
            for query in dict.fromkeys(each for each in found if each is not None):
                self.host.check(self.typed(view, self._over_nothing(query)))
        except DataError as error:
            hint = "say it in other words, or keep the parts on another host"
            raise UnsupportedError(f"a query of view {self.user_of(view)!r} on this host ({error})", hint) from error

    def first_name(self, relation: str, number: int) -> str:
        """The name of the first table of a part; a new one if a job of a process that died may still write to it."""
        is_taken = runs_jobs(self.host) or self.catalogue.relations[relation].has_taken_names
        return self.new_name(relation, number) if is_taken else f"{relation}[{number}]"

    def new_name(self, relation: str, number: int) -> str:
        return f"{relation}[{number}] {self._next_serial()}"

    def _next_serial(self) -> str:
        return f"{self.clock():x}-{next(self._serial)}"

    def create(self, table: str, query: str, waits: bool = True) -> int:
        """Makes a table of what a query returns; dropped with the batch unless a part names it."""
        self.created.append(table)
        if waits or not is_pipelining(self.host):
            return self.host.create(table, query)
        self.host.start(table, query)
        return PENDING

    def settle(self) -> None:
        """Waits for the tables that are being made, and enters their rows."""
        pending, self.pending = self.pending, []
        if not pending or not is_pipelining(self.host):
            return
        rows = self.host.settle()
        for name, number in pending:
            part = self.catalogue.relations[name].part(number)
            self.catalogue.set_part(name, number, replace(part, rows=rows[part.segments[0].table]))

    def create_all(self, queries: Mapping[str, str]) -> dict[str, int]:
        """Makes tables with the same columns, likewise; a host of jobs makes them by one."""
        if len(queries) < 2 or not runs_jobs(self.host):
            return {table: self.create(table, query) for table, query in queries.items()}
        self.created += queries
        return self.host.create_all(queries)

    def load(self, table: str, rows: Any) -> None:
        """Makes a table of Arrow rows, likewise."""
        self.created.append(table)
        self.host.load(table, rows)

    def end_batch(self, is_undone: bool = False) -> list[str]:
        """Forgets what a batch has made; returns it."""
        for matcher in self.matchers.values():
            matcher.end_batch(is_undone)
        tables, self.created, self._dimensions, self.pending = self.created, [], {}, []
        return tables

    # -- changed parts ----------------------------------------------------------------------------------------------

    def _recompute_provisional(self, ends: Mapping[str, int | None]) -> None:
        """Computes parts again that were computed before some of what they read was closed; `ends` says which were."""
        again: list[Changed] = []
        for name, view in self.views.items():
            end, first = ends[name], self.catalogue.relations[name].progress.first
            if first is not None and end is not None:
                awaited, within = [each for each in view.references() if each.provisional], range(first, end)
                again += [
                    (name, n) for n in sorted({n for each in awaited for n in self._read_newly_closed(each, within)})
                ]
        if again:
            self.recompute((), again)

    def _read_newly_closed(self, reference: Reference, within: range) -> Iterable[int]:
        """The parts of a view that read a part with rows which was closed in this batch."""
        before = self.catalogue.end_before(reference.relation)
        source = self.catalogue.relations[reference.relation]
        if before is not None and source.progress.next is not None:
            for part in source.filled(range(before, source.progress.next)):
                yield from reference.read_by(part, within)

    def recompute(self, changed: Iterable[Changed], again: Iterable[Changed] = (), is_eager: bool = False) -> None:
        """Follows changes of closed parts through the views that read them, and computes other parts `again`.

        View by view, each after those it reads, and in the order of time within a view and within views that are
        declared together. If `is_eager`, new parts may be computed on the way, where that saves a job of the host.
        """
        known, first = list(dict.fromkeys(changed)), list(again)
        if not known and not first:
            return
        self.settle()
        queue: list[tuple[int, int, int, int, str]] = []
        waiting: set[Changed] = set()
        place = {name: number for number, name in enumerate(self.order)}
        shared = {
            name: min(place.get(each, place[name]) for each in (name, *self.views[name].partners)) for name in place
        }

        def follow(source: str, part: int) -> None:
            for name, number in self._readers(source, part):
                put(name, number)

        def put(name: str, number: int) -> None:
            if (name, number) not in waiting:
                waiting.add((name, number))
                end = (number + 1) * self.views[name].length
                heapq.heappush(queue, (shared[name], end, place[name], number, name))

        for name, number in [*first, *extend_back(self, known)]:
            put(name, number)
        add_differences(self, known, is_eager)
        for source, part in known:
            follow(source, part)
        while queue:
            *_, number, name = heapq.heappop(queue)
            numbers = [number]
            while queue and queue[0][-1] == name and len(numbers) < self.host.workers and self._is_independent(name):
                numbers.append(heapq.heappop(queue)[-2])
            waiting.difference_update((name, each) for each in numbers)
            for part in self._recompute_parts(self.views[name], numbers, is_eager):
                follow(name, part)

    def _is_independent(self, name: str) -> bool:
        """The parts of a view can be computed in any order."""
        view = self.views[name]
        return name not in self.matchers and not view.reads_itself and not view.partners

    def _readers(self, source: str, part: int) -> Iterable[Changed]:
        """The parts of views, already computed, whose query reads a part."""
        for name, view in self.views.items():
            progress = self.catalogue.relations[name].progress
            if progress.next is None or progress.first is None or view.is_additive:
                continue
            within = range(max(progress.first, progress.kept or progress.first), progress.next)
            numbers = {
                number
                for is_first in (True, False)
                for each in view.followed(is_first)
                if each.relation == source and not each.is_table
                for number in each.read_by(part, within)
                if (number == progress.first) is is_first
            }
            yield from ((name, number) for number in sorted(numbers))

    def _recompute_parts(self, view: PartView, numbers: Sequence[int], is_eager: bool) -> list[int]:
        """Computes parts again that do not read each other; returns those that came out different.

        A host of jobs computes the next part of the view with them, if nothing else is to be computed before it.
        """
        if view.name in self.matchers:
            return [part for number in numbers for part in self.matchers[view.name].correct(number)]
        relation = self.catalogue.relations[view.name]
        for table in view.tables():
            self.dimension_source(table)
        new = []
        is_final = not any(each.provisional for each in view.references())
        if is_eager and is_final and runs_jobs(self.host) and self._is_independent(view.name):
            new = [number for number in [next_part(self, view)] if number is not None]
        after = self.compute_parts(view, numbers, new)
        for number in new:
            put_new_part(self, view, number, after[number])

        def is_same(number: int) -> bool:
            return are_equal(self, relation, number, relation.part(number), after[number])

        changed = []
        for number, is_equal in zip(numbers, run_concurrently(is_same, numbers), strict=True):
            self.work.recomputed += 1
            self.work.unchanged += is_equal
            if not is_equal:
                self.catalogue.set_part(view.name, number, after[number])
                changed.append(number)
        return changed
