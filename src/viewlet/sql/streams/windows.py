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
from dataclasses import dataclass, field, replace

import sqlglot
from sqlglot import exp

from viewlet.sql.split import RawStatement, unquoted
from viewlet.sql.statements import CreateView
from viewlet.sql.streams.part_queries import Place, bind_part_query, own_columns
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
from viewlet.streams.running_totals import SUMMED
from viewlet.streams.schema import describe
from viewlet.streams.subscripts import INDEX, Arithmetic, Number, Subscript
from viewlet.types import VARCHAR, Column, Kind, SqlType, Table, TimeParts

ROWS = f"{SUMMED}rows"
NATIVE_WIDTH = 128
"""Parts of a window up to which sums are merged in this process rather than subtracted; the tree has so many leaves."""
SUBTRACTION_COST = 4
"""Parts of groups that the subtractable form reads and writes for a new part; the distributive one reads a window."""
_NATIVE = (Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DOUBLE, Kind.REAL)
_DEVIATIONS = (exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop)
_DROPPED = ("expressions", "from_", "where", "group", "having", "kind")


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


@dataclass(slots=True)
class Partials:
    """The columns of a helper: groups, and aggregates of the rows of one part, by their SQL."""

    groups: dict[str, str] = field(default_factory=dict)
    aggregates: dict[str, tuple[str, str]] = field(default_factory=dict)
    """SQL of an aggregate -> its column, and the aggregate that merges it."""
    is_merged: bool = False
    """Rows are merged already: an expression reads their columns."""
    means: dict[str, tuple[str, str]] = field(default_factory=dict)
    """A column with the mean of all rows that are merged -> the columns of sums and of counts that it is made of."""

    def merge(self, function: str, column: str) -> str:
        return column if self.is_merged else f"{function}({column})"

    def sum(self, sql: str) -> str:
        known = self.aggregates.setdefault(sql, (f"{SUMMED}{len(self.aggregates)}", "SUM"))
        return known[0]

    def extreme(self, sql: str, function: str) -> str:
        return self.aggregates.setdefault(sql, (f"{function.lower()}_{len(self.aggregates)}", function))[0]


Found = tuple[Partials, list[exp.Expr], exp.Expr | None]
"""Partial aggregates, and SELECT and HAVING over them."""


def decompose(view: PartView, catalog: Mapping[str, Table]) -> PartView:
    """The view with a helper that keeps partial aggregates, where its query is made of such."""
    whole = view.initialize
    node = sqlglot.parse_one(whole.sql, read="duckdb")
    found = partials_of(node, whole)
    if found is None or len(whole.references) != 1:
        return view
    (reference,) = whole.references
    parts = catalog[reference.relation].parts
    assert parts is not None
    if parts.length != view.length:
        return view
    partials = found[0]
    width = len(reference.parts(0))
    source = catalog[reference.relation]
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
    native = None if is_subtractable else _native(view, helper, node)
    whole = view.initialize
    return replace(view, initialize=query, update=query, form=form, helpers=(helper,), fallback=whole, native=native)


def decompose_over(
    view: PartView, node: exp.Expr, source: Table, constants: Mapping[str, str], is_grouped: bool
) -> PartView:
    """The view with a helper of partial aggregates in place of the parts of its source, as `decompose`.

    `node` is its query over rows of one window; `constants` are literals in it that stand for SQL of the part.
    """
    mark = view.initialize.mark
    found = partials_of(node, PartQuery(node.sql("duckdb"), (), mark))
    if found is None:
        return view
    partials, select, having = found
    helper = _helper(view, node, partials, source, False)
    references = tuple(replace(each, relation=helper.name) for each in view.initialize.references)
    rows = " UNION ALL ".join(f'SELECT * FROM "{mark}{number}" AS part{number}' for number in range(len(references)))
    shown = ", ".join(each.sql("duckdb") for each in select)
    tests = [f"SUM({ROWS}) > 0"] if is_grouped else []
    tests += [f"({having.sql('duckdb')})"] if having is not None else []
    sql = f"SELECT {shown} FROM ({_with_means(rows, partials)}) AS merged" + _group_by(
        [Column(n, VARCHAR) for n in partials.groups.values()]
    )
    sql += f" HAVING {' AND '.join(tests)}" if tests else ""
    native = _native(view, helper, node)
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


def _native(view: PartView, helper: PartView, node: exp.Expr) -> Native | None:
    """How the window is merged in this process, where its columns are of types that the kernel knows."""
    found = partials_of(node, PartQuery(node.sql("duckdb"), (), view.initialize.mark), is_merged=True)
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


def partials_of(
    node: exp.Expr, whole: PartQuery, is_merged: bool = False
) -> tuple[Partials, list[exp.Expr], exp.Expr | None] | None:
    """The partial aggregates of a query, and its SELECT and HAVING over them; None if it is made of other things."""
    if not isinstance(node, exp.Select) or any(value for key, value in node.args.items() if key not in _DROPPED):
        return None
    start = node.args.get("from_")
    if start is None or not isinstance(start.this, exp.Table) or node.find(exp.Subquery, exp.Window, exp.Distinct):
        return None
    if node.find(exp.Placeholder) or whole.start_marker in whole.sql:
        return None
    group = node.args.get("group")
    partials = Partials(is_merged=is_merged)
    for each in group.expressions if group is not None else []:
        if isinstance(each, exp.Literal):
            return None
        partials.groups[each.sql("duckdb")] = f"g{len(partials.groups)}"
    if (
        group is not None
        and set(group.args) - {"expressions"}
        and any(group.args[k] for k in group.args if k != "expressions")
    ):
        return None
    try:
        select = [_merged(each, partials) for each in node.expressions]
        having = node.args.get("having")
        return partials, select, None if having is None else _merged(having.this, partials)
    except _NotDecomposableError:
        return None


