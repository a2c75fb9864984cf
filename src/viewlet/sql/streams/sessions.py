"""Sessions over streams: rows of a group that follow each other with gaps of at most some time.

    SELECT g, window_start, SUM(x) FROM SESSION(s PARTITION BY g, INTERVAL '5' MINUTES) GROUP BY g, window_start

    fragments[j]  the sessions of s[j] alone, with partial aggregates
    open[j]       what open[j - 1] and fragments[j] have of sessions that a row of part j + 1 may continue
    view[j]       the sessions whose last row is in part j: open[j - 1] and fragments[j], less what continues later

A session lives in the part of its last row. EMIT CHANGES shows it there as soon as that part is closed; it moves when a
later part continues it. EMIT ON WINDOW CLOSE waits for the parts that can. Queries that partial aggregates do not
determine keep the rows of open sessions instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import exp

from viewlet.errors import SqlError, UnsupportedError
from viewlet.sql.split import RawStatement, split_statements
from viewlet.sql.statements import CreateView
from viewlet.sql.streams.partial_aggregates import ROWS, Partials, partials_of
from viewlet.sql.streams.statements import Header, bind_view_delta_function, declared
from viewlet.streams.definition import MICROSECONDS, PART_TIMESTAMP, PartQuery, PartView
from viewlet.streams.normalise import normalised
from viewlet.types import TIMESTAMP, Column, Table, TableKind

WINDOW_START, WINDOW_END = "window_start", "window_end"
_FIRST, _LAST = "viewlet_first", "viewlet_last"
_BEGINS, _SESSION = "viewlet_begins", "viewlet_session"
_ITEMS = '"$sessions"'
"""Stands for the call of SESSION in a query."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """What a statement says of its sessions: the stream, the groups, the gap in microseconds, and when they are shown.

    `rows` is a condition on rows that are considered at all; a condition of the query is on rows of sessions.
    """

    source: Table
    keys: tuple[str, ...]
    gap: int
    on_close: bool
    rows: str = ""

    @property
    def length(self) -> int:
        assert self.source.parts is not None
        return self.source.parts.length

    @property
    def ahead(self) -> int:
        """How many parts after that of its last row may continue a session."""
        return -(-self.gap // (self.length * MICROSECONDS))

    @property
    def interval(self) -> str:
        if self.gap % MICROSECONDS:
            return f"INTERVAL {self.gap} MICROSECOND"
        return f"INTERVAL {self.gap // MICROSECONDS} SECOND"


def bind_sessions(
    raw: RawStatement, header: Header, sessions: Sessions, query: str, rest: str, catalog: Mapping[str, Table]
) -> CreateView:
    """The view of a query in which `call_marker` stands for the sessions; `rest` are the clauses about its parts."""
    bounds = (WINDOW_START, WINDOW_END)
    node = normalised(sqlglot.parse_one(query, read="duckdb"), [*sessions.source.column_names, *bounds])
    found = _session_partials(node, sessions)
    if found is None:
        helpers, final = _over_rows(sessions, query)
    else:
        helpers, final = _over_partials(sessions, node, *found)
    known, views = dict(catalog), []
    for name, text in helpers.items():
        view = bind_generated(raw, text, known)
        views.append(replace(view, parts=replace(view.parts, retention=0), form="sessions under way"))
        shown = (*view.columns, Column(PART_TIMESTAMP, TIMESTAMP))
        known[name] = Table(name, shown, TableKind.VIEW, parts=view.parts)
    view = bind_generated(raw, _statement(header.name, final, rest), known)
    form = "sessions on close" if sessions.on_close else "sessions"
    return declared(raw, header, replace(view, form=form, helpers=tuple(views)), catalog)


def bind_generated(raw: RawStatement, text: str, catalog: Mapping[str, Table]) -> PartView:
    """The view of a statement that was made of a user's, whose errors are those of the latter."""
    try:
        created = bind_view_delta_function(next(split_statements(text)), catalog)
    except UnsupportedError:
        raise
    except SqlError as error:
        raise raw.source.error(error.message) from None
    assert isinstance(created.definition, PartView)
    return created.definition


def call_marker(has_alias: bool, name: str) -> str:
    """What stands for the call of SESSION in a query."""
    return _ITEMS if has_alias else f"{_ITEMS} AS {_quoted(name)}"


def _statement(name: str, query: str, rest: str = "", first: str | None = None, start: str = "") -> str:
    quoted = _quoted(name)
    initialize = f"CREATE VIEW {quoted} AS INITIALIZE {quoted}[j]{start} AS {first or query}"
    return f"{initialize}\nUPDATE {quoted}[j] AS {query}\n{rest}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# -- rows and fragments as sessions ------------------------------------------------------------------------------------


