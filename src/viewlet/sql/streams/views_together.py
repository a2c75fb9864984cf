"""Views that read each other's earlier parts, declared in one statement.

    CREATE VIEW a AS INITIALIZE a[i] AS ... UPDATE a[j] AS ... b[j-1] ...,
                b AS INITIALIZE b[i] AS ... UPDATE b[j] AS ... a[j] ...

Each of them is a view of its own. Its statement in the journal is the same one, which begins with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from viewlet.errors import SchemaError
from viewlet.sql.source import Source
from viewlet.sql.split import RawStatement
from viewlet.sql.statements import CreateView
from viewlet.sql.streams.statements import (
    DeltaFunction,
    columns_together,
    declared,
    is_view_delta_function,
    read_delta_function,
    view_header,
    view_parts,
)
from viewlet.streams.check import initialization_order
from viewlet.streams.definition import PartView
from viewlet.types import Table, TableKind, TimeParts


def declares_together(raw: RawStatement) -> bool:
    """CREATE VIEW v AS INITIALIZE ..., w AS INITIALIZE ..."""
    return is_view_delta_function(raw) and len(_beginnings(raw)) > 1


def bind_together(raw: RawStatement, catalog: Mapping[str, Table]) -> CreateView:
    """The first view of a statement, with the others."""
    starts = _beginnings(raw)
    members = [_member(raw, start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]
    read = _in_order(raw, members, catalog)
    parts, columns = _parts(read, catalog), columns_together(read, catalog)
    views = [
        PartView(each.name, columns[each.name], parts[each.name], each.initialize, each.update, each.start)
        for each in read
    ]
    views = [
        replace(
            view,
            partners=tuple(name for name in parts if name != view.name),
            statement=each.raw.text_from(each.header.body),
        )
        for each, view in zip(read, views, strict=True)
    ]
    bound: dict[str, CreateView] = {}
    for each, view in zip(read, views, strict=True):
        whole = replace(view, family=tuple(other for other in views if other is not view))
        bound[each.name] = replace(
            declared(each.raw, each.header, whole, catalog), statement=_statement(raw, members, each.raw)
        )
    return _with_others([bound[_name(member)] for member in members])


def _with_others(views: Sequence[CreateView]) -> CreateView:
    """The first view, with the others; each of these knows the others too."""
    first, *others = views
    known = [replace(view, together=tuple(each for each in views if each is not view)) for view in others]
    return replace(first, together=tuple(known))


def _beginnings(raw: RawStatement) -> list[int]:
    """The words with the names of the views that a statement declares."""
    header = view_header(raw)
    assert header is not None
    found, depth = [header.body - 2], 0
    for at, word in enumerate(raw.words):
        depth += (word in ("(", "[")) - (word in (")", "]"))
        after = raw.words[at + 2 : at + 6]
        if depth == 0 and word == "," and after[:2] == ("AS", "INITIALIZE") and after[3:] == ("[",):
            found.append(at + 1)
    return found


def _member(raw: RawStatement, start: int, end: int | None) -> RawStatement:
    """The statement of one view; what it says is where it was."""
    header = view_header(raw)
    assert header is not None
    head, last = header.body - 2, len(raw.words) if end is None else end - 1
    text = raw.text[: raw.positions[last - 1][1]]
    words = raw.words[:head] + raw.words[start:last]
    positions = raw.positions[:head] + raw.positions[start:last]
    return RawStatement(Source(raw.source.script, raw.source.offset, text), words, positions)


def _statement(raw: RawStatement, members: Sequence[RawStatement], first: RawStatement) -> str:
    """The same statement, which begins with one of its views."""
    header = view_header(raw)
    assert header is not None
    head = header.body - 2
    ordered = [first, *(each for each in members if each is not first)]
    return raw.text[: raw.positions[head][0]] + ", ".join(each.text[each.positions[head][0] :] for each in ordered)


def _name(member: RawStatement) -> str:
    header = view_header(member)
    assert header is not None
    return header.name


def _in_order(raw: RawStatement, members: Sequence[RawStatement], catalog: Mapping[str, Table]) -> list[DeltaFunction]:
    """What the views say, each after those that its INITIALIZE reads."""
    named = {name: Table(name, (), TableKind.VIEW, parts=TimeParts(1)) for name in map(_name, members)}
    if len(named) < len(members):
        raise raw.source.error("views that are declared together have different names")
    read = [read_delta_function(member, {**catalog, **named}) for member in members]
    try:
        return initialization_order(read)
    except SchemaError as error:
        raise raw.source.error(str(error)) from None


def _parts(views: Sequence[DeltaFunction], catalog: Mapping[str, Table]) -> dict[str, TimeParts]:
    """The parts of the views: as long as those of the longest source, but for views that come later."""
    known = {name: table for name, table in catalog.items() if name not in {view.name for view in views}}
    found: dict[str, TimeParts] = {}
    for view in views:
        queries = [
            replace(query, references=tuple(each for each in query.references if each.relation in known))
            for query in (view.initialize, view.update)
        ]
        found[view.name] = view_parts(view.raw, queries, view.name, known, view.given)
        known[view.name] = Table(view.name, (), TableKind.VIEW, parts=found[view.name])
    streams = tuple(sorted({stream for parts in found.values() for stream in parts.streams}))
    return {name: replace(parts, streams=streams) for name, parts in found.items()}
