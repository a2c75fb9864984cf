"""Generated view delta functions against naive recomputation and hand-written programs (Figures 6 to 12).

    python -m bench.stream_views --records 1000000 --report docs/benchmarks/streams.md

All run in DuckDB in this process, over the same parts in memory. CPU seconds of the process for one new part; the
median of the last parts. *Naive* evaluates the query over the last `scope` or window of parts, *hand-written* is the
SQL that a person writes for this one query, and *generated* is what `PATTERN` and `[WINDOW]` are translated to, with
the maintainer.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import viewlet

NOTES = """
One record per pair and part for patterns, ten for windows; two cores that other programs used too, hence CPU seconds.
Patterns rely on one row per pair and part, which the stream declares (`UNIQUE (src, dest) NOT ENFORCED`); without that
the generated ones check it by a join over all rows of a part. *With insert* is all of `db.insert` of an Arrow batch:
conversion, the new part, and the refresh, and *worst* the slowest refresh, for windows that of a batch with rows for
the part three before. Naive patterns and windows grow with their scope, and so does the `MAX` of a person who merges a
window; what is generated does not.
"""
NAIVE_LIMIT = 20
"""Parts of the longest window that is recomputed."""
ORIGIN = datetime(2015, 1, 1)
STREAM = """CREATE STREAM m (ts TIMESTAMP, src BIGINT, dest BIGINT, loss BIGINT) PARTITION LENGTH 60 BY ts
    LATENESS INTERVAL '10' MINUTES"""
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


def seconds(parts: int, last: int, step: Callable[[int], None]) -> float:
    """The median CPU time of the last steps."""
    taken: list[float] = []
    for number in range(parts):
        started = time.process_time()
        step(number)
        taken.append(time.process_time() - started)
    return statistics.median(taken[-last:])


@dataclass(frozen=True, slots=True)
class Times:
    """CPU seconds of a refresh and of the whole insert with it, and of the slowest refresh: a batch with late rows.

    One row in a thousand of that batch belongs to the part three before.
    """

    refresh: float
    insert: float
    worst: float


def generated(statement: str, load: Load, parts: int, last: int, stream: str = STREAM) -> Times:
    """The times of a view that is generated from a statement."""
    db = viewlet.connect()
    db.execute(stream)
    db.execute(statement)
    spent: list[float] = []
    warehouse = db._session.database().host.warehouse  # type: ignore[attr-defined]
    advance = warehouse.advance

    def timed() -> None:
        started = time.process_time()
        advance()
        spent.append(time.process_time() - started)

    warehouse.advance = timed

    def step(number: int) -> None:
        db.insert("m", load.part(number))

    whole = seconds(parts + 1, last, step)
    refreshes = [each for each in spent if each > 0.0005][-last:]
    rows, late = load.part(parts + 1), load.part(parts - 2).slice(0, 0 if stream == ONE_ROW else load.records // 1000)
    spent.clear()
    db.insert("m", pa.concat_tables([rows, late]))
    db.close()
    return Times(statistics.median(refreshes), whole, max(*refreshes, *spent))


class Hand:
    """Parts m0, m1, ... in a DuckDB of its own, as the generated views have them."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.db = duckdb.connect()

    def fill(self, number: int) -> None:
        rows = self.load.part(number)  # noqa: F841 - DuckDB finds it by its name
        self.db.execute(f"CREATE TABLE m{number} AS SELECT * FROM rows")

    def union(self, number: int, width: int, name: str = "m") -> str:
        first = max(0, number - width + 1)
        return " UNION ALL ".join(f"SELECT * FROM {name}{each}" for each in range(first, number + 1))

    def run(self, parts: int, last: int, step: Callable[[int], None]) -> float:
        taken = []
        for number in range(parts):
            self.fill(number)
            started = time.process_time()
            step(number)
            taken.append(time.process_time() - started)
        self.db.close()
        return statistics.median(taken[-last:])


def hand_pattern(load: Load, parts: int, last: int) -> float:
    hand = Hand(load)
    hand.db.execute("CREATE TABLE h_ AS SELECT 0::BIGINT src, 0::BIGINT dest, 0::BIGINT ct, 0::BIGINT s WHERE FALSE")

    def step(number: int) -> None:
        before = f"h{number - 1}" if number else "h_"
        hand.db.execute(f"""CREATE TABLE h{number} AS SELECT n.src, n.dest, COALESCE(p.ct, 0) + 1 AS ct,
            COALESCE(p.s, 0) + n.loss AS s FROM m{number} n LEFT JOIN {before} p ON n.src = p.src AND n.dest = p.dest
            WHERE n.loss > 10""")
        hand.db.execute(f"CREATE TABLE v{number} AS SELECT * FROM h{number} WHERE ct >= 4")

    return hand.run(parts, last, step)


def naive_pattern(load: Load, parts: int, last: int, scope: int) -> float:
    hand = Hand(load)

    def step(number: int) -> None:
        hand.db.execute(f"""CREATE TABLE v{number} AS SELECT src, dest, COUNT(*) AS ct, SUM(loss)::BIGINT AS s FROM (
            SELECT *, MAX(CASE WHEN loss <= 10 THEN ts END) OVER (PARTITION BY src, dest) AS low
            FROM ({hand.union(number, scope)})) WHERE low IS NULL OR ts > low
            GROUP BY src, dest HAVING COUNT(*) >= 4""")

    return hand.run(parts, last, step)


