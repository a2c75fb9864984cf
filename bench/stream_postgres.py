"""Windows on PostgreSQL: what is generated, whose parts are partitions, against SQL by hand over plain tables.

    python -m bench.stream_postgres --records 100000        # on a cluster of its own, or --server "host=... dbname=..."

Both go through `psql`. Wall seconds for a new part, the median of the last ones; the server works in other processes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import pyarrow as pa

import viewlet
from bench.stream_views import STREAM, WINDOW, Load
from tests.streams.postgres import cluster
from viewlet.streams import PostgresHost


class Generated:
    """A window view; a part is its refresh and the commit, which makes partitions of the new tables."""

    def __init__(self, server: str, width: int) -> None:
        self.db = viewlet.connect(streams=PostgresHost(server))
        self.db.execute(STREAM)
        self.db.execute(WINDOW.format("SUM", width))
        self.spent = 0.0
        warehouse = self.db._session.database().host.warehouse  # type: ignore[attr-defined]
        warehouse.advance, warehouse.commit = self._timed(warehouse.advance), self._timed(warehouse.commit)

    def _timed(self, call: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            self.spent += seconds(call)

        return run

    def part(self, rows: pa.Table) -> float:
        self.spent = 0.0
        self.db.insert("m", rows)
        return self.spent


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def naive(host: PostgresHost, number: int, width: int) -> None:
    """The query over the rows of the window."""
    rows = " UNION ALL ".join(f'SELECT * FROM "m{n}"' for n in range(max(0, number - width + 1), number + 1))
    host.create(f"n{number}", f"SELECT src, dest, SUM(loss)::BIGINT AS s FROM ({rows}) AS w GROUP BY src, dest")


def by_hand(host: PostgresHost, number: int, width: int) -> None:
    """The same query by running totals."""
    new = f'SELECT src, dest, SUM(loss) AS s, COUNT(*)::NUMERIC AS n FROM "m{number}" GROUP BY src, dest'
    old = f' UNION ALL SELECT * FROM "h{number - 1}"' if number else ""
    host.create(f"h{number}", f"SELECT src, dest, SUM(s) AS s, SUM(n) AS n FROM ({new}{old}) AS b GROUP BY src, dest")
    minus = f' UNION ALL SELECT src, dest, -s, -n FROM "h{number - width}"' if number >= width else ""
    query = f"""SELECT src, dest, SUM(s)::BIGINT AS s FROM (SELECT * FROM "h{number}"{minus}) AS d
        GROUP BY src, dest HAVING SUM(n) > 0"""
    host.create(f"v{number}", query)


def in_turns(server: str, load: Load, width: int, last: int) -> tuple[float, ...]:
    """Seconds of a part, recomputed, by hand and generated; each part by all three."""
    view, host, taken = Generated(server, width), PostgresHost(server), []
    for number in range(width + last + 2):
        rows = load.part(number)
        host.load(f"m{number}", rows)
        made = view.part(rows)
        other = [seconds(partial(each, host, number, width)) for each in (naive, by_hand)]
        taken.append((*other, made))
    view.db.close()
    host.close()
    return tuple(statistics.median(each) for each in zip(*taken[-last:], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="", help="what psql connects with; the schema viewlet is replaced")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--windows", default="5,20")
    parser.add_argument("--last", type=int, default=5)
    options = parser.parse_args()
    load = Load(options.records, per_pair=10)
    print("| window SUM | naive | hand-written | generated | generated / hand |\n|---|---|---|---|---|")
    with nullcontext(options.server) if options.server else cluster() as server:
        for width in map(int, options.windows.split(",")):
            whole, hand, made = in_turns(server, load, width, options.last)
            print(f"| {width} parts | {whole:.3f} | {hand:.3f} | {made:.3f} | {made / hand:.2f} |", flush=True)


if __name__ == "__main__":
    main()
