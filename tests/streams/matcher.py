"""A brute-force matcher of patterns: every start, every way to bind rows to variables."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.streams.model import Model, Row

Single = Callable[[int | None], bool]
Pair = Callable[[int | None, int | None], bool]


@dataclass(frozen=True)
class Variable:
    name: str
    plus: bool
    single: Single
    pair: Pair
    """A condition on the last row of the variable before, and the first of this one."""


def matches(rows: Sequence[int | None], variables: Sequence[Variable], at: int = 0, bound: int = 0) -> bool:
    """Whether all rows from `at` on can be bound to the variables from `bound` on."""
    if at == len(rows):
        return bound == len(variables)
    if bound == len(variables):
        return False
    variable = variables[bound]
    if at and not variable.pair(rows[at - 1], rows[at]):
        return False
    for end in range(at + 1, len(rows) + 1 if variable.plus else at + 2):
        if not variable.single(rows[end - 1]):
            return False
        if matches(rows, variables, end, bound + 1):
            return True
    return False


def found_in(model: Model, variables: Sequence[Variable], first: int, last: int) -> list[tuple[int, Row]]:
    """What each part reports: the earliest match that ends at a group's last row, as (part, (group, rows, sum))."""
    reported: list[tuple[int, Row]] = []
    groups = {row[1] for row in model.rows}
    for group in sorted(groups, key=repr):
        history: list[int | None] = []
        for part in range(first, last):
            rows = [row[2] for row in model.part(part) if row[1] == group]
            if not rows:
                history = []
                continue
            for number, value in enumerate(rows):
                assert value is None or isinstance(value, int)
                history.append(value)
                starts = (start for start in range(len(history)) if matches(history[start:], variables))
                start = next(starts, None)
                if start is None:
                    continue
                match = history[start:]
                if number == len(rows) - 1:
                    known = [each for each in match if each is not None]
                    reported.append((part, (group, len(match), sum(known) if known else None)))
                if not variables[-1].plus:
                    history = []
    return reported


def random_pattern(chance: random.Random) -> tuple[str, str, list[Variable]]:
    """A pattern as SQL (variables, conditions) and for the matcher."""
    texts: list[str] = []
    conditions: list[str] = []
    variables: list[Variable] = []
    for number in range(chance.randint(1, 4)):
        name = "abcd"[number]
        plus = chance.random() < 0.4
        texts.append(name + "+" * plus)
        singles: list[Single] = []
        pairs: list[Pair] = []
        if chance.random() < 0.7:
            bound = chance.choice((1, 2, 3))
            if chance.random() < 0.5:
                conditions.append(f"{name}.x > {bound}")
                singles.append(lambda x, bound=bound: x is not None and x > bound)  # type: ignore[misc]
            else:
                conditions.append(f"{name}.x <> {bound}")
                singles.append(lambda x, bound=bound: x is not None and x != bound)  # type: ignore[misc]
        if number and chance.random() < 0.5:
            before = "abcd"[number - 1]
            if chance.random() < 0.5:
                conditions.append(f"{name}.x > {before}.x")
                pairs.append(lambda old, new: old is not None and new is not None and new > old)
            else:
                conditions.append(f"{before}.x + 1 >= {name}.x")
                pairs.append(lambda old, new: old is not None and new is not None and old + 1 >= new)
        variables.append(
            Variable(
                name,
                plus,
                lambda x, singles=tuple(singles): all(each(x) for each in singles),  # type: ignore[misc]
                lambda old, new, pairs=tuple(pairs): all(each(old, new) for each in pairs),  # type: ignore[misc]
            )
        )
    chance.shuffle(conditions)
    return ", ".join(texts), " AND ".join(conditions), variables
