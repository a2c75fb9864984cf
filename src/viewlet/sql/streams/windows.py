"""Sliding windows over streams (section 5.2): a query over `stream [WINDOW 10 MINUTES]`, as view delta functions.

    SELECT g, MAX(x) FROM s [WINDOW 10 MINUTES] GROUP BY g

    whole         SELECT g, MAX(x) FROM s[j - 9 .. j] GROUP BY g                          any query
    distributive  helper[j]: SELECT g, MAX(x) AS max_x FROM s[j] GROUP BY g               View 5
                  SELECT g, MAX(max_x) FROM helper[j - 9 .. j] GROUP BY g
    subtractable  helper[j]: what helper[j - 1] has, plus the sums of s[j]                View 6
                  helper[j] minus helper[j - 10]

A variance is merged from counts, sums, and squares around the mean of each part.

Every helper counts the rows of a group, so that sums of zero and below stay. Sums of doubles are not subtracted,
because they would not come back to what they were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import sqlglot
from sqlglot import exp

from viewlet.sql.split import RawStatement, unquoted
from viewlet.sql.statements import CreateView
from viewlet.sql.streams.part_queries import Place, bind_part_query, own_columns
from viewlet.sql.streams.partial_aggregates import ROWS, Found, Partials, partials_of, with_means
from viewlet.sql.streams.statements import (
    UNITS,
    Reader,
    cut_clauses,
    cut_emit,
    declared,
    described,
    view_clauses,
    view_header,
    view_parts,
)
from viewlet.streams.definition import Native, PartQuery, PartView, Reference
from viewlet.streams.normalise import normalised
from viewlet.streams.schema import describe
from viewlet.streams.subscripts import INDEX, Arithmetic, Number, Subscript
from viewlet.types import VARCHAR, Column, Kind, SqlType, Table, TimeParts

NATIVE_WIDTH = 128
"""Parts of a window up to which sums are merged in this process rather than subtracted; the tree has so many leaves."""
SUBTRACTION_COST = 4
"""Parts of groups that the subtractable form reads and writes for a new part; the distributive one reads a window."""
_NATIVE = (Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DOUBLE, Kind.REAL)


def is_window_view(raw: RawStatement) -> bool:
    """CREATE VIEW v AS SELECT ... FROM s [WINDOW ...] ..."""
    header = view_header(raw)
    if header is None or raw.words[header.body] not in ("SELECT", "WITH", "("):
        return False
    pairs = zip(raw.words, raw.words[1:], strict=False)
    return any(pair == ("[", "WINDOW") for pair in pairs)


def bind_window_view(raw: RawStatement, catalog: Mapping[str, Table]) -> CreateView:
    raw, _ = cut_emit(raw)  # a part is the window that is closed with it
    header = view_header(raw)
    assert header is not None
    head, clauses = cut_clauses(raw)
    given = view_clauses(raw, clauses)
    words = {unquoted(word).lower() for word in raw.words}
    read = [table.parts.length for name, table in catalog.items() if table.parts and name.lower() in words]
    step = given.length or max(read, default=1)

    def window(place: Place, relation: str, opening: int, closing: int) -> Reference:
        return _window(place, relation, opening, closing, catalog, step)

    whole = bind_part_query(Place(head, header.body, len(head.words), "j"), catalog, header.name, window)
    parts = view_parts(raw, (whole,), header.name, catalog, replace(given, length=step))
    columns = described(raw, whole, catalog, {}, "the query")
    view = decompose(PartView(header.name, columns, parts, whole, whole, form="window"), catalog)
    return declared(raw, header, view, catalog)


def _window(
    place: Place, relation: str, opening: int, closing: int, catalog: Mapping[str, Table], step: int
) -> Reference:
    """The parts of a window that ends with part j, of `step` seconds."""
    reader = Reader(place.raw, opening + 1)
    reader.take("WINDOW")
    amount = reader.number()
    unit = reader.next().removesuffix("S")
    parts = catalog[relation].parts
    if unit in ("MONTH", "QUARTER", "YEAR"):
        raise reader.error(
            "a month has no fixed length: give the window in days, hours, minutes or seconds", opening + 3
        )
    if unit not in UNITS or reader.at != closing or parts is None:
        raise reader.error("a window is [WINDOW n SECONDS], MINUTES, HOURS, DAYS or WEEKS", opening + 1)
    seconds = amount * UNITS[unit]
    if seconds % parts.length or step % parts.length:
        message = f"the window has {seconds} s, and {relation!r} parts of {parts.length} s: take a multiple of that"
        raise reader.error(message, opening + 2)
    return window_reference(relation, seconds // parts.length, step // parts.length)


def window_reference(relation: str, width: int, ratio: int) -> Reference:
    """The last `width` parts of a relation at the end of part j, which is as long as `ratio` of them."""
    end: Subscript = INDEX if ratio == 1 else Arithmetic("+", Arithmetic("*", INDEX, Number(ratio)), Number(ratio - 1))
    low = end if width == 1 else Arithmetic("-", end, Number(width - 1))
    return Reference(relation, low, end)


# -- helpers ----------------------------------------------------------------------------------------------------------


def decompose(view: PartView, catalog: Mapping[str, Table]) -> PartView:
    """The view with a helper that keeps partial aggregates, where its query is made of such."""
    whole = view.initialize
    if len(whole.references) != 1:
        return view
    (reference,) = whole.references
    source = catalog[reference.relation]
    node = normalised(sqlglot.parse_one(whole.sql, read="duckdb"), source.column_names)
    found, parts = partials_of(node, whole, source), source.parts
    assert parts is not None
    if found is None or parts.length != view.length:
        return view
    partials, width = found[0], len(reference.parts(0))
    if not _is_subtractable(partials, node, whole, source) or parts.streams or width <= SUBTRACTION_COST:
        return _decomposed(view, node, found, source, width, False)
    subtracted = _decomposed(view, node, found, source, width, True)
    merged = _decomposed(view, node, found, source, width, False)
    if width > NATIVE_WIDTH or merged.native is None:
        return subtracted
    return replace(merged, elsewhere=subtracted)


def _decomposed(
    view: PartView, node: exp.Expr, found: Found, source: Table, width: int, is_subtractable: bool
) -> PartView:
    partials, select, having = found
    helper = _helper(view, node, partials, source, is_subtractable)
    query = _final(view, helper, partials, select, having, width)
    form = "window by subtraction" if is_subtractable else "window of partial aggregates"
    native = None if is_subtractable else _native(view, helper, node, source)
    whole = view.initialize
    return replace(view, initialize=query, update=query, form=form, helpers=(helper,), fallback=whole, native=native)


def decompose_over(
    view: PartView, node: exp.Expr, source: Table, constants: Mapping[str, str], is_grouped: bool
) -> PartView:
    """The view with a helper of partial aggregates in place of the parts of its source, as `decompose`.

    `node` is its query over rows of one window; `constants` are literals in it that stand for SQL of the part.
    """
    mark = view.initialize.mark
    found = partials_of(node, PartQuery(node.sql("duckdb"), (), mark), source)
    if found is None:
        return view
    partials, select, having = found
    helper = _helper(view, node, partials, source, False)
    references = tuple(replace(each, relation=helper.name) for each in view.initialize.references)
    rows = " UNION ALL ".join(f'SELECT * FROM "{mark}{number}" AS part{number}' for number in range(len(references)))
    shown = ", ".join(each.sql("duckdb") for each in select)
    tests = [f"SUM({ROWS}) > 0"] if is_grouped else []
    tests += [f"({having.sql('duckdb')})"] if having is not None else []
    sql = f"SELECT {shown} FROM ({with_means(rows, partials)}) AS merged" + _group_by(
        [Column(n, VARCHAR) for n in partials.groups.values()]
    )
    sql += f" HAVING {' AND '.join(tests)}" if tests else ""
    native = _native(view, helper, node, source)
    if native is not None:
        native = replace(native, query=replace(native.query, sql=_with_constants(native.query.sql, constants)))
    query = PartQuery(_with_constants(sql, constants), references, mark)
    form = f"{view.form} of partial aggregates"
    return replace(
        view, initialize=query, update=query, form=form, helpers=(helper,), fallback=view.initialize, native=native
    )


def _with_constants(sql: str, constants: Mapping[str, str]) -> str:
    for literal, text in constants.items():
        sql = sql.replace(f"'{literal}'", text)
    return sql


def _native(view: PartView, helper: PartView, node: exp.Expr, source: Table) -> Native | None:
    """How the window is merged in this process, where its columns are of types that the kernel knows."""
    found = partials_of(node, PartQuery(node.sql("duckdb"), (), view.initialize.mark), source, is_merged=True)
    if found is None:
        return None  # a variance is merged by the host
    partials, select, having = found
    count = len(partials.groups)
    groups, sums = helper.columns[:count], helper.columns[count:]
    if not groups or any(column.type.kind in (Kind.DOUBLE, Kind.REAL) for column in groups):
        return None
    if any(column.type.kind not in _NATIVE and not _is_whole(column.type) for column in sums):
        return None
    shown = ", ".join(each.sql("duckdb") for each in select)
    sql = f'SELECT {shown} FROM "{view.initialize.mark}0" AS merged WHERE {ROWS} > 0'
    if having is not None:
        sql += f" AND ({having.sql('duckdb')})"
    merges = ((ROWS, "SUM"), *partials.aggregates.values())
    query = PartQuery(sql, (Reference(helper.name, INDEX, INDEX),), view.initialize.mark)
    return Native(tuple(column.name for column in groups), merges, ROWS, query)


def _is_whole(type: SqlType) -> bool:
    return type.kind is Kind.DECIMAL and type.scale == 0


def _partial_sql(node: exp.Expr, partials: Partials) -> str:
    """What a helper computes for one part of the source."""
    shown = [f"{sql} AS {name}" for sql, name in partials.groups.items()]
    shown += [f"COUNT(*) AS {ROWS}", *(f"{sql} AS {name}" for sql, (name, _) in partials.aggregates.items())]
    start, where = node.args["from_"], node.args.get("where")
    grouped = f" GROUP BY {', '.join(partials.groups)}" if partials.groups else ""
    condition = "" if where is None else f" {where.sql('duckdb')}"
    return f"SELECT {', '.join(shown)} {start.sql('duckdb').strip()}{condition}{grouped}"


def _is_subtractable(partials: Partials, node: exp.Expr, whole: PartQuery, source: Table) -> bool:
    """All aggregates are sums of exact numbers."""
    columns = describe(_partial_sql(node, partials), {whole.marker(0): own_columns(source)}, wide=True)
    sums = columns[len(partials.groups) :]
    merges = [merge for _, merge in partials.aggregates.values()]
    return all(column.type.is_exact for column in sums) and all(merge == "SUM" for merge in merges)


def _helper(view: PartView, node: exp.Expr, partials: Partials, source: Table, is_subtractable: bool) -> PartView:
    whole = view.initialize
    partial = _partial_sql(node, partials)
    if not partials.groups:
        partial += " HAVING COUNT(*) > 0"  # a part without rows has no total
    one = PartQuery(partial, (Reference(source.name, INDEX, INDEX),), whole.mark)
    columns = describe(partial, {whole.marker(0): own_columns(source)}, wide=True)
    kind = "running" if is_subtractable else "partial"
    name = f"{kind}_{hashlib.sha256(repr((source.name, partial)).encode()).hexdigest()[:10]}"
    assert source.parts is not None
    parts = TimeParts(source.parts.length, retention=0, streams=view.parts.streams)
    if not is_subtractable:
        return PartView(name, columns, parts, one, one, form="partial aggregates")
    groups, sums = columns[: len(partials.groups)], columns[len(partials.groups) :]
    names = ", ".join(column.name for column in columns)
    shown = ", ".join([c.name for c in groups] + [f"SUM({c.name}) AS {c.name}" for c in sums])
    both = f'SELECT {names} FROM ({partial}) AS new UNION ALL SELECT {names} FROM "{whole.mark}1" AS old'
    update = f"SELECT {shown} FROM ({both}) AS both_sides" + _group_by(groups)
    before = Reference(name, Arithmetic("-", INDEX, Number(1)), Arithmetic("-", INDEX, Number(1)))
    running = PartQuery(update, (*one.references, before), whole.mark)
    return PartView(name, columns, parts, one, running, form="running totals", is_additive=True)


def _group_by(groups: Sequence[Column]) -> str:
    return f" GROUP BY {', '.join(column.name for column in groups)}" if groups else ""


def _final(
    view: PartView,
    helper: PartView,
    partials: Partials,
    select: Sequence[exp.Expr],
    having: exp.Expr | None,
    width: int,
) -> PartQuery:
    """The view over its helper: the rows of a window, or the difference of two running totals, merged by group."""
    mark = view.initialize.mark
    names = list(partials.groups.values())
    if helper.is_additive:
        sums = [column.name for column in helper.columns if column.name not in names]
        negated = ", ".join([*names, *(f"-{name} AS {name}" for name in sums)])
        rows = f'SELECT * FROM "{mark}0" AS now UNION ALL SELECT {negated} FROM "{mark}1" AS before'
        old = Arithmetic("-", INDEX, Number(width))
        references: tuple[Reference, ...] = (Reference(helper.name, INDEX, INDEX), Reference(helper.name, old, old))
    else:
        rows = with_means(f'SELECT * FROM "{mark}0" AS part', partials)
        references = (window_reference(helper.name, width, 1),)
    shown = ", ".join(each.sql("duckdb") for each in select)
    sql = f"SELECT {shown} FROM ({rows}) AS merged"
    if names:
        sql += f" GROUP BY {', '.join(names)}"
    tests = [f"SUM({ROWS}) > 0"] if names else []
    if having is not None:
        tests.append(f"({having.sql('duckdb')})")
    if tests:
        sql += f" HAVING {' AND '.join(tests)}"
    return PartQuery(sql, references, mark)
