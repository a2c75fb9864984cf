"""Data frames as sources of changes: their columns in the types of tables, and several streams as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viewlet.changes import CHANGE_TYPE, MULTIPLICITY, did_you_mean
from viewlet.errors import DataError
from viewlet.sqlgen.dialects import DIALECTS
from viewlet.types import Kind, SqlType, Table

TABLE = "_table"
_SPARK_TYPES = {
    Kind.BOOLEAN: "boolean",
    Kind.SMALLINT: "smallint",
    Kind.INTEGER: "int",
    Kind.BIGINT: "bigint",
    Kind.REAL: "float",
    Kind.DOUBLE: "double",
    Kind.VARCHAR: "string",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp_ntz",
}


def spark_type(type: SqlType) -> str:
    """
    >>> from viewlet.types import decimal
    >>> spark_type(decimal(9, 2))
    'decimal(9,2)'
    """
    return f"decimal({type.precision},{type.scale})" if type.kind is Kind.DECIMAL else _SPARK_TYPES[type.kind]


def has_spark_type(type: SqlType) -> bool:
    return type.kind is Kind.DECIMAL or type.kind in _SPARK_TYPES


def check_columns(table: Table, frame: Any, kind: str) -> None:
    """Refuses a data frame that lacks a column of its table, which may have it under another name."""
    present = {name.lower() for name in frame.columns}
    missing = [name for name in table.column_names if name.lower() not in present]
    if missing:
        own = {name.lower() for name in table.column_names}
        unknown = [name for name in frame.columns if name.lower() not in own]
        raise DataError(
            f"{table.name}: the {kind} has no column {missing[0]!r}{did_you_mean(missing[0], unknown)}; rename it, or "
            f"say what it is: .withColumn({missing[0]!r}, lit(None))"
        )


def known_columns(table: Table, frame: Any) -> Any:
    """The frame of a stream without columns that a table does not have; it has to have all that the table has.

    A source may gain columns. One that loses a column, or has it under another name, would fill it with NULL.
    """
    wanted = {name.lower() for name in (*table.column_names, MULTIPLICITY, CHANGE_TYPE)}
    check_columns(table, frame, "stream")
    known = [name for name in frame.columns if name.lower() in wanted]
    return frame if len(known) == len(frame.columns) else frame.select([*map(DIALECTS["spark"].quoted, known)])


def in_local_time(table: Table, frame: Any) -> Any:
    """The frame with moments as the date and time that they have in the time zone of the session.

    That is how Spark writes them to a column without a time zone.
    """
    times = {column.name.lower() for column in table.columns if column.type.kind is Kind.TIMESTAMP}
    moments = [field.name for field in frame.schema if field.dataType.typeName() == "timestamp"]
    chosen = [name for name in moments if name.lower() in times]
    if not chosen or len(set(frame.columns)) < len(frame.columns):
        return frame
    quoted = {name: DIALECTS["spark"].quoted(name) for name in frame.columns}
    return frame.selectExpr(
        *(
            f"CAST({quoted[name]} AS TIMESTAMP_NTZ) AS {quoted[name]}" if name in chosen else quoted[name]
            for name in quoted
        )
    )


def together(frames: Mapping[str, Any]) -> Any:
    """One frame with the rows of several: their table's name, and a struct per table that is NULL for the others."""
    from pyspark.sql import functions as f

    tagged = [frame.select(f.lit(name).alias(TABLE), f.struct("*").alias(name)) for name, frame in frames.items()]
    whole = tagged[0]
    for each in tagged[1:]:
        whole = whole.unionByName(each, allowMissingColumns=True)
    return whole


def apart(whole: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """What `together` was given."""
    from pyspark.sql import functions as f

    return {name: whole.where(f.col(TABLE) == name).select(f"`{name}`.*") for name in names}
