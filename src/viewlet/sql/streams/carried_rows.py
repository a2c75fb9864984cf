"""Queries that look back to the last rows of a group, however long ago these came: LAG, ASOF JOIN and gap fill.

    last[j]   of every group, the last n rows of all parts up to j: those of last[j - 1] and of s[j], ranked

    LAG       SELECT g, x, LAG(x) OVER (PARTITION BY g ORDER BY ts) FROM s          s[j] after last[j - 1]
    ASOF      SELECT s.g, x, y FROM s ASOF JOIN t ON s.g = t.g AND s.ts >= t.ts     s[j] with t[j] and last[j - 1]
    gap fill  SELECT g, x FROM GAPFILL(s PARTITION BY g)                            s[j], and last[j - 1] for its gaps

The part of a row is that of its stream, or of the left side of a join. An interval join, `t.ts BETWEEN s.ts - i AND
s.ts + k` with EMIT at the end, needs no helper: it reads the parts of `t` that are near enough.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewlet.sql.source import is_short_number
from viewlet.sql.split import RawStatement
from viewlet.sql.statements import CreateView
from viewlet.sql.streams.asof_joins import Sides, as_of, conjuncts, to_counted_join
from viewlet.sql.streams.parse import parse_query
from viewlet.sql.streams.sessions import bind_generated
from viewlet.sql.streams.statements import UNITS, Header, cut_clauses, cut_emit, declared, view_header
from viewlet.streams.definition import MICROSECONDS, PART_TIMESTAMP, PartView
from viewlet.types import TIMESTAMP, Column, Table, TableKind

_NEW, _RANK, _FILLED = "viewlet_new", "viewlet_rank", "filled"
_DROPPED = ("expressions", "from_", "where", "joins", "kind")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that is cut up: its query, the clauses about its parts, and whether it waits for what comes later."""

    raw: RawStatement
    header: Header
    node: exp.Select
    rest: str
    on_close: bool
    catalog: Mapping[str, Table]

    def error(self, message: str) -> Exception:
        return self.raw.source.error(message)

    def stream(self, node: exp.Expr | None) -> Table:
        """The partitioned stream that a table names."""
        name = node.name if isinstance(node, exp.Table) else ""
        table = next((self.catalog[each] for each in (name, name.lower()) if each in self.catalog), None)
        if table is None or table.parts is None or not table.parts.time:
            raise self.error(f"a partitioned stream is expected in place of {name or 'a query'!r}")
        return table


def looks_back(raw: RawStatement, catalog: Mapping[str, Table]) -> bool:
    """CREATE VIEW v AS SELECT ... with LAG, ASOF JOIN, or a join that says EMIT, over partitioned streams."""
    header = view_header(raw)
    if header is None or raw.words[header.body] != "SELECT" or "[" in raw.words:
        return False
    pairs = set(zip(raw.words, raw.words[1:], strict=False))
    asked = pairs & {("LAG", "("), ("ASOF", "JOIN"), ("ASOF", "LEFT")} or ("EMIT" in raw.words and "JOIN" in raw.words)
    named = {word.strip('"').lower() for word in raw.words}
    return bool(asked) and any(table.parts is not None and name.lower() in named for name, table in catalog.items())


def bind_look_back(raw: RawStatement, catalog: Mapping[str, Table]) -> CreateView:
    header = view_header(raw)
    assert header is not None
    plain, on_close = cut_emit(raw)
    head, clauses = cut_clauses(plain)
    rest = plain.text[plain.positions[clauses][0] :] if clauses < len(plain.words) else ""
    try:
        node = parse_query(head.text_from(header.body))
    except SqlglotError as error:
        raise raw.source.error(f"syntax error: {str(error).splitlines()[0].split('. Line ')[0]}") from None
    if not isinstance(node, exp.Select):
        raise raw.source.error("a SELECT is expected")
    if wrong := [key for key, value in node.args.items() if value and key not in _DROPPED]:
        word = wrong[0].rstrip("_").upper()
        raise raw.source.unsupported(f"{word} next to rows of earlier parts", None, "put it into a view over this one")
    statement = Statement(raw, header, node, rest, on_close, catalog)
    if node.args.get("joins"):
        return _join(statement)
    return _lag(statement)


# -- the helper --------------------------------------------------------------------------------------------------------


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _columns(table: Table) -> str:
    return ", ".join(_quoted(column.name) for column in table.columns)


