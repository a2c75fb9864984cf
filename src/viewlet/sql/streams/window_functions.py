"""Windows as table functions: `TUMBLE(s, INTERVAL '10' MINUTES)` and `HOP(s, slide, size)`, with their start and end.

    SELECT g, window_start, SUM(x) FROM TUMBLE(s, INTERVAL '10' MINUTES) GROUP BY g, window_start

A window is a part of the view, which is as long as windows are apart: the statement becomes a view delta function over
the parts of the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from viewlet.sql.split import RawStatement, split_statements
from viewlet.sql.statements import CreateView
from viewlet.sql.streams.statements import Reader, bind_view_delta_function, cut_clauses, view_header
from viewlet.streams.definition import MICROSECONDS, PART_TIMESTAMP, PartView
from viewlet.types import Table

FUNCTIONS = ("TUMBLE", "HOP")


def calls_window_function(raw: RawStatement) -> bool:
    """CREATE VIEW v AS SELECT ... FROM TUMBLE(s, ...) ..., with a partitioned stream s."""
    return view_header(raw) is not None and _call(raw) is not None


def _call(raw: RawStatement) -> int | None:
    for at in range(2, len(raw.words) - 2):
        if raw.words[at] in FUNCTIONS and raw.words[at + 1] == "(" and raw.words[at - 1] in ("FROM", "JOIN", ","):
            return at
    return None


def bind_window_function(raw: RawStatement, catalog: Mapping[str, Table]) -> CreateView:
    header, at = view_header(raw), _call(raw)
    assert header is not None
    assert at is not None
    reader = Reader(raw, at)
    function = reader.next()
    reader.take("(")
    place = reader.at
    name = reader.name()
    parts = catalog[name].parts if name in catalog else None
    if parts is None:
        raise reader.error(f"a partitioned stream or a view over one is expected in {function}", place)
    sizes = []
    while reader.take(",", ")") == ",":
        sizes.append(_seconds(reader, parts.length, name))
    if len(sizes) != (1 if function == "TUMBLE" else 2):
        wanted = "TUMBLE(stream, size)" if function == "TUMBLE" else "HOP(stream, slide, size)"
        raise reader.error(f"{wanted} is expected", at)
    slide, size = sizes[0], sizes[-1]
    head, clauses = cut_clauses(raw)
    start, end = raw.positions[at][0], raw.positions[reader.at - 1][1]
    query = raw.text[raw.positions[header.body][0] : start] + _rows(name, slide, size, parts.length, _alias(reader))
    query += raw.text[end : len(head.text)]
    quoted = '"' + header.name.replace('"', '""') + '"'
    rest = raw.text[raw.positions[clauses][0] :] if clauses < len(raw.words) else ""
    text = f"CREATE VIEW {quoted} AS INITIALIZE {quoted}[j] AS {query}\nUPDATE {quoted}[j] AS {query}\n"
    created = bind_view_delta_function(next(split_statements(f"{text}PARTITION LENGTH {slide} {rest}")), catalog)
    assert isinstance(created.definition, PartView)
    definition = replace(created.definition, form=f"{function.lower()} windows")
    written = raw.text_from(header.body)
    return replace(created, definition=definition, select_sql=written, if_not_exists=header.if_not_exists)


def _seconds(reader: Reader, length: int, name: str) -> int:
    at, found = reader.at, reader.interval()
    if not found or found % (length * MICROSECONDS):
        raise reader.error(f"a window of {name!r} is a multiple of its parts, which have {length} s", at)
    return found // MICROSECONDS


def _alias(reader: Reader) -> bool:
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
    "ON",
)


def _rows(name: str, slide: int, size: int, length: int, has_alias: bool) -> str:
    """The rows of the window that ends with part j, and when that begins and ends."""
    ratio, width = slide // length, size // length
    end = f"{PART_TIMESTAMP} + INTERVAL {slide} SECOND"
    quoted = '"' + name.replace('"', '""') + '"'
    rows = f"{quoted}[j * {ratio} + {ratio} - {width} .. j * {ratio} + {ratio} - 1]"
    bounds = f"{end} - INTERVAL {size} SECOND AS window_start, {end} AS window_end"
    alias = "" if has_alias else f" AS {quoted}"
    return f"(SELECT *, {bounds} FROM {rows}){alias}"
