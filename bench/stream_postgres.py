"""Windows on PostgreSQL: what is generated against SQL by hand, through the same `psql`, with parts as tables.

    python -m bench.stream_postgres --server "host=/run/pg user=tester dbname=postgres" --records 100000

Wall seconds for a new part, the median of the last ones; the server works in processes of its own.
"""

from __future__ import annotations

import argparse
import statistics
import time

import viewlet
from bench.stream_views import STREAM, WINDOW, Load
from viewlet.streams import PostgresHost


def generated(server: str, load: Load, width: int, last: int) -> float:
    """The refresh of a window view."""
    db = viewlet.connect(streams=PostgresHost(server))
    db.execute(STREAM)
    db.execute(WINDOW.format("SUM", width))
    warehouse, spent = db._session.database().host.warehouse, []  # type: ignore[attr-defined]
    advance = warehouse.advance

    def timed() -> None:
        started = time.perf_counter()
        advance()
        spent.append(time.perf_counter() - started)

    warehouse.advance = timed
    for number in range(width + last + 2):
        db.insert("m", load.part(number))
    db.close()
    refreshes = [each for each in spent if each > 0.001]  # a batch is asked for twice, and refreshed once
    return statistics.median(refreshes[-last:])


def by_hand(server: str, load: Load, width: int, last: int, is_naive: bool) -> float:
    """The same query by running totals, or over the rows of the window."""
    host, taken = PostgresHost(server), []
    host._run("DROP SCHEMA viewlet CASCADE; CREATE SCHEMA viewlet;")
    for number in range(width + last + 2):
        host.load(f"m{number}", load.part(number))
        started = time.perf_counter()
        if is_naive:
            rows = " UNION ALL ".join(f'SELECT * FROM "m{n}"' for n in range(max(0, number - width + 1), number + 1))
            query = f"SELECT src, dest, SUM(loss)::BIGINT AS s FROM ({rows}) AS w GROUP BY src, dest"
        else:
            new = f'SELECT src, dest, SUM(loss) AS s, COUNT(*)::NUMERIC AS n FROM "m{number}" GROUP BY src, dest'
            old = f' UNION ALL SELECT * FROM "h{number - 1}"' if number else ""
            summed = f"SELECT src, dest, SUM(s) AS s, SUM(n) AS n FROM ({new}{old}) AS b GROUP BY src, dest"
            host.create(f"h{number}", summed)
            minus = f' UNION ALL SELECT src, dest, -s, -n FROM "h{number - width}"' if number >= width else ""
            query = f"""SELECT src, dest, SUM(s)::BIGINT AS s FROM (SELECT * FROM "h{number}"{minus}) AS d
                GROUP BY src, dest HAVING SUM(n) > 0"""
        host.create(f"v{number}", query)
        taken.append(time.perf_counter() - started)
    host.close()
    return statistics.median(taken[-last:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True, help="what psql connects with; the schema viewlet is replaced")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--windows", default="5,20")
    parser.add_argument("--last", type=int, default=5)
    options = parser.parse_args()
    load = Load(options.records, per_pair=10)
    print("| window SUM | naive | hand-written | generated | generated / hand |\n|---|---|---|---|---|")
    for width in map(int, options.windows.split(",")):
        naive, hand = (by_hand(options.server, load, width, options.last, each) for each in (True, False))
        made = generated(options.server, load, width, options.last)
        print(f"| {width} parts | {naive:.3f} | {hand:.3f} | {made:.3f} | {made / hand:.2f} |", flush=True)


if __name__ == "__main__":
    main()
