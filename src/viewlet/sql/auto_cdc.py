"""AUTO CDC: the newest state of each key, or its whole history, of a table of changes, in whatever order they come.

    CREATE MATERIALIZED VIEW customers AS AUTO CDC FROM changes KEYS (id)
        APPLY AS DELETE WHEN op = 'D' SEQUENCE BY at COLUMNS * EXCEPT (op) STORED AS SCD TYPE 2

    SELECT c.id, c.name, c.at AS "__start_at",
           (SELECT MIN(later.at) FROM changes AS later WHERE later.id = c.id AND later.at > c.at) AS "__end_at"
    FROM changes AS c WHERE NOT COALESCE(op = 'D', FALSE)

The clauses are those of Spark's pipelines. The statement becomes a query, so a change that comes late, or is taken
back, moves the ends of its neighbours, and of no other key. Changes must be told apart by their key and their place in
the sequence: the table has to say so, by a PRIMARY KEY or UNIQUE over columns that are NOT NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.errors import SqlError
from viewlet.sql.scope import unknown
from viewlet.sql.source import quoted
from viewlet.sql.split import RawStatement, identifier, split_statements
from viewlet.types import Table, TableKind

START, END = "__start_at", "__end_at"
_CLAUSES = (
    ("KEYS",),
    ("IGNORE", "NULL", "UPDATES"),
    ("APPLY", "AS", "DELETE", "WHEN"),
    ("APPLY", "AS", "TRUNCATE", "WHEN"),
    ("SEQUENCE", "BY"),
    ("COLUMNS",),
    ("STORED", "AS"),
    ("TRACK", "HISTORY", "ON"),
)
_NEEDED = "AUTO CDC FROM table KEYS (column, ...) SEQUENCE BY column is expected"


def as_query(raw: RawStatement, catalog: Mapping[str, Table]) -> RawStatement | None:
    """A view by AUTO CDC FROM, or APPLY CHANGES FROM, as a view by a query; None for other statements."""
    begin = _begin(raw)
    if begin is None:
        return None
    parts = _cut(raw, begin + 3)
    flow = _Flow.read(raw, parts, catalog)
    head = raw.text[: raw.positions[begin][0]]
    (made,) = split_statements(head + flow.query())
    return made


def _begin(raw: RawStatement) -> int | None:
    """Where the clauses begin."""
    words = raw.words
    if words[0] != "CREATE" or ("CDC" not in words and "CHANGES" not in words):
        return None
    for at in range(len(words) - 3):
        if words[at : at + 4] in (("AS", "AUTO", "CDC", "FROM"), ("AS", "APPLY", "CHANGES", "FROM")):
            return at + 1
    return None


@dataclass(frozen=True, slots=True)
class _Part:
    """A clause: its words, without those that name it, and where they are."""

    first: int
    end: int


def _cut(raw: RawStatement, begin: int) -> dict[str, _Part]:
    """The clauses by their names; the table comes first, without one."""
    places: list[tuple[int, str, int]] = [(begin, "", begin)]
    depth = 0
    for at in range(begin, len(raw.words)):
        depth += {"(": 1, ")": -1}.get(raw.words[at], 0)
        found = (names for names in _CLAUSES if depth == 0 and raw.words[at : at + len(names)] == names)
        places.extend((at, " ".join(names), at + len(names)) for names in found)
    ends = [*(at for at, _, _ in places[1:]), len(raw.words)]
    parts: dict[str, _Part] = {}
    for (at, name, first), end in zip(places, ends, strict=True):
        if name in parts:
            raise raw.source.error_at(f"{name} is given twice", *raw.positions[at])
        parts[name] = _Part(first, end)
    return parts


@dataclass(frozen=True, slots=True)
class _Flow:
    """What the clauses say."""

    table: Table
    keys: tuple[str, ...]
    sequence: str
    columns: tuple[str, ...]
    deleted: str
    """The condition of a delete, or nothing."""
    has_history: bool

    @classmethod
    def read(cls, raw: RawStatement, parts: Mapping[str, _Part], catalog: Mapping[str, Table]) -> _Flow:
        reader = _Reader(raw, parts, catalog)
        table = reader.table()
        for name in ("IGNORE NULL UPDATES", "APPLY AS TRUNCATE WHEN", "TRACK HISTORY ON"):
            if name in parts:
                raise raw.source.unsupported(f"AUTO CDC with {name}", None)
        if "KEYS" not in parts or "SEQUENCE BY" not in parts:
            raise raw.source.error(_NEEDED)
        keys = reader.names("KEYS", table)
        (sequence, *others) = reader.names("SEQUENCE BY", table)
        if others:
            raise raw.source.unsupported("SEQUENCE BY of several columns", None)
        has_history = reader.has_history()
        _check_told_apart(raw, table, keys, sequence)
        return cls(table, keys, sequence, reader.columns(table), reader.text("APPLY AS DELETE WHEN"), has_history)

    def query(self) -> str:
        name = quoted(self.table.name)
        at, equal = quoted(self.sequence), " AND ".join(f"later.{quoted(key)} = c.{quoted(key)}" for key in self.keys)
        shown = ", ".join(f"c.{quoted(column)}" for column in self.columns)
        kept = f" AND NOT COALESCE(({self.deleted}), FALSE)" if self.deleted else ""
        if not self.has_history:
            newest = f"(SELECT MAX(later.{at}) FROM {name} AS later WHERE {equal})"
            return f"SELECT {shown} FROM {name} AS c WHERE c.{at} = {newest}{kept}"
        end = f"(SELECT MIN(later.{at}) FROM {name} AS later WHERE {equal} AND later.{at} > c.{at})"
        return f"SELECT {shown}, c.{at} AS {quoted(START)}, {end} AS {quoted(END)} FROM {name} AS c WHERE TRUE{kept}"


class _Reader:
    """Reads what stands in the clauses."""

    def __init__(self, raw: RawStatement, parts: Mapping[str, _Part], catalog: Mapping[str, Table]) -> None:
        self._raw, self._parts, self._catalog = raw, parts, catalog

    def table(self) -> Table:
        """The table of changes: its name, or STREAM(name) as pipelines write it."""
        part, words = self._parts[""], self._raw.words
        at = part.first
        if words[at : at + 2] == ("STREAM", "(") and part.end == at + 4:
            at += 2
        elif part.end != at + 1:
            raise self._raw.source.error(_NEEDED)
        name = identifier(self._raw.words[at])
        if name not in self._catalog:
            raise self._error(unknown("table", name, self._catalog), at)
        return self._catalog[name]

    def names(self, clause: str, table: Table) -> tuple[str, ...]:
        return self._list(clause, self._parts[clause], table)

    def _list(self, clause: str, part: _Part, table: Table) -> tuple[str, ...]:
        """The columns of a list in parentheses, or a single one without them."""
        words, first, end = self._raw.words, part.first, part.end
        if first < end and words[first] == "(" and words[end - 1] == ")":
            first, end = first + 1, end - 1
        if end <= first or set(words[first + 1 : end : 2]) - {","} or (end - first) % 2 == 0:
            raise self._raw.source.error(f"{clause} takes columns: {clause} (a, b)")
        found = [identifier(self._raw.words[at]) for at in range(first, end, 2)]
        for place, name in enumerate(found):
            if name not in table.column_names:
                raise self._error(unknown("column", name, table.column_names), first + 2 * place)
        return tuple(dict.fromkeys(found))

    def columns(self, table: Table) -> tuple[str, ...]:
        part = self._parts.get("COLUMNS")
        if part is None:
            return table.column_names
        if self._raw.words[part.first : part.first + 2] in (("*", "EXCEPT"), ("*", "EXCLUDE")):
            without = self._list("COLUMNS", _Part(part.first + 2, part.end), table)
            return tuple(name for name in table.column_names if name not in without)
        return self._list("COLUMNS", part, table)

    def text(self, clause: str) -> str:
        part = self._parts.get(clause)
        if part is None:
            return ""
        if part.first == part.end:
            raise self._raw.source.error(f"{clause} takes a condition")
        return self._raw.text[self._raw.positions[part.first][0] : self._raw.positions[part.end - 1][1]]

    def has_history(self) -> bool:
        part = self._parts.get("STORED AS")
        match () if part is None else self._raw.words[part.first : part.end]:
            case () | ("SCD", "TYPE", "1"):
                return False
            case ("SCD", "TYPE", "2"):
                return True
            case _:
                raise self._raw.source.error("STORED AS SCD TYPE 1 or STORED AS SCD TYPE 2 is expected")

    def _error(self, message: str, at: int) -> SqlError:
        return self._raw.source.error_at(message, *self._raw.positions[at])


def _check_told_apart(raw: RawStatement, table: Table, keys: tuple[str, ...], sequence: str) -> None:
    """Two changes of one key have different places in the sequence, and every change has both."""
    wanted = {*keys, sequence}
    unique = [set(table.primary_key), *(set(columns) for _, columns in table.unique)]
    nullable = [column.name for column in table.columns if column.name in wanted and column.type.nullable]
    if table.kind is TableKind.STREAM or nullable or not any(each and each <= wanted for each in unique):
        listed = ", ".join((*keys, sequence))
        raise raw.source.error(
            f"AUTO CDC needs a table whose changes are told apart by {listed}: declare PRIMARY KEY ({listed}) of "
            f"'{table.name}', or UNIQUE ({listed}) and NOT NULL"
        )
