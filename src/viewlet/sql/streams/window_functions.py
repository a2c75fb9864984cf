"""Windows as table functions, with their start and end: `TUMBLE(s, size)`, `HOP(s, slide, size)` and `SESSION(s, gap)`.

    SELECT g, window_start, SUM(x) FROM TUMBLE(s, INTERVAL '10' MINUTES) GROUP BY g, window_start

A window of TUMBLE and HOP is a part of the view, which is as long as windows are apart: the statement becomes a view
delta function over the parts of the window. With an offset, a window belongs to the part of its last moment. Sessions
are in `sessions.py`, GAPFILL in `carried_rows.py`; `window()` and `session_window()` in GROUP BY, as Spark has them, in
`grouped_windows.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import exp

from viewlet.sql.split import RawStatement
from viewlet.sql.statements import CreateView
from viewlet.sql.streams.carried_rows import bind_gap_fill
from viewlet.sql.streams.sessions import Sessions, bind_generated, bind_sessions, call_marker
from viewlet.sql.streams.statements import Header, Reader, cut_clauses, cut_emit, declared, view_header
from viewlet.sql.streams.windows import decompose_over
from viewlet.streams.definition import MICROSECONDS, PART_TIMESTAMP, PartView
from viewlet.streams.normalise import normalised
from viewlet.types import Table

ROWS_MARK = '"$rows"'
"""Stands for the rows of windows in a query."""
FUNCTIONS = ("TUMBLE", "HOP", "SESSION", "GAPFILL")
_CALLS = {
    "TUMBLE": "TUMBLE(stream, size [, offset])",
    "HOP": "HOP(stream, slide, size [, offset])",
    "SESSION": "SESSION(stream [PARTITION BY column, ...], gap)",
    "GAPFILL": "GAPFILL(stream PARTITION BY column, ... [, limit])",
}


def calls_window_function(raw: RawStatement) -> bool:
    """CREATE VIEW v AS SELECT ... FROM TUMBLE(s, ...) ..., with a partitioned stream s."""
    return view_header(raw) is not None and _call(raw) is not None


def _call(raw: RawStatement) -> int | None:
    for at in range(2, len(raw.words) - 2):
        if raw.words[at] in FUNCTIONS and raw.words[at + 1] == "(" and raw.words[at - 1] in ("FROM", "JOIN", ","):
            return at
    return None


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of `size` seconds every `slide` seconds over a relation; they end `offset` microseconds after parts."""

    source: Table
    slide: int
    size: int
    offset: int = 0
    on_close: bool = False

    @property
    def form(self) -> str:
        return ("tumble" if self.slide == self.size else "hop") + (" windows on close" if self.on_close else " windows")


def bind_window_function(raw: RawStatement, catalog: Mapping[str, Table]) -> CreateView:
    header, at = view_header(raw), _call(raw)
    assert header is not None
    assert at is not None
    plain, on_close = cut_emit(raw)
    reader = Reader(plain, at)
    function = reader.next()
    reader.take("(")
    source, keys = _source(reader, function, catalog)
    intervals = []
    while reader.take(",", ")") == ",":
        intervals.append((reader.at, reader.interval()))
    head, clauses = cut_clauses(plain)
    rest = plain.text[plain.positions[clauses][0] :] if clauses < len(plain.words) else ""
    begin, end = raw.text[raw.positions[header.body][0] : raw.positions[at][0]], plain.positions[reader.at - 1][1]
    ending = plain.text[end : len(head.text)]
    has_alias = _has_alias(reader)
    if function == "SESSION":
        if len(intervals) != 1 or not intervals[0][1]:
            raise reader.error(f"{_CALLS[function]} is expected", at)
        sessions = Sessions(source, keys, intervals[0][1], on_close)
        query = begin + call_marker(has_alias, source.name) + ending
        return bind_sessions(raw, header, sessions, query, rest, catalog)
    if function == "GAPFILL":
        if len(intervals) > 1:
            raise reader.error(f"{_CALLS[function]} is expected", at)
        limit = intervals[0][1] if intervals else None
        pieces = begin, ("" if has_alias else f" AS {_quoted(source.name)}") + ending
        return bind_gap_fill(raw, header, source, keys, limit, pieces, rest, catalog)
    windows = _windows(reader, function, at, source, intervals, on_close)
    alias = "" if has_alias else f" AS {_quoted(source.name)}"
    return bind_windows(raw, header, windows, f"{begin}{ROWS_MARK}{alias}{ending}", rest, catalog)


