"""What matches show: terms are resolved to rows, and SQL computes the measures from their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.streams.matching.definition import (
    START_INDEX,
    START_PART,
    Aggregate,
    MatchNumber,
    MatchQuery,
    Navigation,
    Term,
)
from viewlet.streams.matching.queries import aggregate_sql, quoted
from viewlet.streams.matching.rows import Calculator, GroupRows, Integers
from viewlet.streams.matching.search import Match

LAST_PART = "viewlet_last_part"
NO_VARIABLE = -1
"""The label of the row at which an empty match was found."""


@dataclass(slots=True)
class Bound:
    """The rows of matches, one after another: the match of each, the row, and its variable."""

    matches: Integers
    rows: Integers
    labels: Integers
    starts: Integers
    """Where the rows of every match begin, and the end of all."""
    groups: Integers
    """The group of every match."""
    numbers: Integers

    @property
    def lasts(self) -> npt.NDArray[np.bool_]:
        """Whether a row is the last one of its match."""
        last = np.zeros(len(self.rows), bool)
        last[self.starts[1:] - 1] = True
        return last


def bind_rows(found: Sequence[tuple[int, Match]]) -> Bound:
    """The rows of matches, given with their groups; an empty match has the row at which it was found."""
    lengths = np.array([max(1, len(each.labels)) for _, each in found], np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    labels = [label for _, each in found for label in (each.labels or [NO_VARIABLE])]
    firsts = np.array([each.start for _, each in found], np.int64)
    matches = np.repeat(np.arange(len(found)), lengths)
    rows = np.arange(starts[-1]) - starts[matches] + firsts[matches] if len(found) else np.zeros(0, np.int64)
    return Bound(
        matches,
        rows.astype(np.int64),
        np.array(labels, np.int64),
        starts,
        np.array([group for group, _ in found], np.int64),
        np.array([each.number for _, each in found], np.int64),
    )


def measure(query: MatchQuery, calculator: Calculator, rows: GroupRows, bound: Bound) -> Any:
    """The rows that matches show, with the row they begin with and the part of their last row."""
    import pyarrow as pa

    firsts, lasts = bound.rows[bound.starts[:-1]], bound.rows[bound.starts[1:] - 1]
    table = rows.table.take(bound.rows)
    added: dict[str, Any] = {
        "match_": pa.array(bound.matches),
        "step_": pa.array(np.arange(len(bound.rows))),
        "label_": pa.array(bound.labels),
        "last_": pa.array(bound.lasts),
        START_PART: pa.array(rows.parts[firsts][bound.matches]),
        START_INDEX: pa.array(rows.places[firsts][bound.matches]),
        LAST_PART: pa.array(rows.parts[lasts][bound.matches]),
    }
    for number, term in enumerate(query.terms):
        if not isinstance(term, Aggregate):
            added[f"t{number}"] = _resolve(term, query, rows, bound)
    for name, column in added.items():
        table = table.append_column(name, column)
    return calculator.run(measures_sql(query), bound_=table)


def measures_sql(query: MatchQuery) -> str:
    """The query for what matches show, over their rows with resolved terms."""
    totals = [
        f"{aggregate_sql(term)} AS t{number}" for number, term in enumerate(query.terms) if isinstance(term, Aggregate)
    ]
    names = [quoted(column.name) for column in query.shown]
    casts = [f"CAST({name} AS {column.type}) AS {name}" for name, column in zip(names, query.shown, strict=True)]
    hidden = [START_PART, START_INDEX, LAST_PART]
    inner = f"SELECT {', '.join(['*', *totals])} FROM bound_"
    tests = [] if query.all_rows else ["last_"]
    if query.omits_empty:
        tests.append(f"label_ <> {NO_VARIABLE}")
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    computed = f"SELECT {', '.join([query.measures, *hidden])} FROM ({inner}) AS terms{where}"
    return f"SELECT {', '.join([*casts, *hidden])} FROM ({computed}) AS computed({', '.join([*names, *hidden])})"


def _resolve(term: Term, query: MatchQuery, rows: GroupRows, bound: Bound) -> Any:
    """The values of a term for every row of the matches."""
    import pyarrow as pa

    if isinstance(term, MatchNumber):
        return pa.array(bound.numbers[bound.matches])
    assert isinstance(term, Navigation)
    at = _navigate(term, bound)
    if term.column is None:
        return _classifiers(term, query, bound, at)
    known = at >= 0
    target = np.where(known, bound.rows[np.maximum(at, 0)] + term.physical, -1)
    group = bound.groups[bound.matches]
    known &= (target >= rows.bounds[group]) & (target < rows.bounds[group + 1])
    return rows.table.column(f"v{term.column}").take(pa.array(target, mask=~known))


def _navigate(term: Navigation, bound: Bound) -> Integers:
    """For every row, where the row stands that the term begins at; -1 if there is none."""
    is_member = np.isin(bound.labels, term.variables)
    places = np.flatnonzero(is_member)
    counts = np.concatenate([[0], np.cumsum(is_member)])
    before = counts[bound.starts[bound.matches]]
    so_far = counts[bound.starts[bound.matches + 1]] if term.is_final else counts[1:]
    wanted = np.full(len(before), term.offset) if term.is_first else so_far - before - 1 - term.offset
    is_there = (wanted >= 0) & (wanted < so_far - before)
    found = np.full(len(before), -1, np.int64)
    found[is_there] = places[(before + wanted)[is_there]]
    return found


def _classifiers(term: Navigation, query: MatchQuery, bound: Bound, at: Integers) -> Any:
    """The variables of rows; those outside of the match have none."""
    import pyarrow as pa

    target = at + term.physical
    known = (at >= 0) & (target >= bound.starts[bound.matches]) & (target < bound.starts[bound.matches + 1])
    labels = np.where(known, bound.labels[np.clip(target, 0, len(bound.labels) - 1)], NO_VARIABLE)
    names = pa.array(query.variables)
    return names.take(pa.array(labels, mask=labels < 0))
