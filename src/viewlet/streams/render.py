"""References as SQL of a host: what stands in a query in place of `relation[subscript]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

from viewlet.changes.staged_change import PART_COLUMN
from viewlet.errors import DataError
from viewlet.streams.catalogue import PartRelation, Segment
from viewlet.streams.definition import PartQuery, Reference
from viewlet.streams.host import PartHost, is_partitioning, runs_jobs
from viewlet.types import TIMESTAMP, Column

NOTHING: Mapping[str, str] = MappingProxyType({})


def column_list(host: PartHost, columns: Sequence[Column]) -> str:
    return ", ".join(host.quote(column.name) for column in columns)


def read_parts(reference: Reference, source: PartRelation, number: int) -> Sequence[int]:
    """The parts with rows that a reference reads for part `number`; a provisional one reads what is closed."""
    parts = source.filled(reference.parts(number))
    return [part for part in parts if source.is_closed(part)] if reference.provisional else parts


def rows_of(host: PartHost, relation: PartRelation, numbers: Iterable[int]) -> str:
    """The rows of some parts, as what can stand behind FROM."""
    found = [(number, segment) for number in numbers for segment in relation.part(number).segments]
    if len(found) == 1 and not found[0][1].rolled and not is_partitioning(host):
        return host.source(found[0][1].table)
    return f"({union_of(host, relation.columns, found)})"


def union_of(host: PartHost, columns: Sequence[Column], segments: Iterable[tuple[int, Segment]]) -> str:
    """The rows of segments of parts, as a query."""
    names, found = column_list(host, columns), list(segments)
    selects: list[str] = []
    whole = [segment.table for _, segment in found if not segment.rolled]
    if runs_jobs(host) and 1 < len(whole) == len(set(whole)):
        selects.append(f"SELECT {names} FROM {host.source_of_all(whole)}")
        found = [each for each in found if each[1].rolled]
    for number, segment in found:
        where = f" WHERE {host.quote(PART_COLUMN)} = {number}" if segment.rolled else ""
        selects.append(f"SELECT {names} FROM {host.source(segment.table)}{where}")
    return " UNION ALL ".join(selects) or no_rows(host, columns)


def no_rows(host: PartHost, columns: Sequence[Column]) -> str:
    """A query without rows."""
    shown = (f"CAST(NULL AS {host.type_name(each.type)}) AS {host.quote(each.name)}" for each in columns)
    return f"SELECT {', '.join(shown)} WHERE 1 = 0"


def typed(host: PartHost, columns: Sequence[Column], query: str, wrap: Mapping[str, str] = NOTHING) -> str:
    """A query with the columns and types of a relation, by position; `wrap` has what surrounds some values."""
    shown = []
    for column in columns:
        name = host.quote(column.name)
        value = f"CAST({name} AS {host.type_name(column.type)})"
        shown.append(f"{wrap.get(column.name, '{0}').replace('{0}', value)} AS {name}")
    return f"SELECT {', '.join(shown)} FROM ({query}) AS computed({column_list(host, columns)})"


def start_literal(host: PartHost, number: int, length: int) -> str:
    """The start of a part, as SQL."""
    try:
        start = datetime(1970, 1, 1) + timedelta(seconds=number * length)
    except OverflowError:
        raise DataError(
            "a part begins before the year 1 or after the year 9999: delete the rows with such times"
        ) from None
    return f"{host.type_name(TIMESTAMP)} '{start.isoformat(' ', 'seconds')}'"


class Queries:
    """The queries of views in the dialect of a host, translated once."""

    def __init__(self, host: PartHost, relations: Mapping[str, PartRelation]) -> None:
        self._host, self._relations = host, relations
        self._translated: dict[PartQuery, tuple[str, re.Pattern[str]]] = {}

    def render(self, query: PartQuery, source: Callable[[int], str], start: str) -> str:
        """A query with `source(n)` in place of reference n, and `start` in place of the start of the part.

        All at once: what takes the place of one mark may have the text of another in a name.
        """
        if query not in self._translated:
            marks = "|".join((*map(str, range(len(query.references))), "start"))
            marked = re.escape(self._host.quote(f"{query.mark}%")).replace("%", f"({marks})")
            is_written = self._host.dialect == "spark" and query.on_spark
            sql = query.on_spark if is_written else self._translate(query)
            self._translated[query] = sql, re.compile(marked)
        sql, pattern = self._translated[query]
        return pattern.sub(lambda found: start if found[1] == "start" else source(int(found[1])), sql)

    def forget(self) -> None:
        """After a view was dropped: the queries of the others are translated again."""
        self._translated.clear()

    def _translate(self, query: PartQuery) -> str:
        """A query in the dialect of the host, without its comments."""
        if self._host.dialect == "duckdb":
            return query.sql
        from viewlet.streams.dialects import to_dialect

        columns = {
            query.marker(number): self._relations[each.relation].columns
            for number, each in enumerate(query.references)
            if each.relation in self._relations
        }
        return to_dialect(query.sql, self._host.dialect, columns)