def bind_windows(
    raw: RawStatement, header: Header, windows: Windows, query: str, rest: str, catalog: Mapping[str, Table]
) -> CreateView:
    """The view of a query that has `ROWS_MARK` in place of the rows of windows."""
    quoted = _quoted(header.name)
    outline, query = query, query.replace(ROWS_MARK, f"({rows_of_windows(windows)})")
    text = f"CREATE VIEW {quoted} AS INITIALIZE {quoted}[j] AS {query}\nUPDATE {quoted}[j] AS {query}\n"
    length = f"PARTITION LENGTH {windows.slide} {rest}"
    view = replace(bind_generated(raw, f"{text}{length}", catalog), form=windows.form)
    return declared(raw, header, _decomposed(view, windows, outline), catalog)


def _decomposed(view: PartView, windows: Windows, outline: str) -> PartView:
    """The view over partial aggregates of parts, where windows are made of whole parts and the query of such."""
    parts = windows.source.parts
    assert parts is not None
    if any(f"${name}" in outline for name in _BOUNDS):
        return view  # a literal of the user's that looks like ours
    node = normalised(sqlglot.parse_one(outline, read="duckdb"), [*windows.source.column_names, *_BOUNDS])
    start = node.args.get("from_")
    if windows.offset % (parts.length * MICROSECONDS) or not isinstance(node, exp.Select) or start is None:
        return view
    if start.this.name != ROWS_MARK.strip('"') or len(view.initialize.references) > 2:
        return view
    group = node.args.get("group")
    if group is not None:
        kept = [each for each in group.expressions if _bound(each) is None]
        group.set("expressions", kept)
        if not kept:
            node.set("group", None)
    names = [each.alias_or_name for each in node.expressions]
    for column in list(node.find_all(exp.Column)):
        if (bound := _bound(column)) is not None:
            if column.find_ancestor(exp.AggFunc, exp.Where) is not None:
                return view
            column.replace(exp.Literal.string(f"${bound}"))
    named = [
        each if isinstance(each, exp.Alias) or not name else exp.alias_(each, name, quoted=True)
        for each, name in zip(node.expressions, names, strict=True)
    ]
    node.set("expressions", named)
    start.this.this.set("this", view.initialize.marker(0))
    end, begin = bounds_of(windows)
    marked = exp.column(view.initialize.start_marker, quoted=True).sql("duckdb")
    constants = {
        f"${name}": f"({text.replace(PART_TIMESTAMP, marked)})"
        for name, text in zip(_BOUNDS, (begin, end), strict=True)
    }
    return decompose_over(view, node, windows.source, constants, is_grouped=group is not None)


_BOUNDS = ("window_start", "window_end")


def _bound(node: exp.Expr) -> str | None:
    """Which end of the window a column is."""
    name = node.name.lower() if isinstance(node, exp.Column) else ""
    return name if name in _BOUNDS else None


def _source(reader: Reader, function: str, catalog: Mapping[str, Table]) -> tuple[Table, tuple[str, ...]]:
    """stream [PARTITION BY column, ...]; the columns of SESSION end where an interval begins."""
    place, name = reader.at, reader.name()
    table = catalog.get(name)
    if table is None or table.parts is None:
        raise reader.error(f"a partitioned stream or a view over one is expected in {function}", place)
    if function not in ("SESSION", "GAPFILL"):
        return table, ()
    if not table.parts.time:
        raise reader.error(f"{function} reads a stream: a view has no time for each row", place)
    keys: list[str] = []
    if reader.word == "PARTITION BY":
        reader.next()
        keys.append(session_key(reader, table))
        while reader.word == "," and reader.raw.words[reader.at + 1] != "INTERVAL":
            reader.next()
            keys.append(session_key(reader, table))
    return table, tuple(keys)


