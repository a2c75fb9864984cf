"""Statements about partitioned streams, which the parser of SQL does not know.

CREATE STREAM s (...) PARTITION LENGTH 60 BY ts [AT ARRIVAL]
    [UNIQUE (column, ...) NOT ENFORCED]
    [WATERMARK FOR ts AS ts - INTERVAL '5' SECOND] [LATENESS INTERVAL '1' HOUR] [AHEAD INTERVAL '1' DAY]
        [RETAIN INTERVAL '7' DAY]
        [ROLLUP INTERVAL '1' HOUR [AFTER INTERVAL '1' DAY]] [IDLE AFTER INTERVAL '1' MINUTE]
CREATE VIEW v AS INITIALIZE v[i] [FROM TIMESTAMP '...' | FROM BEGINNING] AS ... UPDATE [VIEW] v[j] AS ...
    [PARTITION LENGTH 3600] [RETAIN INTERVAL '30' DAY [ARCHIVE]] [SHOW NEWEST] [PRIORITY 5]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from viewlet.algebra.nodes import Rel, Var, mul
from viewlet.algebra.query import OutputColumn, Query
from viewlet.errors import DataError, SchemaError, SqlError
from viewlet.sql.source import Source, is_short_number
from viewlet.sql.split import RawStatement, identifier, unquoted
from viewlet.sql.statements import CreateView
from viewlet.sql.streams.part_queries import Place, bind_part_query, own_columns, subscripted
from viewlet.streams.check import check_view
from viewlet.streams.definition import BEGINNING, MICROSECONDS, PART_TIMESTAMP, PartQuery, PartView
from viewlet.streams.schema import QueryError, describe
from viewlet.streams.times import to_microseconds
from viewlet.types import TIMESTAMP, Column, Kind, Table, TableKind, TimeParts

UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 604800}
_CLAUSES = ("PARTITION", "WATERMARK", "LATENESS", "AHEAD", "RETAIN", "ROLLUP", "IDLE", "UNIQUE", "SHOW", "PRIORITY")
_FOLLOWERS = ("FOR", "INTERVAL", "AFTER", "NEWEST")


def is_partitioned_stream(raw: RawStatement) -> bool:
    """CREATE STREAM ... PARTITION LENGTH ..."""
    return raw.words[:2] == ("CREATE", "STREAM") and any(
        raw.words[at : at + 2] == ("PARTITION", "LENGTH") for at in range(len(raw.words))
    )


def cut_clauses(raw: RawStatement) -> tuple[RawStatement, int]:
    """A statement without the clauses about its parts, and the word at which they begin."""
    depth = 0
    for at, word in enumerate(raw.words):
        depth += (word in ("(", "[")) - (word in (")", "]"))
        after = raw.words[at + 1] if at + 1 < len(raw.words) else ""
        starts = (word == "PARTITION" and after == "LENGTH") or (word in _CLAUSES[1:] and after in _FOLLOWERS)
        starts = starts or (word == "UNIQUE" and after == "(") or (word == "PRIORITY" and after.isdigit())
        if depth == 0 and starts:
            text = raw.text[: raw.positions[at][0]].rstrip()
            source = Source(raw.source.script, raw.source.offset, text)
            return RawStatement(source, raw.words[:at], raw.positions[:at]), at
    return raw, len(raw.words)


def cut_emit(raw: RawStatement) -> tuple[RawStatement, bool]:
    """A statement without EMIT CHANGES or EMIT ON WINDOW CLOSE at its end, and whether it had the latter."""
    for words, on_close in ((("EMIT", "CHANGES"), False), (("EMIT", "ON", "WINDOW", "CLOSE"), True)):
        if raw.words[-len(words) :] == words:
            at = len(raw.words) - len(words)
            text = raw.text[: raw.positions[at][0]].rstrip()
            source = Source(raw.source.script, raw.source.offset, text)
            return RawStatement(source, raw.words[:at], raw.positions[:at]), on_close
    if "EMIT" in raw.words:
        at = raw.words.index("EMIT")
        raise raw.source.error_at("EMIT CHANGES or EMIT ON WINDOW CLOSE is the end of a statement", *raw.positions[at])
    return raw, False


@dataclass(slots=True)
class Reader:
    """Reads words of a statement one after another."""

    raw: RawStatement
    at: int

    @property
    def word(self) -> str:
        return self.raw.words[self.at] if self.at < len(self.raw.words) else ""

    def take(self, *expected: str) -> str:
        if self.word not in expected:
            raise self.error(f"{' or '.join(expected)} is expected here")
        return self.next()

    def next(self) -> str:
        if self.at >= len(self.raw.words):
            raise self.error("something is missing at the end")
        self.at += 1
        return self.raw.words[self.at - 1]

    def name(self) -> str:
        written = self.next()
        return identifier(written)

    def number(self) -> int:
        word = self.next()
        if not is_short_number(word) or int(word) == 0:
            raise self.error("a positive whole number of at most ten digits is expected here", self.at - 1)
        return int(word)

    def interval(self) -> int:
        """An interval in microseconds; months have no fixed length."""
        self.take("INTERVAL")
        at = self.at
        amount, *units = unquoted(self.next()).split() or [""]
        unit = (units[0] if units else self.next()).upper().removesuffix("S")
        if unit in ("MONTH", "QUARTER", "YEAR"):
            raise self.error("a month has no fixed length: give the interval in days, hours, minutes or seconds", at)
        try:
            microseconds = round(float(amount) * UNITS[unit] * MICROSECONDS)
        except (KeyError, ValueError, OverflowError):
            raise self.error("an interval is a number and SECOND, MINUTE, HOUR, DAY or WEEK", at) from None
        if len(units) > 1 or not 0 <= microseconds < 2**63:
            raise self.error("an interval is one number here, not negative, of at most 292,000 years", at)
        return microseconds

    def error(self, message: str, at: int | None = None) -> SqlError:
        place = min(self.at if at is None else at, len(self.raw.words) - 1)
        return self.raw.source.error_at(message, *self.raw.positions[place])


def bind_stream_parts(table: Table, raw: RawStatement, at: int) -> Table:
    """A stream with what its clauses from word `at` say of its parts."""
    reader = Reader(raw, at)
    parts = TimeParts(0)
    while reader.at < len(raw.words):
        clause = reader.take(*_CLAUSES[:-2])
        if clause == "PARTITION":
            reader.take("LENGTH")
            length = reader.number()
            reader.take("BY")
            parts = replace(parts, length=length, time=_time_column(reader, table), arrival=_is_at_arrival(reader))
        elif clause == "WATERMARK":
            parts = replace(parts, delay=_watermark(reader, table))
        elif clause == "LATENESS":
            parts = replace(parts, lateness=reader.interval())
        elif clause == "AHEAD":
            parts = replace(parts, ahead=reader.interval())
        elif clause == "ROLLUP":
            parts = _rolled_up(reader, parts)
        elif clause == "IDLE":
            reader.take("AFTER")
            parts = replace(parts, idle=reader.interval())
        elif clause == "UNIQUE":
            parts = replace(parts, unique=_unique(reader, table))
        else:
            parts = _retained(reader, parts)
    check_roll_up(raw, parts)
    if table.primary_key:
        raise raw.source.unsupported(
            "PRIMARY KEY of a partitioned stream", None, "equal rows are legitimate in a stream"
        )
    columns = tuple(
        Column(each.name, each.type.with_nullable(False)) if each.name == parts.time else each for each in table.columns
    )
    return replace(table, columns=columns, kind=TableKind.STREAM, parts=parts)


def _is_at_arrival(reader: Reader) -> bool:
    """AT ARRIVAL: the system's time, in place of that of the application."""
    if reader.word != "AT":
        return False
    reader.next()
    reader.take("ARRIVAL")
    return True


