"""The warehouse of a database: its streams and stream views, the maintainer that keeps them, and how they are read.

A batch is `begin`, `apply` for each stream, `advance`, then `commit` or `rollback`. The epoch of the last batch is
committed with the parts, so that a batch which the journal repeats after a crash is left out if the parts have it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from viewlet.changes import Change, Changes, to_changes
from viewlet.changes.staged_change import StagedChange
from viewlet.errors import SchemaError, StateError
from viewlet.streams.archive import Archive
from viewlet.streams.catalogue import Catalogue, Known, Part, PartRelation
from viewlet.streams.check import initialization_order
from viewlet.streams.definition import BEGINNING, PART_TIMESTAMP, PartView, part_of, start_of
from viewlet.streams.earlier_versions import name_columns, search_again, statement_digest
from viewlet.streams.host import PartHost, is_counting, is_partitioning
from viewlet.streams.ingest import close_idle, close_until, ingest, ingest_staged, late_name, late_relation
from viewlet.streams.maintainer import Changed, Maintainer
from viewlet.streams.matching.queries import points_name, points_of
from viewlet.streams.native_windows import merges_natively
from viewlet.streams.new_parts import Updates, compute_all
from viewlet.streams.render import column_list, start_literal, union_of
from viewlet.streams.retention import tidy_up
from viewlet.streams.stamps import Stamps
from viewlet.types import TIMESTAMP, Column, Table

PARTS_AT_A_TIME = 400
"""Parts that one query reads."""


@dataclass(frozen=True, slots=True)
class PartInfo:
    """What users are told of a part: when it begins, its rows, and when they last changed."""

    number: int
    start: datetime
    rows: int
    updated: datetime


class Warehouse:
    """Streams and stream views on a host."""

    def __init__(
        self,
        host: PartHost,
        dimension: Callable[[str], Any],
        is_new: bool = False,
        archive: Path | None = None,
        updates: Updates | None = None,
        stamps: Stamps | None = None,
    ) -> None:
        self.host = host
        self.stamps = stamps or Stamps()
        self.updates = updates or Updates()
        if is_new:
            if is_partitioning(host):
                for name in host.relations():
                    host.forget(name)
            host.commit(dict.fromkeys(host.entries()), list(host.tables()))
        self.catalogue = self._read_catalogue()
        self.stamps.open(self.catalogue.stamp, host.place)
        self._check_tables()
        self.maintainer = Maintainer(host, self.catalogue, dimension)
        self.maintainer.archive = Archive(archive)
        self._seen: dict[str, int] = {}
        """When a stream last had a row, by this machine's clock."""
        self._changed: list[Changed] = []
        self._streams: set[str] = set()
        """The streams of the batch under way."""
        self._is_refresh = False
        """The batch under way computes all parts that wait."""
        self._helper_users: Counter[str] = Counter()
        self._is_advanced = False
        self._is_repeated = False
        """The parts have the batch under way already."""
        used = set(map(host.source, self.catalogue.uses))
        left_over = [table for table in host.tables() if host.source(table) not in used]
        if left_over:
            host.commit({}, left_over)

    def _read_catalogue(self) -> Catalogue:
        try:
            return Catalogue(self.host.entries())
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(f"the catalogue of parts in {self.host.place} is damaged: {error!r}") from error

    def _check_tables(self) -> None:
        """Refuses a host whose tables are not those of its catalogue."""
        damage = self.catalogue.damage(self.host.row_counts()) if is_counting(self.host) else None
        if damage is not None:
            remedy = "restore the file from the same copy as the directory"
            raise StateError(f"the parts of streams in {self.host.place} are damaged: {damage}; {remedy}")

    # -- declarations -----------------------------------------------------------------------------------------------

    def add_stream(self, table: Table) -> None:
        """Makes a stream known, with the parts that the host has of it."""
        assert table.parts is not None
        self._seen[table.name] = self.maintainer.clock()
        relation = PartRelation(table.name, table.columns, table.parts, is_stream=True)
        self._declare(relation, repr((table.columns, table.parts)))
        self._declare(late_relation(relation), repr(table.columns))

    def drop_stream(self, name: str) -> None:
        self._seen.pop(name, None)
        self._forget(name)
        self._forget(late_name(name))

    def _declare(self, relation: PartRelation, digest: str, statement: str | None = None) -> Known:
        """What the host has of a relation of this definition; what it has of others is dropped."""
        known = self.catalogue.declare(relation, digest, statement)
        if known is Known.NOTHING and is_partitioning(self.host):
            self.host.forget(relation.name)
        return known

    def _forget(self, name: str) -> None:
        self.catalogue.remove(name)
        if is_partitioning(self.host):
            self.host.forget(name)

    def suited(self, view: PartView) -> PartView:
        """The form of a view for the host of this warehouse."""
        if view.elsewhere is None or merges_natively(self.host):
            return view
        return replace(view.elsewhere, statement=view.statement)

    def add_view(self, view: PartView) -> None:
        """Makes a view known, with its helpers; a new one is computed as far as its sources are.

        Of views that are declared together, the first one brings the others.
        """
        self.maintainer.declared[view.name] = view
        if view.partners:
            self._add_family(view)
            return
        self._helper_users.update(helper.name for helper in view.helpers)
        known = self.catalogue.known(view.name, digest_of(view), statement_digest(view))
        new = [
            helper
            for helper in view.helpers
            if helper.name not in self.maintainer.views and self._add(helper) is Known.NOTHING
        ]
        helpers = [helper.name for helper in view.helpers]
        if helpers:
            self.maintainer.advance((), partial(compute_all, names=helpers))  # the view begins with their first part
        self._add(view)
        self.maintainer.advance((), partial(compute_all, names=[*helpers, view.name]))
        if known is Known.PARTS or (new and known is Known.ALL):
            self.commit()

    def _add_family(self, view: PartView) -> None:
        if view.name in self.maintainer.views:
            self.maintainer.add(view)
            return
        members = initialization_order((view, *view.family))
        known = {self._add(member) for member in members}
        if Known.NOTHING in known:
            for member in members:
                self.maintainer.check_on_host(member)
        self.maintainer.advance((), partial(compute_all, names=[view.name, *view.partners]))
        if Known.PARTS in known:
            self.commit()

    def _add(self, view: PartView) -> Known:
        """Makes a view known, and tells what the host has of it."""
        points = None if view.matching is None else points_of(view, view.matching)
        relation = PartRelation(view.name, view.columns, view.parts, is_stream=False)
        known = self._declare(relation, digest_of(view), statement_digest(view))
        self.maintainer.add(view)
        if known is not Known.ALL:
            self.host.begin()
        if known is Known.NOTHING:
            if not view.partners:
                self.maintainer.check_on_host(view)
            self.maintainer.begin_view(view)
        elif known is Known.PARTS:
            name_columns(self.maintainer, relation)
        if points is not None:
            self._declare(points, digest_of(view))
            if known is Known.PARTS:
                search_again(self.maintainer, view)
        return known

    def drop_view(self, view: PartView) -> None:
        """Forgets a view, what was declared with it, and helpers that no other view uses; may be called again.

        It may have been added in part.
        """
        if self.maintainer.declared.get(view.name) is not view:
            return
        for name in (view.name, *view.partners):
            self.maintainer.declared.pop(name, None)
            self._remove(name)
        for helper in reversed(view.helpers):
            self._helper_users[helper.name] -= 1
            if not self._helper_users[helper.name]:
                del self._helper_users[helper.name]
                self._remove(helper.name)

    def _remove(self, name: str) -> None:
        self.maintainer.remove(name)
        self._forget(name)
        self._forget(points_name(name))

    # -- batches ----------------------------------------------------------------------------------------------------

    def begin(self, epoch: int) -> None:
        self._is_repeated = epoch <= self.catalogue.epoch
        self._is_advanced = self._is_refresh = False
        self._streams = set()
        if not self._is_repeated:
            for name in self.catalogue.drop_undeclared():
                self._forget(name)
            self.host.begin()
            self.catalogue.set_epoch(epoch)

    def apply(self, stream: str, change: Change) -> None:
        """Rows of a stream, or the time until which it is complete."""
        if self._is_repeated:
            return
        relation = self.catalogue.relations[stream]
        self._streams.add(stream)
        closes = getattr(change, "closes", None)
        if closes == BEGINNING:
            self._is_refresh = True
        elif closes is not None:
            close_until(self.maintainer, relation, closes)
        else:
            if isinstance(change, StagedChange):
                self._changed.extend(ingest_staged(self.maintainer, relation, change))
            else:
                self._changed.extend(ingest(self.maintainer, relation, change))
            self._seen[stream] = self.maintainer.clock()

    def advance(self) -> None:
        """Brings all views up to date, at the first request of a batch."""
        if self._is_repeated or self._is_advanced:
            return
        self._streams |= close_idle(self.maintainer, self._seen)
        plan, is_eager = self.updates.plan(sorted(self._streams), self._is_refresh), self.updates.order == "eager"
        self.maintainer.advance(self._changed, plan, is_eager)
        tidy_up(self.maintainer)
        self._is_advanced = True

    def commit(self) -> None:
        """Makes the batch permanent; may be called again."""
        self._changed = []
        made = self.maintainer.end_batch()
        if self.catalogue.is_empty_of_changes() and not made:
            self.host.rollback()
            return
        changed, dropped = self.catalogue.changed_parts(), self.catalogue.dropped
        before = (part for part in (*changed.values(), *dropped.values()) if part is not None)
        named = {*made, *(segment.table for part in before for segment in part.segments)}
        if is_partitioning(self.host):
            for name, tables in self._placements(set(made)).items():
                self.host.attach(name, tables)
        stamp = self.stamps.to_write
        self.host.commit(self.catalogue.entries(stamp), sorted(named - self.catalogue.uses.keys()))
        self.catalogue.stamp = stamp
        self.stamps.written(stamp)
        self.catalogue.forget_changes()
        self.catalogue.dropped = {}

    def _placements(self, made: set[str]) -> dict[str, dict[str, range]]:
        """The parts of the tables that the batch has made, by relation; those of helpers are nobody else's to read."""
        found: dict[str, dict[str, range]] = {}
        internal = {*self._helper_users, *map(points_name, self.maintainer.matchers)}
        for name, number in sorted(self.catalogue.changed_parts()):
            relation = None if name in internal else self.catalogue.relations.get(name)
            for segment in () if relation is None else relation.part(number).segments:
                if segment.table in made:
                    tables = found.setdefault(name, {})
                    first = tables[segment.table].start if segment.table in tables else number
                    tables[segment.table] = range(first, (number if segment.rolled else first) + 1)
        return found

    def rollback(self) -> None:
        """Takes the batch back; may be called again."""
        self._changed = []
        self.maintainer.end_batch(is_undone=True)
        self.host.rollback()
        self.catalogue.take_back()

    def close(self) -> None:
        self.host.close()

    def arrival_time(self, stream: str) -> int:
        """The time of rows that arrive now (microseconds); it is never that of a closed part."""
        return max(self.maintainer.clock(), self.relation(stream).progress.watermark or 0)

    # -- reading ----------------------------------------------------------------------------------------------------

    def relation(self, name: str) -> PartRelation:
        return self.catalogue.relations[name]

    def arrow(self, name: str, numbers: Iterable[int] | None = None, with_start: bool = False) -> Any:
        """The rows of a relation, or of some of its parts, as Arrow; those of a view with the start of their part.

        Those of a stream have it where the caller asks for it.
        """
        import pyarrow as pa

        relation = self.relation(name)
        with_start = with_start or not relation.is_stream
        if numbers is None:
            numbers = self.shown(name)
        chosen = [number for number in numbers if relation.part(number).rows]
        groups = [chosen[at : at + PARTS_AT_A_TIME] for at in range(0, len(chosen), PARTS_AT_A_TIME)] or [[]]
        select = self._select if with_start else self._select_rows
        return pa.concat_tables(
            [self.host.read(select(relation, [(n, relation.part(n)) for n in each])) for each in groups]
        )

    def _select_rows(self, relation: PartRelation, parts: Sequence[tuple[int, Part]]) -> str:
        pieces = ((number, segment) for number, part in parts for segment in part.segments)
        return union_of(self.host, relation.columns, pieces)

    def _select(self, relation: PartRelation, parts: Sequence[tuple[int, Part]]) -> str:
        """The rows of parts, with the start of each."""
        names, stamp = column_list(self.host, relation.columns), self.host.quote(PART_TIMESTAMP)
        selects = []
        for number, part in parts or [(0, Part((), 0, 0))]:
            rows = union_of(self.host, relation.columns, ((number, segment) for segment in part.segments))
            start = start_literal(self.host, number, relation.length)
            selects.append(f"SELECT {names}, {start} AS {stamp} FROM ({rows}) AS part")
        return " UNION ALL ".join(selects)

    def numbers_between(self, name: str, low: int | None, high: int | None) -> list[int]:
        """The parts of a relation that begin between two times (microseconds), both included."""
        relation = self.relation(name)
        return [
            number
            for number in self.shown(name)
            for start in (start_of(number, relation.length),)
            if (low is None or low <= start) and (high is None or start <= high)
        ]

    def shown(self, name: str) -> list[int]:
        """The parts of a relation whose rows are shown, in the order of time."""
        relation = self.relation(name)
        if not relation.parts.newest:
            return sorted(relation.stored)
        return [] if relation.progress.next is None else [relation.progress.next - 1]

    def count(self, name: str) -> int:
        relation = self.relation(name)
        return sum(relation.part(number).rows for number in self.shown(name))

    def rows(self, name: str) -> Changes:
        """The rows of a view with their multiplicities, as the engine holds them."""
        return to_changes(self._visible(name), self.arrow(name))

    def changes(self, name: str) -> Changes:
        """What the batch under way does to the rows of a view."""
        relation, total = self.relation(name), Counter[Any]()
        table = self._visible(name)
        if relation.parts.newest:
            return self._changes_of_newest(relation, table)
        for (changed, number), before in self.catalogue.changed_parts().items():
            if changed != name:
                continue
            after = relation.stored.get(number)
            if before is not None and after is not None and before.updated == after.updated:
                continue  # the same rows, rolled up
            for part, other, sign in ((after, before, 1), (before, after, -1)):
                if part is None or not part.rows:
                    continue
                sql = self._select(relation, [(number, part)])
                if other is not None and other.rows:
                    sql = f"({sql}) EXCEPT ALL ({self._select(relation, [(number, other)])})"
                for row, weight in to_changes(table, self.host.read(sql)).items():
                    total[row] += sign * weight
        return {row: weight for row, weight in total.items() if weight}

    def _changes_of_newest(self, relation: PartRelation, table: Table) -> Changes:
        """What the batch under way does to the newest part: another one takes its place, or its rows change."""
        total = Counter[Any]()
        before, now = self.catalogue.end_before(relation.name), relation.progress.next
        for end, sign, parts in ((before, -1, self.catalogue.changed_parts()), (now, 1, {})):
            if end is None:
                continue
            part = parts.get((relation.name, end - 1), relation.stored.get(end - 1))
            if part is not None and part.rows:
                for row, weight in to_changes(table, self.host.read(self._select(relation, [(end - 1, part)]))).items():
                    total[row] += sign * weight
        return {row: weight for row, weight in total.items() if weight}

    def _visible(self, name: str) -> Table:
        relation = self.relation(name)
        return Table(name, (*relation.columns, Column(PART_TIMESTAMP, TIMESTAMP)))

    def parts(self, name: str) -> list[PartInfo]:
        """The closed parts of a relation that are kept, in the order of time."""
        relation = self.relation(name)
        return [
            PartInfo(number, _time(start_of(number, relation.length)), part.rows, _time(part.updated))
            for number in relation.closed_parts()
            for part in (relation.part(number),)
        ]

    def archived(self, name: str) -> Any:
        """The rows of parts that were archived, as Arrow."""
        return self.maintainer.archive.read(self.relation(name), self.catalogue.archived.get(name, {}))

    def late_rows(self, stream: str) -> Any:
        """The rows of a stream that came too late, as Arrow."""
        return self.arrow(late_name(stream))

    def start(self, name: str, number: int) -> datetime:
        """When a part of a relation begins."""
        return _time(start_of(number, self.relation(name).length))

    def number_at(self, name: str, time: int) -> int:
        """The part of a relation that a time (microseconds) belongs to, which has to be closed and kept."""
        relation = self.relation(name)
        number = part_of(time, relation.length)
        if not relation.is_closed(number):
            raise SchemaError(f"{name!r} has no part at {_time(time)} yet: it is not closed")
        return number


def digest_of(view: PartView) -> str:
    """What a host knows the definition of a view by."""
    return hashlib.sha256(repr(replace(view, helpers=())).encode()).hexdigest()


def _time(microseconds: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=microseconds)
