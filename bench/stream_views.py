"""Generated view delta functions against naive recomputation and hand-written programs (Figures 6 to 12).

    python -m bench.stream_views --figures 6,7,8 --out docs/benchmarks/streams.jsonl
    python -m bench.stream_report docs/benchmarks/streams.jsonl

All run in DuckDB in this process, over the same parts in memory. CPU seconds of the process for one new part; the
median of the last parts, each of which is computed by hand and generated in turns. *Naive* evaluates the query over the
last `scope` or window of parts, *hand-written* is the SQL that a person writes for this one query, and *generated* is
what `PATTERN` and `[WINDOW]` are translated to, with the maintainer. *Checked* is a pattern over a stream that does not
declare its key.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import viewlet

SCOPE, WIDTH, BEFORE = 20, 10, 8
"""Parts of a pattern and of a window over parts of different size, and parts before those that are measured."""
FEW = 5
"""Parts that are recomputed, at most."""
FEW_PARTS = 20
"""Parts of the longest window and of the longest pattern that are recomputed more than once."""
ORIGIN = datetime(2015, 1, 1)
STREAM = """CREATE STREAM m (ts TIMESTAMP, src BIGINT NOT NULL, dest BIGINT NOT NULL, loss BIGINT NOT NULL)
    PARTITION LENGTH 60 BY ts LATENESS INTERVAL '10' MINUTES"""
ONE_ROW = f"{STREAM} UNIQUE (src, dest) NOT ENFORCED"
PATTERN = """CREATE VIEW v AS SELECT src, dest, COUNT(*) AS ct, SUM(loss) AS s FROM m PATTERN [a, b, c, d+]
    WHERE a.loss > 10 AND b.loss > 10 AND c.loss > 10 AND d.loss > 10 GROUP BY src, dest"""
WINDOW = "CREATE VIEW v AS SELECT src, dest, {0}(loss) AS s FROM m [WINDOW {1} MINUTES] GROUP BY src, dest"


@dataclass(frozen=True, slots=True)
class Load:
    """Records of a part, records of each pair in it, and the share of high losses."""

    records: int
    per_pair: int = 1
    high: float = 0.1

    def part(self, number: int) -> pa.Table:
        chance = np.random.default_rng(number)
        pair = np.repeat(np.arange(self.records // self.per_pair), self.per_pair)
        loss = np.where(chance.random(len(pair)) < self.high, 11 + chance.integers(0, 20, len(pair)), 5)
        moment = ORIGIN + timedelta(minutes=number)
        times = pa.array(np.full(len(pair), np.datetime64(moment, "us")))
        return pa.table({"ts": times, "src": pair // 1000, "dest": pair % 1000, "loss": loss})


@dataclass(frozen=True, slots=True)
class Times:
    """CPU seconds of a refresh, as many times what it takes by hand, of the whole insert, and of the slowest refresh.

    The slowest one is that of a batch with late rows: one in a thousand belongs to the part three before.
    """

    hand: float
    refresh: float
    ratio: float
    insert: float
    worst: float


class Generated:
    """A view that is generated from a statement."""

    def __init__(self, statement: str, load: Load, stream: str) -> None:
        self.load, self.stream = load, stream
        self.db = viewlet.connect()
        self.db.execute(stream)
        self.db.execute(statement)
        self._spent = 0.0
        warehouse = self.db._session.database().host.warehouse  # type: ignore[attr-defined]
        self._advance, warehouse.advance = warehouse.advance, self._timed

    def _timed(self) -> None:
        started = time.process_time()
        self._advance()
        self._spent += time.process_time() - started

    def part(self, number: int, late: pa.Table | None = None) -> tuple[float, float]:
        """The refresh that the rows of a part bring, which closes the part before, and all of the insert."""
        rows = self.load.part(number)
        batch = rows if late is None else pa.concat_tables([rows, late])
        self._spent, started = 0.0, time.process_time()
        self.db.insert("m", batch)
        return self._spent, time.process_time() - started

    def late_part(self, number: int) -> float:
        share = 0 if self.stream == ONE_ROW else self.load.records // 1000
        return self.part(number, self.load.part(number - 3).slice(0, share))[0]


class Hand:
    """Parts m0, m1, ... in a DuckDB of its own, as the generated views have them; `step` computes a part."""

    def __init__(self, load: Load, step: Callable[[Hand, int], None]) -> None:
        self.load, self._step = load, step
        self.db = duckdb.connect()

    def part(self, number: int) -> float:
        rows = self.load.part(number)  # noqa: F841 - DuckDB finds it by its name
        self.db.execute(f"CREATE TABLE m{number} AS SELECT * FROM rows")
        started = time.process_time()
        self._step(self, number)
        return time.process_time() - started

    def union(self, number: int, width: int, name: str = "m") -> str:
        first = max(0, number - width + 1)
        return " UNION ALL ".join(f"SELECT * FROM {name}{each}" for each in range(first, number + 1))

    def run(self, parts: int, last: int) -> float:
        """The median of the last parts."""
        taken = [self.part(number) for number in range(parts)]
        self.db.close()
        return statistics.median(taken[-last:])


def in_turns(hand: Hand, view: Generated, parts: int, last: int) -> Times:
    """Each part by hand and generated, one after the other; medians of the last parts."""
    hand.part(0)
    view.part(0)
    taken: list[tuple[float, float, float]] = []
    for number in range(1, parts + 1):  # the rows of a part close the one before
        if number % 2:
            by_hand, made = hand.part(number), view.part(number)
        else:
            made, by_hand = view.part(number), hand.part(number)
        taken.append((by_hand, *made))
    measured = taken[-last:]
    refreshes = [refresh for _, refresh, _ in measured]
    worst = max(*refreshes, view.late_part(parts + 1))
    hand.db.close()
    view.db.close()
    by_hand, refresh, whole = (statistics.median(each) for each in zip(*measured, strict=True))
    return Times(by_hand, refresh, statistics.median(made / own for own, made, _ in measured), whole, worst)


def hand_pattern(load: Load) -> Hand:
    def step(hand: Hand, number: int) -> None:
        before = f"h{number - 1}" if number else "h_"
        hand.db.execute(f"""CREATE TABLE h{number} AS SELECT n.src, n.dest, COALESCE(p.ct, 0) + 1 AS ct,
            COALESCE(p.s, 0) + n.loss AS s FROM m{number} n LEFT JOIN {before} p ON n.src = p.src AND n.dest = p.dest
            WHERE n.loss > 10""")
        hand.db.execute(f"CREATE TABLE v{number} AS SELECT * FROM h{number} WHERE ct >= 4")

    found = Hand(load, step)
    found.db.execute("CREATE TABLE h_ AS SELECT 0::BIGINT src, 0::BIGINT dest, 0::BIGINT ct, 0::BIGINT s WHERE FALSE")
    return found


def naive_pattern(load: Load, parts: int, last: int, scope: int) -> float:
    def step(hand: Hand, number: int) -> None:
        if number < parts - last:
            return  # a part is computed from the rows alone: those that are not measured are left out
        hand.db.execute(f"""CREATE TABLE v{number} AS SELECT src, dest, COUNT(*) AS ct, SUM(loss)::BIGINT AS s FROM (
            SELECT *, MAX(CASE WHEN loss <= 10 THEN ts END) OVER (PARTITION BY src, dest) AS low
            FROM ({hand.union(number, scope)})) WHERE low IS NULL OR ts > low
            GROUP BY src, dest HAVING COUNT(*) >= 4""")

    return Hand(load, step).run(parts, last)


def naive_window(load: Load, parts: int, last: int, function: str, width: int) -> float:
    def step(hand: Hand, number: int) -> None:
        if number < parts - last:
            return  # a part is computed from the rows alone: those that are not measured are left out
        hand.db.execute(f"""CREATE TABLE v{number} AS SELECT src, dest, {function}(loss)::BIGINT AS s
            FROM ({hand.union(number, width)}) GROUP BY src, dest""")

    return Hand(load, step).run(parts, last)


def hand_max(load: Load, width: int) -> Hand:
    def step(hand: Hand, number: int) -> None:
        hand.db.execute(f"CREATE TABLE h{number} AS SELECT src, dest, MAX(loss) AS s FROM m{number} GROUP BY src, dest")
        hand.db.execute(f"""CREATE TABLE v{number} AS SELECT src, dest, MAX(s) AS s
            FROM ({hand.union(number, width, "h")}) GROUP BY src, dest""")

    return Hand(load, step)


def hand_sum(load: Load, width: int) -> Hand:
    def step(hand: Hand, number: int) -> None:
        new = f"SELECT src, dest, SUM(loss) AS s, COUNT(*) AS n FROM m{number} GROUP BY src, dest"
        old = f" UNION ALL SELECT * FROM h{number - 1}" if number else ""
        hand.db.execute(f"""CREATE TABLE h{number} AS SELECT src, dest, SUM(s)::HUGEINT AS s, SUM(n)::HUGEINT AS n
            FROM ({new}{old}) GROUP BY src, dest""")
        minus = f" UNION ALL SELECT src, dest, -s, -n FROM h{number - width}" if number >= width else ""
        hand.db.execute(f"""CREATE TABLE v{number} AS SELECT src, dest, SUM(s)::BIGINT AS s
            FROM (SELECT * FROM h{number}{minus}) GROUP BY src, dest HAVING SUM(n) > 0""")

    return Hand(load, step)


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a figure, in CPU seconds; `naive` is None where it was left out. Ratios are medians of ratios."""

    figure: str
    at: int
    records: int
    naive: float | None
    hand: float
    generated: float
    ratio: float
    insert: float
    worst: float
    checked: float | None = None
    """As many times what it takes by hand, where a stream does not declare its key."""


