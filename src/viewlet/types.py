"""Scalar types, table schemas, and how a value of each type is held.

Inside the engine a value has one representation, chosen so that it can live in a flat array later:

| type                       | held as                                   |
|----------------------------|-------------------------------------------|
| BOOLEAN                    | `bool`                                    |
| SMALLINT, INTEGER, BIGINT  | `int`                                     |
| REAL, DOUBLE               | `float`, always finite                    |
| DECIMAL(p, s)              | `int`, the value times 10**s              |
| VARCHAR                    | `str`                                     |
| DATE                       | `int`, days since 1970-01-01              |
| TIMESTAMP                  | `int`, microseconds since 1970-01-01      |
| DOUBLE[n]                  | a tuple of `float`; in results only       |
| COFACTOR                   | `CofactorValue`; in results only          |
| NULL of any type           | `None`                                    |
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

Datum = bool | int | float | str | None
Row = tuple[Datum, ...]


@dataclass(frozen=True, slots=True, order=True)
class CofactorValue:
    """A value of a COFACTOR view: variables (a categorical one with a category), count, sums, sums of products."""

    variables: tuple[str | tuple[str, object], ...]
    count: int
    sums: tuple[float, ...]
    matrix: tuple[tuple[float, ...], ...]

    def to_python(self) -> dict[str, object]:
        """This value as lists, a category as `variable=category`: the form of rows, Arrow and SQL.

        >>> CofactorValue(("x", ("c", "b")), 1, (2.0, 1.0), ((4.0, 2.0), (2.0, 1.0))).to_python()["variables"]
        ['x', 'c=b']
        """
        return {
            "variables": [name if isinstance(name, str) else f"{name[0]}={name[1]}" for name in self.variables],
            "count": self.count,
            "sums": list(self.sums),
            "matrix": [list(row) for row in self.matrix],
        }


class Kind(Enum):
    BOOLEAN = "BOOLEAN"
    SMALLINT = "SMALLINT"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    REAL = "REAL"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    VARCHAR = "VARCHAR"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    ARRAY = "ARRAY"  # numbers of a fixed count, which `precision` is; in results only
    COFACTOR = "COFACTOR"  # count, sums and sums of products, as one value
    NULL = "NULL"  # the type of a bare NULL literal, before it meets another type


INTEGER_BITS = {Kind.SMALLINT: 16, Kind.INTEGER: 32, Kind.BIGINT: 64}
MAX_DECIMAL_DIGITS = 38
WORD_DIGITS = 18
"""Decimals of so many digits always fit a 64-bit word."""


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type; `precision` and `scale` are those of a DECIMAL, `precision` also the length of an array."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    nullable: bool = True

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        if self.kind is Kind.ARRAY:
            return f"DOUBLE[{self.precision}]"
        return str(self.kind._value_)  # `value` is a property, and slow

    @property
    def is_integer(self) -> bool:
        return self.kind in INTEGER_BITS

    @property
    def is_float(self) -> bool:
        return self.kind in (Kind.REAL, Kind.DOUBLE)

    @property
    def is_wide(self) -> bool:
        """Values need not fit a 64-bit word."""
        return self.kind is Kind.DECIMAL and self.precision > WORD_DIGITS

    @property
    def is_exact(self) -> bool:
        """Sums of this type are exact: an integer or a scaled integer."""
        return self.is_integer or self.kind is Kind.DECIMAL

    @property
    def is_numeric(self) -> bool:
        return self.is_exact or self.is_float

    def with_nullable(self, nullable: bool) -> SqlType:
        return self if nullable == self.nullable else replace(self, nullable=nullable)

    def same_representation(self, other: SqlType) -> bool:
        """Equal values of both types are held as equal Python values."""
        if self.kind is Kind.DECIMAL or other.kind is Kind.DECIMAL:
            return self.kind is other.kind and self.scale == other.scale
        if self.is_integer and other.is_integer:
            return True
        if self.is_float and other.is_float:
            return True
        return self.kind is other.kind


def decimal(precision: int, scale: int, nullable: bool = True) -> SqlType:
    return SqlType(Kind.DECIMAL, precision, scale, nullable)


BOOLEAN = SqlType(Kind.BOOLEAN)
SMALLINT = SqlType(Kind.SMALLINT)
INTEGER = SqlType(Kind.INTEGER)
BIGINT = SqlType(Kind.BIGINT)
REAL = SqlType(Kind.REAL)
DOUBLE = SqlType(Kind.DOUBLE)
VARCHAR = SqlType(Kind.VARCHAR)
DATE = SqlType(Kind.DATE)
TIMESTAMP = SqlType(Kind.TIMESTAMP)
COFACTOR = SqlType(Kind.COFACTOR, nullable=False)
NULL = SqlType(Kind.NULL)

COUNT = BIGINT.with_nullable(False)
"""The type of a multiplicity."""


class TableKind(Enum):
    TABLE = "TABLE"  # keeps its rows; deletes are checked
    STREAM = "STREAM"  # rows pass through; deletes are trusted
    STATIC = "STATIC TABLE"  # loaded once, before it is used; has no triggers
    VIEW = "VIEW"  # the result of a maintained view, read by another view


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `length` is the most characters that a string in it has, where it is declared VARCHAR(n)."""

    name: str
    type: SqlType
    length: int | None = None
    default: str | None = None
    """The SQL expression for rows that do not say what is in it, if that is not NULL."""
    always: bool = False
    """Statements do not say what is in it: it is GENERATED ALWAYS, as IDENTITY or as an expression."""
    generated: str | None = None
    """The SQL expression over the other columns that it is GENERATED AS."""
    comment: str | None = field(default=None, compare=False)
    """What COMMENT ON says of it."""

    @property
    def declared(self) -> str:
        """The type as it was declared."""
        return str(self.type) if self.length is None else f"{self.type}({self.length})"