def _order(table: Table, direction: str) -> str:
    """The order of rows: by time, then by all columns, so that it is the same whenever it is computed."""
    assert table.parts is not None
    time = table.parts.time
    names = [time, *(column.name for column in table.columns if column.name != time)]
    nulls = "LAST" if direction == "ASC" else "FIRST"
    return ", ".join(f"{_quoted(name)} {direction} NULLS {nulls}" for name in names)


def _last_rows(
    table: Table, keys: Sequence[str], count: int, condition: str, limit: int | None = None
) -> tuple[str, str]:
    """A helper with the last rows of every group: its name, and its statement.

    Rows that are older than a `limit` (microseconds) are forgotten.
    """
    assert table.parts is not None
    columns = _columns(table)
    test = f" WHERE {condition}" if condition else ""
    new = f"SELECT {columns} FROM {_quoted(table.name)}[j] AS new_part{test}"
    told = (table.name, tuple(keys), count, condition, *(() if limit is None else (limit,)))
    digest = hashlib.sha256(repr(told).encode()).hexdigest()[:10]
    name = _quoted(f"last_{digest}")
    by = f"PARTITION BY {', '.join(map(_quoted, keys))} " if keys else ""

    def ranked(rows: str) -> str:
        rank = f"ROW_NUMBER() OVER ({by}ORDER BY {_order(table, 'DESC')}) AS {_RANK}"
        return (
            f"SELECT {columns} FROM (SELECT *, {rank} FROM ({rows}) AS both_parts) AS ranked WHERE {_RANK} <= {count}"
        )

    recent = "" if limit is None else f" WHERE {_within(f'old_part.{_quoted(table.parts.time)}', limit)}"
    update = ranked(f"{new} UNION ALL SELECT {columns} FROM {name}[j-1] AS old_part{recent}")
    text = f"CREATE VIEW {name} AS INITIALIZE {name}[j] FROM BEGINNING AS {ranked(new)}\nUPDATE {name}[j] AS {update}\n"
    return f"last_{digest}", text


def _within(time: str, limit: int) -> str:
    """A time is at most so many microseconds before the part that is computed."""
    return f"{time} >= {PART_TIMESTAMP} - INTERVAL {limit} MICROSECOND"


def _bind(statement: Statement, form: str, query: str, helpers: Mapping[str, str]) -> CreateView:
    known, views = dict(statement.catalog), []
    for name, text in helpers.items():
        view = bind_generated(statement.raw, text, known)
        views.append(replace(view, parts=replace(view.parts, retention=0), form="last rows"))
        shown = (*view.columns, Column(PART_TIMESTAMP, TIMESTAMP))
        known[name] = Table(name, shown, TableKind.VIEW, parts=view.parts)
    name = _quoted(statement.header.name)
    text = f"CREATE VIEW {name} AS INITIALIZE {name}[j] AS {query}\nUPDATE {name}[j] AS {query}\n{statement.rest}"
    final: PartView = replace(bind_generated(statement.raw, text, known), form=form, helpers=tuple(views))
    return declared(statement.raw, statement.header, final, statement.catalog)


def _condition(node: exp.Select) -> str:
    """WHERE, as a condition on columns without the name of their table."""
    where = node.args.get("where")
    if where is None:
        return ""
    plain = where.this.copy()
    for column in plain.find_all(exp.Column):
        column.set("table", None)
    return str(plain.sql("duckdb"))


# -- LAG ---------------------------------------------------------------------------------------------------------------


def _lag(statement: Statement) -> CreateView:
    node = statement.node
    start = node.args.get("from_")
    table = statement.stream(None if start is None else start.this)
    assert start is not None
    keys: set[tuple[str, ...]] = set()
    offsets = [1]
    for window in node.find_all(exp.Window):
        keys.add(_lag_keys(statement, table, window))
        offset = window.this.args.get("offset")
        if offset is not None and not (isinstance(offset, exp.Literal) and is_short_number(str(offset.this))):
            raise statement.error("the offset of LAG is a whole number")
        offsets.append(int(offset.this) if offset is not None else 1)
        window.set("order", sqlglot.parse_one(f"SELECT 1 ORDER BY {_order(table, 'ASC')}", read="duckdb").args["order"])
    if len(keys) != 1:
        raise statement.error("all LAG of a view have the same PARTITION BY")
    helper, text = _last_rows(table, keys.pop(), max(offsets), _condition(node))
    columns = _columns(table)
    both = f"SELECT {columns}, TRUE AS {_NEW} FROM {_quoted(table.name)}[j] AS new_part"
    both += f" UNION ALL SELECT {columns}, FALSE FROM {_quoted(helper)}[j-1] AS old_part"
    alias = _quoted(start.this.alias or table.name)
    names = [each.alias_or_name or f"column{number}" for number, each in enumerate(node.expressions)]
    if node.find(exp.Star):
        raise statement.error("LAG with *: name the columns")
    bare = (each.this if isinstance(each, exp.Alias) else each for each in node.expressions)
    shown = [f"{each.sql('duckdb')} AS {_quoted(name)}" for each, name in zip(bare, names, strict=True)]
    where = "" if node.args.get("where") is None else f" {node.args['where'].sql('duckdb')}"
    inner = f"SELECT {', '.join(shown)}, {_NEW} FROM ({both}) AS {alias}{where}"
    query = f"SELECT {', '.join(map(_quoted, names))} FROM ({inner}) AS looked_back WHERE {_NEW}"
    return _bind(statement, "LAG over parts", query, {helper: text})


