"""Pattern queries over streams (section 5.1.2, Algorithms 2 and 3): a helper that keeps live runs, and a view over it.

    SELECT g, COUNT(*) AS n FROM s PATTERN [a, b+] WHERE a.x > 10 AND b.x > a.x GROUP BY g [ORDER BY tie_break]

A run is a sequence of rows of a group, each after the other, that is bound to a beginning of the pattern. All live runs
of a group end at its last row, so that of those in one state the longest has the same future as the others: it is kept.
Where the machine shows that the longest run of all does (`Machine.keeps_one_run`), only that is kept, as in the paper.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewlet.sql.source import name_of
from viewlet.sql.split import RawStatement
from viewlet.sql.statements import CreateView
from viewlet.sql.streams.parse import parse_query
from viewlet.sql.streams.part_queries import free_mark, own_columns
from viewlet.sql.streams.pattern_fold import to_fold
from viewlet.sql.streams.pattern_machine import Machine, PatternError, make_machine
from viewlet.sql.streams.pattern_steps import PatternSql
from viewlet.sql.streams.statements import Reader, cut_clauses, declared, described, view_clauses, view_header
from viewlet.streams.definition import FastPath, PartQuery, PartView, Reference
from viewlet.streams.schema import QueryError, describe
from viewlet.streams.subscripts import INDEX, Arithmetic, Number
from viewlet.types import Column, SqlType, Table, TimeParts

_CLAUSES = ("expressions", "from_", "where", "group", "order")


def is_pattern_view(raw: RawStatement) -> bool:
    """CREATE VIEW v AS SELECT ... FROM s PATTERN [...] ..."""
    header = view_header(raw)
    pairs = zip(raw.words, raw.words[1:], strict=False)
    return header is not None and raw.words[header.body] == "SELECT" and any(pair == ("PATTERN", "[") for pair in pairs)


def bind_pattern_view(raw: RawStatement, catalog: Mapping[str, Table]) -> CreateView:
    header = view_header(raw)
    assert header is not None
    head, clauses = cut_clauses(raw)
    at = next(at for at in range(len(raw.words)) if raw.words[at : at + 2] == ("PATTERN", "["))
    variables, after = _variables(Reader(head, at + 2))
    start, end = raw.positions[at][0], raw.positions[after - 1][1]
    text = head.text[raw.positions[header.body][0] : start] + head.text[end:]
    node = _parsed(raw, text)
    source = _source(raw, node, catalog)
    given = view_clauses(raw, clauses)
    try:
        where = node.args.get("where")
        machine = make_machine(variables, None if where is None else where.this)
        columns = _Columns()
        select = [columns.rewritten(each, node) for each in node.expressions]
    except PatternError as wrong:
        raise raw.source.error_at(str(wrong), *_place(raw, wrong.node)) from None
    return declared(
        raw, header, _view(raw, header.name, node, source, machine, columns, select, given, catalog), catalog
    )


def _variables(reader: Reader) -> tuple[list[tuple[str, bool]], int]:
    """[a, b+, c]: the variables, and the word after them."""
    found: list[tuple[str, bool]] = []
    while True:
        at, name = reader.at, reader.name()
        if not name.isidentifier() or name in [known for known, _ in found]:
            raise reader.error("a pattern lists variables, each once: [a, b+, c]", at)
        plus = reader.word == "+"
        reader.at += plus
        found.append((name, plus))
        if reader.take(",", "]") == "]":
            return found, reader.at


def _parsed(raw: RawStatement, text: str) -> exp.Select:
    try:
        node = parse_query(text)
    except SqlglotError as error:
        raise raw.source.error(f"syntax error: {str(error).splitlines()[0]}") from None
    others = [key for key, value in node.args.items() if value and key not in _CLAUSES]
    if not isinstance(node, exp.Select) or others:
        what = others[0].upper().rstrip("_") if others else "this query"
        raise raw.source.unsupported(f"{what} in a pattern query", None, "declare the pattern, and a view over it")
    return node


def _source(raw: RawStatement, node: exp.Select, catalog: Mapping[str, Table]) -> Table:
    start = node.args.get("from_")
    table = start.this if start is not None else None
    name = name_of(table.this) if isinstance(table, exp.Table) else ""
    if name not in catalog or catalog[name].parts is None:
        raise raw.source.error("a pattern is looked for in one partitioned stream, or in a view over such")
    return catalog[name]


def _place(raw: RawStatement, node: exp.Expr) -> tuple[int, int]:
    text = node.sql("duckdb").lower()
    start = raw.text.lower().find(text)
    return (start, start + len(text)) if start >= 0 else (0, len(raw.text))


@dataclass(slots=True)
class _Columns:
    """What a helper keeps of a run besides its state and length: aggregates by their SQL."""

    groups: dict[str, str] = field(default_factory=dict)
    aggregates: dict[str, tuple[str, str]] = field(default_factory=dict)
    """SQL of the argument and function -> the column, and how it begins and continues."""

    def rewritten(self, node: exp.Expr, query: exp.Select) -> exp.Expr:
        """An expression of SELECT over the columns of the helper."""
        group = query.args.get("group")
        if not self.groups:
            for each in group.expressions if group is not None else []:
                self.groups[each.sql("duckdb").lower()] = f"g{len(self.groups)}"

        def rewrite(each: exp.Expr) -> exp.Expr:
            if each.sql("duckdb").lower() in self.groups:
                return exp.column(self.groups[each.sql("duckdb").lower()])
            if isinstance(each, exp.AggFunc):
                return sqlglot.parse_one(self._aggregate(each), read="duckdb")
            if isinstance(each, exp.Column | exp.Star):
                raise PatternError(f"'{each.sql('duckdb')}' is neither in GROUP BY nor in an aggregate", each)
            return each

        name = node.alias_or_name
        inner = node.this if isinstance(node, exp.Alias) else node
        found = inner.copy().transform(rewrite)
        return exp.alias_(found, name or found.name, quoted=True) if name else found

    def _aggregate(self, call: exp.AggFunc) -> str:
        argument = call.this.sql("duckdb") if call.this is not None else "*"
        if isinstance(call, exp.Count) and argument == "*":
            return "ct"
        if isinstance(call, exp.Avg):
            return f"CAST({self._kept('SUM', argument)} AS DOUBLE) / NULLIF({self._kept('COUNT', argument)}, 0)"
        kinds = {exp.Sum: "SUM", exp.Count: "COUNT", exp.Min: "MIN", exp.Max: "MAX"}
        function = kinds.get(type(call))
        if function is None or call.expressions or argument.upper().startswith("DISTINCT"):
            raise PatternError("a pattern has COUNT, SUM, AVG, MIN and MAX of its rows", call)
        return self._kept(function, argument)

    def _kept(self, function: str, argument: str) -> str:
        key = f"{function}({argument})"
        return self.aggregates.setdefault(key, (f"a{len(self.aggregates)}", argument))[0]


def _described(
    raw: RawStatement, expressions: Mapping[str, str], source: Table, wide: bool = False
) -> tuple[Column, ...]:
    """Columns over the source by their names and SQL, with their types as `describe` tells them."""
    shown = ", ".join(f"{sql} AS {name}" for name, sql in expressions.items())
    try:
        return describe(f'SELECT {shown} FROM "rows"', {"rows": own_columns(source)}, wide)
    except QueryError as error:
        raise raw.source.error(str(error)) from None


def _group_types(raw: RawStatement, columns: _Columns, source: Table) -> tuple[SqlType, ...]:
    """The types of the groups; a column that is NOT NULL stays so."""
    if not columns.groups:
        return ()
    present = {column.name for column in own_columns(source) if not column.type.nullable}
    described = _described(raw, {name: sql for sql, name in columns.groups.items()}, source, wide=True)
    return tuple(
        column.type.with_nullable(sql.strip('"') not in present)
        for column, sql in zip(described, columns.groups, strict=True)
    )


def _typed_arguments(raw: RawStatement, columns: _Columns, source: Table) -> dict[str, tuple[str, str]]:
    """The arguments of aggregates in types that have room for sums."""
    if not columns.aggregates:
        return {}
    types = _described(raw, dict(columns.aggregates.values()), source)
    found: dict[str, tuple[str, str]] = {}
    for (key, (name, argument)), column in zip(columns.aggregates.items(), types, strict=True):
        type = column.type
        wide = "BIGINT" if type.is_integer else f"DECIMAL(38,{type.scale})" if type.is_exact else str(type)
        found[key] = name, f"CAST({argument} AS {wide})"
    return found


def _view(
    raw: RawStatement,
    name: str,
    node: exp.Select,
    source: Table,
    machine: Machine,
    columns: _Columns,
    select: Sequence[exp.Expr],
    given: TimeParts,
    catalog: Mapping[str, Table],
) -> PartView:
    assert source.parts is not None
    mark = free_mark(raw)
    order = node.args.get("order")
    breaks = [each.sql("duckdb") for each in order.expressions] if order is not None else []
    plain = [column.name for column in own_columns(source)]
    aggregates = _typed_arguments(raw, columns, source)
    types = _group_types(raw, columns, source)
    sql = PatternSql(machine, columns.groups, types, aggregates, plain, source.parts.time, breaks, mark)
    streams = source.parts.streams or (source.name,)
    parts = replace(given, length=source.parts.length, streams=streams)
    here, before = Reference(source.name, INDEX, INDEX), Arithmetic("-", INDEX, Number(1))
    first = PartQuery(sql.stored(sql.recursive(has_past=False)), (here,), mark)
    try:
        kept = describe(first.sql, {first.marker(0): own_columns(source)}, wide=True)
    except QueryError as error:
        raise raw.source.error(str(error)) from None
    first = replace(first, on_spark=to_fold(sql, kept, has_past=False))
    helper_name = f"pattern_{hashlib.sha256(repr((source.name, first.sql)).encode()).hexdigest()[:10]}"
    references = (here, Reference(helper_name, before, before))
    on_spark = to_fold(sql, kept, has_past=True)
    later = PartQuery(sql.stored(sql.recursive(has_past=True)), references, mark, on_spark=on_spark)
    quick = None
    if machine.keeps_one_run():
        itself = Reference(helper_name, INDEX, INDEX)
        grouped = {each.strip('"').lower() for each in columns.groups}
        is_unique = bool(source.parts.unique) and grouped >= set(source.parts.unique)
        quick = FastPath(
            PartQuery(sql.stored(sql.first()), (here,), mark),
            PartQuery(sql.single(), references, mark),
            None if is_unique else PartQuery(sql.rows_of_runs(), (here, itself), mark),
        )
    helper = PartView(
        helper_name, kept, TimeParts(parts.length, retention=0, streams=streams), first, later, form="runs", quick=quick
    )
    shown = ", ".join(each.sql("duckdb") for each in select)
    final = PartQuery(
        f'SELECT {shown} FROM "{mark}0" AS runs WHERE {sql.accepted()}',
        (Reference(helper_name, INDEX, INDEX),),
        mark,
    )
    result = described(raw, final, catalog, {helper_name: kept}, "the query")
    return PartView(name, result, parts, final, final, form="pattern", helpers=(helper,))
