"""A brute-force MATCH_RECOGNIZE: all ways to match a pattern, generated in the order of preferment.

python -m tests.streams.row_matcher --patterns 1000
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import viewlet
from tests.streams.model import Model, Row, at, part_number, random_batches, signed

Pattern = tuple[Any, ...]
"""("variable", name), ("sequence" or "choice", [pattern, ...]), ("repeat", pattern, least, most, is greedy), ("^",)"""


@dataclass
class Run:
    """Rows of a group, and the variables that some of them from `start` on are bound to."""

    rows: Sequence[Row]
    start: int
    labels: tuple[str, ...]
    number: int

    @property
    def here(self) -> int:
        return self.start + len(self.labels) - 1

    def x(self, row: int | None) -> Any:
        return self.rows[row][2] if row is not None and 0 <= row < len(self.rows) else None

    def of(self, name: str = "") -> list[int]:
        return [self.start + at for at, label in enumerate(self.labels) if name in ("", label)]

    def nth(self, name: str, number: int) -> int | None:
        """A row of a variable, from the front or, if negative, from the back."""
        rows = self.of(name)
        return rows[number] if -len(rows) <= number < len(rows) else None

    def known(self, name: str = "") -> list[int]:
        return [value for row in self.of(name) if (value := self.x(row)) is not None]


Condition = Callable[[Run], Any]


def compared(left: Any, operator: str, right: Any) -> bool:
    if left is None or right is None:
        return False
    return bool({"<": left < right, ">": left > right, "<=": left <= right, "=": left == right}[operator])


def ways(pattern: Pattern, run: Run, conditions: dict[str, Condition], limit: datetime | None) -> Iterator[Run]:
    """The runs that a pattern leads to, the preferred ones first."""
    kind = pattern[0]
    if kind == "variable":
        row = run.start + len(run.labels)
        if row < len(run.rows) and (limit is None or run.rows[row][0] <= limit):  # type: ignore[operator]
            longer = Run(run.rows, run.start, (*run.labels, pattern[1]), run.number)
            if conditions[pattern[1]](longer):
                yield longer
    elif kind == "sequence":
        if not pattern[1]:
            yield run
            return
        for first in ways(pattern[1][0], run, conditions, limit):
            yield from ways(("sequence", pattern[1][1:]), first, conditions, limit)
    elif kind == "choice":
        for each in pattern[1]:
            yield from ways(each, run, conditions, limit)
    elif kind == "^":
        if run.start + len(run.labels) == 0:
            yield run
    elif kind == "$":
        if run.start + len(run.labels) == len(run.rows):
            yield run
    else:
        yield from _rounds(pattern, run, conditions, limit, 0)


def _rounds(
    pattern: Pattern, run: Run, conditions: dict[str, Condition], limit: datetime | None, done: int
) -> Iterator[Run]:
    _, item, least, most, is_greedy = pattern
    if not is_greedy and done >= least:
        yield run
    if most is None or done < most:
        for longer in ways(item, run, conditions, limit):
            if done < least or len(longer.labels) > len(run.labels):
                yield from _rounds(pattern, longer, conditions, limit, done + 1)
    if is_greedy and done >= least:
        yield run


@dataclass
class Query:
    """A MATCH_RECOGNIZE for the matcher and as SQL."""

    pattern: Pattern
    text: str
    conditions: dict[str, Condition]
    definitions: list[str] = field(default_factory=list)
    skip: str = "PAST LAST ROW"
    within: int | None = None
    all_rows: bool = False
    counted: bool = True

    def sql(self, name: str) -> str:
        measures = ["FIRST(x) AS first_x", "LAST(A.x) AS a_x", "SUM(B.x) AS b_sum", "COUNT(*) AS n"]
        measures += ["CLASSIFIER() AS label", "PREV(x, 2) AS before_x", "FINAL LAST(x, 1) AS last_x"]
        if self.counted:
            measures.append("MATCH_NUMBER() AS number")
        rows = "ALL ROWS PER MATCH" if self.all_rows else "ONE ROW PER MATCH"
        within = "" if self.within is None else f"WITHIN INTERVAL '{self.within}' SECOND"
        shown = "g, first_x, a_x, b_sum, n, label, before_x, last_x" + ", number" * self.counted
        return f"""CREATE VIEW {name} AS SELECT {shown} FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts
            MEASURES {", ".join(measures)} {rows} AFTER MATCH SKIP {self.skip}
            PATTERN ({self.text}) {within} DEFINE {", ".join(self.definitions)}) AS matches"""

    def found_in(self, rows: Sequence[Row]) -> Iterator[Run]:
        """The matches in the rows of a group."""
        start, number = 0, 0
        while start < len(rows):
            moment = rows[start][0]
            assert isinstance(moment, datetime)
            limit = None if self.within is None else moment + timedelta(seconds=self.within)
            run = next(ways(self.pattern, Run(rows, start, (), number + 1), self.conditions, limit), None)
            if run is None:
                start += 1
                continue
            number += 1
            yield run
            start = self._after(run)

    def _after(self, run: Run) -> int:
        if not run.labels or self.skip == "TO NEXT ROW":
            return run.start + 1
        if self.skip == "PAST LAST ROW":
            return run.start + len(run.labels)
        row = run.nth("Z", 0 if "FIRST" in self.skip else -1)
        assert row is not None
        return row

    def shown(self, run: Run) -> Iterator[Row]:
        """The rows that a match shows, with the start of the part they are in."""
        lengths = range(1, len(run.labels) + 1) if self.all_rows and run.labels else [len(run.labels)]
        part = part_number(run.rows[run.start + max(0, len(run.labels) - 1)])
        for length in lengths:
            so_far = Run(run.rows, run.start, run.labels[:length], run.number)
            row = so_far.here if length else None
            numbers = so_far.known("B")
            yield (
                run.rows[run.start][1],
                so_far.x(so_far.nth("", 0)),
                so_far.x(so_far.nth("A", -1)),
                sum(numbers) if numbers else None,
                length,
                run.labels[length - 1] if length else None,
                so_far.x(row - 2) if row is not None else None,
                run.x(run.nth("", -2)),
                *((run.number,) if self.counted else ()),
                at(60 * part),
            )


def expected(query: Query, model: Model, first: int) -> Counter[Row]:
    """What a view shows that began with part `first`."""
    rows = [row for part in range(first, model.closed) for row in model.part(part)]
    groups = dict.fromkeys(row[1] for row in rows)
    return Counter(
        shown
        for group in groups
        for run in query.found_in([row for row in rows if row[1] == group])
        for shown in query.shown(run)
    )


# -- random queries ---------------------------------------------------------------------------------------------------


def random_query(chance: random.Random) -> Query:
    pattern, text = _random_pattern(chance, 2)
    skip = chance.choice(("PAST LAST ROW", "TO NEXT ROW", "TO FIRST Z", "TO LAST Z", "TO Z"))
    names = ["A", "B", "C"]
    if "Z" in skip:
        pattern, text = ("sequence", [("variable", "A"), pattern, ("variable", "Z")]), f"A ({text}) Z"
        names.append("Z")
    elif chance.random() < 0.15:
        anchor = chance.choice("^$")
        pattern, text = (
            (("sequence", [("^",), pattern]), f"^ ({text})")
            if anchor == "^"
            else (("sequence", [pattern, ("$",)]), f"({text}) $")
        )
    query = Query(pattern, text, {}, skip=skip)
    for name in names:
        definition, query.conditions[name] = _random_condition(chance, name)
        if name in text and definition:
            query.definitions.append(f"{name} AS {definition}")
    if not query.definitions:
        name = next(each for each in names if each in text)
        query.definitions, query.conditions[name] = [f"{name} AS x > 0"], lambda run: compared(run.x(run.here), ">", 0)
    query.within = chance.choice((None, None, None, 45, 130))
    query.all_rows, query.counted = chance.random() < 0.3, chance.random() < 0.5
    for name in ("A", "B"):  # measures read both
        if name not in text:
            query.pattern = ("choice", [query.pattern, ("sequence", [("variable", name), ("^",)])])
            query.text = f"{query.text} | {name} ^"
    return query


def _random_pattern(chance: random.Random, depth: int) -> tuple[Pattern, str]:
    kind = chance.choice(("variable", "sequence", "choice", "repeat", "repeat")) if depth else "variable"
    if kind == "variable":
        name = chance.choice("ABC")
        return ("variable", name), name
    if kind == "repeat":
        item, text = _random_pattern(chance, depth - 1)
        least, most, quantifier = chance.choice(
            (
                (0, None, "*"),
                (1, None, "+"),
                (0, 1, "?"),
                (2, 2, "{2}"),
                (1, 2, "{1,2}"),
                (2, None, "{2,}"),
                (0, 2, "{,2}"),
            )
        )
        is_greedy = chance.random() < 0.65
        return ("repeat", item, least, most, is_greedy), f"({text}){quantifier}{'' if is_greedy else '?'}"
    items = [_random_pattern(chance, depth - 1) for _ in range(chance.randint(2, 3))]
    glue = " " if kind == "sequence" else " | "
    return (kind, [item for item, _ in items]), "(" + glue.join(text for _, text in items) + ")"


def _random_condition(chance: random.Random, name: str) -> tuple[str, Condition]:
    number = chance.choice((1, 2, 3))
    other = chance.choice("AB")
    choices: list[tuple[str, Condition]] = [
        ("", lambda run: True),
        (f"x > {number}", lambda run: compared(run.x(run.here), ">", number)),
        (f"{name}.x = {number} OR x IS NULL", lambda run: run.x(run.here) in (number, None)),
        ("x > PREV(x)", lambda run: compared(run.x(run.here), ">", run.x(run.here - 1))),
        (f"{name}.x <= PREV({name}.x, 2)", lambda run: compared(run.x(run.here), "<=", run.x(run.here - 2))),
        ("NEXT(x) > x", lambda run: compared(run.x(run.here + 1), ">", run.x(run.here))),
        (f"SUM({name}.x) < {3 * number}", lambda run: compared(sum(run.known(name)) or None, "<", 3 * number)
         if any(run.known(name)) else bool(run.known(name))),
        (f"COUNT({name}.*) <= {number}", lambda run: len(run.of(name)) <= number),
        ("x >= 1 AND COUNT(*) < 4", lambda run: compared(0, "<", run.x(run.here)) and len(run.labels) < 4),
        (f"COALESCE(LAST(x, 1), 9) > {number}",
         lambda run: (9 if (v := run.x(run.nth("", -2))) is None else v) > number),
        ("x <= MAX(x) - 1", lambda run: compared(run.x(run.here), "<=", max(run.known()) - 1 if run.known() else None)),
        ("LAST(CLASSIFIER(), 1) = 'A'", lambda run: len(run.labels) > 1 and run.labels[-2] == "A"),
    ]  # fmt: skip
    if name != other:
        choices += [
            (f"x > {other}.x", lambda run: compared(run.x(run.here), ">", run.x(run.nth(other, -1)))),
            (f"FIRST({other}.x) < x + 1", lambda run: compared(run.x(run.nth(other, 0)), "<=", run.x(run.here))),
        ]
    choices.append(("MATCH_NUMBER() < 3", lambda run: run.number < 3))
    return chance.choice(choices)


# -- streams ----------------------------------------------------------------------------------------------------------


def values(chance: random.Random) -> Row:
    return chance.choice(("a", "b", None)), chance.choice((0, 1, 2, 3, 3, 4, None))


def of_many_groups(chance: random.Random) -> Row:
    return chance.choice("abcdefghi"), values(chance)[1]


def in_time(batches: list[list[tuple[Row, int]]], minutes: int) -> Iterator[list[tuple[Row, int]]]:
    """Batches without what changes rows that are so many minutes behind the newest."""
    newest = at(0)
    for batch in batches:
        newest = max([newest, *(row[0] for row, _ in batch)])
        yield [(row, times) for row, times in batch if row[0] > newest - timedelta(minutes=minutes)]


def play(seed: int, queries: int, batches: int = 8, every: int = 3, is_bounded: bool = False) -> int:
    """Compares random queries with the matcher on a random stream; returns the rows that were compared.

    Where it `is_bounded`, no row is late by more than LATENESS, and groups are forgotten.
    """
    chance = random.Random(seed)
    db, model, compared_rows = viewlet.connect(), Model(), 0
    bound = "LATENESS INTERVAL '5' MINUTE" if is_bounded else ""
    db.execute(f"CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts {bound}")
    asked = [random_query(chance) for _ in range(queries)]
    for number, query in enumerate(asked):
        db.execute(query.sql(f"v{number}"))
    changes = random_batches(seed, of_many_groups if is_bounded else values, batches=batches, minutes=4)
    for number, batch in enumerate(in_time(changes, 5) if is_bounded else changes):
        db.apply({"m": signed(batch, ("ts", "g", "x"))})
        for row, times in batch:
            model.change(row, times)
        if number % every != every - 1 and number != batches - 1:
            continue
        for at_view, query in enumerate(asked):
            view = db.view(f"v{at_view}")
            if view.parts():
                assert model.first is not None
                wanted = expected(query, model, model.first)
                assert Counter(view.rows()) == wanted, (seed, number, query.sql("v"))
                compared_rows += sum(wanted.values())
    db.close()
    return compared_rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patterns", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = sum(play(options.seed + number, 5) for number in range(options.patterns // 5))
    print(f"{options.patterns} random patterns, {rows} rows of matches: as the brute-force matcher finds them")


if __name__ == "__main__":
    main()
