"""What the maintainer asks of the database that holds the parts.

A host holds tables that are written once and never changed, and a catalogue of texts by key. `create` and `load` make
tables under new names; `commit` makes them and the entries of the catalogue permanent at once, then drops what no
entry names any more. A table without a committed entry is left over from a crash: the warehouse drops it when it opens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeGuard, runtime_checkable

from viewlet.types import SqlType, Table


class PartHost(Protocol):
    """A database that holds parts. Queries are in its own `dialect`, as sqlglot names it."""

    @property
    def dialect(self) -> str: ...

    @property
    def place(self) -> str:
        """Where the parts are, for messages."""

    @property
    def workers(self) -> int:
        """How many calls of `create` it takes at a time."""

    def entries(self) -> dict[str, str]:
        """The committed catalogue."""

    def tables(self) -> Iterable[str]:
        """The names of all tables, left-overs included."""

    def begin(self) -> None:
        """Before the first `create` or `load` after a commit."""

    def load(self, table: str, rows: Any) -> None:
        """Makes a table of Arrow rows."""

    def create(self, table: str, query: str) -> int:
        """Makes a table of what a query returns, and tells the number of its rows."""

    def read(self, query: str) -> Any:
        """What a query returns, as Arrow."""

    def check(self, query: str) -> None:
        """Fails where a query cannot be run, without running it."""

    def source(self, table: str) -> str:
        """How a query names a table."""

    def quote(self, name: str) -> str:
        """How a query names a column."""

    def type_name(self, type: SqlType) -> str:
        """How a query names a type."""

    def commit(self, entries: Mapping[str, str | None], unused: Iterable[str]) -> None:
        """Makes everything since `begin` permanent, with entries to set or to remove; drops unused tables."""

    def rollback(self) -> None:
        """Takes back everything since `begin`."""

    def close(self) -> None: ...


@runtime_checkable
class InProcessHost(PartHost, Protocol):
    """A host in this process, which reads Arrow rows where they are."""

    def create_over(self, table: str, query: str, name: str, rows: Any) -> int:
        """Makes a table of what a query returns over rows that it knows by a name; tells the number of its rows."""


class CountingHost(PartHost, Protocol):
    """A host that commits tables together with the catalogue, and counts their rows without reading them."""

    def row_counts(self) -> Mapping[str, int]:
        """The number of rows of every table."""


class PartitioningHost(PartHost, Protocol):
    """A host that keeps the tables of a relation as partitions of one table, which its own users can read.

    A partition has columns of the host besides those of the relation.
    """

    def relations(self) -> Iterable[str]:
        """The relations that have such a table."""

    def attach(self, relation: str, tables: Mapping[str, range]) -> None:
        """With the next commit, makes tables partitions for parts of a relation: one part, or several rolled up."""

    def forget(self, relation: str) -> None:
        """With the next commit, drops what there is of a relation."""


class PipeliningHost(PartHost, Protocol):
    """A host that is sent queries before it has answered the ones before."""

    def start(self, table: str, query: str) -> None:
        """Begins to make a table of what a query returns, which may read tables that were started before."""

    def settle(self) -> dict[str, int]:
        """The numbers of rows of all tables that were started since the last time; fails where one could not be made.

        Other calls wait for these tables, too.
        """


class JobHost(PartHost, Protocol):
    """A host on which every query is a job that takes a while to start, and which keeps tables in files."""

    def create_all(self, queries: Mapping[str, str]) -> dict[str, int]:
        """Makes tables with the same columns by one job, and tells the numbers of their rows."""

    def source_of_all(self, tables: Sequence[str]) -> str:
        """How a query names tables with the same columns, whose rows it reads together; each comes once."""

    def scan(self, table: str, columns: Sequence[str]) -> Any:
        """Columns of a table as Arrow, read in this process without a job."""


def is_counting(host: PartHost) -> TypeGuard[CountingHost]:
    """A host whose tables can be compared with its catalogue when it is opened."""
    return hasattr(host, "row_counts")


def is_partitioning(host: PartHost) -> TypeGuard[PartitioningHost]:
    """A host with partitions. Parts are computed in a millisecond: `isinstance` with a protocol takes long for that."""
    return hasattr(host, "attach")


def is_pipelining(host: PartHost) -> TypeGuard[PipeliningHost]:
    """A host that need not answer one query before it is sent the next."""
    return hasattr(host, "settle")


def runs_jobs(host: PartHost) -> TypeGuard[JobHost]:
    """A host on which every query is a job."""
    return hasattr(host, "create_all")


@runtime_checkable
class StagingHost(PartHost, Protocol):
    """A host that writes data frames of its own to files, from which parts are made without reading them here."""

    @property
    def staging(self) -> Path:
        """Where the folders are that it writes."""

    def stage(self, frame: Any, table: Table) -> str | None:
        """Writes the rows of a frame for a stream to a folder, with a folder in it for each part.

        None if its columns are not those of the stream.
        """

    def adopt(self, table: str, folder: str) -> None:
        """Makes a table of a folder that was staged, which stays until the next commit."""


def is_frame(data: object) -> bool:
    """A data frame of Spark."""
    return type(data).__module__.startswith("pyspark.") and hasattr(data, "toArrow")
