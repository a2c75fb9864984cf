"""The table function `signal_query('text', table, ...)`, with the tables of the query in their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from viewlet.algebra.signal_query import SignalInput, SignalQuery
from viewlet.errors import ViewletError
from viewlet.sql.source import sql_of, whole_number
from viewlet.sql.table_functions import BoundCall, TableCall
from viewlet.types import DOUBLE, Column, Kind, SqlType, Table, TableKind

if TYPE_CHECKING:
    from viewlet.signals.grid import Duration
    from viewlet.signals.nodes import Signal


def bind_signal_query(call: TableCall) -> BoundCall:
    """Reads the query, and finds the columns of its sources."""
    from viewlet.signals.check import check_query
    from viewlet.signals.form import form_of
    from viewlet.signals.nodes import sources
    from viewlet.signals.notation import from_text

    text = call.string(0, "the text of a signal query")
    try:
        query = from_text(text)
        check_query(query)
        form_of(query)
        read = sources(query)
    except ViewletError as wrong:
        raise call.error(str(wrong), 0) from wrong
    tables = {}
    for number in range(1, len(call.arguments)):
        if whole_number(sql_of(call.arguments[number])) is None:
            table = call.table(number)
            tables[table.name] = table
    missing = [each.table for each in read if each.table not in tables]
    if missing:
        raise call.error(f"{call.name} needs table {missing[0]} as an argument")
    retain = whole_number(sql_of(call.arguments[-1])) if len(call.arguments) > 1 else None
    return bound_signal(call, query, tables, retain)


def bound_signal(call: TableCall, query: Signal, tables: Mapping[str, Table], retain: Duration | None) -> BoundCall:
    """A view of a query over tables."""
    from viewlet.signals.declare import check_keys
    from viewlet.signals.form import form_of
    from viewlet.signals.grid import whole_ticks
    from viewlet.signals.nodes import sources
    from viewlet.signals.notation import to_text
    from viewlet.signals.rows import value_columns

    form, read = form_of(query), sources(query)
    ticks = None if retain is None else whole_ticks(retain, form.source.ticks, "retain")
    inputs = tuple(signal_input(call, each, tables[each.table]) for each in read)
    try:
        check_keys(read, tables)
    except ViewletError as wrong:
        raise call.error(str(wrong), 0) from wrong
    first = tables[form.source.table]
    shown = [first.columns[position] for position in inputs[0].key]
    shown.append(Column(form.source.time, first.columns[inputs[0].time].type.with_nullable(False)))
    if form.has_end:
        shown.append(Column(form.source.end or "end", first.columns[inputs[0].time].type.with_nullable(False)))
    value = DOUBLE if form.size is None else SqlType(Kind.ARRAY, form.size)
    shown += [Column(each.name, value) for each in value_columns(form)]
    definition = SignalQuery(to_text(query), inputs, ticks, form.size is not None)
    return BoundCall(definition, tuple(shown), frozenset(each.table for each in inputs))


def signal_input(call: TableCall, source: object, table: Table) -> SignalInput:
    """The columns of a source in its table."""
    from viewlet.signals.declare import check_columns
    from viewlet.signals.nodes import Source

    assert isinstance(source, Source)
    try:
        check_columns(source, table)
    except ViewletError as wrong:
        raise call.error(str(wrong), 0) from wrong
    if source.idle and table.kind is not TableKind.STREAM:
        hint = f"{table.name} keeps its rows, and what is known of their groups"
        raise call.error(f"idle= is for streams: {hint}; leave it out, or CREATE STREAM {table.name}", 0)
    place = {name: number for number, name in enumerate(table.column_names)}
    scales = tuple(
        table.columns[place[name]].type.scale if table.columns[place[name]].type.kind is Kind.DECIMAL else 0
        for name in source.values
    )
    return SignalInput(
        table.name,
        tuple(place[name] for name in source.key),
        place[source.time],
        None if source.end is None else place[source.end],
        tuple(place[name] for name in source.values),
        scales,
        table.kind is not TableKind.STREAM,
    )