@dataclass(frozen=True, slots=True)
class TimeParts:
    """How a stream, or a view over streams, is cut into parts by time: part i has the seconds i * length and following.

    `time` is the column of a stream that says when a row happened; a view has none. The watermark of a stream is its
    latest time less `delay`; rows that come `lateness` or more behind it are refused a part. Both are microseconds, and
    a `lateness` of None has no bound. Parts older than `retention` seconds are deleted. `streams` are those
    under a view.
    """

    length: int
    time: str = ""
    delay: int = 0
    lateness: int | None = None
    retention: int | None = None
    streams: tuple[str, ...] = ()
    roll_up_length: int | None = None
    """Parts of so many seconds are stored together, once they ended `roll_up_after` seconds ago."""
    roll_up_after: int = 0
    newest: bool = field(default=False, repr=False)
    """Only the rows of the newest part are shown."""
    idle: int | None = field(default=None, repr=False)
    """Microseconds without a row after which a stream no longer holds up views of several streams."""
    archive: bool = field(default=False, repr=False)
    """Parts that are no longer kept are written to the archive."""
    arrival: bool = field(default=False, repr=False)
    """Rows that come without a time are given that of their arrival, by this machine's clock."""
    priority: int = field(default=1, repr=False)
    """How much the time counts that a new part of a view waits, where updates are ordered by freshness."""
    unique: tuple[str, ...] = field(default=(), repr=False)
    """A part has at most one row with the same values of these columns, if there are any."""
    ahead: int | None = field(default=None, repr=False)
    """Rows for parts that begin more microseconds after this machine's time are refused a part."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What the rows of a table must be like: a query for those that break it, and the text that it was declared as."""

    name: str
    table: str
    text: str
    query: str


@dataclass(frozen=True, slots=True)
class Table:
    """The schema of a base table, stream, static table or view result.

    `non_negative` names the columns declared `CHECK (column >= 0)`; `partition_by` those that rows are spread by where
    they are spread over several machines. `parts` says how a partitioned stream, or a view over one, is cut by time.
    """

    name: str
    columns: tuple[Column, ...]
    kind: TableKind = TableKind.TABLE
    primary_key: tuple[str, ...] = ()
    non_negative: frozenset[str] = frozenset()
    partition_by: tuple[str, ...] = ()
    parts: TimeParts | None = None
    unique: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The names of UNIQUE constraints, and their columns."""
    comment: str | None = field(default=None, compare=False)
    """What COMMENT ON says of it."""
    temporary: bool = field(default=False, compare=False)
    """It is not written down in a directory, and goes with the connection."""

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def is_forgetful(self) -> bool:
        """Its rows pass through and are kept nowhere."""
        return self.kind is TableKind.STREAM and self.parts is None

    @property
    def is_dynamic(self) -> bool:
        return self.kind is not TableKind.STATIC
