"""The SQL of row patterns, and the names that it uses; a statement is bound without NumPy."""

from __future__ import annotations

from viewlet.changes.staged_change import PART_COLUMN
from viewlet.streams.catalogue import PartRelation
from viewlet.streams.definition import MICROSECONDS, PART_TIMESTAMP, PartView
from viewlet.streams.matching.definition import Aggregate, MatchQuery
from viewlet.types import TimeParts


def rows_sql(query: MatchQuery) -> str:
    """The query that orders rows and computes what their conditions and measures read of them.

    Rows are numbered first: equal ones come in the same order in both windows then.
    """
    keys, part = ", ".join(map(quoted, query.keys)), quoted(PART_COLUMN)
    groups = f"{keys}, " if keys else ""
    numbered = ["*", f"ROW_NUMBER() OVER (PARTITION BY {groups}{part} ORDER BY {', '.join(query.order)}) - 1 AS place_"]
    numbered.append(f"{f'DENSE_RANK() OVER (ORDER BY {keys})' if keys else '1'} AS group_")
    rows = "rows_"
    if query.time == PART_TIMESTAMP:
        start = f"make_timestamp({part} * {query.length * MICROSECONDS})"
        rows = f"(SELECT *, {start} AS {PART_TIMESTAMP} FROM rows_) AS stamped"
    shown = ["*", f"epoch_us({quoted(query.time)}) AS time_"]
    shown += [f"COALESCE({sql}, FALSE) AS d{number}" for number, sql in enumerate(query.tests)]
    shown += [f"{sql} AS v{number}" for number, sql in enumerate(query.values)]
    return (
        f"SELECT {', '.join(shown)} FROM (SELECT {', '.join(numbered)} FROM {rows}) AS numbered "
        f"WINDOW near AS (PARTITION BY group_ ORDER BY {part}, place_) ORDER BY group_, {part}, place_"
    )


def aggregate_sql(term: Aggregate) -> str:
    argument = "*" if term.column is None else f"v{term.column}"
    labels = ", ".join(map(str, term.variables))
    frame = "" if term.is_final else " ORDER BY step_ ROWS UNBOUNDED PRECEDING"
    return f"{term.function}({argument}) FILTER (WHERE label_ IN ({labels})) OVER (PARTITION BY match_{frame})"


def points_name(view: str) -> str:
    """The relation of the points of a view."""
    return f"{view} points"


def points_of(view: PartView, query: MatchQuery) -> PartRelation:
    """The relation of the points at which the search of a view resumes."""
    from viewlet.streams.matching.points import point_columns

    parts = TimeParts(view.length, streams=view.parts.streams)
    return PartRelation(points_name(view.name), point_columns(query), parts, is_stream=False)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
