"""The jobs of a load, and the views that each of them writes.

    selected rows of a table, whose keys differ ──► one job for all such views of the table
    rows of a join, whose keys differ           ──► a job of its own, which groups nothing
    rows of which hardly two share a key        ──► the same; equal keys are added up where the state is made
    anything else                               ──► a job that groups

That keys differ follows from the primary keys of the tables. A table that keeps its rows is such a view, and so is the
index of its keys; a job looks for duplicate keys. A shared job computes columns for rows that some of its views leave
out. Where that fails, as dividing by zero does, each view gets a job of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from viewlet.changes import MULTIPLICITY
from viewlet.errors import UnsupportedError
from viewlet.spark.plan.locations import Dist, Location
from viewlet.spark.run.load.repeated_rows import keys_per_row
from viewlet.spark.run.load.segment_task import SegmentTarget
from viewlet.spark.run.load.table_frame import NotLoadable, TableFrame, expected_bytes, is_cheap_to_read_again
from viewlet.spark.run.units.table_unit import Check
from viewlet.sqlgen.columns import columns_read
from viewlet.sqlgen.definition import RowsQuery, definition_sql, rows_sql
from viewlet.triggers.program import COUNT_FIELD, ProgramLayer, ViewDefinition
from viewlet.types import Table

APART_FROM_BYTES = 32 << 20
"""From so much on, looking at keys takes little of the time of a load."""
APART_SHARE = 0.75
"""How many different keys there are for each row where Spark does not add up rows of equal keys."""
DIALECTS = "spark in words", "spark"
"""The forms of a query: the first that can be evaluated is taken."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What is to be loaded of a unit. `checks` refuse what must not be in a view; definitions read `layers`."""

    views: Sequence[ViewDefinition]
    locations: Mapping[str, Location]
    tables: Mapping[str, Table]
    checks: Sequence[Check] = ()
    layers: Sequence[ProgramLayer] = ()

    def columns_read(self) -> dict[str, frozenset[str]]:
        """The columns of each table that are read for some views, by layers too."""
        own = {layer.table.name: layer.table for layer in self.layers}
        views = (*self.views, *(view for layer in self.layers for view in layer.shown))
        found = columns_read(views, {**self.tables, **own})
        return {name: columns for name, columns in found.items() if name not in own}

    def readers(self) -> Counter[str]:
        """By how many views each table is read; with layers, all may be read by all."""
        if self.layers:
            return Counter(dict.fromkeys(self.columns_read(), len(self.views)))
        return Counter(name for view in self.views for name in columns_read([view], self.tables))


@dataclass(frozen=True, slots=True)
class Sources:
    """What jobs read: data frames of some tables, and what SQL calls all tables."""

    frames: Mapping[str, TableFrame]
    names: Mapping[str, str]
    _sizes: dict[str, int] = field(default_factory=dict)

    def bytes(self, tables: Iterable[str]) -> int:
        """What Spark expects some tables to take."""
        read = [name for name in tables if name in self.frames]
        for name in read:
            if name not in self._sizes:
                self._sizes[name] = expected_bytes(self.frames[name].pruned())
        return sum(map(self._sizes.__getitem__, read))

    def has_plain_rows(self, tables: Iterable[str]) -> bool:
        """All of some tables have frames, which do not say how often a row comes."""
        return all(name in self.frames and not self.frames[name].is_weighted for name in tables)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A query, and the views that its rows are of."""

    sql: str
    targets: tuple[SegmentTarget, ...]


@dataclass(frozen=True, slots=True)
class LoadJob:
    """Writes the rows of a query; the first that can be evaluated is taken."""

    name: str
    bytes: int
    attempts: tuple[Attempt, ...]
    alone: tuple[LoadJob, ...] = ()
    """What takes its place if none can be evaluated."""

    @property
    def views(self) -> tuple[int, ...]:
        return tuple(target.view for target in self.attempts[0].targets)


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """A query for a key that comes more often than it may."""

    sql: str
    check: Check


@dataclass(frozen=True, slots=True)
class KeyChecks:
    """Looks for such keys in several tables; writes nothing."""

    checks: tuple[KeyCheck, ...]
    bytes: int

    @property
    def sql(self) -> str:
        """The number of a check that finds a key, NULL if none does."""
        found = (f"SELECT {i} AS number FROM (\n{each.sql}\n)" for i, each in enumerate(self.checks))
        return f"SELECT MIN(number) FROM (\n{' UNION ALL '.join(found)}\n)"


Job = LoadJob | KeyChecks


@dataclass(frozen=True, slots=True)
class ViewLoad:
    """A view of a request."""

    number: int
    request: LoadRequest
    view: ViewDefinition
    queries: tuple[str, ...]
    """Its contents, in each dialect."""

    @staticmethod
    def of(number: int, request: LoadRequest, view: ViewDefinition, sources: Sources) -> ViewLoad:
        """`NotLoadable` if a definition has no SQL."""
        weighted = frozenset(name for name, frame in sources.frames.items() if frame.is_weighted)
        tables, layers, names = request.tables, request.layers, sources.names
        try:
            queries = [
                definition_sql(view, tables, dialect, names.__getitem__, MULTIPLICITY, weighted, layers)
                for dialect in DIALECTS
            ]
        except UnsupportedError as error:
            raise NotLoadable(f"{view.name}: {error}") from error
        return ViewLoad(number, request, view, tuple(queries))

    @property
    def target(self) -> SegmentTarget:
        view, location = self.view, self.request.locations[self.view.name]
        by = tuple(view.keys.index(var) for var in location.by) if isinstance(location, Dist) else None
        return SegmentTarget(self.number, len(view.keys), by, self._counted, self.checks)

    @property
    def checks(self) -> tuple[Check, ...]:
        return tuple(check for check in self.request.checks if check.view == self.view.name)

    @property
    def _counted(self) -> int | None:
        return next((i for i, field in enumerate(self.view.fields) if field.name == COUNT_FIELD), None)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that it reads; with layers, it may read all that these read."""
        request = self.request
        return tuple(sorted(request.columns_read() if request.layers else columns_read([self.view], request.tables)))

    def rows(self, sources: Sources) -> list[RowsQuery] | None:
        """The rows that its groups are made of, in each dialect; None where SQL has to group them."""
        if self.request.layers or not sources.has_plain_rows(self.tables):
            return None
        found = [rows_sql(self.view, self.request.tables, each, sources.names.__getitem__) for each in DIALECTS]
        return [each for each in found if each is not None] or None

    def job(self, queries: Iterable[str], sources: Sources, target: SegmentTarget) -> LoadJob:
        attempts = tuple(Attempt(query, (target,)) for query in dict.fromkeys(queries))
        return LoadJob(self.view.name, sources.bytes(self.tables), attempts)


