"""Initial loads: the contents of views by Spark SQL, written to the checkpoint directory partition by partition.

    definitions of views ──► jobs (load_plan) ──► rows ──► segments of a file per task ──► `LoadedViews`

There is no extra shuffle: each task sorts its rows by partition and writes a segment for each view and partition.
Restoring a partition reads its segments. Where hardly two rows of a large table share the key of a view, Spark would
aggregate for nothing: tasks write a row for each of them, and equal keys are added up where the state is made of the
segments.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from viewlet.runtime.durable.files import Files, files_at
from viewlet.spark.plan.locations import Dist
from viewlet.spark.run.exchange import task_errors
from viewlet.spark.run.java import job_description
from viewlet.spark.run.load.load_plan import Job, KeyChecks, LoadJob, LoadRequest, Sources, ViewLoad, plan_jobs
from viewlet.spark.run.load.parallel_jobs import at_once
from viewlet.spark.run.load.row_frame import rows_frame
from viewlet.spark.run.load.segment_task import SEGMENTS, WriteSegments, refusal
from viewlet.spark.run.load.table_frame import (
    NotLoadable,
    TableFrame,
    empty_frame,
    is_cheap_to_read_again,
    refuse_misfits,
    table_frame,
)
from viewlet.spark.run.state.segment_files import LoadedView, LoadedViews, Segment
from viewlet.types import Table

SETTINGS = {
    "spark.sql.ansi.enabled": "true",  # overflows fail instead of giving NULL
    "spark.sql.parser.escapedStringLiterals": "false",  # a backslash escapes, as the text of queries expects
    "spark.sql.variable.substitute": "false",  # ${env:HOME} in a name or a text stands for itself
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
EVALUATION_ERRORS = ("ArithmeticException", "SparkRuntimeException", "DateTimeException", "NumberFormatException")
JOBS_AT_ONCE = 4
"""How many jobs of a load run at a time: Spark plans some while others run."""

__all__ = ["LoadRequest", "LoadedViews", "NotLoadable", "load_units", "rows_frame"]

Parts = dict[int, tuple[Segment, ...]]
"""The segments of a view, by partition."""


def load_units(
    spark: Any,
    requests: Sequence[LoadRequest],
    frames: Mapping[str, Any],
    partitions: int,
    checkpoint: str,
    folder: str,
) -> list[LoadedViews | NotLoadable]:
    """The contents that views of some units have over data frames with all rows of their tables, in one folder.

    A frame has the columns of its table, and may have `_multiplicity`; a table without one is empty. Where Spark SQL
    cannot evaluate a definition of a unit, or read a frame, the answer for the unit is why. If none is loaded, there is
    no folder. The same holds after errors: a row that does not fit its table is refused for all units.
    """
    reading = _Reading.of(spark, requests, frames)
    if not reading.loads:
        return reading.answers({}, LoadedViews(checkpoint, folder, {}))
    files = files_at(checkpoint)
    with ExitStack() as undo:
        files.make_folder(folder)
        undo.callback(files.remove, folder)
        with _settings(spark, SETTINGS), reading.registered(spark) as pruned:
            jobs = plan_jobs(spark, reading.loads, reading.sources)
            write = WriteSegments(checkpoint, folder, partitions, ())
            runs = [partial(_run, spark, job, write) for job in jobs]
            _, *told = at_once(spark, [partial(_refuse_misfits, reading.sources, pruned), *runs], JOBS_AT_ONCE)
        found = {view: parts for each in told for view, parts in each.items()}
        answers = reading.answers(found, LoadedViews(checkpoint, folder, {}))
        loaded = [answer for answer in answers if isinstance(answer, LoadedViews)]
        if not loaded:
            return answers
        _remove_others(files, folder, frozenset().union(*(each.files for each in loaded)))
        files.sync_folder(folder)
        undo.pop_all()
    return answers


@dataclass(frozen=True, slots=True)
class _Reading:
    """Requests, the views of those that may be loaded, and what is read for them."""

    requests: Sequence[LoadRequest]
    refused: Mapping[int, NotLoadable]
    """By the position of the request."""
    loads: Sequence[ViewLoad]
    sources: Sources
    tables: Mapping[str, Table]

    @staticmethod
    def of(spark: Any, requests: Sequence[LoadRequest], frames: Mapping[str, Any]) -> _Reading:
        catalogue = spark.conf.get("spark.sql.globalTempDatabase", "global_temp")
        tables = {name: table for request in requests for name, table in request.tables.items()}
        names = {name: f"{catalogue}.viewlet_{uuid.uuid4().hex}" for name in tables}
        refused: dict[int, NotLoadable] = {}
        loads: list[ViewLoad] = []
        needed: dict[str, frozenset[str]] = {}
        for number, request in enumerate(requests):
            try:
                read = request.columns_read()
                sources = Sources(_frames(tables, frames, read), names)
                mine = [ViewLoad.of(i, request, view, sources) for i, view in enumerate(request.views, len(loads))]
            except NotLoadable as error:
                refused[number] = error
                continue
            loads += mine
            needed |= {name: columns | needed.get(name, frozenset()) for name, columns in read.items()}
        sources = Sources(_frames(tables, frames, needed), {name: names[name] for name in needed})
        return _Reading(requests, refused, loads, sources, tables)

    @contextmanager
    def registered(self, spark: Any) -> Iterator[dict[str, Any]]:
        """Gives the frames names that SQL can use; those that take work to read, or differ every time, are kept.

        What it returns are the columns that are read, as they were given.
        """
        readers: Counter[str] = Counter()
        for i, request in enumerate(self.requests):
            readers += request.readers() if i not in self.refused else Counter()
        with ExitStack() as undo:
            pruned = {name: frame.pruned() for name, frame in self.sources.frames.items()}
            for name, frame in pruned.items():
                if readers[name] > 1 and not is_cheap_to_read_again(frame):
                    undo.callback(frame.persist().unpersist)
            for name, called in self.sources.names.items():
                known = self.sources.frames.get(name)
                frame = empty_frame(spark, self.tables[name]) if known is None else known.converted(pruned[name])
                registered = called.rpartition(".")[2]
                frame.createGlobalTempView(registered)
                undo.callback(spark.catalog.dropGlobalTempView, registered)
            yield pruned

    def answers(self, found: Mapping[int, Parts | NotLoadable], empty: LoadedViews) -> list[LoadedViews | NotLoadable]:
        """What has become of each request."""
        return [
            self.refused[i] if i in self.refused else self._answer(request, found, empty)
            for i, request in enumerate(self.requests)
        ]

    def _answer(
        self, request: LoadRequest, found: Mapping[int, Parts | NotLoadable], empty: LoadedViews
    ) -> LoadedViews | NotLoadable:
        views: dict[str, LoadedView] = {}
        for load in self.loads:
            if load.request is request:
                parts = found[load.number]
                if isinstance(parts, NotLoadable):
                    return parts
                views[load.view.name] = LoadedView(isinstance(request.locations[load.view.name], Dist), parts)
        return LoadedViews(empty.checkpoint, empty.folder, views)


def _frames(
    tables: Mapping[str, Table], frames: Mapping[str, Any], needed: Mapping[str, frozenset[str]]
) -> dict[str, TableFrame]:
    return {name: table_frame(tables[name], frames[name], needed[name]) for name in needed if name in frames}


def _refuse_misfits(sources: Sources, pruned: Mapping[str, Any]) -> dict[int, Parts | NotLoadable]:
    """An error of this comes before those of jobs, which may read a row that does not fit."""
    refuse_misfits([(sources.frames[name], frame) for name, frame in pruned.items()])
    return {}


def _run(spark: Any, job: Job, write: WriteSegments) -> dict[int, Parts | NotLoadable]:
    """Writes the views of a job; for those that cannot be evaluated the answer is why."""
    if isinstance(job, KeyChecks):
        _refuse_repeated_keys(spark, job)
        return {}
    errors: list[Exception] = []
    for attempt in job.attempts:
        task = WriteSegments(write.checkpoint, write.folder, write.partitions, attempt.targets)
        try:
            with job_description(spark.sparkContext, f"load {job.name}"):
                told = spark.sql(attempt.sql).mapInArrow(task, SEGMENTS).collect()
        except Exception as error:
            if type(error).__name__ not in EVALUATION_ERRORS:
                raise
            errors.append(error)
            continue
        parts: dict[int, dict[int, list[Segment]]] = {view: {} for view in job.views}
        for view, part, file, at, size, rows, checksum, refused in told:
            if refused is not None:
                raise task_errors.from_bytes(refused)
            parts[view].setdefault(part, []).append(Segment(file, at, size, checksum, rows))
        return {view: {part: tuple(found[part]) for part in sorted(found)} for view, found in parts.items()}
    if job.alone:
        return {view: parts for each in job.alone for view, parts in _run(spark, each, write).items()}
    return dict.fromkeys(job.views, _not_loadable(job, errors[-1]))


def _not_loadable(job: LoadJob, error: Exception) -> NotLoadable:
    found = NotLoadable(f"{job.name}: {str(error).splitlines()[0]}")
    found.__cause__ = error
    return found


def _refuse_repeated_keys(spark: Any, job: KeyChecks) -> None:
    with job_description(spark.sparkContext, "look for keys that come twice"):
        (number,) = spark.sql(job.sql).head()
        if number is not None:
            found = job.checks[number]
            *key, count = spark.sql(found.sql).head()
            raise refusal(found.check, key, count)


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


def _remove_others(files: Files, folder: str, needed: Set[str]) -> None:
    """Removes what attempts of tasks have left that failed."""
    for name in files.list(folder):
        if f"{folder}/{name}" not in needed:
            files.remove(f"{folder}/{name}")
