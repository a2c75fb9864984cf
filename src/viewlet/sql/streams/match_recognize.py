"""MATCH_RECOGNIZE over partitioned streams and views over such: a helper that keeps the matches, and a view over it.

SELECT client, worst FROM packets MATCH_RECOGNIZE (PARTITION BY client ORDER BY ts ... ) WHERE worst > 20

matches[j]: the matches whose last row is in part j                            kept by streams/matching
view[j]:    SELECT client, worst FROM matches[j] WHERE worst > 20
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewlet.changes.staged_change import PART_COLUMN
from viewlet.sql.split import RawStatement, identifier, split_statements
from viewlet.sql.statements import CreateView
from viewlet.sql.streams.match_clauses import WORD, MatchClauses, Range, read_clauses, split_symbols
from viewlet.sql.streams.match_terms import TermBinder, TermError, parse_expression
from viewlet.sql.streams.match_types import MistypedError, check_condition
from viewlet.sql.streams.parse import parse_query
from viewlet.sql.streams.part_queries import own_columns
from viewlet.sql.streams.statements import (
    Reader,
    bind_view_delta_function,
    cut_clauses,
    declared,
    view_clauses,
    view_header,
)
from viewlet.streams.definition import BEGINNING, PART_TIMESTAMP, PartQuery, PartView, Reference
from viewlet.streams.matching.definition import START_INDEX, START_PART, Aggregate, MatchNumber, MatchQuery, Navigation
from viewlet.streams.matching.queries import aggregate_sql, quoted, rows_sql
from viewlet.streams.matching.row_pattern import PatternTooLongError, Program, Start, compile_pattern
from viewlet.streams.schema import QueryError, describe
from viewlet.streams.subscripts import INDEX
from viewlet.types import BIGINT, TIMESTAMP, VARCHAR, Column, SqlType, Table, TableKind, TimeParts

_AROUND = ("expressions", "from_", "where", "joins")
_AFTER = ("WHERE", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "PARTITION", "RETAIN", "ROLLUP")


def is_match_recognize(raw: RawStatement) -> bool:
    """CREATE VIEW v AS SELECT ... FROM s MATCH_RECOGNIZE (...) ..."""
    return view_header(raw) is not None and _place(raw) is not None


def _place(raw: RawStatement) -> int | None:
    pairs = zip(raw.words, raw.words[1:], strict=False)
    return next((at for at, pair in enumerate(pairs) if pair == (WORD, "(")), None)


def bind_match_recognize(raw: RawStatement, catalog: Mapping[str, Table]) -> CreateView:
    raw = split_symbols(raw)
    header, at = view_header(raw), _place(raw)
    assert header is not None
    assert at is not None
    source = _source(raw, at, catalog)
    clauses = read_clauses(raw, at)
    head, cut = cut_clauses(raw)
    given = view_clauses(raw, cut)
    query = _Binder(raw, source, clauses).bind()
    assert source.parts is not None
    if given.length not in (0, source.parts.length):
        raise raw.source.error(f"the parts of a view with {WORD} are those of {source.name!r}: leave the length out")
    parts = replace(given, length=source.parts.length, streams=source.parts.streams or (source.name,))
    helper = _helper(query, source, parts)
    view = _around(raw, header.name, header.body, helper, query, clauses, catalog, (head, cut))
    return declared(raw, header, replace(view, parts=parts), catalog)


def _source(raw: RawStatement, at: int, catalog: Mapping[str, Table]) -> Table:
    word = raw.words[at - 1]
    name = identifier(word)
    if raw.words[at - 2] not in ("FROM", "JOIN", ",") or name not in catalog or catalog[name].parts is None:
        raise Reader(raw, at - 1).error(f"{WORD} follows the name of a partitioned stream, or of a view over such")
    return catalog[name]


@dataclass(slots=True)
class _Binder:
    """Makes a query of clauses."""

    raw: RawStatement
    source: Table
    clauses: MatchClauses

    def bind(self) -> MatchQuery:
        clauses, binder, source = self.clauses, TermBinder(self.clauses), self.source
        keys = tuple(self._column(each) for each in clauses.keys)
        time, order = self._order()
        conditions = tuple(
            None
            if (words := clauses.defines.get(name)) is None
            else self._in(words, lambda node, at=number: binder.condition(node, at))
            for number, name in enumerate(clauses.variables)
        )
        measures = {self._measure_name(each): each for each in clauses.measures}
        if len(measures) < len(clauses.measures):
            raise self._error("two measures have the same name", clauses.measures[0])
        computed = {
            name: self._in(words, lambda node: binder.measure(node.this, not clauses.all_rows))
            for name, words in measures.items()
        }
        shown = self._shown(keys, order, computed)
        program = self._program()
        query = MatchQuery(
            source.name,
            own_columns(source),
            keys,
            tuple(order),
            time,
            source.parts.length if source.parts is not None else 1,
            tuple(clauses.variables),
            program,
            conditions,
            tuple(binder.tests),
            tuple(binder.values),
            tuple(binder.terms),
            ", ".join(shown.values()) or "1",
            (),
            clauses.skip,
            clauses.within,
            max(binder.lookback, int("Start(" in repr(clauses.pattern) or isinstance(clauses.pattern, Start))),
            binder.lookahead,
            clauses.all_rows,
            clauses.omits_empty,
            self.raw.text[
                self._span((clauses.source + 1, clauses.end))[0] : self._span((clauses.source, clauses.end))[1]
            ],
        )
        return replace(query, shown=self._types(query, tuple(shown)))

    # -- clauses -------------------------------------------------------------------------------------------------------

    def _column(self, words: Range) -> str:
        word = self.raw.words[words[0]]
        name = identifier(word)
        if words[1] - words[0] != 1 or name not in [column.name for column in own_columns(self.source)]:
            raise self._error(f"a column of {self.source.name!r} is expected here", words)
        return name

    def _order(self) -> tuple[str, list[str]]:
        """The column of the time, and the order of rows: time comes first, all columns last."""
        assert self.source.parts is not None
        time = self.source.parts.time or PART_TIMESTAMP
        items = [self.raw.text[slice(*self._span(each))] for each in self.clauses.order]
        first = items[0].split()
        named = identifier(first[0])
        if named != time or [each.upper() for each in first[1:]] not in ([], ["ASC"]):
            message = f"rows are searched in the order of time: ORDER BY begins with {time}"
            raise self._error(message, self.clauses.order[0])
        columns = [quoted(column.name) for column in own_columns(self.source)]
        return time, list(dict.fromkeys([quoted(time), *items[1:], *columns]))

    def _measure_name(self, words: Range) -> str:
        node = parse_expression(self.raw, words)
        if not isinstance(node, exp.Alias):
            raise self._error("a measure needs a name: expression AS name", words)
        return node.alias if node.args["alias"].args.get("quoted") else node.alias.lower()

    def _shown(self, keys: tuple[str, ...], order: list[str], measures: Mapping[str, str]) -> dict[str, str]:
        """The columns of the result and their SQL: groups, with all rows the order, measures, then other columns."""
        plain = {column.name: quoted(column.name) for column in own_columns(self.source)}
        if not self.clauses.all_rows:
            found = {name: plain[name] for name in keys}
        else:
            ordered = [name for name, sql in plain.items() if sql in order[: len(self.clauses.order)]]
            found = {name: plain[name] for name in (*keys, *ordered)}
        if twice := set(measures) & set(found):
            raise self.raw.source.error(f"measure {min(twice)!r} has the name of a column: choose another one")
        found |= measures
        if self.clauses.all_rows:
            found = {**found, **{name: sql for name, sql in plain.items() if name not in found}}
        return found

    def _program(self) -> Program:
        assert self.clauses.pattern is not None
        try:
            return compile_pattern(self.clauses.pattern)
        except PatternTooLongError:
            raise self.raw.source.unsupported("a row pattern with so many repetitions", None, "use + or *") from None

    # -- types ---------------------------------------------------------------------------------------------------------

    def _types(self, query: MatchQuery, names: tuple[str, ...]) -> tuple[Column, ...]:
        """The columns that matches show: DuckDB binds the queries over empty tables."""
        rows = (*query.columns, Column(PART_COLUMN, BIGINT))
        tests = [f"d{number}" for number in range(len(query.tests))]
        values = [f"v{number}" for number in range(len(query.values))]
        try:
            listed = ", ".join([*tests, *values]) or "1 AS one"
            typed = describe(f"SELECT {listed} FROM ({rows_sql(query)}) AS prepared", {"rows_": rows})
            known = (*query.columns, *(column for column in typed if column.name in values))
            self._check_conditions(query, [column.type for column in typed if column.name in values])
            return self._measured(query, names, known)
        except QueryError as error:
            raise self.raw.source.error(f"{WORD}: {error}") from None

    def _check_conditions(self, query: MatchQuery, values: list[SqlType]) -> None:
        for name, condition in zip(query.variables, query.conditions, strict=True):
            try:
                check_condition(condition, values)
            except MistypedError as wrong:
                raise self._error(str(wrong), self.clauses.defines[name]) from None

    def _measured(self, query: MatchQuery, names: tuple[str, ...], known: tuple[Column, ...]) -> tuple[Column, ...]:
        types = {column.name: column.type for column in known}
        stamped = (Column(PART_TIMESTAMP, TIMESTAMP),) if query.time == PART_TIMESTAMP else ()
        columns = [*known, *stamped, *(Column(name, BIGINT) for name in ("match_", "step_", "label_"))]
        totals = []
        for number, term in enumerate(query.terms):
            if isinstance(term, Aggregate):
                totals.append(f"{aggregate_sql(term)} AS t{number}")
            elif isinstance(term, MatchNumber):
                columns.append(Column(f"t{number}", BIGINT))
            else:
                assert isinstance(term, Navigation)
                columns.append(Column(f"t{number}", VARCHAR if term.column is None else types[f"v{term.column}"]))
        inner = f"SELECT {', '.join(['*', *totals])} FROM bound_"
        if not names:
            return ()
        described = describe(
            f"SELECT * FROM (SELECT {query.measures} FROM ({inner}) AS terms) AS computed({_names(names)})",
            {"bound_": columns},
        )
        return tuple(Column(name, column.type) for name, column in zip(names, described, strict=True))

    # -- errors --------------------------------------------------------------------------------------------------------

    def _in(self, words: Range, bind):  # type: ignore[no-untyped-def]
        try:
            return bind(parse_expression(self.raw, words))
        except TermError as wrong:
            raise self._error(str(wrong), words) from None

    def _span(self, words: Range) -> tuple[int, int]:
        return self.raw.positions[words[0]][0], self.raw.positions[words[1] - 1][1]

    def _error(self, message: str, words: Range) -> Exception:
        return self.raw.source.error_at(message, *self._span(words))


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(quoted, names))


# -- views ------------------------------------------------------------------------------------------------------------


def _helper(query: MatchQuery, source: Table, parts: TimeParts) -> PartView:
    """The relation of the matches; views with the same clauses share it."""
    name = f"matches_{hashlib.sha256(repr((query, parts.retention)).encode()).hexdigest()[:10]}"
    columns = (*query.shown, Column(START_PART, BIGINT), Column(START_INDEX, BIGINT))
    found = PartQuery(query.text, (Reference(source.name, INDEX, INDEX),), "$part0_")
    kept = TimeParts(parts.length, retention=parts.retention, streams=parts.streams)
    return PartView(name, columns, kept, found, found, form="matches", matching=query, start=BEGINNING)


def _around(
    raw: RawStatement,
    name: str,
    body: int,
    helper: PartView,
    query: MatchQuery,
    clauses: MatchClauses,
    catalog: Mapping[str, Table],
    without: tuple[RawStatement, int],
) -> PartView:
    """The SELECT around MATCH_RECOGNIZE, over the matches of a part."""
    head, cut = without
    matches = f"(SELECT {_names(tuple(c.name for c in query.shown))} FROM {quoted(helper.name)}[j])"
    following = raw.words[clauses.end] if clauses.end < cut else ""
    if not following or following in _AFTER:
        matches += f" AS {quoted(query.source)}"
    start, end = raw.positions[clauses.source][0], raw.positions[clauses.end - 1][1]
    text = raw.text[raw.positions[body][0] : start] + matches + raw.text[end : len(head.text)]
    _check_around(raw, text.replace(f"{quoted(helper.name)}[j]", quoted(helper.name)))
    shown = Table(helper.name, helper.columns, kind=TableKind.VIEW, parts=helper.parts)
    stamped = replace(shown, columns=(*shown.columns, Column(PART_TIMESTAMP, TIMESTAMP)))
    own = quoted(name)
    statement = f"CREATE VIEW {own} AS INITIALIZE {own}[j] AS {text}\nUPDATE {own}[j] AS {text}"
    created = bind_view_delta_function(next(split_statements(statement)), {**catalog, helper.name: stamped})
    assert isinstance(created.definition, PartView)
    return replace(created.definition, form="match_recognize", helpers=(helper,), start=BEGINNING)


def _check_around(raw: RawStatement, text: str) -> None:
    """Every match is looked at alone: what needs several of them is a view over the view."""
    try:
        node = parse_query(text)
    except SqlglotError as error:
        raise raw.source.error(f"syntax error: {str(error).splitlines()[0].split('. Line ')[0]}") from None
    hint = "declare the matches, and an ordinary view over them"
    if not isinstance(node, exp.Select):
        raise raw.source.unsupported(f"a set operation around {WORD}", None, hint)
    for key, value in node.args.items():
        if value and key not in _AROUND:
            raise raw.source.unsupported(f"{key.upper().rstrip('_')} around {WORD}", None, hint)
    if node.find(exp.AggFunc, exp.Window) is not None:
        raise raw.source.unsupported(f"an aggregate around {WORD}", None, hint)
