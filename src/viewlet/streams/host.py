"""What the maintainer asks of the database that holds the parts.

A host holds tables that are written once and never changed, and a catalogue of texts by key. `create` and `load` make
tables under new names; `commit` makes them and the entries of the catalogue permanent at once, then drops what no
entry names any more. A table without a committed entry is left over from a crash: the warehouse drops it when it opens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from viewlet.types import SqlType


class PartHost(Protocol):
    """A database that holds parts. Queries are in its own `dialect`, as sqlglot names it."""

    @property
    def dialect(self) -> str: ...

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
