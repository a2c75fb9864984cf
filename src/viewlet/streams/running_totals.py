"""Late rows in running totals (section 5.2.2): what they contribute is added, once for all parts that have it.

    H[k] := H[k] + partial(S[p]) - partial(S[p] before)    for all k >= p: one segment that all of them share

Segments that the part of the source had before and has still are not read: partial(a + b) = partial(a) + partial(b).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from viewlet.streams.catalogue import EMPTY, Part, Segment
from viewlet.streams.definition import PartView
from viewlet.streams.host import runs_jobs
from viewlet.streams.new_parts import next_part, put_new_part
from viewlet.streams.render import column_list, typed, union_of

if TYPE_CHECKING:
    from viewlet.streams.maintainer import Maintainer

SUMMED = "sum_"
"""What the names of the columns of a running total begin with that add up; the others are its groups."""


def add_differences(maintainer: Maintainer, changed: Sequence[tuple[str, int]], is_eager: bool) -> None:
    """Adds what changed parts of streams contribute to running totals over them.

    If `is_eager`, a host of jobs makes the next total with them.
    """
    for view in [view for view in maintainer.views.values() if view.is_additive]:
        source = view.initialize.references[0].relation
        parts = [part for name, part in changed if name == source and _is_kept(maintainer, view, part)]
        if not parts:
            continue
        tables = {maintainer.new_name(view.name, part): part for part in parts}
        queries = {table: _difference(maintainer, view, part) for table, part in tables.items()}
        new = next_part(maintainer, view) if is_eager and runs_jobs(maintainer.host) else None
        made = None if new is None else maintainer.part_query(view, new)
        rows = maintainer.create_all({**queries, **dict([made] if made is not None else [])})
        if new is not None:
            part = (EMPTY.segments, 0) if made is None else ((Segment(made[0]),), rows[made[0]])
            put_new_part(maintainer, view, new, Part(*part, maintainer.clock()))
        for table, number in tables.items():
            _share(maintainer, view, number, table, rows[table])


def _is_kept(maintainer: Maintainer, view: PartView, part: int) -> bool:
    """Some total has the part; only differences of totals are read: what is before all that are kept changes none."""
    progress = maintainer.catalogue.relations[view.name].progress
    return progress.next is not None and progress.kept is not None and progress.kept <= part < progress.next


def _difference(maintainer: Maintainer, view: PartView, part: int) -> str:
    """What a changed part of its source contributes to a running total, as a query."""
    host, query = maintainer.host, view.initialize
    source = maintainer.catalogue.relations[query.references[0].relation]
    before, after = maintainer.catalogue.changed_parts()[source.name, part] or EMPTY, source.part(part)
    sums = [column for column in view.columns if column.type.is_exact and column.name.startswith(SUMMED)]
    groups = [column for column in view.columns if column not in sums]
    selects: list[str] = []
    for each, other, sign in ((after, before, ""), (before, after, "-")):
        differing = [segment for segment in each.segments if segment not in other.segments]
        if differing or (sign and not selects):
            rows = union_of(host, source.columns, ((part, segment) for segment in differing))
            partial = maintainer.queries.render(query, lambda _, rows=rows: f"({rows})", "NULL")  # type: ignore[misc]
            shown = [host.quote(c.name) for c in groups] + [f"{sign}{host.quote(c.name)}" for c in sums]
            selects.append(f"SELECT {', '.join(shown)} FROM ({typed(host, view.columns, partial)}) AS one_side")
    summed = [f"SUM({host.quote(c.name)}) AS {host.quote(c.name)}" for c in sums]
    shown_sums = ", ".join([host.quote(c.name) for c in groups] + summed)
    sql = f"SELECT {shown_sums} FROM ({' UNION ALL '.join(selects)}) AS both_sides"
    if groups:
        sql += f" GROUP BY {column_list(host, groups)}"
    return typed(host, view.columns, sql)


def _share(maintainer: Maintainer, view: PartView, part: int, table: str, rows: int) -> None:
    """Makes a table a segment of all totals from a part on."""
    relation, now = maintainer.catalogue.relations[view.name], maintainer.clock()
    assert relation.progress.next is not None
    for number in range(part, relation.progress.next):
        known = relation.part(number)
        segments = (*known.segments, Segment(table))
        maintainer.catalogue.set_part(view.name, number, Part(segments, known.rows + rows, now))
