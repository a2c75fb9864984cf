"""Matches kept over the parts of a stream (`MATCH_RECOGNIZE`).

A match lives in the part of its last row. New parts are searched from the newest point of every group that has rows in
them; a change of an old part from the point before it, until the search comes to a point that it had come to before.
What the search had found from there on is replaced: a match may grow, and move to a later part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from viewlet.changes import arrow_type
from viewlet.changes.arrow_change import is_readable
from viewlet.changes.staged_change import PART_COLUMN
from viewlet.errors import DataError
from viewlet.streams import long_gaps
from viewlet.streams.catalogue import EMPTY, Part, PartRelation, Segment
from viewlet.streams.definition import MICROSECONDS
from viewlet.streams.matching.conditions import new_bindings, terms_of
from viewlet.streams.matching.definition import START_INDEX, START_PART, Aggregate, MatchQuery, Navigation, RowValue
from viewlet.streams.matching.measures import LAST_PART, bind_rows, measure
from viewlet.streams.matching.points import (
    NONE,
    Key,
    Point,
    boundaries,
    from_arrow,
    point_before,
    point_columns,
    points_of,
    to_arrow,
)
from viewlet.streams.matching.queries import points_name, quoted
from viewlet.streams.matching.rows import GroupRows, keys_of, order_rows
from viewlet.streams.matching.search import Match, Search
from viewlet.streams.null_safe import same_values
from viewlet.streams.readable import UNREADABLE
from viewlet.streams.render import column_list, union_of

if TYPE_CHECKING:
    from viewlet.streams.definition import PartView
    from viewlet.streams.maintainer import Maintainer

FAR = (2**62, 0)
_NEAR = (-(2**62), 0)


@dataclass(frozen=True, slots=True)
class Zone:
    """The matches of a group that are replaced: those that begin in low..high; they end in parts first..last."""

    key: Key
    low: tuple[int, int]
    high: tuple[int, int]
    first: int
    last: int


@dataclass(slots=True)
class Outcome:
    """What a search has found: matches with their groups, what they replace, and the points of groups."""

    found: list[tuple[int, Match]] = field(default_factory=list)
    zones: list[Zone] = field(default_factory=list)
    points: list[tuple[Key, Point]] = field(default_factory=list)
    replaced: list[tuple[Key, int, int]] = field(default_factory=list)
    """Groups whose points of parts low..high, the last excluded, are replaced."""


class Matcher:
    """Keeps the matches of one view."""

    def __init__(self, maintainer: Maintainer, view: PartView) -> None:
        assert view.matching is not None
        self.query: MatchQuery = view.matching
        self._maintainer = maintainer
        self._view = view
        self._points: dict[Key, list[Point]] | None = None
        self._in_part: dict[int, dict[Key, Point]] = {}
        """The points again, by part and group."""
        self._seen: dict[int, Part] = {}
        """Parts of the source as they were when they were last searched, in the batch under way."""

    @property
    def _source(self) -> PartRelation:
        return self._maintainer.catalogue.relations[self.query.source]

    @property
    def _matches(self) -> PartRelation:
        return self._maintainer.catalogue.relations[self._view.name]

    @property
    def _stored_points(self) -> PartRelation:
        return self._maintainer.catalogue.relations[points_name(self._view.name)]

    # -- batches -------------------------------------------------------------------------------------------------------

    def advance(self, first: int, end: int) -> list[int]:
        """Searches the new parts first..end-1; returns the earlier parts whose matches have changed."""
        filled = self._source.filled(range(first, end))
        parts = range(first, end) if end - first <= long_gaps.LONG else filled
        for number in parts:
            self._maintainer.catalogue.set_part(self._view.name, number, Part((), 0, self._maintainer.clock()))
            self._seen[number] = self._source.part(number)
        if not filled:
            return []
        new = self._read_rows(filled, None)
        starts = {key: points[-1] for key in self._groups(new) if (points := self._known().get(key))}
        waiting = {key: point.since for key, point in starts.items() if point.since < first}
        rows = self._ordered(new, range(min(waiting.values(), default=first), first), list(waiting))
        outcome = self._search(rows, starts, first, None)
        self._store_points(outcome)
        return [number for number in self._store_matches(rows, outcome) if number < first]

    def correct(self, part: int) -> list[int]:
        """Searches again what a change of a part can have changed; returns the parts whose matches have."""
        keys = self._changed_keys(part)
        self._seen[part] = self._source.part(part)
        end = self._matches.progress.next
        assert end is not None
        if not keys:
            return []
        known = self._known()
        starts = {key: point for key in keys if (point := point_before(known.get(key, ()), part)) is not None}
        low = min([part, *(point.since for point in starts.values())])
        rows = self._ordered(None, range(low, end), keys)
        outcome = self._search(rows, starts, part, part)
        there = set(rows.keys)
        for key in keys:
            if key not in there:
                self._search_nothing(outcome, key, starts.get(key), part)
        self._store_points(outcome)
        return self._store_matches(rows, outcome)

    def end_batch(self, is_undone: bool) -> None:
        """Forgets what concerns the batch alone, and all points if it is taken back."""
        self._seen = {}
        if is_undone:
            self._points = None

    def oldest_part(self, horizon: int) -> int | None:
        """The first part of the source that a search may read, if no part before `horizon` changes."""
        found = (point_before(points, horizon) for points in self._known().values())
        return min((point.since for point in found if point is not None), default=None)

    def forget(self, horizon: int) -> None:
        """Gives up the points that no search resumes with, if no part before `horizon` changes.

        Those are all but the newest before it; that one too, if a search of the rows after it finds the same without.
        """
        known = self._known()
        for number in sorted(number for number in self._in_part if number < horizon):
            points = self._in_part[number]
            for key, point in list(points.items()):
                of_group = known[key]
                is_newest = point is of_group[-1]
                if is_newest and not self._is_over(point, horizon):
                    continue
                if not is_newest and point is point_before(of_group, horizon):
                    continue
                del points[key]
                of_group.remove(point)
                if not of_group:
                    del known[key]
            if not points:
                del self._in_part[number]
                self._maintainer.catalogue.set_part(self._stored_points.name, number, None)

    def _is_over(self, point: Point, horizon: int) -> bool:
        """A group whose rows do not matter to those that can still come, in part `horizon` and later ones."""
        query = self.query
        if query.counts_matches():
            return False
        if point.since > point.part:
            return True
        if query.within is None or query.lookback or query.lookahead or query.program.looks_for_end():
            return False
        return (point.part + 1) * query.length * MICROSECONDS + query.within <= horizon * query.length * MICROSECONDS

    # -- reading -------------------------------------------------------------------------------------------------------

    def _known(self) -> dict[Key, list[Point]]:
        if self._points is None:
            stored = self._stored_points
            table = self._read(stored, sorted(stored.stored))
            self._points, self._in_part = from_arrow(self.query, table), {}
            for key, points in self._points.items():
                for point in points:
                    self._in_part.setdefault(point.part, {})[key] = point
        return self._points

    def _read(self, relation: PartRelation, numbers: Iterable[int]) -> Any:
        """The rows of parts of a relation as Arrow, in its types."""
        segments = [(number, segment) for number in numbers for segment in relation.part(number).segments]
        table = self._maintainer.host.read(union_of(self._maintainer.host, relation.columns, segments))
        return table.cast(_schema(relation))

    def _distinct_keys(self, sql: str) -> list[Key]:
        host = self._maintainer.host
        if not self.query.keys:
            return [()] if host.read(f"SELECT COUNT(*) AS n FROM ({sql}) AS rows_").column(0)[0].as_py() else []
        names = ", ".join(map(host.quote, self.query.keys))
        return keys_of(host.read(f"SELECT DISTINCT {names} FROM ({sql}) AS rows_"), self.query.keys)

    def _changed_keys(self, part: int) -> list[Key]:
        """The groups whose rows in a part of the source are other than when it was last searched."""
        source, host = self._source, self._maintainer.host
        before: Part | None = source.part(part)
        if part in self._seen:
            before = self._seen[part]
        elif (source.name, part) in self._maintainer.catalogue.changed_parts():
            before = self._maintainer.catalogue.changed_parts()[source.name, part]
        if before is source.part(part):
            return []
        old, new = (
            union_of(host, source.columns, ((part, segment) for segment in each.segments))
            for each in (before or EMPTY, source.part(part))
        )
        gone, come = f"({old}) EXCEPT ALL ({new})", f"({new}) EXCEPT ALL ({old})"
        return self._distinct_keys(f"SELECT * FROM ({gone}) AS gone UNION ALL SELECT * FROM ({come}) AS come")

    def _groups(self, rows: Any) -> list[Key]:
        """The groups of rows."""
        if not self.query.keys:
            return [()]
        names = list(self.query.keys)
        return keys_of(rows.select(names).group_by(names).aggregate([]), names)

    def _ordered(self, new: Any, parts: range, keys: Sequence[Key]) -> GroupRows:
        """Rows that have been read, with those of some groups in other parts."""
        import pyarrow as pa

        calculator = self._maintainer.calculator()
        if new is not None and (not keys or not parts):
            return order_rows(self.query, calculator, new)
        others = self._read_rows(self._source.filled(parts), keys)
        rows = others if new is None else pa.concat_tables([others, new], promote_options="permissive")
        return order_rows(self.query, calculator, rows)

    def _read_rows(self, parts: Iterable[int], keys: Sequence[Key] | None) -> Any:
        """The rows of parts of the source with their part, as Arrow; of some groups if `keys` is given."""
        host, source = self._maintainer.host, self._source
        names, hidden = column_list(host, source.columns), host.quote(PART_COLUMN)
        selects = [
            f"SELECT {names}, CAST({number} AS BIGINT) AS {hidden} FROM ({rows}) AS part"
            for number in parts
            for rows in [union_of(host, source.columns, ((number, each) for each in source.part(number).segments))]
        ]
        if not selects:
            nothing = union_of(host, source.columns, ())
            selects = [f"SELECT {names}, CAST(0 AS BIGINT) AS {hidden} FROM ({nothing}) AS part"]
        sql = " UNION ALL ".join(selects)
        if self.query.keys and keys is not None:
            same = " AND ".join(
                same_values(host.dialect, f"rows_.{host.quote(name)}", f"chosen.k{number}", column.type)
                for number, (name, column) in enumerate(zip(self.query.keys, point_columns(self.query), strict=False))
            )
            chosen = f"SELECT 1 FROM {self._load_keys(keys)} AS chosen WHERE {same}"
            sql = f"SELECT * FROM ({sql}) AS rows_ WHERE EXISTS ({chosen})"
        return host.read(sql)

    def _load_keys(self, keys: Sequence[Key]) -> str:
        """A table of groups on the host, dropped with the batch."""
        table = self._maintainer.new_name(f"{self._view.name} keys", 0)
        self._maintainer.load(table, self._key_table(keys))
        return self._maintainer.host.source(table)

    def _key_table(self, keys: Sequence[Key]) -> Any:
        import pyarrow as pa

        types = [arrow_type(column.type) for column in point_columns(self.query)[: len(self.query.keys)]]
        arrays = [pa.array([key[at] for key in keys], type) for at, type in enumerate(types)]
        return pa.table(arrays, names=[f"k{number}" for number in range(len(types))])

    # -- searching -----------------------------------------------------------------------------------------------------

    def _search(self, rows: GroupRows, starts: dict[Key, Point], since: int, changed: int | None) -> Outcome:
        """Searches all groups; `changed` is the part that has changed, if old parts are searched again."""
        query, outcome = self.query, Outcome()
        used = _condition_columns(query)
        bound = new_bindings(query, rows.values(sorted(used), len(query.values)))
        search = Search(query, rows.tests(len(query.tests)), rows.times.tolist(), bound)
        for group, key in enumerate(rows.keys):
            self._search_group(search, rows, group, key, starts.get(key), since, changed, outcome)
        return outcome

    def _search_group(
        self,
        search: Search,
        rows: GroupRows,
        group: int,
        key: Key,
        start: Point | None,
        since: int,
        changed: int | None,
        outcome: Outcome,
    ) -> None:
        low, high = int(rows.bounds[group]), int(rows.bounds[group + 1])
        ends = boundaries(rows, group, since, self.query.lookback)
        begin = low if start is None else _row_at(rows, low, high, start.position)
        settled = _Settled(self, key, ends, changed)
        found = search.run(
            low, high, begin, 0 if start is None else start.number, settled if changed is not None else None
        )
        outcome.found += [(group, match) for match in found.matches]
        until = len(ends.ends) if settled.at is None else settled.at
        points = points_of(found, ends, 0, until)
        if settled.at is None and points:
            points[-1] = replace(points[-1], open=_open_part(rows, points[-1], found.matches))
        outcome.points += [(key, point) for point in points]
        after = settled.point
        outcome.replaced.append((key, since, FAR[0] if after is None else after.part))
        if start is not None and changed is None and start.open == NONE:
            return
        first = start.resume if start is not None and changed is not None else since if start is None else start.open
        outcome.zones.append(
            Zone(
                key,
                _NEAR if start is None else start.position,
                FAR if after is None else after.position,
                first,
                FAR[0] if after is None else after.part,
            )
        )

    def _search_nothing(self, outcome: Outcome, key: Key, start: Point | None, part: int) -> None:
        """A group that has no rows left from its last point on."""
        outcome.replaced.append((key, part, FAR[0]))
        low, first = (_NEAR, part) if start is None else (start.position, start.resume)
        outcome.zones.append(Zone(key, low, FAR, first, FAR[0]))

    def settled_point(self, key: Key, part: int) -> Point | None:
        """The point that the search had come to at the end of a part."""
        found = point_before(self._known().get(key, ()), part + 1)
        return found if found is not None and found.part == part else None

    # -- writing -------------------------------------------------------------------------------------------------------

    def _store_points(self, outcome: Outcome) -> None:
        known, parts = self._known(), self._in_part
        touched = {point.part for _, point in outcome.points}
        for key, low, high in outcome.replaced:
            gone = [point.part for point in known.get(key, ()) if low <= point.part < high]
            known[key] = [point for point in known.get(key, ()) if not low <= point.part < high]
            for number in gone:
                del parts[number][key]
            touched.update(gone)
        for key, point in outcome.points:
            known[key].append(point)
            parts.setdefault(point.part, {})[key] = point
        for key, _, _ in outcome.replaced:
            known[key].sort(key=lambda point: point.part)
            if not known[key]:
                del known[key]
        for number in sorted(touched):
            self._put(self._stored_points, number, to_arrow(self.query, parts[number].items()))

    def _store_matches(self, rows: GroupRows, outcome: Outcome) -> list[int]:
        """Puts matches into their parts in place of those that they replace; returns the parts that have changed."""
        relation, query = self._matches, self.query
        new = measure(query, self._maintainer.calculator(), rows, bind_rows(outcome.found)) if outcome.found else None
        self._check(new)
        parts = new.column(LAST_PART).to_numpy() if new is not None else np.zeros(0, np.int64)
        visited = {int(each) for each in np.unique(parts)}
        stored = [number for number, part in relation.stored.items() if part.rows]
        for zone in outcome.zones:
            visited.update(number for number in stored if zone.first <= number <= zone.last)
        kept = relation.progress.kept
        changed: list[int] = []
        for number in sorted(visited):
            if kept is not None and number < kept:
                continue
            added = None if new is None else new.filter(parts == number).drop_columns([LAST_PART])
            if self._replace(number, outcome.zones, added):
                changed.append(number)
        return changed

    def _check(self, matches: Any) -> None:
        """Refuses matches with a value that nobody can read."""
        for column in () if matches is None else self._matches.columns:
            if column.name in matches.column_names and not is_readable(matches.column(column.name), column.type):
                user = self._maintainer.user_of(self._view)
                raise DataError(f"column {column.name} of view {user!r} has a value that is {UNREADABLE}")

    def _replace(self, number: int, zones: Sequence[Zone], added: Any) -> bool:
        """Replaces matches of a part; tells whether that changes anything."""
        relation = self._matches
        if not relation.part(number).rows:
            if added is None or not added.num_rows:
                return False
            self._put(relation, number, added)
            return True
        old = self._read(relation, [number])
        if added is None:
            added = old.slice(0, 0)
        calculator, query = self._maintainer.calculator(), self.query
        same = [f"old_.{quoted(name)} IS NOT DISTINCT FROM zone_.k{at}" for at, name in enumerate(query.keys)]
        inside = [
            f"({START_PART} > low_part OR ({START_PART} = low_part AND {START_INDEX} >= low_place))",
            f"({START_PART} < high_part OR ({START_PART} = high_part AND {START_INDEX} < high_place))",
        ]
        kept = f"SELECT * FROM old_ WHERE NOT EXISTS (SELECT 1 FROM zone_ WHERE {' AND '.join([*same, *inside])})"
        tables = {"old_": old, "zone_": self._zone_table(zones), "new_": added.cast(_schema(relation))}
        result = calculator.run(f"{kept} UNION ALL SELECT * FROM new_", **tables)
        if result.num_rows == old.num_rows:
            lost = calculator.run("SELECT * FROM old_ EXCEPT ALL SELECT * FROM result_", old_=old, result_=result)
            if not lost.num_rows:
                return False
        self._put(relation, number, result)
        return True

    def _zone_table(self, zones: Sequence[Zone]) -> Any:
        import pyarrow as pa

        table = self._key_table([zone.key for zone in zones])
        bounds = {
            "low_part": [zone.low[0] for zone in zones],
            "low_place": [zone.low[1] for zone in zones],
            "high_part": [zone.high[0] for zone in zones],
            "high_place": [zone.high[1] for zone in zones],
        }
        if not self.query.keys:
            return pa.table({name: pa.array(values, pa.int64()) for name, values in bounds.items()})
        for name, values in bounds.items():
            table = table.append_column(name, pa.array(values, pa.int64()))
        return table

    def _put(self, relation: PartRelation, number: int, rows: Any) -> None:
        maintainer, name = self._maintainer, relation.name
        if not rows.num_rows:
            maintainer.catalogue.set_part(name, number, Part((), 0, maintainer.clock()))
            return
        table = maintainer.new_name(name, number)
        maintainer.load(table, rows.cast(_schema(relation)))
        maintainer.catalogue.set_part(name, number, Part((Segment(table),), rows.num_rows, maintainer.clock()))


@dataclass(slots=True)
class _Settled:
    """Notices when a search comes to a point that it had come to before the change of a part."""

    matcher: Matcher
    key: Key
    ends: Any
    changed: int | None
    next: int = 0
    at: int | None = None
    """The boundary at which it did, and the point."""
    point: Point | None = None

    def __call__(self, reach: int, start: int, number: int) -> bool:
        while self.next < len(self.ends.ends) and self.ends.ends[self.next] <= reach:
            here = self.ends.point(self.next, start, number)
            before = self.matcher.settled_point(self.key, here.part)
            is_after = self.changed is not None and here.since > self.changed
            if before is not None and is_after and here.settles(before, self.matcher.query.counts_matches()):
                self.at, self.point = self.next, before
                return True
            self.next += 1
        return False


def _row_at(rows: GroupRows, low: int, high: int, position: tuple[int, int]) -> int:
    """The first row of a group at a position or after it."""
    part, place = position
    begin = low + int(np.searchsorted(rows.parts[low:high], part, "left"))
    end = low + int(np.searchsorted(rows.parts[low:high], part, "right"))
    return begin + int(np.searchsorted(rows.places[begin:end], place, "left"))


def _open_part(rows: GroupRows, point: Point, matches: Sequence[Match]) -> int:
    """The first part in which a match ends that begins at a point or later; NONE without such."""
    ends = []
    for match in reversed(matches):
        if (int(rows.parts[match.start]), int(rows.places[match.start])) < point.position:
            break
        ends.append(int(rows.parts[match.start + max(0, len(match.labels) - 1)]))
    return min(ends, default=NONE)


def _condition_columns(query: MatchQuery) -> set[int]:
    """The columns of values that conditions read row by row."""
    found: set[int] = set()

    def visit(node: object) -> None:
        if isinstance(node, RowValue):
            found.add(node.column)
        for each in getattr(node, "operands", ()):
            visit(each)

    for condition in query.conditions:
        visit(condition)
        for term in terms_of(condition):
            if isinstance(term, Navigation | Aggregate) and term.column is not None:
                found.add(term.column)
    return found


def _schema(relation: PartRelation) -> Any:
    import pyarrow as pa

    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in relation.columns])