def _lag_keys(statement: Statement, table: Table, window: exp.Window) -> tuple[str, ...]:
    """The columns of PARTITION BY; the order has to be that of time."""
    assert table.parts is not None
    order = window.args.get("order")
    ordered = order.expressions if order is not None else []
    by_time = len(ordered) == 1 and not ordered[0].args.get("desc") and ordered[0].this.name.lower() == table.parts.time
    if not isinstance(window.this, exp.Lag) or not by_time or window.args.get("spec"):
        raise statement.error(
            f"over parts, only LAG(...) OVER (PARTITION BY columns ORDER BY {table.parts.time}) is kept"
        )
    return _keys(statement, table, window.args.get("partition_by") or [])


def _keys(statement: Statement, table: Table, nodes: Sequence[exp.Expr]) -> tuple[str, ...]:
    for each in nodes:
        if not isinstance(each, exp.Column) or each.name.lower() not in table.column_names:
            raise statement.error(f"PARTITION BY has columns of stream {table.name!r}")
    return tuple(each.name.lower() for each in nodes)


# -- gap fill ----------------------------------------------------------------------------------------------------------


def bind_gap_fill(
    raw: RawStatement,
    header: Header,
    table: Table,
    keys: Sequence[str],
    limit: int | None,
    query: tuple[str, str],
    rest: str,
    catalog: Mapping[str, Table],
) -> CreateView:
    """The view of a query over GAPFILL, given as the text before and after the call.

    A group without a row in a part gets its last one, at the start of the part; `limit` is how old that may be.
    """
    assert table.parts is not None
    helper, text = _last_rows(table, keys, 1, "", limit)
    time = table.parts.time
    shown = ", ".join(
        f"{PART_TIMESTAMP} AS {_quoted(time)}" if c.name == time else f"old_part.{_quoted(c.name)}"
        for c in table.columns
    )
    same = [f"present.{_quoted(key)} IS NOT DISTINCT FROM old_part.{_quoted(key)}" for key in keys]
    tests = [f"NOT EXISTS (SELECT 1 FROM {_quoted(table.name)}[j] AS present WHERE {' AND '.join(same) or 'TRUE'})"]
    if limit is not None:
        tests.append(_within(f"old_part.{_quoted(time)}", limit))
    rows = f"SELECT {_columns(table)}, FALSE AS {_FILLED} FROM {_quoted(table.name)}[j] AS new_part"
    rows += f" UNION ALL SELECT {shown}, TRUE FROM {_quoted(helper)}[j-1] AS old_part WHERE {' AND '.join(tests)}"
    statement = Statement(raw, header, exp.Select(), rest, False, catalog)
    return _bind(statement, "gap fill", f"{query[0]}({rows}){query[1]}", {helper: text})


# -- joins -------------------------------------------------------------------------------------------------------------


def _join(statement: Statement) -> CreateView:
    node, (join, *others) = statement.node, statement.node.args["joins"]
    start = node.args["from_"]
    left, right = statement.stream(start.this), statement.stream(join.this)
    assert left.parts is not None
    assert right.parts is not None
    if others or join.args.get("on") is None or join.side in ("RIGHT", "FULL") or node.find(exp.Window):
        raise statement.error("a join of parts is of two streams, inner or LEFT, with ON")
    if left.parts.length != right.parts.length:
        raise statement.error(f"{left.name!r} and {right.name!r} have parts of different lengths")
    sides = Sides(left, right, start.this.alias_or_name, join.this.alias_or_name)
    if join.args.get("method") == "ASOF":
        return _asof_join(statement, sides)
    rows = _near_rows(right, *_bounds(statement, sides, join.args["on"]), statement.on_close)
    return _bind(statement, "interval join", _joined(node, sides, rows), {})


