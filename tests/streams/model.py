"""The rows of a stream as a plain model, for oracles that recompute everything after every batch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

Row = tuple[object, ...]
ORIGIN = datetime(2015, 1, 1, 10)


def at(second: float) -> datetime:
    return ORIGIN + timedelta(seconds=second)


class Model:
    """A stream of one-minute parts: its rows, and which parts are closed. Part 0 begins at `ORIGIN`."""

    def __init__(self) -> None:
        self.rows: Counter[Row] = Counter()
        self.first: int | None = None
        self.closed = 0
        """Parts before this one are closed."""

    def change(self, row: Row, times: int) -> None:
        self.rows[row] += times
        assert self.rows[row] >= 0
        part = part_number(row)
        if times > 0:
            self.first = part if self.first is None else min(self.first, part)
            self.closed = max(self.closed, part)

    def close(self, part: int) -> None:
        self.closed = max(self.closed, part)

    def part(self, number: int) -> list[Row]:
        """The rows of a closed part, in order."""
        found = [row for row in self.rows.elements() if part_number(row) == number]
        return sorted(found, key=lambda row: (row[0], repr(row)))


def part_number(row: Row) -> int:
    assert isinstance(row[0], datetime)
    return int((row[0] - ORIGIN).total_seconds() // 60)


def random_batches(
    seed: int, make: Callable[[random.Random], Row], batches: int = 12, minutes: int = 14
) -> list[list[tuple[Row, int]]]:
    """Batches of signed rows: most in order, some late, some deletes, gaps, and rows that are there twice."""
    chance = random.Random(seed)
    here: Counter[Row] = Counter()
    minute, found = 0.0, []
    for _ in range(batches):
        minute += chance.choice((0, 1, 1, 1, 2, 4))
        batch: list[tuple[Row, int]] = []
        for _ in range(chance.randint(1, 6)):
            back = chance.choice((0, 0, 0, 0, 1, 3, minutes)) if minute else 0
            moment = at(60 * max(0, minute - back) + chance.randrange(60))
            row = (moment, *make(chance))
            times = chance.choice((1, 1, 1, 2))
            here[row] += times
            batch.append((row, times))
        if here and chance.random() < 0.4:
            row = chance.choice(sorted(here, key=repr))
            if not any(row == other for other, _ in batch):
                batch.append((row, -1))
                here[row] -= 1
                here = +here
        found.append(batch)
    return found


def signed(batch: list[tuple[Row, int]], names: tuple[str, ...]) -> list[dict[str, object]]:
    """A batch as rows that say how often they are added."""
    return [{**dict(zip(names, row, strict=True)), "_multiplicity": times} for row, times in batch]