def _unique(reader: Reader, table: Table) -> tuple[str, ...]:
    """UNIQUE (column, ...) NOT ENFORCED: a part has no two rows with the same values of these columns."""
    names: list[str] = []
    reader.take("(")
    while True:
        at, name = reader.at, reader.name()
        if name not in [column.name for column in table.columns]:
            raise reader.error(f"a column of {table.name!r} is expected here", at)
        names.append(name)
        if reader.take(",", ")") == ")":
            break
    at = reader.at - 1
    if reader.raw.words[reader.at : reader.at + 2] != ("NOT", "ENFORCED"):
        hint = "UNIQUE of a stream is what you know of its parts, and is not checked: write NOT ENFORCED after it"
        raise reader.error(hint, at)
    reader.at += 2
    return tuple(names)


def _retained(reader: Reader, parts: TimeParts) -> TimeParts:
    """RETAIN INTERVAL '7' DAY [ARCHIVE]"""
    retention = reader.interval() // MICROSECONDS
    is_archived = reader.word == "ARCHIVE"
    reader.at += is_archived
    return replace(parts, retention=retention, archive=is_archived)


def _rolled_up(reader: Reader, parts: TimeParts) -> TimeParts:
    """ROLLUP INTERVAL '1' HOUR [AFTER INTERVAL '1' DAY]"""
    length, after = reader.interval() // MICROSECONDS, 0
    if reader.word == "AFTER":
        reader.next()
        after = reader.interval() // MICROSECONDS
    return replace(parts, roll_up_length=length, roll_up_after=after)


