"""Views whose parts an earlier version has made, by other queries: their parts stay, their helpers are made again.

A host knows the definition of a relation by the digest of its queries, and a view by its statement too. Where the
statement is the same and the queries are not, the parts of the view are as good as before; what its helpers have may
be something else. So helpers are computed again, from the first part that their sources still have.

A run that began before the first part that its stream still has begins with that one.
"""

from __future__ import annotations

import hashlib

from viewlet.changes.staged_change import PART_COLUMN
from viewlet.streams.catalogue import Part, PartRelation, Segment
from viewlet.streams.definition import PartView
from viewlet.streams.maintainer import Maintainer
from viewlet.streams.render import typed


def statement_digest(view: PartView) -> str | None:
    """What a host knows the statement of a view by; None for helpers, which have none."""
    if not view.statement:
        return None
    return hashlib.sha256(repr((view.statement, view.name, view.length)).encode()).hexdigest()


def search_again(maintainer: Maintainer, view: PartView) -> None:
    """Lets the matches of a view be searched for again, in the parts that its source still has."""
    progress = maintainer.catalogue.relations[view.name].progress
    low, _ = maintainer.bounds(view)
    if progress.first is not None and low is not None:
        maintainer.catalogue.set_progress(view.name, next=max(low, progress.first))


def name_columns(maintainer: Maintainer, relation: PartRelation) -> None:
    """Gives the tables of parts the names of the columns, which are the same in their order."""
    host, parts = maintainer.host, [number for number, part in relation.stored.items() if part.segments]
    if not parts:
        return
    source = host.source(relation.part(parts[0]).segments[0].table)
    names = {name.lower() for name in host.read(f"SELECT * FROM {source} WHERE 1 = 0").column_names}
    if all(column.name.lower() in names for column in relation.columns):
        return
    for number in parts:
        part, table = relation.part(number), maintainer.new_name(relation.name, number)
        rows = " UNION ALL ".join(_all_columns(maintainer, number, segment) for segment in part.segments)
        maintainer.create(table, typed(host, relation.columns, rows))
        maintainer.catalogue.set_part(relation.name, number, Part((Segment(table),), part.rows, part.updated))


def _all_columns(maintainer: Maintainer, number: int, segment: Segment) -> str:
    host = maintainer.host
    where = f" WHERE {host.quote(PART_COLUMN)} = {number}" if segment.rolled else ""
    return f"SELECT * FROM {host.source(segment.table)}{where}"
