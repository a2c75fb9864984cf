"""The engines under test, one adapter each. To add an engine, write an adapter and list it in `ENGINES`.

An adapter opens a connection and says in which form it is given changes. Engines that keep a directory are closed and
opened again in the middle of every program.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import viewlet
from tests.aggregates.examples import ALL as AGGREGATES
from tests.conformance.program import Program
from tests.garbage import collect_mapped_arrays
from tests.oracle.play import changes_of
from workloads.streams import Batch

Changes = Mapping[str, Any]
"""What `Connection.apply` takes."""


class Engine:
    """An engine in this process, without a directory, fed with rows."""

    name: str
    restarts = 0
    """How often it is closed and opened again, in the same folder, while a program is played."""

    def open(self, folder: Path) -> AbstractContextManager[Any]:
        raise NotImplementedError

    def changes(self, program: Program, batch: Batch) -> Changes:
        return changes_of(batch, program.columns)

    def prepare(self, db: Any, program: Program) -> None:
        """Called when the tables of a program have been declared."""

    def closed(self) -> None:
        """Called when a connection has been closed."""


def as_arrow(program: Program, batch: Batch) -> Changes:
    """A batch as Arrow tables with multiplicities."""
    found = {}
    for name, changes in batch.items():
        if not changes:
            continue
        schema = program.schemas[name].append(pa.field("_multiplicity", pa.int64()))
        columns = zip(*((*row, count) for row, count in changes), strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        found[name] = pa.Table.from_arrays(arrays, names=schema.names)
    return found


@dataclass(frozen=True)
class Interpreter(Engine):
    """The definition of what a program means."""

    name: str = "interpreter"

    def open(self, folder: Path) -> AbstractContextManager[Any]:
        return viewlet.connect(engine="interpreter", aggregates=AGGREGATES)


@dataclass(frozen=True)
class Compiled(Engine):
    """Generated code: machine code, or plain Python where VIEWLET_JIT is 0, as in most test folders."""

    name: str = "compiled"

    def open(self, folder: Path) -> AbstractContextManager[Any]:
        return viewlet.connect(engine="compiled", aggregates=AGGREGATES)

    def changes(self, program: Program, batch: Batch) -> Changes:
        return as_arrow(program, batch)


@dataclass(frozen=True)
class Default(Engine):
    """The engine of users who name none: views begin on the interpreter and are compiled when they are busy."""

    name: str = "default"

    def open(self, folder: Path) -> AbstractContextManager[Any]:
        return viewlet.connect(aggregates=AGGREGATES)


@dataclass(frozen=True)
class Durable(Engine):
    """A database in a directory."""

    engine: str
    restarts = 2

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"durable-{self.engine}"

    def open(self, folder: Path) -> AbstractContextManager[Any]:
        return viewlet.connect(folder, engine=self.engine, aggregates=AGGREGATES)


@dataclass(frozen=True)
class Partitions(Engine):
    """Spark's tasks in this process, on one of its two kernels; everything but the JVM is as on a cluster."""

    engine: str
    count: int
    restarts = 1

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"partitions-{self.engine}-{self.count}"

    def open(self, folder: Path) -> AbstractContextManager[Any]:
        from viewlet.connection.spark_facade import connect_inline

        return connect_inline(folder, self.count, sync=False, engine=self.engine, aggregates=AGGREGATES)

    def prepare(self, db: Any, program: Program) -> None:
        db.expect_rows(program.sizes)

    def closed(self) -> None:
        """Mapped arrays live until they are collected."""
        from viewlet.spark.run.state.partition import forget

        forget()
        collect_mapped_arrays()


@dataclass(frozen=True)
class MovedInFiles(Partitions):
    """The same, where everything that moves between stages is in files, as only large contents are otherwise."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{super().name}-in-files"

    def open(self, folder: Path) -> AbstractContextManager[Any]:
        db: Any = super().open(folder)
        db._host.cluster.inline_bytes = 0
        return db  # type: ignore[no-any-return]


@dataclass(frozen=True)
class OnSpark(Engine):
    """Spark itself, fed with data frames."""

    spark: Any
    engine: str = "compiled"
    restarts = 1

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"spark-{self.engine}"

    def open(self, folder: Path) -> AbstractContextManager[Any]:
        return viewlet.connect(
            spark=self.spark, checkpoint=folder, partitions=2, engine=self.engine, aggregates=AGGREGATES
        )

    def changes(self, program: Program, batch: Batch) -> Changes:
        return {name: self._frame(rows) for name, rows in as_arrow(program, batch).items()}

    def _frame(self, rows: pa.Table) -> Any:
        """A timestamp without a zone is TIMESTAMP_NTZ in Spark, which makes another type of those in Arrow."""
        frame = self.spark.createDataFrame(rows).repartition(2)
        plain = [field.name for field in rows.schema if pa.types.is_timestamp(field.type)]
        return frame.withColumns({name: frame[name].cast("timestamp_ntz") for name in plain}) if plain else frame


KERNELS = ("interpreter", "compiled")
PARTITIONS = (1, 2, 7)
ENGINES: tuple[Engine, ...] = (
    Interpreter(),
    Compiled(),
    Default(),
    Durable("interpreter"),
    Durable("compiled"),
    *(kind(kernel, count) for kind in (Partitions, MovedInFiles) for kernel in KERNELS for count in PARTITIONS),
)
"""What runs in one process; `OnSpark` needs a JVM, and machine code a process of its own."""