def check_roll_up(raw: RawStatement, parts: TimeParts) -> None:
    if parts.roll_up_length is not None and (not parts.roll_up_length or parts.roll_up_length % parts.length):
        raise raw.source.unsupported("ROLLUP of other than whole parts", None, f"take a multiple of {parts.length} s")


def _time_column(reader: Reader, table: Table) -> str:
    at, name = reader.at, reader.name()
    found = next((column for column in table.columns if column.name == name), None)
    if found is None or found.type.kind is not Kind.TIMESTAMP:
        raise reader.error(f"a TIMESTAMP column of {table.name!r} is expected here", at)
    return name


def _watermark(reader: Reader, table: Table) -> int:
    """FOR ts AS ts [- INTERVAL ...]"""
    reader.take("FOR")
    name = _time_column(reader, table)
    reader.take("AS")
    at = reader.at
    if reader.name() != name:
        raise reader.error(f"the watermark is {name} less an interval", at)
    if reader.word != "-":
        return 0
    reader.next()
    return reader.interval()


# -- views ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Header:
    """CREATE [MATERIALIZED] VIEW [IF NOT EXISTS] name AS, and the word after it."""

    name: str
    if_not_exists: bool
    body: int


def view_header(raw: RawStatement) -> Header | None:
    """The beginning of a statement that declares a view without options, or None."""
    words, at = raw.words, 1
    if words[0] != "CREATE" or len(words) < 5:
        return None
    at += words[at] == "MATERIALIZED"
    if words[at] != "VIEW":
        return None
    at += 1
    exists = words[at : at + 3] == ("IF", "NOT", "EXISTS")
    at += 3 * exists
    if at + 2 >= len(words) or words[at + 1] != "AS":
        return None
    written = words[at]
    return Header(identifier(written), exists, at + 2)


def refuse_replacement(raw: RawStatement) -> None:
    """CREATE OR REPLACE is not for views over parts of streams: their parts would be lost by the way."""
    if raw.words[:3] != ("CREATE", "OR", "REPLACE"):
        return
    pairs = set(zip(raw.words, raw.words[1:], strict=False))
    if pairs & {("AS", "INITIALIZE"), ("[", "WINDOW"), ("PATTERN", "[")}:
        raise raw.source.unsupported("CREATE OR REPLACE of a view over parts of streams", None, "DROP VIEW it first")


def is_view_delta_function(raw: RawStatement) -> bool:
    """CREATE VIEW v AS INITIALIZE ..."""
    header = view_header(raw)
    return header is not None and raw.words[header.body] == "INITIALIZE"


@dataclass(frozen=True, slots=True)
class DeltaFunction:
    """A view delta function whose references are read, and whose columns are not known yet."""

    raw: RawStatement
    header: Header
    initialize: PartQuery
    update: PartQuery
    start: int | None
    given: TimeParts
    """What its clauses say."""

    @property
    def name(self) -> str:
        return self.header.name


def bind_view_delta_function(raw: RawStatement, catalog: Mapping[str, Table]) -> CreateView:
    read = read_delta_function(raw, catalog)
    parts = view_parts(raw, (read.initialize, read.update), read.name, catalog, read.given)
    columns = columns_together([read], catalog)[read.name]
    view = PartView(read.name, columns, parts, read.initialize, read.update, read.start)
    return declared(raw, read.header, view, catalog)


