"""Checks of references (section 4.1): a view delta function reads a bounded stretch of time, never its own future."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Protocol, TypeVar

from viewlet.errors import SchemaError
from viewlet.streams.definition import PartQuery, PartView, Reference, lead
from viewlet.streams.subscripts import line

Lengths = Mapping[str, int]


def check_view(view: PartView, others: Mapping[str, PartView], lengths: Lengths) -> None:
    """Refuses a view that cannot be kept part by part; `lengths` has those of all streams and views."""
    known = {**lengths, view.name: view.length}
    for query in (view.initialize, view.update):
        for each in query.references:
            if each.is_table:
                continue
            _check_rate(view, each, known, query.index)
            _check_range(view, each, query.index)
            if each.relation == view.name and lead(each, view.length, view.length) >= 0:
                read = each.text(query.index)
                raise SchemaError(f"view {view.name!r} reads {read}: a view may read only earlier parts of itself")
        if all(each.is_table or each.provisional or each.relation == view.name for each in query.references):
            raise SchemaError(
                f"nothing says when a part of view {view.name!r} can be computed: read a part of a stream or of "
                "another view, without IF CLOSED"
            )
    _check_cycles({**others, view.name: view}, known)


def _check_rate(view: PartView, reference: Reference, lengths: Lengths, index: str) -> None:
    assert reference.low is not None
    assert reference.high is not None
    low, high = line(reference.low).rate, line(reference.high).rate
    read = reference.text(index)
    wanted = Fraction(view.length, lengths[reference.relation])
    if low != high:
        raise SchemaError(
            f"view {view.name!r} reads {read}, which grows with every part: it would need all history; give "
            f"both ends of the range the same factor, or keep a running total in a helper view"
        )
    if low != wanted:
        raise SchemaError(
            f"view {view.name!r} has parts of {view.length} s and {reference.relation!r} of "
            f"{lengths[reference.relation]} s: {read} moves {low} parts for each part of the view, but "
            f"{wanted} parts pass; write for example {reference.relation}[{_example(wanted, index)}]"
        )


def _check_range(view: PartView, reference: Reference, index: str) -> None:
    assert reference.low is not None
    assert reference.high is not None
    if line(reference.high).high < line(reference.low).low:
        read = reference.text(index)
        raise SchemaError(f"view {view.name!r} reads {read}, which has no part: it ends before it begins")


def _example(rate: Fraction, index: str) -> str:
    if rate == 1:
        return index
    if rate.denominator == 1:
        return f"{index} * {rate} .. {index} * {rate} + {rate - 1}"
    factor = "" if rate.numerator == 1 else f" * {rate.numerator}"
    return f"{index}{factor} / {rate.denominator}"


def _check_cycles(views: Mapping[str, PartView], lengths: Lengths) -> None:
    """Going around any cycle of views leads to parts that end earlier."""
    names = list(views)
    furthest: dict[tuple[str, str], Fraction] = {}
    for name, view in views.items():
        for each in view.references():
            if each.relation in views:
                key = (name, each.relation)
                ahead = lead(each, view.length, lengths[each.relation])
                furthest[key] = max(furthest.get(key, ahead), ahead)
    for middle in names:
        for start in names:
            for end in names:
                first, second = furthest.get((start, middle)), furthest.get((middle, end))
                if first is not None and second is not None:
                    ahead = first + second
                    furthest[start, end] = max(furthest.get((start, end), ahead), ahead)
    for name in names:
        around = furthest.get((name, name))
        if around is not None and around >= 0:
            raise SchemaError(
                f"view {name!r} reads its own part through other views: a cycle of views has to lead to earlier parts"
            )


class Initialized(Protocol):
    """A view, or what is known of it so far."""

    @property
    def name(self) -> str: ...

    @property
    def initialize(self) -> PartQuery: ...


Member = TypeVar("Member", bound=Initialized)


def initialization_order(views: Sequence[Member]) -> list[Member]:
    """Views that are declared together, each after those that its INITIALIZE reads."""
    found: list[Member] = []
    waiting = list(views)
    while waiting:
        names = {view.name for view in waiting}
        ready = [view for view in waiting if names.isdisjoint(each.relation for each in view.initialize.references)]
        if not ready:
            listed = ", ".join(map(repr, sorted(names)))
            raise SchemaError(f"INITIALIZE of the views {listed} read each other: none of them can begin")
        found += ready
        waiting = [view for view in waiting if view not in ready]
    return found


def computation_order(views: Mapping[str, PartView]) -> list[str]:
    """The views, each after those it reads, but for references to earlier parts among views declared together."""
    order: list[str] = []
    visited: set[str] = set()

    def visit(name: str) -> None:
        if name in visited:
            return
        family = [name, *(partner for partner in views[name].partners if partner in views)]
        visited.update(family)
        for member in family:
            for each in views[member].references():
                if each.relation in views:
                    visit(each.relation)
        for member in family:
            place(member, family)

    def place(name: str, family: Sequence[str]) -> None:
        if name in order:
            return
        for each in views[name].references():
            if each.relation in family and lead(each, views[name].length, views[each.relation].length) >= 0:
                place(each.relation, family)
        order.append(name)

    for name in views:
        visit(name)
    return order
