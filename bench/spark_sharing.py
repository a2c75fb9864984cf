"""What views share, and what moving their state takes.

    python -m bench.spark_sharing                     # everything, into docs/benchmarks/spark.jsonl and spark.md
    python -m bench.spark_sharing --parts process,partitions,moves      # without a JVM

`sharing` gives 1,250 rows at a time to many views over the same two streams: views with the same query, views that
select from the same groups, views of other groups and sums over the same join, and views that differ in a condition on
one of the streams. `process` is the interpreter,
`partitions` runs the tasks of four partitions in this process, and `spark` runs them on two cores. `moves` spreads a
view with many groups over another number of partitions.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import records
from bench.records import Record
from bench.run import ROOT
from bench.spark_report import FILE, write

PARTS = ("process", "partitions", "spark", "moves")
EQUAL, GROUPS_IN_COMMON, JOIN_IN_COMMON, DIFFERENT = "equal", "same groups", "same join", "different"
COUNTS = (
    *((views, EQUAL) for views in (1, 50, 200)),
    *((views, GROUPS_IN_COMMON) for views in (50, 200)),
    *((views, JOIN_IN_COMMON) for views in (50, 200)),
    *((views, DIFFERENT) for views in (50, 200)),
)
"""Numbers of views, and what their queries have in common."""
ROWS, BATCHES = 1_000, 5
GROUPS = (20_000, 100_000)
STREAMS = """
    CREATE STREAM items (orderkey BIGINT NOT NULL, price BIGINT NOT NULL);
    CREATE STREAM orders (orderkey BIGINT NOT NULL, customer BIGINT NOT NULL, priority VARCHAR NOT NULL)
"""
QUERY = """
    SELECT customer, SUM(price) AS total FROM orders JOIN items USING (orderkey)
    WHERE priority <> 'x{}' GROUP BY customer
"""
JOINED = """
    SELECT {groups}, SUM(price * (price + {number})) AS total FROM orders JOIN items USING (orderkey)
    GROUP BY {groups}
"""
GROUPINGS = ("customer", "priority", "customer, priority")


def query(queries: str, number: int) -> str:
    if queries == JOIN_IN_COMMON:
        return JOINED.format(groups=GROUPINGS[number % len(GROUPINGS)], number=number)
    if queries == GROUPS_IN_COMMON:
        return f"{QUERY.format('')} HAVING SUM(price) > {number}"
    return QUERY.format(number if queries == DIFFERENT else "")


def declare(db: Any, views: int, queries: str) -> None:
    db.execute(STREAMS)
    for number in range(views):
        db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query(queries, number)}")


def batch(number: int, choose: random.Random) -> dict[str, list[tuple[Any, ...]]]:
    orders, first = ROWS // 4, number * ROWS
    return {
        "orders": [(first + i, choose.randrange(100), "urgent") for i in range(orders)],
        "items": [(first + choose.randrange(orders), choose.randrange(1_000)) for _ in range(ROWS)],
    }


def sharing(where: str, db: Any, views: int, queries: str) -> Record:
    """Declarations, the first batch, and the median of some more: CPU seconds in this process, seconds on Spark."""
    clock = time.perf_counter if where == "spark" else time.process_time
    choose, taken = random.Random(7), list[float]()
    started = clock()
    declare(db, views, queries)
    declared = clock() - started
    for number in range(BATCHES + 1):
        given = batch(number, choose)
        started = clock()
        db.apply(given)
        taken.append(clock() - started)
    found: Record = {"what": "sharing", "where": where, "views": views, "queries": queries}
    found |= {"declare_seconds": round(declared, 2), "first_seconds": round(taken[0], 2)}
    if where == "process":
        sizes = {id(view.engine): view.engine.stats()["stored"] for view in db._session.database().views.values()}
        rows = sum(sum(each.values()) for each in sizes.values())
    else:
        rows = db.stats()["batches"][-1]["state_rows"]
    return found | {"seconds": round(statistics.median(taken[1:]), 3), "state_rows": rows}


def moves(groups: int) -> Record:
    """A view over four partitions goes to six: CPU seconds, and those of the batch that has filled it."""
    import pyarrow as pa

    from viewlet.connection.spark_facade import connect_inline

    with tempfile.TemporaryDirectory() as folder, connect_inline(folder, 4, sync=False) as db:
        db.execute("CREATE STREAM s (k BIGINT NOT NULL, x BIGINT NOT NULL)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS t FROM s GROUP BY k")
        started = time.process_time()
        db.apply({"s": pa.table({"k": range(groups), "x": range(groups)})})
        filled = time.process_time()
        db.repartition(6)
        moved = time.process_time()
        rows = len(db.view("v"))
    if rows != groups:
        raise RuntimeError(f"{groups} groups have become {rows}")
    taken = {"filled_seconds": round(filled - started, 2), "moved_seconds": round(moved - filled, 2)}
    return {"what": "relocation", "groups": groups, "before": 4, "after": 6, **taken}


def opened(where: str, folder: str) -> Any:
    import viewlet
    from viewlet.connection.spark_facade import connect_inline

    if where == "process":
        return viewlet.connect(engine="interpreter")
    if where == "partitions":
        return connect_inline(folder, 4, sync=False)
    return viewlet.connect(spark="local[2]", checkpoint=folder, partitions=4, engine="interpreter")


def measured(parts: Sequence[str]) -> Iterator[Record]:
    for where in ("process", "partitions", "spark"):
        for views, queries in COUNTS if where in parts else ():
            with tempfile.TemporaryDirectory() as folder, opened(where, folder) as db:
                yield sharing(where, db, views, queries)
    for groups in GROUPS if "moves" in parts else ():
        yield moves(groups)


def main(tell: Callable[[str], None] = print) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--file", type=Path, default=ROOT / "docs" / "benchmarks" / FILE)
    asked = parser.parse_args()
    run = time.strftime("%Y%m%dT%H%M%S")
    for record in measured(asked.parts.split(",")):
        tell(str(record))
        records.append(asked.file, {"kind": "sharing", "run": run, "load": round(os.getloadavg()[0], 1), **record})
    write(asked.file)


if __name__ == "__main__":
    main()
