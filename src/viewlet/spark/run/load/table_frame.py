"""Data frames as tables that SQL can read: the columns that are needed, in the types of the table, and checked.

What a frame means is what `viewlet.changes.to_changes` makes of its rows. Conversions that Spark does the same way are
done by Spark; a row that does not fit is found by one query and refused by `to_changes` itself. Anything else (dates as
strings, decimals as doubles) makes the frame `NotLoadable`: its rows can still be fed to triggers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NoReturn

from viewlet.changes import CHANGE_TYPE, MULTIPLICITY, match_columns, to_changes
from viewlet.errors import DataError, UnsupportedError
from viewlet.spark.run.java import job_description
from viewlet.spark.run.load.sources import spark_type
from viewlet.sqlgen.dialects import DIALECTS
from viewlet.types import BIGINT, INTEGER_BITS, Column, Kind, SqlType, Table

_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_FIRST, _LAST = "0001-01-01", "9999-12-31"
_INFINITY = "CAST('Infinity' AS DOUBLE)"


class NotLoadable(Exception):  # noqa: N818 - a finding, not an error: rows can be fed to triggers instead
    """Spark SQL cannot fill a view from this frame; the text says why."""


def _quoted(name: str) -> str:
    try:
        return DIALECTS["spark"].quoted(name)
    except UnsupportedError as error:
        raise NotLoadable(str(error)) from error


@dataclass(frozen=True, slots=True)
class Conversion:
    """A column converted to the type of a table, and a condition that is true for values that do not fit it."""

    name: str
    sql: str
    misfit: str | None = None


@dataclass(frozen=True, slots=True)
class TableFrame:
    """A data frame with the rows of a table: the columns to read, and their conversions."""

    table: Table
    frame: Any
    given: tuple[str, ...]
    conversions: tuple[Conversion, ...]
    is_weighted: bool

    def pruned(self) -> Any:
        """The columns that are needed, as they were given."""
        return self.frame.select(*map(_quoted, self.given))

    def converted(self, pruned: Any) -> Any:
        return pruned.selectExpr(*(f"{each.sql} AS {_quoted(each.name)}" for each in self.conversions))

    def misfits(self, pruned: Any) -> Any | None:
        """The rows that do not fit; None if all do whatever they are."""
        conditions = [each.misfit for each in self.conversions if each.misfit is not None]
        return pruned.where(" OR ".join(conditions)) if conditions else None

    def refuse(self, misfits: Any) -> NoReturn:
        """Raises what `to_changes` says of the first row that does not fit."""
        needed = {each.name for each in self.conversions}
        columns = tuple(column for column in self.table.columns if column.name in needed)
        seen = Table(self.table.name, columns, self.table.kind, self.table.primary_key, self.table.non_negative)
        to_changes(seen, misfits.limit(1).toArrow(), encoded=True)
        raise DataError(f"{self.table.name}: {misfits.head()!r:.200} does not fit the table")


def refuse_misfits(frames: Sequence[tuple[TableFrame, Any]]) -> None:
    """Raises what `to_changes` says of a row of some pruned frames that does not fit; one job looks at all of them."""
    from pyspark.sql import functions as f

    found = [(frame, misfits) for frame, pruned in frames if (misfits := frame.misfits(pruned)) is not None]
    if not found:
        return
    which = [misfits.select(f.lit(i).alias("frame")) for i, (_, misfits) in enumerate(found)]
    with job_description(found[0][1].sparkSession.sparkContext, "look for rows that do not fit"):
        first = reduce(lambda left, right: left.union(right), which).agg(f.min("frame")).head()[0]
    if first is not None:
        frame, misfits = found[first]
        frame.refuse(misfits)


def table_frame(table: Table, frame: Any, needed: frozenset[str]) -> TableFrame:
    """What there is to read of a frame; a column of changes is a `DataError` or, if it is a number, a weight."""
    matched = match_columns(table, frame.columns)
    if CHANGE_TYPE in matched:
        raise NotLoadable(f"{table.name} has a column {CHANGE_TYPE!r}")
    types = {field.name: field for field in frame.schema.fields}
    conversions = [
        _conversion(table, column, types.get(matched.get(column.name, "")))
        for column in table.columns
        if column.name in needed
    ]
    weighted = MULTIPLICITY in matched
    if weighted:
        number = Column(MULTIPLICITY, BIGINT.with_nullable(False))
        conversions.append(_conversion(table, number, types[matched[MULTIPLICITY]]))
    given = tuple(matched[each.name] for each in conversions if each.name in matched)
    return TableFrame(table, frame, given, tuple(conversions), weighted)


def empty_frame(spark: Any, table: Table) -> Any:
    schema = ", ".join(f"{_quoted(column.name)} {_held_type(column.type)}" for column in table.columns)
    return spark.createDataFrame([], schema)


def _held_type(type: SqlType) -> str:
    """Singles are doubles, as they are in the engine."""
    return "double" if type.is_float else spark_type(type)


def _conversion(table: Table, column: Column, field: Any) -> Conversion:
    required = not column.type.nullable or column.name in table.primary_key
    if field is None:
        missing = f"CAST(NULL AS {_held_type(column.type)})"
        return Conversion(column.name, missing, "TRUE" if required else None)
    given = _quoted(field.name)
    sql, misfit = _converted(given, field.dataType.simpleString(), column, table)
    conditions = [misfit] if misfit is not None else []
    if required and field.nullable:
        conditions.append(f"{given} IS NULL")
    if column.name in table.non_negative:
        conditions.append(f"{given} < 0")
    if column.length is not None:
        conditions.append(f"CHAR_LENGTH({given}) > {column.length}")
    return Conversion(column.name, sql, " OR ".join(conditions) or None)


def _converted(given: str, source: str, column: Column, table: Table) -> tuple[str, str | None]:
    """The value as one of the column's type, and what is wrong with a value that has none."""
    target = column.type
    held = f"CAST({given} AS {_held_type(target)})"
    match target.kind:
        case _ if source == "void":
            return held, None
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT if source in _INTEGERS:
            fits = _INTEGERS[source] <= INTEGER_BITS[target.kind]
            return (held, None) if fits else _narrowed(given, target)
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT if source.startswith("decimal"):
            return _narrowed(given, target)
        case Kind.DECIMAL if source in _INTEGERS or source.startswith("decimal"):
            whole, fraction = _digits(source)
            fits = whole <= target.precision - target.scale and fraction <= target.scale
            return (held, None) if fits else _narrowed(given, target)
        case Kind.DOUBLE if source in ("float", "double"):
            return f"(CAST({given} AS DOUBLE) + 0D)", f"NOT (ABS({given}) < {_INFINITY})"
        case Kind.DOUBLE if source in _INTEGERS or source.startswith("decimal"):
            return held, None
        case Kind.REAL if source in ("float", "double"):
            single = f"CAST(CAST({given} AS FLOAT) AS DOUBLE)"
            return f"({single} + 0D)", f"NOT (ABS({single}) < {_INFINITY})"
        case Kind.BOOLEAN if source == "boolean":
            return given, None
        case Kind.VARCHAR if source == "string":
            return given, None
        case Kind.DATE if source == "date":
            return given, f"{given} < DATE '{_FIRST}' OR {given} > DATE '{_LAST}'"
        case Kind.TIMESTAMP if source in ("date", "timestamp_ntz"):
            first, last = f"TIMESTAMP_NTZ '{_FIRST} 00:00:00'", f"TIMESTAMP_NTZ '{_LAST} 23:59:59.999999'"
            return held, f"{held} < {first} OR {held} > {last}"
        case _:
            raise NotLoadable(f"{table.name}.{column.name} is {source}, not {target}")


def _narrowed(given: str, target: SqlType) -> tuple[str, str]:
    held = f"TRY_CAST({given} AS {spark_type(target)})"
    return held, f"({given} IS NOT NULL AND NOT ({held} <=> {given}))"


def _digits(source: str) -> tuple[int, int]:
    """Digits before and after the point."""
    if source in _DIGITS:
        return _DIGITS[source], 0
    precision, scale = map(int, source.removeprefix("decimal(").removesuffix(")").split(","))
    return precision - scale, scale


def expected_bytes(frame: Any) -> int:
    """What Spark expects a data frame to take."""
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return 1 << 60
    return int(str(plan.queryExecution().optimizedPlan().stats().sizeInBytes()))


def is_cheap_to_read_again(frame: Any) -> bool:
    """It comes straight from memory or from files with columns, and is the same every time."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    if not plan.deterministic():
        return False
    while plan.nodeName() in ("Project", "Filter"):
        plan = plan.children().head()
    if plan.nodeName() != "LogicalRelation":
        return str(plan.nodeName()) in ("LocalRelation", "InMemoryRelation")
    relation = plan.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return False
    files = str(relation.fileFormat().getClass().getSimpleName()).lower()
    return "parquet" in files or "orc" in files