def _numbered(items: str, keys: str, first: str, last: str, interval: str) -> str:
    """Items (rows, or fragments of sessions) with the number of the session of their group.

    A sum that orders by time counts peers together: equal times belong to one session.
    """
    by = f"PARTITION BY {keys} ORDER BY {first}" if keys else f"ORDER BY {first}"
    begins = f"CASE WHEN {first} > LAG({last}) OVER ({by}) + {interval} THEN 1 ELSE 0 END AS {_BEGINS}"
    numbered = f"SELECT *, SUM({_BEGINS}) OVER ({by}) AS {_SESSION}"
    return f"{numbered} FROM (SELECT *, {begins} FROM ({items}) AS items) AS marked"


def _bounded(items: str, sessions: Sessions) -> str:
    """Rows with the start and the end of their session."""
    assert sessions.source.parts is not None
    keys, time = ", ".join(map(_quoted, sessions.keys)), _quoted(sessions.source.parts.time)
    numbered = _numbered(items, keys, time, time, sessions.interval)
    by = ", ".join([*map(_quoted, sessions.keys), _SESSION])
    start = f"MIN({time}) OVER (PARTITION BY {by}) AS {WINDOW_START}"
    end = f"MAX({time}) OVER (PARTITION BY {by}) + {sessions.interval} AS {WINDOW_END}"
    columns = ", ".join(_quoted(column.name) for column in sessions.source.columns)
    return f"SELECT {columns}, {start}, {end} FROM ({numbered}) AS numbered"


def _is_last_here(sessions: Sessions, end: str) -> str:
    """A session with this end has its last row in the part that is computed."""
    start = f"{PART_TIMESTAMP} + {sessions.interval}"
    return f"{end} >= {start} AND {end} < {start} + INTERVAL {sessions.length} SECOND"


def _is_open(sessions: Sessions, end: str) -> str:
    """A session with this end may be continued by a row of the next part."""
    return f"{end} >= {PART_TIMESTAMP} + INTERVAL {sessions.length} SECOND"


def _ahead(sessions: Sessions, relation: str, columns: str) -> str:
    """What the parts have that may continue the sessions of part j."""
    if not sessions.ahead:
        return ""
    bounds = "j + 1" if sessions.ahead == 1 else f"j + 1 .. j + {sessions.ahead}"
    when = "" if sessions.on_close else " IF CLOSED"
    condition = f" WHERE {sessions.rows}" if sessions.rows and relation == sessions.source.name else ""
    return f" UNION ALL SELECT {columns} FROM {_quoted(relation)}[{bounds}{when}] AS later_part{condition}"


def _name(sessions: Sessions, kind: str, text: str) -> str:
    digest = hashlib.sha256(repr((sessions.source.name, kind, sessions.keys, sessions.gap, text)).encode())
    return f"{kind}_{digest.hexdigest()[:10]}"


# -- queries over rows -------------------------------------------------------------------------------------------------


def _over_rows(sessions: Sessions, query: str) -> tuple[dict[str, str], str]:
    """A helper with the rows of open sessions, and the query over those that end in a part."""
    columns = ", ".join(_quoted(column.name) for column in sessions.source.columns)
    condition = f" WHERE {sessions.rows}" if sessions.rows else ""
    new = f"SELECT {columns} FROM {_quoted(sessions.source.name)}[j] AS new_part{condition}"
    helper = _name(sessions, "open", columns + condition)
    both = f"{new} UNION ALL SELECT {columns} FROM {_quoted(helper)}[j-1] AS old_part"

    def still_open(items: str) -> str:
        return f"SELECT {columns} FROM ({_bounded(items, sessions)}) AS bounded WHERE {_is_open(sessions, WINDOW_END)}"

    text = _statement(helper, still_open(both), first=still_open(new), start=" FROM BEGINNING")
    bounded = _bounded(both + _ahead(sessions, sessions.source.name, columns), sessions)
    rows = f"(SELECT * FROM ({bounded}) AS bounded WHERE {_is_last_here(sessions, WINDOW_END)})"
    return {helper: text}, query.replace(_ITEMS, rows)


# -- queries over partial aggregates -----------------------------------------------------------------------------------


def _session_partials(node: exp.Expr, sessions: Sessions) -> tuple[Partials, list[exp.Expr], exp.Expr | None] | None:
    """The partial aggregates of a query whose groups are made of whole sessions, as `partials_of`."""
    if not isinstance(node, exp.Select) or node.args.get("group") is None:
        return None
    start = node.args.get("from_")
    if start is None or start.this.name != _ITEMS.strip('"'):
        return None
    found = partials_of(node, PartQuery(node.sql("duckdb"), ()), sessions.source)
    if found is None or found[0].means:
        return None
    allowed = {*sessions.keys, WINDOW_START, WINDOW_END}
    grouped = {column.name.lower() for each in node.args["group"].expressions for column in each.find_all(exp.Column)}
    where = node.args.get("where")
    rows = [sqlglot.parse_one(f"SELECT {sql}", read="duckdb") for sql in found[0].aggregates]
    rows += [where] if where is not None else []
    read = {column.name.lower() for each in rows for column in each.find_all(exp.Column)}
    return found if grouped <= allowed and not read & {WINDOW_START, WINDOW_END, PART_TIMESTAMP} else None