def naive_window(load: Load, parts: int, last: int, function: str, width: int) -> float:
    hand = Hand(load)

    def step(number: int) -> None:
        if number < parts - last:
            return  # a part is computed from the rows alone: those that are not measured are left out
        hand.db.execute(f"""CREATE TABLE v{number} AS SELECT src, dest, {function}(loss)::BIGINT AS s
            FROM ({hand.union(number, width)}) GROUP BY src, dest""")

    return hand.run(parts, last, step)


def hand_max(load: Load, parts: int, last: int, width: int) -> float:
    hand = Hand(load)

    def step(number: int) -> None:
        hand.db.execute(f"CREATE TABLE h{number} AS SELECT src, dest, MAX(loss) AS s FROM m{number} GROUP BY src, dest")
        if number < parts - last:
            return
        hand.db.execute(f"""CREATE TABLE v{number} AS SELECT src, dest, MAX(s) AS s
            FROM ({hand.union(number, width, "h")}) GROUP BY src, dest""")

    return hand.run(parts, last, step)


def hand_sum(load: Load, parts: int, last: int, width: int) -> float:
    hand = Hand(load)

    def step(number: int) -> None:
        new = f"SELECT src, dest, SUM(loss) AS s, COUNT(*) AS n FROM m{number} GROUP BY src, dest"
        old = f" UNION ALL SELECT * FROM h{number - 1}" if number else ""
        hand.db.execute(f"""CREATE TABLE h{number} AS SELECT src, dest, SUM(s)::HUGEINT AS s, SUM(n)::HUGEINT AS n
            FROM ({new}{old}) GROUP BY src, dest""")
        minus = f" UNION ALL SELECT src, dest, -s, -n FROM h{number - width}" if number >= width else ""
        hand.db.execute(f"""CREATE TABLE v{number} AS SELECT src, dest, SUM(s)::BIGINT AS s
            FROM (SELECT * FROM h{number}{minus}) GROUP BY src, dest HAVING SUM(n) > 0""")

    return hand.run(parts, last, step)


def pattern_figures(records: int, scopes: list[int], last: int) -> Iterator[tuple[str, str, float, float, Times]]:
    """(figure, point, naive, hand-written, generated) in CPU seconds."""
    load = Load(records)
    hand, made = hand_pattern(load, 8 + last, last), generated(PATTERN, load, 8 + last, last, ONE_ROW)
    for scope in scopes:
        naive = naive_pattern(load, scope + last, last, scope)
        yield "6, 7: pattern, 10 % high", f"scope {scope}", naive, hand, made
    for share in (0.5, 1.0):
        some = Load(records, high=share)
        naive = naive_pattern(some, 4 + last, last, 4)
        yield (
            "8: pattern, scope 4",
            f"{share:.0%} high",
            naive,
            hand_pattern(some, 8 + last, last),
            generated(PATTERN, some, 8 + last, last, ONE_ROW),
        )


def window_figures(
    records: int, scopes: list[int], last: int, functions: list[str]
) -> Iterator[tuple[str, str, float, float, Times]]:
    """Likewise; windows longer than `NAIVE_LIMIT` are not recomputed."""
    ten = Load(records, per_pair=10)
    for function, by_hand in ((each, {"MAX": hand_max, "SUM": hand_sum}[each]) for each in functions):
        for width in scopes:
            parts = width + last + 1
            naive = naive_window(ten, parts, last, function, width) if width <= NAIVE_LIMIT else float("nan")
            made = generated(WINDOW.format(function, width), ten, parts, last)
            yield (
                f"{'9, 10' if function == 'MAX' else '11, 12'}: window {function}",
                f"{width} parts",
                naive,
                by_hand(ten, parts, last, width),
                made,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--scopes", default="5,20")
    parser.add_argument("--last", type=int, default=5, help="parts that are measured")
    parser.add_argument("--only", choices=["patterns", "windows"])
    parser.add_argument("--functions", default="MAX,SUM")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    lines = [
        "| figure | point | naive | hand-written | generated | generated / hand | naive / generated | insert | worst |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    scopes = [int(each) for each in options.scopes.split(",")]
    found: list[Iterator[tuple[str, str, float, float, Times]]] = []
    if options.only != "windows":
        found.append(pattern_figures(options.records, scopes, options.last))
    if options.only != "patterns":
        found.append(window_figures(options.records, scopes, options.last, options.functions.split(",")))
    for figure, point, naive, hand, made in chain(*found):
        times = " | ".join("" if math.isnan(each) else f"{each:.3f}" for each in (naive, hand, made.refresh))
        gain = "" if math.isnan(naive) else f"{naive / made.refresh:.1f}"
        ratios = f"{made.refresh / hand:.2f} | {gain}"
        lines.append(f"| {figure} | {point} | {times} | {ratios} | {made.insert:.3f} | {made.worst:.3f} |")
        print(lines[-1], flush=True)
    if options.report is not None:
        said = f"{options.records:,} records in a part (`python -m bench.stream_views`). CPU seconds for a new part."
        options.report.write_text(f"# Stream views\n\n{said}\n\n" + "\n".join(lines) + "\n" + NOTES, encoding="utf-8")


if __name__ == "__main__":
    main()