def plan_jobs(spark: Any, loads: Sequence[ViewLoad], sources: Sources) -> list[Job]:
    """The jobs that write some views, the largest first."""
    jobs: list[Job] = []
    checks: list[KeyCheck] = []
    shared: defaultdict[str, list[tuple[ViewLoad, list[RowsQuery]]]] = defaultdict(list)
    for load in loads:
        rows, target = load.rows(sources), load.target
        if rows is None or not (rows[0].is_unique or _is_worth_listing(spark, load, rows[0], sources)):
            jobs.append(load.job(load.queries, sources, target))
            continue
        if not rows[0].is_unique:
            jobs.append(load.job([each.sql for each in rows], sources, replace(target, has_parts=True)))
            continue
        checks += _key_checks(load)
        if rows[0].source == f"FROM {sources.names[load.tables[0]]} AS t1":
            shared[load.tables[0]].append((load, rows))
        else:
            jobs.append(_alone(load, rows, sources))
    jobs += [_together(table, found, sources) for table, found in shared.items()]
    if checks:
        jobs.append(KeyChecks(tuple(checks), sources.bytes({each.check.table.name for each in checks})))
    return sorted(jobs, key=lambda job: -job.bytes)


def _is_worth_listing(spark: Any, load: ViewLoad, rows: RowsQuery, sources: Sources) -> bool:
    """Nearly all rows of a large table have keys of their own, so that grouping them takes time for nothing."""
    if load.target.by is None or load.checks:
        return False
    given = sources.frames[load.tables[0]].pruned()
    if not is_cheap_to_read_again(given) or expected_bytes(given) < APART_FROM_BYTES:
        return False
    return keys_per_row(spark.sql(rows.sql_of_keys), expected_bytes(given)) >= APART_SHARE


def _key_checks(load: ViewLoad) -> list[KeyCheck]:
    """Counts of plain rows are above zero; they may be above a limit."""
    limits = [(check, check.at_most) for check in load.checks if check.at_most is not None]
    text = f"SELECT * FROM (\n{load.queries[0]}\n) WHERE f{load.target.counted} > "
    return [KeyCheck(f"{text}{limit}", check) for check, limit in limits]


def _alone(load: ViewLoad, rows: Sequence[RowsQuery], sources: Sources) -> LoadJob:
    """A job for a view with a row per key."""
    return load.job([each.sql_of_contents for each in rows], sources, replace(load.target, checks=()))


def _together(table: str, found: Sequence[tuple[ViewLoad, list[RowsQuery]]], sources: Sources) -> LoadJob:
    """A job for all views that have a row for each of some rows of a table."""
    alone = tuple(_alone(load, rows, sources) for load, rows in found)
    if len(found) == 1:
        return alone[0]
    attempts = tuple(
        _of_all([(load.target, rows[i]) for load, rows in found]) for i in range(min(len(rows) for _, rows in found))
    )
    name = ", ".join(load.view.name for load, _ in found)
    return LoadJob(name, sources.bytes([table]), tuple(dict.fromkeys(attempts)), alone)


def _of_all(views: Sequence[tuple[SegmentTarget, RowsQuery]]) -> Attempt:
    """One query whose columns are those of several views, each once, and conditions that say whose a row is."""
    columns: dict[str, int] = {}

    def position(text: str) -> int:
        return columns.setdefault(text, len(columns))

    conditions = {target.view: " AND ".join(rows.conditions) for target, rows in views}
    targets = tuple(
        replace(
            target,
            checks=(),
            columns=tuple(map(position, (*rows.keys, *rows.fields))),
            present=position(f"COALESCE({conditions[target.view]}, FALSE)") if rows.conditions else None,
        )
        for target, rows in views
    )
    listed = ", ".join(f"{text} AS c{i}" for text, i in columns.items())
    where = f"\nWHERE ({') OR ('.join(conditions.values())})" if all(conditions.values()) else ""
    return Attempt(f"SELECT {listed}\n{views[0][1].source}{where}", targets)
