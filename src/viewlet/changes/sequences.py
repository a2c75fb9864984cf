"""Sequences: numbers that are given once, to rows that do not say what is in a column, and to statements.

CREATE SEQUENCE s;  SELECT nextval('s')   ->   1;   and s continues after 1

DuckDB computes the values in SQL: a query is lent the sequences that it names, and what it took of them is noted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from viewlet.duckdb_access import open_duckdb
from viewlet.errors import DataError, SchemaError
from viewlet.types import Table

_CALL = re.compile(r"\b(?:nextval|currval)\s*\(\s*'((?:[^']|'')*)'", re.IGNORECASE)
_WORD = re.compile(r"\b(?:nextval|currval)\b", re.IGNORECASE)
_CATALOGUE = "SELECT sequence_name, start_value, min_value, max_value, increment_by, cycle FROM duckdb_sequences()"


@dataclass(frozen=True, slots=True)
class NumberSequence:
    """A sequence, with the `last` value that it gave; an `implied` one goes with the column that takes its values."""

    name: str
    start: int
    low: int
    high: int
    increment: int
    cycle: bool
    implied: bool = False
    last: int | None = None

    def put_into(self, connection: Any) -> None:
        """Makes it in DuckDB, where it continues after the last value."""
        begin = self.start if self.last is None else self.last
        connection.execute(
            f"CREATE SEQUENCE {self._quoted} INCREMENT BY {self.increment} MINVALUE {self.low} MAXVALUE {self.high}"
            f" START WITH {begin} {'CYCLE' if self.cycle else 'NO CYCLE'}"
        )
        if self.last is not None:
            connection.execute(f"SELECT {self.call}").fetchall()

    def taken_from(self, connection: Any) -> NumberSequence:
        """The sequence after what DuckDB took of it."""
        query = "SELECT last_value FROM system.main.duckdb_sequences() WHERE sequence_name = ?"
        ((last,),) = connection.execute(query, [self.name]).fetchall()
        return replace(self, last=last)

    def remove_from(self, connection: Any) -> None:
        connection.execute(f"DROP SEQUENCE IF EXISTS {self._quoted}")

    def facts(self) -> dict[str, Any]:
        """It, as a record of a log."""
        return asdict(self)

    @property
    def call(self) -> str:
        """What takes the next value."""
        return f"nextval('{self._quoted.replace(chr(39), chr(39) * 2)}')"

    @property
    def _quoted(self) -> str:
        return '"' + self.name.replace('"', '""') + '"'


@dataclass(slots=True)
class Sequences:
    """The sequences of a database; their names are equal in any case."""

    known: dict[str, NumberSequence] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    """Those that have given values which nothing outside the process knows of."""

    def put(self, sequence: NumberSequence) -> None:
        self.known[sequence.name.casefold()] = sequence

    def drop(self, name: str) -> None:
        self.known.pop(name.casefold(), None)
        self.moved.discard(name.casefold())

    def find(self, name: str) -> NumberSequence | None:
        return self.known.get(name.casefold())

    def free_name(self, name: str) -> str:
        """A name like this one that no sequence has."""
        number, made = 1, name
        while self.find(made) is not None:
            number, made = number + 1, f"{name}{number}"
        return made

    def take(self, name: str, count: int) -> list[Any]:
        """The next values of a sequence, as DuckDB would compute them."""
        each, values = self.known[name.casefold()], list[int]()
        value = each.last
        for _ in range(count):
            value = each.start if value is None else value + each.increment
            if not each.low <= value <= each.high:
                if not each.cycle:
                    bound = f"maximum value {each.high}" if each.increment > 0 else f"minimum value {each.low}"
                    raise DataError(f"sequence {each.name!r} has reached its {bound}")
                value = each.low if each.increment > 0 else each.high
            values.append(value)
        self._note(replace(each, last=value))
        return values

    def _note(self, after: NumberSequence) -> None:
        if after != self.known[after.name.casefold()]:
            self.moved.add(after.name.casefold())
            self.put(after)

    def sweep(self, tables: Iterable[Table]) -> None:
        """Forgets the implied sequences that no default of a column calls."""
        defaults = [column.default for table in tables for column in table.columns if column.default is not None]
        called = {name.casefold() for default in defaults for name in called_sequences(default)}
        for key in [key for key, each in self.known.items() if each.implied and key not in called]:
            self.drop(key)

    @contextmanager
    def lent(self, connection: Any, sql: str) -> Iterator[None]:
        """While it is open, DuckDB has the sequences that a query names; what it took of them is noted at the end."""
        lent = [self.known[name] for name in self._named(sql) if name in self.known]
        try:
            for each in lent:
                each.put_into(connection)
            yield
            for each in lent:
                self._note(each.taken_from(connection))
        finally:
            for each in lent:
                each.remove_from(connection)

    def _named(self, sql: str) -> Iterable[str]:
        """The sequences that a text may take values from: all, where a name is computed."""
        named = called_sequences(sql)
        return {name.casefold() for name in named} if len(named) == len(_WORD.findall(sql)) else tuple(self.known)

    def facts(self) -> list[dict[str, Any]]:
        """What a snapshot has of all sequences."""
        return [each.facts() for each in self.known.values()]

    def news(self) -> list[dict[str, Any]]:
        """What is to be noted of those that have given values."""
        return [self.known[name].facts() for name in sorted(self.moved)]

    def replay(self, known: dict[str, Any]) -> None:
        """Repeats what was noted of one."""
        if known.get("dropped"):
            self.drop(known["name"])
        else:
            self.put(NumberSequence(**known))


def calls_sequences(sql: str) -> bool:
    """Whether a text may take values from sequences."""
    return _WORD.search(sql) is not None


def called_sequences(sql: str) -> list[str]:
    """The names of the sequences that a text takes values from.

    >>> called_sequences("SELECT nextval('s') + CURRVAL('main.\\"odd s\\"')")
    ['s', 'odd s']
    """
    found = (text.replace("''", "'") for text in _CALL.findall(sql))
    names = (name.removeprefix("main.") for name in found)
    return [name[1:-1].replace('""', '"') if name[:1] == '"' else name for name in names]


def defined_sequence(statement: str, implied: bool = False) -> NumberSequence:
    """What CREATE SEQUENCE declares, as DuckDB reads it."""
    import duckdb

    with open_duckdb() as connection:
        try:
            (parsed,) = connection.extract_statements(statement)
            connection.execute(parsed)
            found = connection.execute(_CATALOGUE).fetchall()
        except (duckdb.Error, ValueError) as error:
            reason = str(error).splitlines()[0].partition(": ")[2]
            raise SchemaError(f"this sequence cannot be: {reason or 'one statement is expected'}") from None
    if len(found) != 1:
        raise SchemaError("CREATE SEQUENCE name is expected")
    name, start, low, high, increment, cycle = found[0]
    return NumberSequence(name, start, low, high, increment, cycle, implied)
