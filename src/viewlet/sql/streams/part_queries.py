"""Queries for parts: `relation[subscript]` becomes a reference, and everything else stays SQL of the host."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewlet.changes import did_you_mean
from viewlet.sql.scope import named_query
from viewlet.sql.split import RawStatement, tokenize, unquoted
from viewlet.sql.streams.parse import parse_queries
from viewlet.streams.definition import PART_TIMESTAMP, PartQuery, Reference
from viewlet.streams.schema import QueryError
from viewlet.streams.subscripts import SubscriptError, line, parse_subscript
from viewlet.types import Column, Table, TableKind

_RANGE = re.compile(r"\.\s*\.")
_PROVISIONAL = re.compile(r"\s+IF\s+CLOSED\s*$", re.IGNORECASE)
_TABLE_FUNCTIONS = ("range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree")
_QUERY = (exp.Select, exp.SetOperation, exp.Subquery)


@dataclass(frozen=True, slots=True)
class Place:
    """The words of a query in a statement, and the variable of its subscripts."""

    raw: RawStatement
    begin: int
    end: int
    index: str

    def span(self, first: int, last: int | None = None) -> tuple[int, int]:
        return self.raw.positions[first][0], self.raw.positions[first if last is None else last][1]


def own_columns(table: Table) -> tuple[Column, ...]:
    """The columns of a part; a view shows besides when its parts begin."""
    return table.columns[:-1] if table.kind is TableKind.VIEW and table.parts is not None else table.columns


def bind_part_query(
    place: Place, catalog: Mapping[str, Table], view: str, reference_of: Callable[[Place, str, int, int], Reference]
) -> PartQuery:
    """The query at a place of a statement that declares `view`; `reference_of` reads what is between brackets."""
    raw, words = place.raw, place.raw.words
    known = {name.lower(): name for name, table in catalog.items() if table.parts is not None} | {view.lower(): view}
    mark = free_mark(raw)
    references: list[Reference] = []
    pieces: list[str] = []
    copied = raw.positions[place.begin][0]
    at = place.begin
    while at < place.end:
        name = unquoted(words[at]).lower()
        if at + 1 < place.end and words[at + 1] == "[" and name in known and words[at - 1] != ".":
            closing = _closing(place, at + 1)
            reference = reference_of(place, known[name], at + 1, closing)
            if reference not in references:
                references.append(reference)
            start, end = place.span(at, closing)
            pieces += [raw.text[copied:start], f'"{mark}{references.index(reference)}"']
            copied, at = end, closing
        at += 1
    pieces.append(raw.text[copied : raw.positions[place.end - 1][1]])
    node = _parsed(place, "".join(pieces))
    _name_tables(place, node, references, mark, catalog, known)
    for column in node.find_all(exp.Column):
        if column.name.lower() == PART_TIMESTAMP and not column.table:
            column.replace(exp.column(f"{mark}start", quoted=True))
    return PartQuery(node.sql("duckdb"), tuple(references), mark, place.index)


@contextmanager
def syntax_errors(raw: RawStatement) -> Iterator[None]:
    """What the parser says of a statement, or of one that was made of it, as an error of that statement."""
    try:
        yield
    except SqlglotError as error:
        reason = str(error).splitlines()[0].split(". Line ")[0]
        raise raw.source.error(f"syntax error: {reason}") from None
    except QueryError as error:
        raise raw.source.error(str(error)) from None


def free_mark(raw: RawStatement) -> str:
    """The beginning of marks that are nowhere in a statement, nor in its strings once their escapes are read."""
    texts = (raw.text, *(token.text for token in tokenize(raw.text)))
    number = 0
    while any((mark := f"$part{number}_") in text for text in texts):
        number += 1
    return mark


def _closing(place: Place, opening: int) -> int:
    depth = 0
    for at in range(opening, place.end):
        depth += (place.raw.words[at] == "[") - (place.raw.words[at] == "]")
        if depth == 0:
            return at
    raise place.raw.source.error_at("a ']' is missing", *place.span(opening))


def subscripted(place: Place, relation: str, opening: int, closing: int) -> Reference:
    raw = place.raw
    text = raw.text[raw.positions[opening][1] : raw.positions[closing][0]]
    bounds = _PROVISIONAL.sub("", text)
    ends = _RANGE.split(bounds)
    try:
        if len(ends) > 2:
            raise SubscriptError("a range has two ends, low .. high")
        low, high = (parse_subscript(end, place.index) for end in (ends[0], ends[-1]))
        line(low), line(high)
    except SubscriptError as wrong:
        raise raw.source.error_at(str(wrong), *place.span(opening, closing)) from None
    return Reference(relation, low, high, provisional=bounds != text)


def _parsed(place: Place, text: str) -> exp.Expr:
    span = place.span(place.begin, place.end - 1)
    try:
        nodes = parse_queries(text)
    except SqlglotError as error:
        reason = str(error).splitlines()[0].split(". Line ")[0]
        raise place.raw.source.error_at(f"syntax error: {reason}", *span) from None
    if len(nodes) != 1 or not isinstance(nodes[0], _QUERY):
        raise place.raw.source.error_at("a SELECT is expected", *span)
    return nodes[0]


def _name_tables(
    place: Place,
    node: exp.Expr,
    references: list[Reference],
    mark: str,
    catalog: Mapping[str, Table],
    known: Mapping[str, str],
) -> None:
    """References keep the names of their relations; tables without parts become references too."""
    for table in list(node.find_all(exp.Table)):
        name = table.name
        if not isinstance(table.this, exp.Identifier):
            _check_table_function(place, table)
            continue
        if name.startswith(mark):
            _alias(table, references[int(name.removeprefix(mark))].relation)
            continue
        if table.args.get("db") is not None:
            raise _error(place, f"tables and views are in no database and no schema: write {name!r}", name)
        named = named_query(table)
        if named is not None:
            # under the same quoted name: hosts differ in how they compare names, and have catalogues of their own
            _alias(table, name)
            identifier = exp.to_identifier(named.alias, quoted=True)
            named.args["alias"].set("this", identifier)
            table.set("this", identifier.copy())
            continue
        if name.lower() in known:
            raise _error(place, f"{name!r} has parts: say which, as in {name}[{place.index}]", name)
        found = next((spelling for spelling in (name, name.lower()) if spelling in catalog), None)
        if found is None:
            raise _error(place, f"there is no table or view {name!r}" + did_you_mean(name, catalog), name)
        if catalog[found].kind not in (TableKind.TABLE, TableKind.STATIC):
            hint = "a stream view reads parts of streams and of stream views, and tables"
            raise _error(place, f"{name!r} is a {catalog[found].kind.value.lower()} without parts: {hint}", name)
        reference = Reference(found)
        if reference not in references:
            references.append(reference)
        table.this.set("this", f"{mark}{references.index(reference)}")
        table.this.set("quoted", True)
        _alias(table, found)


def _check_table_function(place: Place, table: exp.Table) -> None:
    """Table functions make rows of their arguments; others read the host, or change it."""
    function = table.this
    name = function.name if isinstance(function, exp.Anonymous) else function.sql_name()
    if table.args.get("db") is not None or name.lower() not in _TABLE_FUNCTIONS:
        known = ", ".join(_TABLE_FUNCTIONS)
        raise _error(place, f"{name.lower()}() is no table function of queries over parts; there are {known}", name)


def _alias(table: exp.Table, name: str) -> None:
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))


def _error(place: Place, message: str, name: str) -> Exception:
    raw = place.raw
    for at in range(place.begin, place.end):
        if unquoted(raw.words[at]).lower() == name.lower():
            return raw.source.error_at(message, *place.span(at))
    return raw.source.error_at(message, *place.span(place.begin, place.end - 1))