def session_key(reader: Reader, table: Table) -> str:
    at, name = reader.at, reader.name()
    if name not in table.column_names:
        raise reader.error(f"stream {table.name!r} has no column {name!r}", at)
    return name


def _windows(
    reader: Reader, function: str, at: int, source: Table, intervals: list[tuple[int, int]], on_close: bool
) -> Windows:
    wanted = 1 if function == "TUMBLE" else 2
    if len(intervals) not in (wanted, wanted + 1):
        raise reader.error(f"{_CALLS[function]} is expected", at)
    sizes = [_seconds(reader, source, place, found) for place, found in intervals[:wanted]]
    offset = intervals[wanted][1] if len(intervals) > wanted else 0
    return with_offset(reader, Windows(source, sizes[0], sizes[-1], 0, on_close), offset)


def with_offset(reader: Reader, windows: Windows, offset: int) -> Windows:
    """Windows that begin some microseconds later; what is cut through by them has to have times.

    Starts are multiples of the slide, as Spark and Flink have them. A window is in the part of its end.
    """
    assert windows.source.parts is not None
    if offset % (windows.source.parts.length * MICROSECONDS) and not windows.source.parts.time:
        raise reader.error(f"an offset of windows of view {windows.source.name!r} is a multiple of its parts")
    late = windows.size * MICROSECONDS + offset
    return replace(windows, offset=late % (windows.slide * MICROSECONDS))


def _seconds(reader: Reader, source: Table, at: int, interval: int) -> int:
    assert source.parts is not None
    length = source.parts.length
    if not interval or interval % (length * MICROSECONDS):
        raise reader.error(f"a window of {source.name!r} is a multiple of its parts, which have {length} s", at)
    return interval // MICROSECONDS


def _has_alias(reader: Reader) -> bool:
    """Whether the call has a name already."""
    return reader.word == "AS" or (reader.word.isidentifier() and reader.word not in _CLAUSES)


_CLAUSES = (
    "WHERE",
    "HAVING",
    "JOIN",
    "LEFT",
    "RIGHT",
    "FULL",
    "INNER",
    "CROSS",
    "NATURAL",
    "PARTITION",
    "RETAIN",
    "ROLLUP",
    "ON",
)


def rows_of_windows(windows: Windows) -> str:
    """The rows of the window of part j, and when that begins and ends: a query over parts."""
    parts = windows.source.parts
    assert parts is not None
    unit = parts.length * MICROSECONDS
    ratio, late = windows.slide // parts.length, windows.offset or windows.slide * MICROSECONDS
    first, last = (late - windows.size * MICROSECONDS) // unit, -(-late // unit) - 1
    index = "j" if ratio == 1 else f"j * {ratio}"
    end, start = bounds_of(windows)
    test = ""
    if late % unit:
        time = _quoted(parts.time)
        test = f" WHERE {time} >= {start} AND {time} < {end}"
    source = _quoted(windows.source.name)
    bounds = f"SELECT *, {start} AS window_start, {end} AS window_end"
    if windows.on_close or first == last:
        return f"{bounds} FROM {source}[{index} + {first} .. {index} + {last}] AS rows_{test}"
    so_far = f"{source}[{index} + {first + 1} .. {index} + {last} IF CLOSED]"
    begun = f"{bounds} FROM {source}[{index} + {first}] AS rows_{test}"
    return f"{begun} UNION ALL {bounds} FROM {so_far} AS rows_so_far{test}"


def bounds_of(windows: Windows) -> tuple[str, str]:
    """The end and the start of the window of a part, as SQL."""
    late = windows.offset or windows.slide * MICROSECONDS
    amount = f"{late} MICROSECOND" if late % MICROSECONDS else f"{late // MICROSECONDS} SECOND"
    end = f"{PART_TIMESTAMP} + INTERVAL {amount}"
    return end, f"{end} - INTERVAL {windows.size} SECOND"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
