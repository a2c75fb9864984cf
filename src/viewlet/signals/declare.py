"""Signals over the tables of a database, and the statement that declares a view of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from viewlet.changes import did_you_mean
from viewlet.signals import api
from viewlet.signals.coefficients import column_names
from viewlet.signals.errors import SignalError
from viewlet.signals.grid import Duration, ticks_in, whole_ticks
from viewlet.signals.nodes import Source, is_causal, sources
from viewlet.signals.notation import to_text
from viewlet.signals.program import Program
from viewlet.signals.query import Query
from viewlet.types import Kind, SqlType, Table
from viewlet.visible import described


def signal_over(
    table: Table, key: str | Sequence[str], time: str, value: str | Sequence[str], unit: str | None, **options: Any
) -> api.Signal:
    """The signal of a table or view of a database; names are looked up, and the type of its time column."""
    names = table.column_names
    found = _found(table, time)
    kind = table.columns[names.index(found)].type.kind
    is_timestamp = kind is Kind.TIMESTAMP
    if is_timestamp and unit is not None:
        raise SignalError(f"unit= is for time columns that are numbers, and {table.name}.{time} is a TIMESTAMP")
    ticks = 1_000_000 if is_timestamp else None if unit is None else ticks_in(unit)
    keys = column_names(key, "key")
    values = column_names(value, "value")
    end = options.pop("end", None)
    made = api.source(
        table.name,
        key=[_found(table, each) for each in keys],
        time=found,
        value=[_found(table, each) for each in values],
        end=None if end is None else _found(table, end),
        is_timestamp=is_timestamp,
        ticks=ticks,
        **options,
    )
    assert isinstance(made.node, Source)
    check_columns(made.node, table)
    return made


def _found(table: Table, name: str) -> str:
    if not isinstance(name, str):
        raise SignalError(f"a column is named by a string, not by {described(name)}")
    for spelling in (name, name.lower()):
        if spelling in table.column_names:
            return spelling
    raise SignalError(f"{table.name} has no column {name!r}" + did_you_mean(name, table.column_names))


def check_columns(source: Source, table: Table) -> None:
    """The table has the columns of a source, of fitting types."""
    types = {column.name: column.type for column in table.columns}
    for name in (*source.key, source.time, *source.values, *((source.end,) if source.end else ())):
        if name not in types:
            raise SignalError(f"{table.name} has no column {name!r}" + did_you_mean(name, types))
    for name in source.key:
        if types[name].is_float:
            raise SignalError(f"{table.name}.{name} is {types[name]}: groups go by values that are exactly equal")
    for name in (source.time, *((source.end,) if source.end else ())):
        is_fitting = types[name].kind is Kind.TIMESTAMP if source.is_timestamp else types[name].is_integer
        if not is_fitting:
            wanted = "a TIMESTAMP" if source.is_timestamp else "a whole number"
            hint = "" if source.is_timestamp else " or TIMESTAMP"
            raise SignalError(f"{table.name}.{name} is {types[name]}, and the time of a signal is {wanted}{hint}")
    for name in source.values:
        if not types[name].is_numeric:
            raise SignalError(f"{table.name}.{name} is {types[name]}, and the value of a signal is a number")


def check_keys(sources: Sequence[Source], tables: Mapping[str, Table]) -> None:
    """Keys of several signals are of types whose equal values are held alike: groups meet by what they hold."""
    first = sources[0]
    for other in sources[1:]:
        for name, other_name in zip(first.key, other.key, strict=True):
            types = _type_of(tables[first.table], name), _type_of(tables[other.table], other_name)
            if not types[0].same_representation(types[1]):
                raise SignalError(
                    f"{first.table}.{name} is {types[0]}, and {other.table}.{other_name} is {types[1]}: groups of two "
                    "signals meet by keys of the same type; let one of them read a view with a CAST"
                )


def _type_of(table: Table, name: str) -> SqlType:
    return table.columns[table.column_names.index(name)].type


def view_statement(name: str, signal: object, retain: Duration | None) -> str:
    """CREATE MATERIALIZED VIEW for a query."""
    if not isinstance(signal, Query):
        raise SignalError(f"create_view() takes a signal, made by db.signal(...), not a {type(signal).__name__}")
    if not is_causal(signal.node):
        raise SignalError("filters in both directions need the end of the signal: run() them over a finished table")
    Program(signal.node)
    tables = dict.fromkeys(source.table for source in sources(signal.node))
    if "" in tables:
        raise SignalError("the signal is not over a table of this database: make it with db.signal(...)")
    arguments = [_string(to_text(signal.node)), *map(_identifier, tables)]
    if retain is not None:
        ticks = whole_ticks(retain, signal.form.source.ticks, "retain")
        if ticks <= 0:
            raise SignalError(f"retain= is a positive duration, not {described(retain)}")
        arguments.append(str(ticks))
    return f"CREATE MATERIALIZED VIEW {_identifier(name)} AS SELECT * FROM signal_query({', '.join(arguments)})"


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
