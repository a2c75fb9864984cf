"""What `MATCH_RECOGNIZE` asks for: SQL for what depends on rows alone, terms for what depends on a match.

    condition ::= RowTest(column)                       a Boolean that SQL computes for every row
                | Operation(name, operand ...)          over what follows
    operand   ::= condition | RowValue(column) | Constant(value) | term
    term      ::= Navigation | Aggregate | MatchNumber

The columns of tests and values are computed for all rows at once (`rows.py`); terms are resolved in a match.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.streams.matching.row_pattern import Program
from viewlet.types import Column

START_PART, START_INDEX = "viewlet_start_part", "viewlet_start_index"
"""Hidden columns of matches: the row that a match begins with, by its part and its place in the group there."""


@dataclass(frozen=True, slots=True)
class Navigation:
    """The value of a row: the first or last one bound to some variables, some of these rows on, then some rows on.

    `column` is None for the name of the variable that the row is bound to (CLASSIFIER).
    """

    column: int | None
    variables: tuple[int, ...]
    is_first: bool = False
    offset: int = 0
    physical: int = 0
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate of the rows bound to some variables; `column` is None for COUNT(*)."""

    function: str
    column: int | None
    variables: tuple[int, ...]
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class MatchNumber:
    """Which match of its group it is, from 1."""


Term = Navigation | Aggregate | MatchNumber


@dataclass(frozen=True, slots=True)
class RowTest:
    """A condition on a row and on rows at fixed distances of it."""

    column: int


@dataclass(frozen=True, slots=True)
class RowValue:
    """A value of the row that is tested."""

    column: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A value; it is kept with its type, because 1 and TRUE are equal in Python."""

    value: object
    type: str


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator or function of `conditions.py` over its operands."""

    name: str
    operands: tuple[Operand, ...]


Operand = Term | RowValue | Constant | Operation
Condition = RowTest | Operation | Term | None
"""None is TRUE."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Where the search continues after a match: past its last row, at the row after its first, or at a variable."""

    is_past_last: bool = True
    variables: tuple[int, ...] = ()
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class MatchQuery:
    """All of a `MATCH_RECOGNIZE` but the SELECT around it."""

    source: str
    columns: tuple[Column, ...]
    """Those of the source."""
    keys: tuple[str, ...]
    order: tuple[str, ...]
    """The order of rows in a part, as SQL; it ends with all columns, so that it is total."""
    time: str
    """The column of the time; that of a view is when a part begins."""
    length: int
    """Seconds of a part of the source."""
    variables: tuple[str, ...]
    program: Program
    conditions: tuple[Condition, ...]
    tests: tuple[str, ...]
    """Conditions on rows, as SQL; LAG and LEAD have the window `near`."""
    values: tuple[str, ...]
    """Values of rows that conditions and terms read, as SQL."""
    terms: tuple[Term, ...]
    """Terms of measures, in columns t0, t1, ..."""
    measures: str
    """The SELECT list of measures over those columns."""
    shown: tuple[Column, ...]
    """What a match shows: the columns of PARTITION BY and measures, and with ALL ROWS PER MATCH those of the source."""
    skip: Skip
    within: int | None = None
    lookback: int = 0
    """How many rows before a row its condition or a measure may read."""
    lookahead: int = 0
    all_rows: bool = False
    omits_empty: bool = False
    text: str = ""

    def counts_matches(self) -> bool:
        """Something depends on the numbers of matches."""
        return any(isinstance(each, MatchNumber) for each in self.terms) or "MatchNumber" in repr(self.conditions)
