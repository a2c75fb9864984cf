"""Old parts rolled up into larger tables (section 4.1): they stay parts, with their stamps, told apart by a column.

packets[120] .. packets[179]  ──►  one table with the rows of all, and their part in a hidden column
"""

from __future__ import annotations

from viewlet.changes.staged_change import PART_COLUMN
from viewlet.streams.catalogue import Part, PartRelation, Segment
from viewlet.streams.definition import MICROSECONDS, part_of
from viewlet.streams.maintainer import Maintainer
from viewlet.streams.render import column_list, union_of


def roll_up(maintainer: Maintainer, relation: PartRelation, watermark: int) -> None:
    """Rolls up the parts of every block of time that ended long enough ago."""
    length, after = relation.parts.roll_up_length, relation.parts.roll_up_after
    if length is None:
        return
    width = length // relation.length
    end = part_of(watermark - after * MICROSECONDS, length)
    blocks = sorted({number // width for number, part in relation.stored.items() if not _is_rolled(part)})
    for block in blocks:
        if block < end:
            _roll_up_block(maintainer, relation, range(block * width, (block + 1) * width))


def _is_rolled(part: Part) -> bool:
    return not part.segments or (len(part.segments) == 1 and part.segments[0].rolled)


def _roll_up_block(maintainer: Maintainer, relation: PartRelation, numbers: range) -> None:
    host = maintainer.host
    parts = [(number, relation.stored[number]) for number in numbers if number in relation.stored]
    filled = [(number, part) for number, part in parts if part.segments]
    names, hidden = column_list(host, relation.columns), host.quote(PART_COLUMN)
    selects = []
    for number, part in filled:
        rows = union_of(host, relation.columns, ((number, segment) for segment in part.segments))
        selects.append(f"SELECT {names}, CAST({number} AS BIGINT) AS {hidden} FROM ({rows}) AS part")
    table = maintainer.new_name(relation.name, numbers.start)
    maintainer.create(table, " UNION ALL ".join(selects))
    for number, part in filled:
        maintainer.catalogue.set_part(
            relation.name, number, Part((Segment(table, rolled=True),), part.rows, part.updated)
        )