def read_delta_function(raw: RawStatement, catalog: Mapping[str, Table]) -> DeltaFunction:
    header = view_header(raw)
    assert header is not None
    head, clauses = cut_clauses(raw)
    reader = Reader(head, header.body)
    reader.take("INITIALIZE")
    first = _own_index(reader, header.name)
    start = _start(reader)
    reader.take("AS")
    begin = reader.at
    while reader.at < len(head.words) and not _is_update(head.words, reader.at):
        reader.at += 1
    if reader.at >= len(head.words):
        raise raw.source.error_at(
            f"UPDATE {header.name}[j] AS ... is missing: it computes the parts after the first", *raw.positions[begin]
        )
    initialize = bind_part_query(Place(head, begin, reader.at, first), catalog, header.name, subscripted)
    if own := [each for each in initialize.references if each.relation == header.name]:
        message = f"INITIALIZE reads {own[0].text(first)}: the first part has no earlier one; read the sources"
        raise raw.source.error_at(message, *raw.positions[begin])
    reader.take("UPDATE")
    reader.at += reader.word == "VIEW"
    later = _own_index(reader, header.name)
    reader.take("AS")
    update = bind_part_query(Place(head, reader.at, len(head.words), later), catalog, header.name, subscripted)
    return DeltaFunction(raw, header, initialize, update, start, view_clauses(raw, clauses))


def _is_update(words: Sequence[str], at: int) -> bool:
    skip = 1 + (words[at + 1 : at + 2] == ("VIEW",))
    return words[at] == "UPDATE" and words[at + skip + 1 : at + skip + 2] == ("[",)


def _own_index(reader: Reader, view: str) -> str:
    """name[i], which gives the variable of the subscripts."""
    at, name = reader.at, reader.name()
    if name != view:
        raise reader.error(f"the name of the view, {view}, is expected here", at)
    reader.take("[")
    index = reader.name()
    if not index.isidentifier():
        raise reader.error("the name of a variable is expected here, such as i", reader.at - 1)
    reader.take("]")
    return index


def _start(reader: Reader) -> int | None:
    """FROM TIMESTAMP '...' or FROM BEGINNING: the time from which the view is computed."""
    if reader.word != "FROM":
        return None
    reader.next()
    if reader.word == "BEGINNING":
        reader.next()
        return BEGINNING
    if reader.word == "TIMESTAMP":
        reader.next()
    return reader_time(reader)


def reader_time(reader: Reader) -> int:
    at = reader.at
    try:
        return to_microseconds(unquoted(reader.next()))
    except DataError as wrong:
        raise reader.error(str(wrong), at) from None


def view_clauses(raw: RawStatement, at: int) -> TimeParts:
    """What the clauses at the end of a view say of its parts; a length of 0 is not said."""
    reader = Reader(raw, at)
    parts = TimeParts(0)
    while reader.at < len(raw.words):
        clause = reader.take("PARTITION", "RETAIN", "ROLLUP", "SHOW", "PRIORITY")
        if clause == "PARTITION":
            reader.take("LENGTH")
            parts = replace(parts, length=reader.number())
        elif clause == "ROLLUP":
            parts = _rolled_up(reader, parts)
        elif clause == "SHOW":
            reader.take("NEWEST")
            parts = replace(parts, newest=True)
        elif clause == "PRIORITY":
            parts = replace(parts, priority=reader.number())
        else:
            parts = _retained(reader, parts)
    return parts


def view_parts(
    raw: RawStatement,
    queries: Sequence[PartQuery],
    name: str,
    catalog: Mapping[str, Table],
    given: TimeParts,
) -> TimeParts:
    """The parts of a view: as long as those of its longest source, unless it says so."""
    read = {each.relation for query in queries for each in query.references if not each.is_table} - {name}
    if not read:
        raise raw.source.error(f"view {name!r} reads no part of a stream: write for example FROM stream[j]")
    sources = {source: catalog[source].parts for source in sorted(read)}
    streams: set[str] = set()
    for source, parts in sources.items():
        assert parts is not None
        streams.update(parts.streams or (source,))
    longest = max(parts.length for parts in sources.values() if parts is not None)
    found = replace(given, length=given.length or longest, streams=tuple(sorted(streams)))
    check_roll_up(raw, found)
    return found


def columns_together(views: Sequence[DeltaFunction], catalog: Mapping[str, Table]) -> dict[str, tuple[Column, ...]]:
    """The columns of views: the names of INITIALIZE, and types that hold what both queries return.

    Views that read each other come each after those that its INITIALIZE reads.
    """
    known: dict[str, tuple[Column, ...]] = {}
    for view in views:
        known[view.name] = described(view.raw, view.initialize, catalog, known, "INITIALIZE")
    for _ in range(len(views) + 1):  # UPDATE may read earlier parts of itself and of the others, of wider types
        before = dict(known)
        for view in views:
            known[view.name] = _both(view, catalog, known)
        if known == before:
            break
    return known