class _NotDecomposableError(Exception):
    """An expression that partial aggregates do not determine."""


def _merged(node: exp.Expr, partials: Partials) -> exp.Expr:
    """An expression over rows of a window as one over partial aggregates of its parts."""

    def rewrite(each: exp.Expr) -> exp.Expr:
        sql = each.sql("duckdb")
        if sql in partials.groups:
            return exp.column(partials.groups[sql])
        if isinstance(each, exp.Filter):
            each = _with_condition(each)
        if isinstance(each, exp.AggFunc):
            return sqlglot.parse_one(_merge(each, partials), read="duckdb")
        if isinstance(each, exp.Column | exp.Star):
            raise _NotDecomposableError
        return each

    name = node.alias_or_name if isinstance(node, exp.Alias) else ""
    inner = node.this if isinstance(node, exp.Alias) else node
    found = inner.copy().transform(rewrite)
    return exp.alias_(found, name, quoted=True) if name else found


def _with_condition(node: exp.Filter) -> exp.Expr:
    """f(x) FILTER (WHERE c) = f(CASE WHEN c THEN x END), where f ignores NULL."""
    call = node.this.copy()
    if not isinstance(call, exp.AggFunc) or call.this is None or isinstance(call.this, exp.Distinct):
        raise _NotDecomposableError
    value = exp.Literal.number(1) if isinstance(call.this, exp.Star) else call.this.copy()
    call.set("this", exp.Case(ifs=[exp.If(this=node.expression.this.copy(), true=value)]))
    return call


def _merge(call: exp.AggFunc, partials: Partials) -> str:
    argument = call.this.sql("duckdb") if call.this is not None else "*"
    if call.expressions or argument.upper().startswith("DISTINCT"):
        raise _NotDecomposableError
    if isinstance(call, exp.Count):
        counted = ROWS if argument == "*" else partials.sum(f"COUNT({argument})")
        return f"COALESCE({partials.merge('SUM', counted)}, 0)"
    if isinstance(call, exp.Sum | exp.Avg):
        count = partials.merge("SUM", partials.sum(f"COUNT({argument})"))
        total = partials.merge("SUM", partials.sum(f"COALESCE(SUM({argument}), 0)"))
        is_mean = isinstance(call, exp.Avg)
        value = f"CAST({total} AS DOUBLE) / CAST({count} AS DOUBLE)" if is_mean else total
        return f"CASE WHEN {count} > 0 THEN {value} END"
    if isinstance(call, exp.Min | exp.Max):
        function = "MIN" if isinstance(call, exp.Min) else "MAX"
        return partials.merge(function, partials.extreme(f"{function}({argument})", function))
    if isinstance(call, _DEVIATIONS):
        return _merged_deviation(call, argument, partials)
    raise _NotDecomposableError


def _merged_deviation(call: exp.AggFunc, argument: str, partials: Partials) -> str:
    """A variance or its root: the squares within parts, and those of the means of parts around the mean of all.

    All terms are positive, so that nothing cancels, whatever the mean is.
    """
    if partials.is_merged:
        raise _NotDecomposableError
    count = partials.sum(f"COUNT({argument})")
    total = partials.sum(f"CAST(COALESCE(SUM({argument}), 0) AS DOUBLE)")
    squares = partials.sum(f"CAST(COALESCE(VAR_POP({argument}) * COUNT({argument}), 0) AS DOUBLE)")
    mean = next((name for name, known in partials.means.items() if known == (total, count)), None)
    if mean is None:
        mean = f"mean_{len(partials.means)}"
        partials.means[mean] = total, count
    n = f"CAST({count} AS DOUBLE)"
    away = f"({total} / NULLIF({n}, 0) - {mean})"
    is_sample = not isinstance(call, exp.VariancePop | exp.StddevPop)
    rows = f"CAST(SUM({count}) AS DOUBLE)"
    value = f"SUM({squares} + COALESCE({n} * {away} * {away}, 0)) / NULLIF({rows}{' - 1' if is_sample else ''}, 0)"
    if isinstance(call, exp.Stddev | exp.StddevSamp | exp.StddevPop):
        value = f"SQRT({value})"
    return f"CASE WHEN SUM({count}) > {int(is_sample)} THEN {value} END"


def _with_means(rows: str, partials: Partials) -> str:
    """Rows of parts, with the means of what they are merged to."""
    if not partials.means:
        return rows
    among = f"PARTITION BY {', '.join(partials.groups.values())}" if partials.groups else ""
    means = [
        f"SUM({total}) OVER ({among}) / NULLIF(CAST(SUM({count}) OVER ({among}) AS DOUBLE), 0) AS {mean}"
        for mean, (total, count) in partials.means.items()
    ]
    return f"SELECT *, {', '.join(means)} FROM ({rows}) AS parts"


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
        rows = _with_means(f'SELECT * FROM "{mark}0" AS part', partials)
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
