"""Views on PostgreSQL: what is generated against SQL by hand. Both keep parts as partitions and commit every part.

    python -m bench.stream_postgres --records 100000        # on a cluster of its own, or --server "host=... dbname=..."

Both go through `psql`. Milliseconds of the clock for a new part, the median of the last ones, and CPU milliseconds of
the backend. Ratios are medians of the ratios of the parts, which both compute in turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pyarrow as pa

import viewlet
from bench.stream_views import ONE_ROW, PATTERN, STREAM, WINDOW, Load
from tests.streams.postgres import cluster
from viewlet.streams import PostgresHost


class Window:
    """Sums over a window of so many parts, by running totals."""

    stream = STREAM

    def __init__(self, width: int) -> None:
        self.width, self.name = width, f"SUM over {width} parts"
        self.statement = WINDOW.format("SUM", width)
        self.columns = "src BIGINT, dest BIGINT, s BIGINT"

    def helper(self, number: int) -> str:
        new = f"SELECT src, dest, SUM(loss) AS s, COUNT(*)::NUMERIC AS n FROM m{number} GROUP BY src, dest"
        old = f" UNION ALL SELECT src, dest, s, n FROM h{number - 1}" if number else ""
        return f"SELECT src, dest, SUM(s) AS s, SUM(n) AS n FROM ({new}{old}) AS b GROUP BY src, dest"

    def result(self, number: int) -> str:
        minus = f" UNION ALL SELECT src, dest, -s, -n FROM h{number - self.width}" if number >= self.width else ""
        return f"""SELECT src, dest, SUM(s)::BIGINT AS s FROM (SELECT src, dest, s, n FROM h{number}{minus}) AS d
            GROUP BY src, dest HAVING SUM(n) > 0"""

    def naive(self, rows: str) -> str:
        return f"SELECT src, dest, SUM(loss)::BIGINT AS s FROM ({rows}) AS w GROUP BY src, dest"


class Pattern:
    """View 4 by hand: the length and the sum of the run that every pair has at the end of a part."""

    stream = ONE_ROW
    statement = PATTERN
    columns = "src BIGINT, dest BIGINT, ct BIGINT, s BIGINT"

    def __init__(self, scope: int) -> None:
        self.width, self.name = scope, f"pattern, scope {scope}"

    def helper(self, number: int) -> str:
        if not number:
            return "SELECT src, dest, 1::BIGINT AS ct, loss AS s FROM m0 WHERE loss > 10"
        return f"""SELECT n.src, n.dest, COALESCE(p.ct, 0) + 1 AS ct, COALESCE(p.s, 0) + n.loss AS s
            FROM m{number} n LEFT JOIN h{number - 1} p ON n.src = p.src AND n.dest = p.dest WHERE n.loss > 10"""

    def result(self, number: int) -> str:
        return f"SELECT src, dest, ct, s FROM h{number} WHERE ct >= 4"

    def naive(self, rows: str) -> str:
        return f"""SELECT src, dest, COUNT(*) AS ct, SUM(loss)::BIGINT AS s FROM (
            SELECT *, MAX(CASE WHEN loss <= 10 THEN ts END) OVER (PARTITION BY src, dest) AS low FROM ({rows}) AS r
            ) AS w WHERE low IS NULL OR ts > low GROUP BY src, dest HAVING COUNT(*) >= 4"""


Program = Window | Pattern
FEW = 5
"""Parts that are recomputed."""


class Clock:
    """The time of a part so far: seconds of the clock, and CPU seconds of a backend of a server on this machine."""

    def __init__(self, host: PostgresHost) -> None:
        backend = int(host._run("SELECT pg_backend_pid();"))
        self._stat = Path(f"/proc/{backend}/schedstat")
        self.wall = self.cpu = 0.0

    def _spent(self) -> float:
        return int(self._stat.read_text().split()[0]) / 1e9 if self._stat.exists() else 0.0

    def run(self, call: Callable[[], object]) -> None:
        spent, started = self._spent(), time.perf_counter()
        call()
        self.wall += time.perf_counter() - started
        self.cpu += self._spent() - spent

    def taken(self) -> tuple[float, float]:
        """The time of the part, which ends."""
        found, self.wall, self.cpu = (self.wall, self.cpu), 0.0, 0.0
        return found


class Generated:
    """A view; a part is its refresh and the commit, which makes partitions of the new tables."""

    def __init__(self, server: str, program: Program) -> None:
        host = PostgresHost(server)
        self.clock, self.db = Clock(host), viewlet.connect(streams=host)
        self.db.execute(program.stream)
        self.db.execute(program.statement)
        warehouse = self.db._session.database().host.warehouse  # type: ignore[attr-defined]
        for name in ("advance", "commit"):
            setattr(warehouse, name, partial(self.clock.run, getattr(warehouse, name)))

    def part(self, number: int, rows: pa.Table) -> tuple[float, float]:
        self.db.insert("m", rows)
        return self.clock.taken()

    def close(self) -> None:
        self.db.close()


class ByHand:
    """The same view by hand; the rows and the view of a part are partitions too, what a helper has is a table."""

    def __init__(self, server: str, program: Program) -> None:
        self.host, self.program = PostgresHost(server), program
        self.clock = Clock(self.host)
        self.host._run("RESET enable_mergejoin;")  # a setting of the host's own
        self.host._run("DROP SCHEMA IF EXISTS by_hand CASCADE; CREATE SCHEMA by_hand; SET search_path = by_hand;")
        rows = "ts TIMESTAMP, src BIGINT, dest BIGINT, loss BIGINT"
        for name, columns in ("m", rows), ("v", program.columns):
            self.host._run(f"CREATE TABLE {name} ({columns}, part BIGINT) PARTITION BY LIST (part);")
        self.host._run("CREATE TABLE progress AS SELECT -1 AS part;")

    def part(self, number: int, rows: pa.Table) -> tuple[float, float]:
        self.host.begin()
        self.host.load(f"rows{number}", rows)
        self.host._run(
            f"ALTER TABLE viewlet.rows{number} SET SCHEMA by_hand; ALTER TABLE rows{number} RENAME TO m{number};"
        )
        self.clock.run(partial(self._refresh, number))
        self.host.rollback()  # which knows of no commit
        return self.clock.taken()

    def _refresh(self, number: int) -> None:
        statements = [
            f"CREATE TABLE h{number} AS {self.program.helper(number)}",
            f"CREATE TABLE v{number} AS {self.program.result(number)}",
        ]
        for name in ("m", "v"):
            statements.append(f"ALTER TABLE {name}{number} ADD COLUMN part BIGINT DEFAULT {number}")
            statements.append(f"ALTER TABLE {name} ATTACH PARTITION {name}{number} FOR VALUES IN ({number})")
        self.host._run_together([*statements, f"UPDATE progress SET part = {number}", "COMMIT"])

    def naive(self, number: int) -> tuple[float, float]:
        """The query over the rows of the last parts, into a table."""
        parts = range(max(0, number - self.program.width + 1), number + 1)
        rows = " UNION ALL ".join(f"SELECT ts, src, dest, loss FROM m{each}" for each in parts)
        query = self.program.naive(rows)
        self.clock.run(lambda: self.host._run(f"CREATE TABLE n{number} AS {query};"))
        return self.clock.taken()

    def close(self) -> None:
        self.host.close()


Time = tuple[float, float]
"""Seconds of the clock, and CPU seconds."""


def in_turns(server: str, program: Program, load: Load, last: int) -> tuple[list[Time], list[tuple[Time, Time]]]:
    """The time of a few parts recomputed, and of each of the last ones by hand and generated.

    They are recomputed at the end: a query over many parts takes the buffers of the rows that the next part reads.
    """
    view, hand, taken = Generated(server, program), ByHand(server, program), []
    for number in range(program.width + last + 2):
        rows = load.part(number)
        both = (hand, view) if number % 2 else (view, hand)
        found = {each: each.part(number, rows) for each in both}
        taken.append((found[hand], found[view]))
    whole = [hand.naive(number) for number in range(program.width + last + 2)[-FEW:]]
    view.close()
    hand.close()
    return whole, taken[-last:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="", help="what psql connects with; the schema viewlet is replaced")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--windows", default="5,20")
    parser.add_argument("--patterns", default="20", help="their scopes")
    parser.add_argument("--last", type=int, default=5)
    options = parser.parse_args()
    programs: list[Program] = [Window(int(each)) for each in options.windows.split(",") if each]
    programs += [Pattern(int(each)) for each in options.patterns.split(",") if each]
    print("| view | naive | hand-written | generated | generated / hand | CPU, hand-written | generated | ratio |")
    print("|---" * 8 + "|")
    with nullcontext(options.server) if options.server else cluster() as server:
        for program in programs:
            load = Load(options.records, per_pair=10 if isinstance(program, Window) else 1)
            naive, taken = in_turns(server, program, load, options.last)
            whole = f"{1000 * statistics.median(wall for wall, _ in naive):.1f}"
            hand, made = (
                [f"{1000 * statistics.median(side):.1f}" for side in zip(*each, strict=True)]
                for each in zip(*taken, strict=True)
            )
            wall, cpu = (
                f"{statistics.median(made[side] / hand[side] if hand[side] else 0 for hand, made in taken):.2f}"
                for side in (0, 1)
            )
            cells = program.name, whole, hand[0], made[0], wall, hand[1], made[1], cpu
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
