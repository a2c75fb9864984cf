"""The search for matches in the rows of a group: from every row where a match may begin, the first in preferment.

An attempt looks at rows up to its *reach*. What it decides does not change with rows beyond, so that the search can
resume, once rows have come or changed, at the first attempt that reached them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from viewlet.errors import DataError
from viewlet.streams.matching.conditions import Bindings, Evaluator, compile_condition
from viewlet.streams.matching.definition import MatchQuery, RowTest
from viewlet.streams.matching.row_pattern import BIND, END, ENTER, JUMP, MATCH, PROGRESS, SPLIT, START


@dataclass(slots=True)
class Match:
    """A match: its first row, the variables of its rows, and its number in the group."""

    start: int
    labels: list[int]
    number: int


@dataclass(slots=True)
class Attempts:
    """What the search of a group has come to: matches, and the attempts that reached further than those before."""

    matches: list[Match] = field(default_factory=list)
    records: list[tuple[int, int, int]] = field(default_factory=list)
    """(reach, start, matches before) with reach growing."""
    next: int = 0
    """The row with which the search would continue, and the matches before it."""
    number: int = 0


class Search:
    """Looks for matches of a query in rows whose tests and times are given as columns."""

    def __init__(self, query: MatchQuery, tests: Sequence[Sequence[int]], times: Sequence[int], bound: Bindings):
        self._query = query
        self._steps = query.program.steps
        self._marks = [0] * query.program.marks
        self._times = times
        self._bound = bound
        self._conditions: list[Sequence[int] | Evaluator | None] = [
            None
            if each is None
            else tests[each.column]
            if isinstance(each, RowTest)
            else compile_condition(each, bound)
            for each in query.conditions
        ]
        self._has_context = any(callable(each) for each in self._conditions)

    def run(
        self,
        first: int,
        end: int,
        start: int,
        number: int,
        is_settled: Callable[[int, int, int], bool] | None = None,
    ) -> Attempts:
        """Searches the rows first..end-1 of a group from row `start` on, with so many matches before it.

        `is_settled` is asked at every attempt that reaches further than those before, with its reach, its start and
        the matches before it; the search ends where it says so.
        """
        found, furthest = Attempts(next=start, number=number), -1
        self._bound.first, self._bound.end = first, end
        while found.next < end:
            row = found.next
            labels, reach = self._attempt(row, found.number + 1)
            if labels is not None:
                reach = max(reach, row + len(labels) - 1 + self._query.lookahead)
            if reach > furthest:
                furthest = reach
                if is_settled is not None and is_settled(reach, row, found.number):
                    break
                found.records.append((reach, row, found.number))
            if labels is None:
                found.next = row + 1
                continue
            found.number += 1
            found.matches.append(Match(row, labels, found.number))
            found.next = self._after(row, labels)
        return found

    def _after(self, start: int, labels: list[int]) -> int:
        """The row with which the search continues after a match."""
        skip = self._query.skip
        if not labels:
            return start + 1
        if not skip.variables:
            return start + len(labels) if skip.is_past_last else start + 1
        places = [at for at, label in enumerate(labels) if label in skip.variables]
        names = ", ".join(self._query.variables[each] for each in skip.variables)
        if not places:
            raise DataError(
                f"AFTER MATCH SKIP TO {names}: a match has no row of it; skip to a variable that always has"
            )
        place = places[0] if skip.is_first else places[-1]
        if place == 0:
            raise DataError(
                f"AFTER MATCH SKIP TO {names}: that is the first row of a match, which would be found again"
            )
        return start + place

    def _attempt(self, start: int, number: int) -> tuple[list[int] | None, int]:
        """The variables of the rows of the preferred match from a row on, and the furthest row looked at."""
        bound, steps, end, ahead = self._bound, self._steps, self._bound.end, self._query.lookahead
        bound.begin(start, number)
        bound.reach = start
        limit = None if self._query.within is None else self._times[start] + self._query.within
        tried: set[int] | None = None if self._has_context or self._marks else set()
        todo: list[tuple[int, int, tuple[int, ...]]] = []
        at, row = 0, start
        while True:
            operation, first, second = steps[at]
            goes_on = True
            if operation == BIND:
                bound.reach = max(bound.reach, row + ahead)
                goes_on = row < end and (limit is None or self._times[row] <= limit) and self._bind(first, row)
                at, row = at + 1, row + 1
            elif operation == SPLIT:
                todo.append((second, row, tuple(self._marks)))
                at = first
            elif operation == JUMP:
                at = first
            elif operation == MATCH:
                return bound.labels, bound.reach
            elif operation == START:
                goes_on, at = row == bound.first, at + 1
            elif operation == END:
                bound.reach = max(bound.reach, row)
                goes_on, at = row == end, at + 1
            elif operation == ENTER:
                self._marks[first] = row
                at += 1
            else:
                assert operation == PROGRESS
                goes_on, at = row > self._marks[first], at + 1
            if goes_on:
                continue
            back = self._back(todo, tried)
            if back is None:
                return None, bound.reach
            at, row = back
            bound.cut(row - start)

    def _back(self, todo: list[tuple[int, int, tuple[int, ...]]], tried: set[int] | None) -> tuple[int, int] | None:
        """The alternative that was put aside last; where conditions read rows alone, none that failed before."""
        while todo:
            at, row, marks = todo.pop()
            if tried is not None:
                state = row * len(self._steps) + at
                if state in tried:
                    continue
                tried.add(state)
            self._marks[:] = marks
            return at, row
        return None

    def _bind(self, variable: int, row: int) -> bool:
        """Binds a row to a variable if its condition is true."""
        condition, bound = self._conditions[variable], self._bound
        if condition is None:
            bound.push(variable, row)
            return True
        if not callable(condition):
            if condition[row]:
                bound.push(variable, row)
                return True
            return False
        bound.push(variable, row)
        if condition(bound, row):
            return True
        bound.cut(len(bound.labels) - 1)
        return False
