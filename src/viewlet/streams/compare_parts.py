"""Whether a part that was computed again came out as it was (section 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from viewlet.streams.catalogue import Part, PartRelation
from viewlet.streams.host import JobHost, runs_jobs
from viewlet.streams.render import union_of

if TYPE_CHECKING:
    from viewlet.streams.maintainer import Maintainer

COMPARED_HERE = 1_000_000
"""Rows up to which parts of a host of jobs are read and compared in this process."""


def are_equal(maintainer: Maintainer, relation: PartRelation, number: int, before: Part, after: Part) -> bool:
    """Both have the same rows."""
    if before.rows != after.rows:
        return False
    if not before.rows:
        return True
    host = maintainer.host
    if runs_jobs(host) and before.rows <= COMPARED_HERE and not _is_rolled(before, after):
        return _are_equal_here(*(_scanned(host, relation, part) for part in (before, after)))
    old, new = (
        union_of(host, relation.columns, ((number, segment) for segment in part.segments)) for part in (before, after)
    )
    differing = host.read(f"SELECT COUNT(*) AS n FROM (({old}) EXCEPT ALL ({new})) AS differing")
    return bool(differing.column(0)[0].as_py() == 0)


def _is_rolled(*parts: Part) -> bool:
    return any(segment.rolled for part in parts for segment in part.segments)


def _scanned(host: JobHost, relation: PartRelation, part: Part) -> Any:
    import pyarrow as pa

    names = [column.name for column in relation.columns]
    return pa.concat_tables([host.scan(segment.table, names) for segment in part.segments])


def _are_equal_here(old: Any, new: Any) -> bool:
    from viewlet.streams.duckdb_host import open_parts

    with open_parts() as connection:
        connection.register("old_rows", old)
        connection.register("new_rows", new)
        found = connection.execute("SELECT 1 FROM (FROM old_rows EXCEPT ALL FROM new_rows) LIMIT 1").fetchone()
    return found is None
