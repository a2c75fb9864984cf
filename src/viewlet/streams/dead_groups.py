"""Groups of running totals that no retained part has a row of (section 5.2.2).

A running total never forgets a group by itself. A group is dead when the newest total counts as many rows of it as
the oldest one that is kept. It leaves all parts in one commit: if only one of two totals had it, their difference
would be wrong.
"""

from __future__ import annotations

from viewlet.streams.catalogue import Part, PartRelation, Segment
from viewlet.streams.maintainer import Maintainer
from viewlet.streams.null_safe import same_values
from viewlet.streams.render import column_list, rows_of, typed
from viewlet.streams.running_totals import SUMMED

ROWS = f"{SUMMED}rows"
LOOK_EVERY = 8
"""Parts after which dead groups are looked for."""
WORTH_DROPPING = 0.5
"""The share of dead groups from which on all parts are written again."""


def drop_dead_groups(maintainer: Maintainer, relation: PartRelation) -> None:
    """Writes the parts of a running total again without its dead groups, if these are many."""
    host, progress = maintainer.host, relation.progress
    if progress.next is None or progress.kept is None or progress.next % LOOK_EVERY:
        return
    groups = [column for column in relation.columns if not column.name.startswith(SUMMED)]
    if not groups or progress.kept >= progress.next - 1:
        return
    names = column_list(host, groups)
    newest = rows_of(host, relation, [progress.next - 1])
    oldest = rows_of(host, relation, [progress.kept])
    rows = host.quote(ROWS)
    both = f"SELECT {names}, {rows} FROM {newest} AS now UNION ALL SELECT {names}, -{rows} FROM {oldest} AS before"
    live = maintainer.new_name(relation.name, progress.next)
    found = f"SELECT {names} FROM ({both}) AS both_sides GROUP BY {names} HAVING SUM({rows}) <> 0"
    alive = maintainer.create(live, found)
    stored = relation.part(progress.next - 1).rows
    if alive > (1 - WORTH_DROPPING) * stored:
        return
    sums = [column for column in relation.columns if column not in groups]
    shown = ", ".join([f"rows_.{host.quote(c.name)}" for c in groups] + [f"SUM({host.quote(c.name)})" for c in sums])
    same = " AND ".join(
        same_values(host.dialect, f"rows_.{host.quote(c.name)}", f"live.{host.quote(c.name)}", c.type) for c in groups
    )
    by = ", ".join(f"rows_.{host.quote(c.name)}" for c in groups)
    for number in list(relation.stored):
        part = relation.part(number)
        source = rows_of(host, relation, [number])
        table = maintainer.new_name(relation.name, number)
        query = f"SELECT {shown} FROM {source} AS rows_ JOIN {host.source(live)} AS live ON {same} GROUP BY {by}"
        left = maintainer.create(table, typed(host, relation.columns, query))
        maintainer.catalogue.set_part(relation.name, number, Part((Segment(table),), left, part.updated))