def _joined(node: exp.Select, sides: Sides, rows: str) -> str:
    """A join of part j of the left side with rows of the right one."""
    found = node.copy()
    tables = (found.args["from_"].this, found.args["joins"][0].this)
    for table, name, mark in zip(tables, (sides.left_name, sides.right_name), ("$left", "$right"), strict=True):
        table.set("this", exp.to_identifier(mark, quoted=True))
        table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    text = found.sql("duckdb").replace('"$left"', f"{_quoted(sides.left.name)}[j]")
    return text.replace('"$right"', f"({rows})")


def _asof_join(statement: Statement, sides: Sides) -> CreateView:
    """DuckDB has the join; other hosts count the rows of the right side up to the time of each row of the left one."""
    node, right = statement.node, sides.right
    try:
        match = as_of(sides, node.args["joins"][0].args["on"])
    except ValueError as wrong:
        raise statement.error(str(wrong)) from None
    keys = _keys(statement, right, [exp.column(key) for key, _ in match.keys])
    helper, text = _last_rows(right, keys, 1, "")
    rows = f"SELECT {_columns(right)} FROM {_quoted(right.name)}[j] AS new_part"
    rows += f" UNION ALL SELECT {_columns(right)} FROM {_quoted(helper)}[j-1] AS old_part"
    queries = _joined(node, sides, rows), _joined(*to_counted_join(node, sides, match, rows, _order(right, "ASC")))
    here, elsewhere = (_bind(statement, "ASOF join", query, {helper: text}) for query in queries)
    assert isinstance(here.definition, PartView)
    assert isinstance(elsewhere.definition, PartView)
    return replace(here, definition=replace(here.definition, elsewhere=elsewhere.definition))


def _bounds(statement: Statement, sides: Sides, on: exp.Expr) -> tuple[int, int]:
    """How long before and after a row of the left side one of the right side may be, in microseconds."""
    low: int | None = None
    high: int | None = None
    for each in conjuncts(on):
        if isinstance(each, exp.Between) and sides.is_time(each.this, "right"):
            low, high = _offset(sides, each.args["low"]), _offset(sides, each.args["high"])
        elif isinstance(each, exp.GTE | exp.GT) and sides.is_time(each.this, "right"):
            low = _offset(sides, each.expression)
        elif isinstance(each, exp.LTE | exp.LT) and sides.is_time(each.this, "right"):
            high = _offset(sides, each.expression)
    if low is None or high is None or low > high:
        left, right = sides.left_name, sides.right_name
        wanted = f"{right}.time BETWEEN {left}.time - INTERVAL ... AND {left}.time + INTERVAL ..."
        raise statement.error(f"a join of parts bounds the times of both streams: {wanted}")
    return low, high


def _offset(sides: Sides, node: exp.Expr) -> int | None:
    """The interval that an expression adds to the time of the left side."""
    if sides.is_time(node, "left"):
        return 0
    if not isinstance(node, exp.Add | exp.Sub) or not sides.is_time(node.this, "left"):
        return None
    interval = node.expression
    if not isinstance(interval, exp.Interval) or not isinstance(interval.this, exp.Literal):
        return None
    number, unit = str(interval.this.this), str(interval.args.get("unit") or "").upper().removesuffix("S")
    if unit not in UNITS or not is_short_number(number):
        return None
    return (1 if isinstance(node, exp.Add) else -1) * int(number) * UNITS[unit] * MICROSECONDS


def _near_rows(table: Table, low: int, high: int, on_close: bool) -> str:
    """The rows of the parts that have times near those of part j."""
    assert table.parts is not None
    length = table.parts.length * MICROSECONDS
    first, last = low // length, (high + length - 1) // length
    source, columns = _quoted(table.name), _columns(table)
    if on_close or last <= 0:
        return f"SELECT {columns} FROM {source}[j + {first} .. j + {last}] AS near_parts"
    later = f"SELECT {columns} FROM {source}[j + {max(first, 1)} .. j + {last} IF CLOSED] AS later_parts"
    return later if first > 0 else f"SELECT {columns} FROM {source}[j + {first} .. j] AS near_parts UNION ALL {later}"
