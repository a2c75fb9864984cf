"""Windows in GROUP BY, as Spark has them: `window(ts, '10 minutes', '1 minute')` and `session_window(ts, '5 minutes')`.

    SELECT g, window.start, SUM(x) FROM s GROUP BY g, window(ts, '10 minutes')
    SELECT g, window_start, SUM(x) FROM TUMBLE(s, INTERVAL '10' MINUTES) GROUP BY g, window_start, window_end

The other columns of GROUP BY are the groups of sessions, and WHERE says which rows are considered at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewlet.sql.split import RawStatement
from viewlet.sql.statements import CreateView
from viewlet.sql.streams.parse import parse_query
from viewlet.sql.streams.sessions import WINDOW_END, WINDOW_START, Sessions, bind_sessions, call_marker
from viewlet.sql.streams.statements import UNITS, Header, Reader, cut_clauses, cut_emit, view_header
from viewlet.sql.streams.window_functions import ROWS_MARK, Windows, bind_windows, with_offset
from viewlet.streams.definition import MICROSECONDS
from viewlet.types import Table

_PLAIN = {"WINDOW": "viewlet_window", "SESSION_WINDOW": "session_window"}
"""`window` is a word of SQL: the parser gets another one."""
_INTERVAL = re.compile(r"(?:INTERVAL\s+)?'?(\d+(?:\.\d+)?)'?\s*([A-Za-z]+?)s?", re.IGNORECASE)


def groups_by_window(raw: RawStatement) -> bool:
    """CREATE VIEW v AS SELECT ... GROUP BY ..., window(ts, ...)."""
    return view_header(raw) is not None and _call(raw) is not None


def _call(raw: RawStatement) -> int | None:
    grouped = False
    for at, word in enumerate(raw.words[:-1]):
        grouped = grouped or word == "GROUP BY"
        if grouped and word in _PLAIN and raw.words[at + 1] == "(" and raw.words[at - 1] in ("GROUP BY", ","):
            return at
    return None


def bind_grouped_window(raw: RawStatement, catalog: Mapping[str, Table]) -> CreateView:
    header, at = view_header(raw), _call(raw)
    assert header is not None
    assert at is not None
    plain, on_close = cut_emit(raw)
    head, clauses = cut_clauses(plain)
    rest = plain.text[plain.positions[clauses][0] :] if clauses < len(plain.words) else ""
    reader = Reader(plain, at)
    function = _PLAIN[reader.word]
    node = _parsed(head, header, reader)
    source = _source(node, reader, catalog)
    call = next(each for each in node.args["group"].expressions if _is_call(each, function))
    intervals = _arguments(call, source, reader)
    _use_columns(node, call, function, reader)
    if function == "session_window":
        if len(intervals) != 1 or not intervals[0]:
            raise reader.error("session_window(time, gap) is expected")
        return _sessions(raw, header, node, source, intervals[0], on_close, rest, reader, catalog)
    windows = _windows(source, intervals, on_close, reader)
    table = node.args["from_"].this
    rows = exp.to_identifier(ROWS_MARK.strip('"'), quoted=True)
    table.set("this", rows)
    return bind_windows(raw, header, windows, node.sql("duckdb"), rest, catalog)


def _parsed(head: RawStatement, header: Header, reader: Reader) -> exp.Select:
    """The query, with a name for `window` that the parser takes."""
    begin = head.positions[header.body][0]
    text = head.text
    for at in reversed(range(header.body, len(head.words) - 1)):
        if head.words[at] == "WINDOW" and head.words[at + 1] in ("(", "."):
            start, end = head.positions[at]
            text = text[:start] + _PLAIN["WINDOW"] + text[end:]
    try:
        node = parse_query(text[begin:])
    except SqlglotError as error:
        raise reader.error(f"syntax error: {str(error).splitlines()[0].split('. Line ')[0]}") from None
    if not isinstance(node, exp.Select) or node.args.get("joins") or node.find(exp.Subquery):
        raise reader.error("a window in GROUP BY is of a query over one stream")
    return node


def _is_call(node: exp.Expr, function: str) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() == function


def _source(node: exp.Select, reader: Reader, catalog: Mapping[str, Table]) -> Table:
    start = node.args.get("from_")
    name = start.this.name if start is not None and isinstance(start.this, exp.Table) else ""
    table = next((catalog[each] for each in (name, name.lower()) if each in catalog), None)
    if start is None or table is None or table.parts is None or not table.parts.time:
        raise reader.error("a window in GROUP BY is of a query over a partitioned stream")
    if not start.this.alias:
        start.this.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    return table


def _arguments(call: exp.Expr, source: Table, reader: Reader) -> list[int]:
    """The intervals of a call, in microseconds; its first argument is the time of the stream."""
    assert source.parts is not None
    time, *lengths = call.expressions
    if not isinstance(time, exp.Column) or time.name.lower() != source.parts.time:
        raise reader.error(f"a window of stream {source.name!r} is over its time, {source.parts.time}")
    return [_microseconds(each, reader) for each in lengths]


def _microseconds(node: exp.Expr, reader: Reader) -> int:
    text = str(node.this) if isinstance(node, exp.Literal) else node.sql("duckdb")
    found = _INTERVAL.fullmatch(text.strip())
    if found is None or found[2].upper() not in UNITS:
        raise reader.error("an interval is a number and seconds, minutes, hours, days or weeks, such as '10 minutes'")
    microseconds = float(found[1]) * UNITS[found[2].upper()] * MICROSECONDS
    if microseconds >= 2**63:
        raise reader.error("an interval has at most 292,000 years")
    return round(microseconds)


def _use_columns(node: exp.Select, call: exp.Expr, function: str, reader: Reader) -> None:
    """`window.start` and `window.end` become columns; the call in GROUP BY stands for both."""
    named = {"start": WINDOW_START, "end": WINDOW_END}
    spelling = next(word for word, plain in _PLAIN.items() if plain == function).lower()
    for column in list(node.find_all(exp.Column)):
        if column.table.lower() == function and column.name.lower() in named:
            name = named[column.name.lower()]
            new: exp.Expr = exp.column(name)
            if isinstance(column.parent, exp.Select):
                new = exp.alias_(new, column.name, quoted=True)
            column.replace(new)
        elif {function, spelling} & {column.table.lower(), column.name.lower()}:
            raise reader.error("a window has two columns: write window.start and window.end")
    group = node.args["group"]
    others = [each for each in group.expressions if each is not call]
    group.set("expressions", [*others, exp.column(WINDOW_START), exp.column(WINDOW_END)])


def _windows(source: Table, intervals: list[int], on_close: bool, reader: Reader) -> Windows:
    assert source.parts is not None
    if not 1 <= len(intervals) <= 3:
        raise reader.error("window(time, size [, slide [, offset]]) is expected")
    size, slide = intervals[0], intervals[1] if len(intervals) > 1 else intervals[0]
    unit = source.parts.length * MICROSECONDS
    if not size or not slide or size % unit or slide % unit:
        raise reader.error(
            f"a window of {source.name!r} is a multiple of its parts, which have {source.parts.length} s"
        )
    windows = Windows(source, slide // MICROSECONDS, size // MICROSECONDS, 0, on_close)
    return with_offset(reader, windows, intervals[2] if len(intervals) > 2 else 0)


def _sessions(
    raw: RawStatement,
    header: Header,
    node: exp.Select,
    source: Table,
    gap: int,
    on_close: bool,
    rest: str,
    reader: Reader,
    catalog: Mapping[str, Table],
) -> CreateView:
    keys = []
    for each in node.args["group"].expressions[:-2]:
        if not isinstance(each, exp.Column) or each.name.lower() not in source.column_names:
            raise reader.error(f"the groups of session_window are columns of stream {source.name!r}")
        keys.append(each.name.lower())
    where = node.args.get("where")
    rows = ""
    if where is not None:
        for column in where.find_all(exp.Column):
            column.set("table", None)
        rows = where.this.sql("duckdb")
        node.set("where", None)
    alias = node.args["from_"].this.alias
    node.args["from_"].this.replace(exp.to_table("viewlet_sessions"))
    query = node.sql("duckdb").replace("viewlet_sessions", call_marker(False, alias), 1)
    return bind_sessions(raw, header, Sessions(source, tuple(keys), gap, on_close, rows), query, rest, catalog)
