"""Initial loads: the contents of views by Spark SQL, written to the checkpoint directory partition by partition.

    definition of a view ──► SELECT (viewlet.sqlgen) ──► rows ──► segments of a file per task ──► `LoadedViews`

There is no extra shuffle: each task sorts its rows by partition and writes a segment for each partition. Restoring a
partition reads its segments. Where hardly two rows of a large table share the key of a view, Spark would aggregate for
nothing: tasks write a row for each of them, and equal keys are added up where the state is made of the segments.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from viewlet.changes import MULTIPLICITY
from viewlet.errors import UnsupportedError
from viewlet.runtime.durable.files import Files, files_at
from viewlet.spark.plan.locations import Dist, Location
from viewlet.spark.run.exchange import task_errors
from viewlet.spark.run.java import job_description
from viewlet.spark.run.load.repeated_rows import keys_per_row
from viewlet.spark.run.load.row_frame import rows_frame
from viewlet.spark.run.load.segment_task import SEGMENTS, WriteSegments
from viewlet.spark.run.load.table_frame import (
    NotLoadable,
    TableFrame,
    empty_frame,
    expected_bytes,
    is_cheap_to_read_again,
    table_frame,
)
from viewlet.spark.run.state.segment_files import LoadedView, LoadedViews, Segment
from viewlet.spark.run.units.table_unit import Check
from viewlet.sqlgen.columns import columns_read
from viewlet.sqlgen.definition import definition_sql, rows_sql
from viewlet.triggers.program import COUNT_FIELD, ProgramLayer, ViewDefinition
from viewlet.types import Table

Progress = Callable[[str, int, int], None]
"""Told the name of a view that has been loaded, how many have been by now, and of how many."""
SETTINGS = {
    "spark.sql.ansi.enabled": "true",  # overflows fail instead of giving NULL
    "spark.sql.parser.escapedStringLiterals": "false",  # a backslash escapes, as the text of queries expects
    "spark.sql.variable.substitute": "false",  # ${env:HOME} in a name or a text stands for itself
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
APART_FROM_BYTES = 32 << 20
"""From so much on, looking at keys takes little of the time of a load."""
APART_SHARE = 0.75
"""How many different keys there are for each row where Spark does not add up rows of equal keys."""
EVALUATION_ERRORS = ("ArithmeticException", "SparkRuntimeException", "DateTimeException", "NumberFormatException")

__all__ = ["LoadedViews", "NotLoadable", "load_views", "rows_frame"]


def load_views(
    spark: Any,
    views: Sequence[ViewDefinition],
    locations: Mapping[str, Location],
    tables: Mapping[str, Table],
    frames: Mapping[str, Any],
    partitions: int,
    checkpoint: str,
    folder: str,
    checks: Sequence[Check] = (),
    progress: Progress | None = None,
    layers: Sequence[ProgramLayer] = (),
) -> LoadedViews:
    """The contents that views have over data frames with all rows of their tables, in a folder of the checkpoint.

    A frame has the columns of its table, and may have `_multiplicity`; a table without one is empty. `checks` refuse
    what must not be in a view. `layers` are those that the definitions read. Where Spark SQL cannot evaluate a
    definition, or read a frame, `NotLoadable` is raised, and there is nothing in the folder; the same for errors.
    """
    needed = _columns_read(views, layers, tables)
    found = {name: table_frame(tables[name], frames[name], needed[name]) for name in needed if name in frames}
    weighted = frozenset(name for name, frame in found.items() if frame.is_weighted)
    names = {name: f"viewlet_{uuid.uuid4().hex}" for name in needed}
    catalogue = spark.conf.get("spark.sql.globalTempDatabase", "global_temp")
    sources = {name: f"{catalogue}.{registered}" for name, registered in names.items()}
    queries = [
        [_query(view, tables, sources, weighted, layers, dialect) for dialect in ("spark in words", "spark")]
        for view in views
    ]
    files = files_at(checkpoint)
    with ExitStack() as undo:
        files.make_folder(folder)
        undo.callback(files.remove, folder)
        with _settings(spark, SETTINGS), _registered(spark, tables, found, names, _readers(views, layers, tables)):
            loaded = {}
            for number, (view, query) in enumerate(zip(views, queries, strict=True), start=1):
                task = _task(view, locations[view.name], partitions, checkpoint, folder, checks)
                rows = _rows_apart(spark, view, tables, found, sources, task, layers)
                if rows is not None:
                    query, task = rows, replace(task, has_parts=True)
                loaded[view.name] = _loaded(spark, view, list(dict.fromkeys(query)), task)
                if progress is not None:
                    progress(view.name, number, len(views))
        result = LoadedViews(checkpoint, folder, loaded)
        _remove_others(files, result)
        files.sync_folder(folder)
        undo.pop_all()
    return result


def _query(
    view: ViewDefinition,
    tables: Mapping[str, Table],
    sources: Mapping[str, str],
    weighted: Set[str],
    layers: Sequence[ProgramLayer],
    dialect: str,
) -> str:
    try:
        return definition_sql(view, tables, dialect, lambda name: sources[name], MULTIPLICITY, weighted, layers)
    except UnsupportedError as error:
        raise NotLoadable(f"{view.name}: {error}") from error


def _rows_apart(
    spark: Any,
    view: ViewDefinition,
    tables: Mapping[str, Table],
    found: Mapping[str, TableFrame],
    sources: Mapping[str, str],
    task: WriteSegments,
    layers: Sequence[ProgramLayer],
) -> list[str] | None:
    """Queries for the rows of a large table that a view groups, if nearly all of them have keys of their own."""
    if task.by is None or task.checks or layers:
        return None
    read = [found[name] for name in columns_read([view], tables) if name in found]
    if len(read) != 1 or read[0].is_weighted:
        return None
    (given,) = (each.pruned() for each in read)
    if not is_cheap_to_read_again(given) or expected_bytes(given) < APART_FROM_BYTES:
        return None
    queries = [rows_sql(view, tables, dialect, lambda name: sources[name]) for dialect in ("spark in words", "spark")]
    if queries[0] is None or keys_per_row(spark.sql(queries[0].keys), expected_bytes(given)) < APART_SHARE:
        return None
    return [query.sql for query in queries if query is not None]


def _columns_read(
    views: Iterable[ViewDefinition], layers: Sequence[ProgramLayer], tables: Mapping[str, Table]
) -> dict[str, frozenset[str]]:
    """The columns of each table that are read for some views, by layers too."""
    own = {layer.table.name: layer.table for layer in layers}
    found = columns_read((*views, *(view for layer in layers for view in layer.shown)), {**tables, **own})
    return {name: columns for name, columns in found.items() if name not in own}


def _readers(
    views: Sequence[ViewDefinition], layers: Sequence[ProgramLayer], tables: Mapping[str, Table]
) -> Counter[str]:
    """By how many views each table is read; with layers, all may be read by all."""
    if layers:
        return Counter(dict.fromkeys(_columns_read(views, layers, tables), len(views)))
    return Counter(name for view in views for name in columns_read([view], tables))


def _task(
    view: ViewDefinition,
    location: Location,
    partitions: int,
    checkpoint: str,
    folder: str,
    checks: Sequence[Check],
) -> WriteSegments:
    by = tuple(view.keys.index(var) for var in location.by) if isinstance(location, Dist) else None
    own = tuple(check for check in checks if check.view == view.name)
    counted = next((i for i, field in enumerate(view.fields) if field.name == COUNT_FIELD), None)
    return WriteSegments(checkpoint, folder, len(view.keys), by, partitions, counted, own)


def _loaded(spark: Any, view: ViewDefinition, queries: Sequence[str], task: WriteSegments) -> LoadedView:
    """The first of some queries for the contents of a view that can be evaluated."""
    for query in queries:
        try:
            with job_description(spark.sparkContext, f"load {view.name}"):
                told = spark.sql(query).mapInArrow(task, SEGMENTS).collect()
                break
        except Exception as error:
            if type(error).__name__ not in EVALUATION_ERRORS:
                raise
            if query is queries[-1]:
                raise NotLoadable(f"{view.name}: {str(error).splitlines()[0]}") from error
    parts: dict[int, list[Segment]] = {}
    for part, file, at, size, rows, checksum, refusal in told:
        if refusal is not None:
            raise task_errors.from_bytes(refusal)
        parts.setdefault(part, []).append(Segment(file, at, size, checksum, rows))
    return LoadedView(task.by is not None, {part: tuple(parts[part]) for part in sorted(parts)})


@contextmanager
def _settings(spark: Any, wanted: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for a while."""
    before = {name: spark.conf.get(name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


@contextmanager
def _registered(
    spark: Any,
    tables: Mapping[str, Table],
    found: Mapping[str, TableFrame],
    names: Mapping[str, str],
    readers: Mapping[str, int],
) -> Iterator[None]:
    """Gives the frames names that SQL can use; those that take work to read, or differ every time, are kept."""
    with ExitStack() as undo:
        for table, name in names.items():
            if table in found:
                pruned = found[table].pruned()
                if readers[table] > 1 and not is_cheap_to_read_again(pruned):
                    undo.callback(pruned.persist().unpersist)
                found[table].refuse_misfits(pruned)
                frame = found[table].converted(pruned)
            else:
                frame = empty_frame(spark, tables[table])
            frame.createGlobalTempView(name)
            undo.callback(spark.catalog.dropGlobalTempView, name)
        yield


def _remove_others(files: Files, loaded: LoadedViews) -> None:
    """Removes what attempts of tasks have left that failed."""
    for name in files.list(loaded.folder):
        if f"{loaded.folder}/{name}" not in loaded.files:
            files.remove(f"{loaded.folder}/{name}")