def _both(
    view: DeltaFunction, catalog: Mapping[str, Table], known: Mapping[str, tuple[Column, ...]]
) -> tuple[Column, ...]:
    """The columns of both queries, where the views that are declared have the columns `known`."""
    initialize, update, own = view.initialize, view.update, known[view.name]
    later = described(view.raw, update, catalog, known, "UPDATE")
    if len(own) != len(later):
        message = f"UPDATE returns {len(later)} columns, and INITIALIZE {len(own)}"
        raise view.raw.source.error(f"{message}: both are parts of view {view.name!r}")
    both = PartQuery(
        f"({initialize.sql}) UNION ALL ({update.sql.replace(update.mark, update.mark + 'u')})", (), initialize.mark
    )
    tables = {
        **_tables(initialize, catalog, known),
        **{
            key.replace(update.mark, update.mark + "u"): value for key, value in _tables(update, catalog, known).items()
        },
    }
    try:
        return describe(plain_sql(both), tables)
    except QueryError as error:
        raise view.raw.source.error(f"the columns of INITIALIZE and UPDATE do not fit: {error}") from None


def described(
    raw: RawStatement, query: PartQuery, catalog: Mapping[str, Table], own: Mapping[str, Sequence[Column]], where: str
) -> tuple[Column, ...]:
    """The columns that a query returns; `own` are those of relations that are not declared yet."""
    try:
        return describe(plain_sql(query), _tables(query, catalog, own))
    except QueryError as error:
        raise raw.source.error(f"{where}: {error}") from None


def plain_sql(query: PartQuery) -> str:
    """A query that DuckDB can bind: some time stands for the start of its part."""
    return re.sub(f'"{re.escape(query.mark)}u?start"', "TIMESTAMP '1970-01-01 00:00:00'", query.sql)


def _tables(
    query: PartQuery, catalog: Mapping[str, Table], own: Mapping[str, Sequence[Column]]
) -> dict[str, Sequence[Column]]:
    return {
        query.marker(number): own[each.relation] if each.relation in own else own_columns(catalog[each.relation])
        for number, each in enumerate(query.references)
        if each.relation in own or each.relation in catalog
    }


def _from_the_beginning(view: PartView) -> PartView:
    """A view, and its helpers, that is computed from the first part of what it reads."""
    helpers = tuple(map(_from_the_beginning, view.helpers))
    elsewhere = None if view.elsewhere is None else _from_the_beginning(view.elsewhere)
    return replace(view, start=BEGINNING, helpers=helpers, elsewhere=elsewhere)


def declared(raw: RawStatement, header: Header, view: PartView, catalog: Mapping[str, Table]) -> CreateView:
    """The statement for a view whose definition is bound."""
    lengths = {name: table.parts.length for name, table in catalog.items() if table.parts is not None}
    try:
        for helper in view.helpers:
            check_view(helper, {}, lengths)
            lengths = {**lengths, helper.name: helper.length}
        for member in view.family:
            lengths = {**lengths, member.name: member.length}
        check_view(view, {member.name: member for member in view.family}, lengths)
    except SchemaError as error:
        raise raw.source.error(str(error)) from None
    if not is_view_delta_function(raw):
        view = _from_the_beginning(view)
    view = replace(view, statement=raw.text_from(header.body))
    shown = (*view.columns, Column(PART_TIMESTAMP, TIMESTAMP.with_nullable(False)))
    columns = tuple(OutputColumn(column.name, Var(column.name, column.type)) for column in shown)
    own = {view.name, *view.partners, *(helper.name for helper in view.helpers)}
    read = {each.relation for part in (view, *view.helpers) for each in part.references()} - own
    tables = {name for part in (view, *view.helpers) for name in part.tables()}
    sources = frozenset({*read, *tables, *view.parts.streams})
    atoms = [
        Rel(name, tuple(Var(f"{name}_{column.name}", column.type) for column in catalog[name].columns))
        for name in sorted(sources)
    ]
    return CreateView(
        view.name,
        Query(mul(*atoms), columns),
        view,
        sources,
        select_sql=raw.text_from(header.body),
        if_not_exists=header.if_not_exists,
    )
