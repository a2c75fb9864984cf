"""What a SQL text asks for: one dataclass per kind of statement."""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.algebra.query import Query
from viewlet.streams.definition import PartView
from viewlet.types import Column, Constraint, Row, Table, TableKind

STRATEGIES = ("auto", "recompute", "first-order", "higher-order", "view-tree", "adaptive")


@dataclass(frozen=True, slots=True)
class CreateTable:
    """`table.kind` tells tables, streams and static tables apart; a `temporary` one is not for directories.

    CREATE TABLE AS has a query, which the table takes its rows and types from, and its other names, if there are any.
    """

    table: Table
    if_not_exists: bool = False
    temporary: bool = False
    constraints: tuple[Constraint, ...] = ()
    query: str = ""
    names: tuple[str, ...] = ()
    with_rows: bool = True
    or_replace: bool = False
    identities: tuple[tuple[str, str], ...] = ()
    """The columns GENERATED AS IDENTITY, and the options of their sequences."""


@dataclass(frozen=True, slots=True)
class CreateSequence:
    """`text` is the statement as DuckDB reads it."""

    text: str
    if_not_exists: bool
    or_replace: bool


@dataclass(frozen=True, slots=True)
class CreateType:
    """Another name for a type, which is written out."""

    name: str
    definition: str
    if_not_exists: bool
    or_replace: bool


@dataclass(frozen=True, slots=True)
class AlterTable:
    """A table that takes the place of another one, with rows that a query makes of those that are there.

    `constraints` are new; those that are `dropped` go.
    """

    name: str
    table: Table
    rows_sql: str
    constraints: tuple[Constraint, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateView:
    """A view to maintain; `select_sql` is its query as written, `sources` the tables and views it reads.

    `partition_by` are columns of its own to spread it by, where there are several machines. `definition` says what the
    view keeps: the query itself, or what another kind of view is defined by; `query` then says only what its rows look
    like. `aggregates` are the names of the user-defined aggregates that it uses. It is `layered` if its query was cut.
    """

    name: str
    query: Query
    definition: object
    sources: frozenset[str]
    strategy: str = "auto"
    select_sql: str = ""
    or_replace: bool = False
    if_not_exists: bool = False
    partition_by: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    layered: bool = False
    statement: str = ""
    """The statement that declares it, where that is another one than the one that was written."""
    together: tuple[CreateView, ...] = ()
    """The other views that the statement declares, because they read each other."""
    temporary: bool = False
    """It is for a database in memory only, which it lives as long as."""

    @property
    def result(self) -> Table:
        """The schema of the view's rows, as other views see it."""
        columns = tuple(Column(column.name, column.var.type) for column in self.query.columns)
        parts = self.definition.parts if isinstance(self.definition, PartView) else None
        return Table(self.name, columns, TableKind.VIEW, parts=parts)


@dataclass(frozen=True, slots=True)
class Drop:
    """`kind` is TABLE, STREAM, STATIC TABLE, VIEW, SEQUENCE or TYPE as written; `cascade` drops what reads them too."""

    names: tuple[str, ...]
    kind: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class Explain:
    """The name of a view, or a query that is not declared as one."""

    target: str | CreateView
    stage: str | None = None


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A table function that a query reads: the name that stands for its rows in the query, and what it is."""

    name: str
    definition: object


@dataclass(frozen=True, slots=True)
class Select:
    """A query to answer once, over the current tables and views."""

    sql: str
    call: AnsweredCall | None = None


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows in the columns of the table, which are computed first, and which the query for the changes reads by a name.

    Where they decide by their keys, that query needs only rows of the table that have the primary key of a new one.
    """

    name: str
    sql: str
    decide_by_keys: bool


@dataclass(frozen=True, slots=True)
class Returning:
    """The query that answers a statement instead of the number of its rows; it reads the changed rows by a name."""

    name: str
    sql: str
    reads_others: bool
    """It has a query inside, which may read the table itself."""


@dataclass(frozen=True, slots=True)
class Modify:
    """A statement that changes rows of a table, as a query for the changes.

    An `insert` answers with the new rows, a `delete` with those that go, both in the columns of the table; an `update`
    with columns `old 0`, ... and `new 0`, ..., and a `merge` with these and the `merge_action`: INSERT, UPDATE, DELETE.
    """

    kind: str
    table: str
    changes_sql: str
    sql: str = ""
    keys: tuple[Row, ...] | None = None
    """The primary keys of all rows that the condition can pick, if it says so."""
    new_rows: NewRows | None = None
    returning: Returning | None = None
    first_by: tuple[tuple[str, ...], ...] = ()
    """Keys of which new rows must not share one: of those that do, the first stands."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Rows of a file for some columns of a table, or the answer of a query for a file that it `writes`."""

    table: str
    columns: tuple[str, ...]
    query: str
    path: str
    writes: bool
    format: str
    options: tuple[str, ...]
    """The options of the format, in the words of DuckDB."""


@dataclass(frozen=True, slots=True)
class Comment:
    """COMMENT ON a table or view, or on a column of one; None removes what was said."""

    name: str
    column: str
    text: str | None


@dataclass(frozen=True, slots=True)
class AlterView:
    """ALTER MATERIALIZED VIEW ... PARTITION BY: other columns to spread a view by."""

    name: str
    partition_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Transact:
    """BEGIN, COMMIT, ROLLBACK [TO savepoint], SAVEPOINT or RELEASE."""

    action: str
    savepoint: str = ""


@dataclass(frozen=True, slots=True)
class Prepare:
    """PREPARE name AS statement, whose parameters EXECUTE gives values."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Deallocate:
    """DEALLOCATE name: a prepared statement is forgotten."""

    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """EXECUTE name(value, ...) or name(parameter := value, ...): literals or a query for the values."""

    name: str
    literals: tuple[object, ...] = ()
    values_sql: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ignored:
    """A statement that is accepted and does nothing; the notice says why."""

    notice: str


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW TABLES, SHOW VIEWS, or DESCRIBE of the table or view that is named."""

    what: str
    name: str = ""


Statement = (
    CreateTable
    | CreateSequence
    | CreateType
    | CreateView
    | AlterTable
    | AlterView
    | Comment
    | Copy
    | Drop
    | Explain
    | Select
    | Modify
    | Show
    | Transact
    | Prepare
    | Deallocate
    | Execute
    | Ignored
)