def _over_partials(
    sessions: Sessions, node: exp.Expr, partials: Partials, select: list[exp.Expr], having: exp.Expr | None
) -> tuple[dict[str, str], str]:
    """Helpers with fragments and open sessions, and the query over those that end in a part."""
    assert sessions.source.parts is not None
    keys = [_quoted(key) for key in sessions.keys]
    alias = node.args["from_"].this.alias
    merges = {ROWS: "SUM", **dict(partials.aggregates.values())}
    names = ", ".join([*keys, _FIRST, _LAST, *merges])
    fragments, text = _fragments(sessions, node, partials, alias)
    helper = _name(sessions, "open", text)

    def merged(items: str) -> str:
        numbered = _numbered(items, ", ".join(keys), _FIRST, _LAST, sessions.interval)
        shown = [*keys, f"MIN({_FIRST}) AS {_FIRST}", f"MAX({_LAST}) AS {_LAST}"]
        shown += [f"{merge}({name}) AS {name}" for name, merge in merges.items()]
        return f"SELECT {', '.join(shown)} FROM ({numbered}) AS numbered GROUP BY {', '.join([*keys, _SESSION])}"

    def still_open(items: str) -> str:
        end = f"{_LAST} + {sessions.interval}"
        return f"SELECT {names} FROM ({merged(items)}) AS merged WHERE {_is_open(sessions, end)}"

    new = f"SELECT {names} FROM {_quoted(fragments)}[j] AS new_part"
    both = f"{new} UNION ALL SELECT {names} FROM {_quoted(helper)}[j-1] AS old_part"
    opened = _statement(helper, still_open(both), first=still_open(new), start=" FROM BEGINNING")
    ended = merged(both + _ahead(sessions, fragments, names))
    whole = (
        f"SELECT *, {_FIRST} AS {WINDOW_START}, {_LAST} + {sessions.interval} AS {WINDOW_END} FROM ({ended}) AS ended"
    )
    grouped = ", ".join([*(f"{_plain(sql)} AS {name}" for sql, name in partials.groups.items()), *merges])
    here = _is_last_here(sessions, WINDOW_END)
    shown = ", ".join(_named(*each) for each in zip(select, node.expressions, strict=True))
    final = f"SELECT {shown} FROM (SELECT {grouped} FROM ({whole}) AS sessions "
    final += f"WHERE {here}) AS grouped GROUP BY {', '.join(partials.groups.values())} HAVING SUM({ROWS}) > 0"
    if having is not None:
        final += f" AND ({having.sql('duckdb')})"
    return {fragments: text, helper: opened}, final


def _fragments(sessions: Sessions, node: exp.Expr, partials: Partials, alias: str) -> tuple[str, str]:
    """The sessions of a part of the stream alone: the name of the helper, and its statement."""
    assert sessions.source.parts is not None
    keys, time = [_quoted(key) for key in sessions.keys], _quoted(sessions.source.parts.time)
    where = node.args.get("where")
    test = f" FILTER ({where.sql('duckdb')})" if where is not None else ""
    shown = [*keys, f"MIN({time}) AS {_FIRST}", f"MAX({time}) AS {_LAST}", f"COUNT(*){test} AS {ROWS}"]
    shown += [f"{_filtered(sql, test)} AS {name}" for sql, (name, _) in partials.aggregates.items()]
    condition = f" WHERE {sessions.rows}" if sessions.rows else ""
    rows = f"SELECT * FROM {_quoted(sessions.source.name)}[j] AS new_part{condition}"
    numbered = _numbered(rows, ", ".join(keys), time, time, sessions.interval)
    query = f"SELECT {', '.join(shown)} FROM ({numbered}) AS {_quoted(alias)} GROUP BY {', '.join([*keys, _SESSION])}"
    name = _name(sessions, "fragments", query)
    return name, _statement(name, query, start=" FROM BEGINNING")


def _named(merged: exp.Expr, column: exp.Expr) -> str:
    """A column of the query over partial aggregates, with the name that it has in the query over rows."""
    sql = merged.sql("duckdb")
    return sql if isinstance(merged, exp.Alias) else f"{sql} AS {_quoted(column.alias_or_name or column.sql('duckdb'))}"


def _filtered(sql: str, test: str) -> str:
    """An aggregate over the rows that fulfil a condition."""
    if sql.startswith("COALESCE("):
        inner = sql.removeprefix("COALESCE(").removesuffix(", 0)")
        return f"COALESCE({inner}{test}, 0)"
    return f"{sql}{test}"


def _plain(sql: str) -> str:
    """An expression without the names of tables."""
    node = sqlglot.parse_one(sql, read="duckdb")
    for column in node.find_all(exp.Column):
        column.set("table", None)
    return node.sql("duckdb")
