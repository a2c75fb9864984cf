"""Definitions of stream views (section 4.1): what is computed for part i of a view, and from which parts.

    view      ::= CREATE VIEW name AS
                  INITIALIZE name[i] [FROM time] AS query      the first part
                  UPDATE [VIEW] name[j] AS query               every later part
                  [PARTITION LENGTH seconds]
                  [, name AS INITIALIZE ... UPDATE ...]        a view that it reads and that reads it
    query     ::= any query of the host, over references and over tables without parts
    reference ::= relation[subscript [IF CLOSED]] | relation[subscript .. subscript [IF CLOSED]]

A `PartQuery` is SQL in DuckDB's dialect with a mark for every reference. A pattern or a window is a `PartView` too,
with helpers that are computed before it (section 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from viewlet.streams.matching.definition import MatchQuery
from viewlet.streams.subscripts import Subscript, evaluate, line, readers, to_text
from viewlet.types import Column, TimeParts

PART_TIMESTAMP = "part_timestamp"
"""The column that every stream view has besides its own: when the part of a row begins."""
MICROSECONDS = 1_000_000
BEGINNING = -(2**63)
"""The start of a view that is computed from the first part of what it reads, whenever it is declared."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The parts low..high of a relation, or a whole table without parts, which has no subscripts.

    A `provisional` reference reads those of the parts that are closed, and does not wait for the others: what was
    computed is computed again when they close.
    """

    relation: str
    low: Subscript | None = None
    high: Subscript | None = None
    provisional: bool = False

    @property
    def is_table(self) -> bool:
        return self.low is None

    def parts(self, index: int) -> range:
        """The parts that are read for part `index`."""
        assert self.low is not None
        assert self.high is not None
        return range(evaluate(self.low, index), evaluate(self.high, index) + 1)

    def read_by(self, part: int, within: range) -> list[int]:
        """The parts of a range whose query reads `part`."""
        assert self.low is not None
        assert self.high is not None
        return readers(self.low, self.high, part, within)

    def first_reader(self, part: int) -> int:
        """The first part whose query reads `part` or one after it."""
        assert self.high is not None
        found = line(self.high)
        index = math.floor((part - found.high) / found.rate)
        while evaluate(self.high, index) < part:
            index += 1
        return index

    def first_above(self, part: int) -> int:
        """The first part whose query reads nothing before `part`."""
        assert self.low is not None
        found = line(self.low)
        index = math.floor((part - found.high) / found.rate)
        while evaluate(self.low, index) < part:
            index += 1
        return index

    def __str__(self) -> str:
        return self.text("j")

    def text(self, index: str) -> str:
        """The reference as it is written with a name for the number of the part."""
        if self.low is None or self.high is None:
            return self.relation
        low, high = to_text(self.low, index), to_text(self.high, index)
        ending = " IF CLOSED" if self.provisional else ""
        return f"{self.relation}[{low if low == high else f'{low} .. {high}'}{ending}]"


@dataclass(frozen=True, slots=True)
class PartQuery:
    """A query for one part: `sql` has the mark of reference n where its rows are read."""

    sql: str
    references: tuple[Reference, ...]
    mark: str = "$part"
    index: str = field(default="j", repr=False, compare=False)
    """How the user calls the number of the part, for errors."""
    on_spark: str = field(default="", repr=False, compare=False)
    """The query in Spark's dialect, where that cannot be translated."""

    def marker(self, number: int) -> str:
        return f"{self.mark}{number}"

    @property
    def start_marker(self) -> str:
        """Stands for the start of the part that is computed."""
        return f"{self.mark}start"

    def text(self) -> str:
        """The query as a user would write it."""
        sql = self.sql
        for number, reference in reversed(list(enumerate(self.references))):
            sql = sql.replace(f'"{self.marker(number)}"', str(reference))
        return sql.replace(f'"{self.start_marker}"', PART_TIMESTAMP)


@dataclass(frozen=True, slots=True)
class FastPath:
    """Cheaper queries for parts; they are right if `check`, which reads their outcome too, counts its rows.

    Without a check they are always right.
    """

    initialize: PartQuery
    update: PartQuery
    check: PartQuery | None


@dataclass(frozen=True, slots=True)
class Native:
    """How a window over partial aggregates is merged in this process instead of by the host.

    `groups` and `merges`, by their functions, are the columns of the helper, of which `rows` counts the rows of a
    group; `query` is the view over merged rows, which stand in place of its reference 0.
    """

    groups: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    rows: str
    query: PartQuery


@dataclass(frozen=True, slots=True)
class PartView:
    """A view that is kept part by part. It is also the plan of its engine.

    `start` is the time (microseconds) from which a view is computed that is declared when there are parts already; None
    begins with the newest one, `BEGINNING` with the first. `form` names what the view was translated from, and
    `helpers` are computed before it.
    """

    name: str
    columns: tuple[Column, ...]
    parts: TimeParts
    initialize: PartQuery
    update: PartQuery
    start: int | None = None
    form: str = "view delta function"
    helpers: tuple[PartView, ...] = ()
    fallback: PartQuery | None = None
    """The query over its sources, for parts that its helpers do not reach; it decides what a late row touches."""
    quick: FastPath | None = None
    matching: MatchQuery | None = None
    """Its parts have the matches of a row pattern in its source, which `matching/` keeps."""
    partners: tuple[str, ...] = field(default=(), repr=False)
    """The views that are declared together with it, because they read each other."""
    family: tuple[PartView, ...] = field(default=(), repr=False, compare=False)
    """Their definitions."""
    native: Native | None = field(default=None, repr=False)
    elsewhere: PartView | None = field(default=None, repr=False)
    """The same view for hosts outside this process, where `native` is of no use."""
    statement: str = field(default="", repr=False, compare=False)
    """What the user has declared it with; a helper has none."""
    is_additive: bool = False
    """Every part is the part before plus what INITIALIZE makes of its source: rows of the same group add up."""

    @property
    def length(self) -> int:
        return self.parts.length

    @property
    def strategy(self) -> str:
        return self.form

    def references(self) -> tuple[Reference, ...]:
        """All references to parts, each once."""
        found = (*self.initialize.references, *self.update.references)
        return tuple(dict.fromkeys(each for each in found if not each.is_table))

    def tables(self) -> tuple[str, ...]:
        """The tables without parts that it reads."""
        found = (*self.initialize.references, *self.update.references)
        return tuple(dict.fromkeys(each.relation for each in found if each.is_table))

    def query(self, is_first: bool) -> PartQuery:
        return self.initialize if is_first else self.update

    def followed(self, is_first: bool) -> tuple[Reference, ...]:
        """The references through which a late row touches a part."""
        return (self.fallback or self.query(is_first)).references

    @property
    def reads_itself(self) -> bool:
        return any(each.relation == self.name for each in self.references())


def part_of(time: int, length: int) -> int:
    """The part that a time in microseconds belongs to."""
    return time // (length * MICROSECONDS)


def start_of(part: int, length: int) -> int:
    """When a part begins, in microseconds."""
    return part * length * MICROSECONDS


def reach(reference: Reference, length: int, source_length: int) -> int:
    """How many seconds before the end of its own part a query reads, at most."""
    assert reference.low is not None
    found = line(reference.low)
    return math.ceil(length - source_length * found.low)


def lead(reference: Reference, length: int, source_length: int) -> Fraction:
    """How many seconds the last part that is read ends after the part that is computed; negative if before."""
    assert reference.high is not None
    return source_length * (line(reference.high).high + 1) - length
