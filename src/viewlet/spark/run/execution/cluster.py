"""Executors of tasks: a Spark cluster, or this process (for tests and debuggers)."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from viewlet.changes import CHANGE_TYPE, MULTIPLICITY
from viewlet.errors import StateError, ViewletError
from viewlet.spark.run.exchange import task_errors
from viewlet.spark.run.exchange.file_range import FileRange
from viewlet.spark.run.exchange.moves import FRAME_TASKS
from viewlet.spark.run.exchange.stage_record import Piece, Sent
from viewlet.spark.run.execution.locality import Locality
from viewlet.spark.run.execution.tasks import MapChanges
from viewlet.spark.run.java import job_description, use_this_python
from viewlet.spark.run.load.repeated_rows import counted_rows
from viewlet.spark.run.load.table_frame import NotLoadable
from viewlet.spark.run.state.partition import Broadcast, state_root
from viewlet.spark.run.state.segment_files import LoadedViews
from viewlet.spark.run.units.unit import ProgramUnit, Unit
from viewlet.sqlgen.dialects import DIALECTS
from viewlet.types import Table
from viewlet.visible import logger

A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")

ATTEMPTS = 3
"""How often a stage is tried when the cluster fails; Spark has its own attempts within each."""
MANY_OBJECTS = 20_000
"""So many that looking through them takes a millisecond or more."""
ERROR = "error"
_ABSENT = "No module named 'viewlet'"
PIECES = "unit string, target string, part int, contents binary, file string, at bigint, size bigint, checksum bigint"
"""What a mapper sends: contents, or a range of a file."""


class Cluster(Protocol):
    is_here: bool
    """All tasks run on this machine."""

    @property
    def state_folder(self) -> str:
        """The folder of cached state where tasks run; empty if each process knows its own (`state_root`)."""

    def share(self, value: T) -> Broadcast[T]:
        """The value, to be sent to each process once."""

    def run(
        self, task: Callable[[int, A], R], payloads: Sequence[A], what: str, partitions: Sequence[int] | None = None
    ) -> list[R]:
        """Runs a task once per payload, as one stage; the answers in order.

        `partitions` are those whose state the tasks need, if they are not the numbers of the payloads.
        """

    def map_frames(self, mappers: Mapping[str, tuple[MapChanges, Any]], what: str) -> list[Piece]:
        """Runs mappers where the rows of data frames are, all of them as one stage."""

    def load(
        self, units: Sequence[Unit], frames: Mapping[str, Any], partitions: int, checkpoint: str, folder: str
    ) -> dict[str, LoadedViews]:
        """Evaluates the views of units over frames with all rows of their tables, where that is possible."""

    def kept_rows(self, table: Table, partitions: int, read: Callable[[int], bytes]) -> Any:
        """The rows that a table keeps as a data frame, for `load`."""


@dataclass(frozen=True, slots=True)
class _LocalValue:
    value: Any


class InlineCluster:
    """Tasks run one after another in this process; a frame is a list of Arrow tables, one per task."""

    is_here = True
    state_folder = ""

    def __init__(self) -> None:
        self.stages = 0

    def share(self, value: T) -> Broadcast[T]:
        return _LocalValue(value)

    def run(
        self, task: Callable[[int, A], R], payloads: Sequence[A], what: str, partitions: Sequence[int] | None = None
    ) -> list[R]:
        self.stages += 1
        return [task(number, payload) for number, payload in enumerate(payloads)]

    def map_frames(self, mappers: Mapping[str, tuple[MapChanges, Any]], what: str) -> list[Piece]:
        self.stages += 1
        tasks = [(mapper, part) for mapper, parts in mappers.values() for part in parts]
        return [piece for mapper, part in tasks for piece in mapper(part.to_batches(), len(tasks))]

    def load(
        self, units: Sequence[Unit], frames: Mapping[str, Any], partitions: int, checkpoint: str, folder: str
    ) -> dict[str, LoadedViews]:
        return {}

    def kept_rows(self, table: Table, partitions: int, read: Callable[[int], bytes]) -> Any:
        raise NotLoadable("there is no Spark")


class SparkCluster:
    """Tasks run as Spark jobs of one stage each."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._context = spark.sparkContext
        self.is_here = use_this_python(self._context)
        self._locality = Locality(self._context)
        self._is_local = bool(self._context._jsc.sc().isLocal())

    @property
    def state_folder(self) -> str:
        """Workers of this very machine keep the environment that they were started with."""
        return state_root() if self._is_local else ""

    def share(self, value: T) -> Broadcast[T]:
        shared: Broadcast[T] = self._context.broadcast(value)
        return shared

    def run(
        self, task: Callable[[int, A], R], payloads: Sequence[A], what: str, partitions: Sequence[int] | None = None
    ) -> list[R]:
        def job() -> list[R]:
            numbered = self._context.parallelize(list(enumerate(payloads)), len(payloads))
            preferences = self._locality.preferences(range(len(payloads)) if partitions is None else partitions)
            if preferences is None:
                tasks = numbered.mapPartitions(_OnEach(task))
            else:
                tasks = numbered.zip(preferences).mapPartitions(_OnPreferred(_OnEach(task)))
            found: list[R] = tasks.collect()
            return found

        return self._tried(job, what)

    def map_frames(self, mappers: Mapping[str, tuple[MapChanges, Any]], what: str) -> list[Piece]:
        def job() -> list[Piece]:
            mapped = [_mapped(_pruned(frame, mapper.wanted), mapper) for mapper, frame in mappers.values()]
            together = mapped[0]
            for each in mapped[1:]:
                together = together.union(each)
            rows = together.collect()
            for row in rows:
                if row.unit == ERROR:
                    raise task_errors.from_bytes(row.contents)
            return [(row.unit, row.target, row.part, _sent(row)) for row in rows]

        return self._tried(job, what)

    def load(
        self, units: Sequence[Unit], frames: Mapping[str, Any], partitions: int, checkpoint: str, folder: str
    ) -> dict[str, LoadedViews]:
        from viewlet.spark.run.load.bulk_load import LoadRequest, load_units

        requests = [
            LoadRequest(
                unit.stored,
                unit.locations,
                unit.sources,
                unit.checks,
                unit.program.layers if isinstance(unit, ProgramUnit) else (),
            )
            for unit in units
        ]
        answers = load_units(self._spark, requests, frames, partitions, checkpoint, folder)
        found: dict[str, LoadedViews] = {}
        for unit, answer in zip(units, answers, strict=True):
            if isinstance(answer, NotLoadable):
                logger.debug("%s is not loaded by Spark SQL: %s", unit.name, answer)
            else:
                found[unit.name] = answer
        return found

    def kept_rows(self, table: Table, partitions: int, read: Callable[[int], bytes]) -> Any:
        from viewlet.spark.run.load.row_frame import rows_frame

        return rows_frame(self._spark, table, partitions, read)

    def _tried(self, job: Callable[[], R], what: str) -> R:
        """Executors and Python workers may die; stages can be run again."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with job_description(self._context, what):
                    return job()
            except ViewletError:
                raise
            except Exception as error:
                if _ABSENT in str(error):
                    raise StateError(
                        f"{what} failed: the executors cannot import viewlet; install it for their Python "
                        "(spark.pyspark.python), or send it with spark.submit.pyFiles or sparkContext.addPyFile"
                    ) from error
                if attempt == ATTEMPTS:
                    raise
                logger.warning("%s failed and is tried again: %s", what, str(error).splitlines()[0][:200])
        raise AssertionError("unreachable")


def _pruned(frame: Any, wanted: Sequence[str] | None) -> Any:
    """The frame without unused columns, so that Spark need not read them either."""
    if wanted is None:
        return frame
    told = [name for name in (MULTIPLICITY, CHANGE_TYPE) if name in frame.columns]
    return frame.select([DIALECTS["spark"].quoted(name) for name in (*wanted, *told)])


def _mapped(frame: Any, mapper: MapChanges) -> Any:
    """What a mapper makes of a frame; columns are numbered on the way, as PySpark takes a dot in a name for a path."""
    names = tuple(frame.columns)
    numbered = frame.toDF(*(f"c{i}" for i in range(len(names))))
    says_numbers = not {MULTIPLICITY, CHANGE_TYPE}.isdisjoint(names)
    counted = counted_rows(numbered) if mapper.takes_counts and not says_numbers else None
    if counted is not None:
        numbered, mapper, names = counted, replace(mapper, encoded=True), (*names, MULTIPLICITY)
    return numbered.mapInArrow(_OnFrame(mapper, names), PIECES)


def _told(piece: Piece) -> tuple[Any, ...]:
    """A piece as a row of `PIECES`."""
    unit, target, partition, sent = piece
    if isinstance(sent, FileRange):
        return unit, target, partition, None, sent.file, sent.at, sent.size, sent.checksum
    return unit, target, partition, bytes(sent), None, None, None, None


def _sent(row: Any) -> Sent:
    if row.file is None:
        return bytes(row.contents)
    return FileRange(row.file, row.at, row.size, row.checksum)


def _settle() -> None:
    """Lets a worker keep what it has come to own out of sight: Spark has it look for garbage after every task."""
    if len(gc.get_objects(generation=2)) > MANY_OBJECTS:
        gc.freeze()


@dataclass(frozen=True, slots=True)
class _OnEach:
    task: Callable[[int, Any], Any]

    def __call__(self, numbered: Iterable[tuple[int, Any]]) -> Iterator[Any]:
        for number, payload in numbered:
            yield self.task(number, payload)
        _settle()


@dataclass(frozen=True, slots=True)
class _OnPreferred:
    """Like `_OnEach`, for payloads that are zipped with preferred locations."""

    each: _OnEach

    def __call__(self, pairs: Iterable[tuple[tuple[int, Any], None]]) -> Iterator[Any]:
        return self.each(numbered for numbered, _ in pairs)


@dataclass(frozen=True, slots=True)
class _OnFrame:
    mapper: MapChanges
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        try:
            pieces = self.mapper((self._named(batch) for batch in batches), FRAME_TASKS)
        except ViewletError as error:
            pieces = [(ERROR, "", 0, task_errors.to_bytes(error))]
        _settle()
        text, number = pa.string(), pa.int64()
        place = [("unit", text), ("target", text), ("part", pa.int32()), ("contents", pa.binary())]
        schema = pa.schema([*place, ("file", text), ("at", number), ("size", number), ("checksum", number)])
        columns = [list(column) for column in zip(*map(_told, pieces), strict=True)] or [[] for _ in schema]
        yield pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
        )

    def _named(self, batch: Any) -> Any:
        import pyarrow as pa

        return pa.RecordBatch.from_arrays(batch.columns, names=list(self.names)) if self.names else batch