def pattern_point(figure: str, at: int, load: Load, scope: int, last: int, naive_last: int) -> Point:
    """View 4 after `scope` parts."""
    naive = naive_pattern(load, scope + naive_last, naive_last, scope) if naive_last else None
    parts = max(BEFORE, scope) + last
    made = in_turns(hand_pattern(load), Generated(PATTERN, load, ONE_ROW), parts, last)
    checked = in_turns(hand_pattern(load), Generated(PATTERN, load, STREAM), BEFORE + last, last)
    worst = max(made.worst, checked.worst)
    own = made.hand, made.refresh, made.ratio, made.insert, worst
    return Point(figure, at, load.records, naive, *own, checked.ratio)


def pattern_figures(records: int, scopes: list[int], last: int, figures: list[str]) -> Iterator[Point]:
    few = min(last, FEW)
    for size in (records // 10, records) if "6" in figures else ():
        yield pattern_point("6", size, Load(size), SCOPE, last, few)
    for scope in scopes if "7" in figures else ():
        yield pattern_point("7", scope, Load(records), scope, last, few if scope <= FEW_PARTS else 1)
    for percent in (10, 50, 100) if "8" in figures else ():
        yield pattern_point("8", percent, Load(records, high=percent / 100), 4, last, few)


def window_figures(records: int, scopes: list[int], last: int, figures: list[str]) -> Iterator[Point]:
    """Windows of ten parts over fewer records, and of other lengths over all; the longest are recomputed once."""
    names = {"MAX": ("9", "10", hand_max), "SUM": ("11", "12", hand_sum)}
    for function, (by_size, by_width, by_hand) in names.items():
        points = [(by_size, size, size, WIDTH) for size in (records // 10, records)]
        points += [(by_width, width, records, width) for width in scopes]
        for figure, at, size, width in (each for each in points if each[0] in figures):
            ten, parts = Load(size, per_pair=10), width + last + 1
            naive_last = min(last, FEW) if width <= FEW_PARTS else 1
            naive = naive_window(ten, width + naive_last, naive_last, function, width)
            made = in_turns(by_hand(ten, width), Generated(WINDOW.format(function, width), ten, STREAM), parts, last)
            yield Point(figure, at, size, naive, made.hand, made.refresh, made.ratio, made.insert, made.worst)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--scopes", default="5,20,50,100")
    parser.add_argument("--last", type=int, default=5, help="parts that are measured")
    parser.add_argument("--figures", default="6,7,8,9,10,11,12")
    parser.add_argument("--out", type=Path, help="a file to which the points are added, one line of JSON for each")
    options = parser.parse_args()
    scopes = [int(each) for each in options.scopes.split(",")]
    wanted = options.records, scopes, options.last, options.figures.split(",")
    for point in chain(pattern_figures(*wanted), window_figures(*wanted)):
        line = json.dumps(asdict(point))
        print(line, flush=True)
        if options.out is not None:
            with open(options.out, "a", encoding="utf-8") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
