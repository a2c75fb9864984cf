"""Does memory grow with the batches that have gone by? Every kind of view under rows that come and go.

    python -m bench.soak --batches 20000                       # all kinds, a process each, one after the other
    python -m bench.soak --kinds lag,gapfill,median --folder   # stream views in a directory
    python -m bench.soak --kinds sums,triangle --engine interpreter --minutes 60

Every batch brings new groups and texts, while the amount of live data stays the same: streams retain a few minutes, and
rows of tables are deleted after a few batches. A kind that holds on to what is gone grows with every batch. Its growth
is the slope over the last two thirds of the run (Theil and Sen), in bytes a batch: of the resident set, which is what a
machine needs, and of the heap (`mallinfo2` of glibc), which leaves out fragmentation.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import viewlet

ORIGIN = datetime(2015, 1, 1, 10)
POINTS = 60
"""How many times a run measures itself."""
LIVE = 5
"""Batches after which the rows of a table are deleted."""
MATCH = """MATCH_RECOGNIZE (PARTITION BY g ORDER BY {time} MEASURES COUNT(*) AS n, LAST(x) AS l
           PATTERN (a b) WITHIN INTERVAL '3' MINUTES DEFINE a AS x > 0)"""

STREAM_VIEWS: dict[str, tuple[str, ...]] = {
    "stream": (),
    "tumbling": (
        """SELECT g, window_start, SUM(x) AS s, MAX(s) AS t FROM TUMBLE(m, INTERVAL '2' MINUTES)
           GROUP BY g, window_start""",
    ),
    "hopping": (
        """SELECT g, window_start, SUM(x) AS s FROM HOP(m, INTERVAL '2' MINUTES, INTERVAL '6' MINUTES)
           GROUP BY g, window_start""",
    ),
    "session": (
        """SELECT g, window_start, window_end, COUNT(*) AS n FROM SESSION(m PARTITION BY g, INTERVAL '90' SECONDS)
           GROUP BY g, window_start, window_end""",
    ),
    "trees": ("SELECT g, SUM(x) AS s, MAX(x) AS mx FROM m [WINDOW 3 MINUTES] GROUP BY g",),
    "texts": ("SELECT g, MAX(s) AS s, COUNT(*) AS n FROM m [WINDOW 10 MINUTES] GROUP BY g",),
    "totals": ("SELECT g, SUM(x) AS s, COUNT(*) AS n FROM m [WINDOW 150 MINUTES] GROUP BY g",),
    "doubles": ("SELECT g, SUM(d) AS s, VAR_POP(d) AS v FROM m [WINDOW 8 MINUTES] GROUP BY g",),
    "median": ("SELECT g, MEDIAN(x) AS s FROM m [WINDOW 4 MINUTES] GROUP BY g",),
    "lag": ("SELECT ts, g, x - LAG(x) OVER (PARTITION BY g ORDER BY ts) AS d FROM m",),
    "lag of few": ("SELECT ts, h, x - LAG(x) OVER (PARTITION BY h ORDER BY ts) AS d FROM m",),
    "gapfill": ("SELECT g, s, filled FROM GAPFILL(m PARTITION BY g, INTERVAL '3' MINUTES)",),
    "pattern": ("SELECT g, COUNT(*) AS n FROM m PATTERN [a, b+] WHERE a.x > 0 AND b.x > 0 GROUP BY g",),
    "match": (f"SELECT g, n, l FROM m {MATCH.format(time='ts')}",),
    "match of a view": (
        "SELECT g, SUM(x) AS x FROM m [WINDOW 3 MINUTES] GROUP BY g",
        f"SELECT g, n, l FROM v0 {MATCH.format(time='part_timestamp')}",
    ),
    "view over view": (
        """INITIALIZE v0[i] AS SELECT g, SUM(x) AS x FROM m[i] GROUP BY g
           UPDATE v0[j] AS SELECT g, SUM(x) AS x FROM m[j] GROUP BY g""",
        "SELECT g, SUM(x) AS x, COUNT(*) AS n FROM v0 [WINDOW 6 MINUTES] GROUP BY g",
    ),
    "own parts": (
        """INITIALIZE v0[i] AS SELECT h, SUM(x) AS x FROM m[i] GROUP BY h
           UPDATE v0[j] AS SELECT n.h, n.x + COALESCE(o.x, 0) % 1000 AS x
           FROM (SELECT h, SUM(x) AS x FROM m[j] GROUP BY h) AS n
           LEFT JOIN v0[j-1] AS o ON n.h IS NOT DISTINCT FROM o.h""",
    ),
}
"""Views over `m`, which has the columns ts, g (new in each batch), h (one of five), s (new), x and d."""

TABLE_VIEWS: dict[str, tuple[str, ...]] = {
    "sums": ("SELECT g, SUM(x) AS s, COUNT(*) AS n, AVG(d) AS a FROM t GROUP BY g",),
    "extremes": ("SELECT g, MIN(s) AS lo, MAX(x) AS hi FROM t GROUP BY g",),
    "distinct": ("SELECT DISTINCT s FROM t", "SELECT UPPER(g) || '-' || s AS k, COUNT(*) AS n FROM t GROUP BY ALL"),
    "join": ("SELECT names.title, SUM(t.x) AS s FROM t JOIN names ON t.g = names.g GROUP BY names.title",),
    "outer join": ("SELECT t.s, names.title FROM t LEFT JOIN names ON t.g = names.g",),
    "inequality": ("SELECT a.g, COUNT(*) AS n FROM t AS a JOIN names AS b ON a.id < b.id GROUP BY a.g",),
    "top": ("SELECT g, s, x FROM t ORDER BY x DESC, s LIMIT 5",),
    "triangle": (
        """WITH (strategy = 'adaptive') AS
           SELECT COUNT(*) AS n FROM r JOIN q ON r.b = q.b JOIN p ON q.c = p.c AND p.a = r.a""",
    ),
    "triangle by text": (
        """WITH (strategy = 'adaptive') AS SELECT r.a, COUNT(*) AS n
           FROM r JOIN q ON r.b = q.b JOIN p ON q.c = p.c AND p.a = r.a GROUP BY r.a""",
    ),
    "cofactor": ("SELECT COFACTOR(t.x, t.d, names.id) FROM t JOIN names ON t.g = names.g",),
    "cofactor of categories": ("SELECT COFACTOR(t.x, CATEGORICAL(names.title)) FROM t JOIN names ON t.g = names.g",),
    "factorized": ("SELECT FACTORIZED g, s, title FROM t NATURAL JOIN titles",),
}
"""Views over t (id, g, s, x, d), names (id, g, title), titles (g, title) and the edges r, q and p."""


def stream_database(views: Sequence[str], folder: str | None) -> tuple[Any, Callable[[int], None]]:
    """A stream whose views retain five minutes, and what applies batch i: a minute, a late row and a delete."""
    db = viewlet.connect(folder) if folder else viewlet.connect()
    length = 200 if any("150 MINUTES" in view for view in views) else 20
    db.execute(f"""CREATE STREAM m (ts TIMESTAMP, g VARCHAR, h BIGINT, s VARCHAR, x BIGINT, d DOUBLE)
        PARTITION LENGTH 60 BY ts LATENESS INTERVAL '2' MINUTE RETAIN INTERVAL '{length}' MINUTE""")
    for number, view in enumerate(views):
        db.execute(f"CREATE VIEW v{number} AS {view} RETAIN INTERVAL '5' MINUTE")
    if views:
        db.view(f"v{len(views) - 1}").subscribe(lambda epoch, changes: None)

    def row(i: int, k: int) -> tuple[Any, ...]:
        group = f"group {i * 5 + k % 15} of the soak"
        return ORIGIN + timedelta(minutes=i, seconds=2 * k % 60), group, k % 5, f"text {i} {k}", k + 1, k / 3

    def batch(i: int) -> None:
        db.insert("m", [row(i, k) for k in range(30)])
        if i % 10 == 9:
            db.delete("m", [row(i - 1, 29)])
            db.insert("m", [row(i - 1, 30)])

    return db, batch


def table_database(views: Sequence[str], engine: str, folder: str | None) -> tuple[Any, Callable[[int], None]]:
    db = viewlet.connect(folder, engine=engine) if folder else viewlet.connect(engine=engine)
    text = any("GROUP BY r.a" in view for view in views)
    db.execute("CREATE TABLE t (id BIGINT NOT NULL, g VARCHAR, s VARCHAR, x BIGINT, d DOUBLE)")
    db.execute("CREATE TABLE names (id BIGINT NOT NULL, g VARCHAR, title VARCHAR)")
    kind = "VARCHAR" if text else "BIGINT"
    db.execute("CREATE TABLE titles (g VARCHAR, title VARCHAR)")
    for name, a, b in (("r", "a", "b"), ("q", "b", "c"), ("p", "c", "a")):
        db.execute(f"CREATE TABLE {name} ({a} {kind} NOT NULL, {b} {kind} NOT NULL)")
    for number, view in enumerate(views):
        db.execute(f"CREATE MATERIALIZED VIEW v{number} {view if view.startswith('WITH') else f'AS {view}'}")
    if not any("FACTORIZED" in view for view in views):
        db.view("v0").subscribe(lambda epoch, changes: None)
    has_edges = any("FROM r" in view for view in views)

    def rows(i: int) -> dict[str, list[tuple[Any, ...]]]:
        if has_edges:
            number = str if text else int
            edges = [(number(i * 10 + k % 7), number(i * 10 + k * 3 % 10)) for k in range(40)]
            return dict.fromkeys(("r", "q", "p"), edges)
        return {
            "t": [(i * 60 + k, f"group {i * 10 + k % 20}", f"text {i} {k}", k, k / 3) for k in range(60)],
            "names": [(i * 60 + k, f"group {i * 10 + k}", f"title {i} {k}") for k in range(20)],
            "titles": [(f"group {i * 10 + k}", f"title {i} {k}") for k in range(20)],
        }

    def batch(i: int) -> None:
        db.apply(rows(i))
        if i >= LIVE:
            for name, old in rows(i - LIVE).items():
                db.delete(name, old)

    return db, batch


def signal_database(folder: str | None) -> tuple[Any, Callable[[int], None]]:
    db = viewlet.connect(folder) if folder else viewlet.connect()
    db.execute("CREATE TABLE r (k VARCHAR NOT NULL, at BIGINT NOT NULL, g DOUBLE)")
    even = db.signal("r", key="k", time="at", value="g", unit="ms").sample("10ms", "linear", max_gap="50ms")
    db.create_view("levels", even.power(20, 10))
    db.execute("CREATE MATERIALIZED VIEW alerts AS SELECT k, MAX(g) AS m, COUNT(*) AS n FROM levels GROUP BY k")

    def rows(i: int) -> list[tuple[Any, ...]]:
        return [(f"machine {i * 5 + k % 10}", 10 * (k // 10) + i * 7, float(k % 7)) for k in range(300)]

    def batch(i: int) -> None:
        db.insert("r", rows(i))
        if i >= LIVE:
            db.delete("r", rows(i - LIVE))

    return db, batch


def matrix_program() -> tuple[Any, Callable[[int], None]]:
    import numpy as np

    from viewlet import linalg

    program = linalg.program("input X(m, n), Y(m, p); B := inv(X' * X) * X' * Y;")
    random = np.random.default_rng(1)
    running = program.start(X=random.normal(size=(50, 8)), Y=random.normal(size=(50, 2)))

    def batch(i: int) -> None:
        running.set_row("X", i % 50, random.normal(size=8))
        running.set_row("Y", i % 50, random.normal(size=2))

    return running, batch


def matrix_database(folder: str | None) -> tuple[Any, Callable[[int], None]]:
    """A matrix of links between nodes that come and go, and its second power."""
    from viewlet import linalg

    db = viewlet.connect(folder) if folder else viewlet.connect()
    db.execute("CREATE TABLE links (a VARCHAR NOT NULL, b VARCHAR NOT NULL, w DOUBLE NOT NULL)")
    n = linalg.dim("n")
    links = linalg.matrix("A", n, n, dynamic=True)
    db.program("reach", linalg.program(paths=links @ links), A="links")

    def rows(i: int) -> list[tuple[Any, ...]]:
        return [(f"node {i * 3 + k}", f"node {i * 3 + (k + 1) % 6}", 1.0 + k) for k in range(6)]

    def batch(i: int) -> None:
        db.insert("links", rows(i))
        if i >= LIVE:
            db.delete("links", rows(i - LIVE))

    return db, batch


KINDS = [*STREAM_VIEWS, *TABLE_VIEWS, "signals", "matrix program", "matrix view"]


def database(kind: str, engine: str, folder: str | None) -> tuple[Any, Callable[[int], None]]:
    if kind in STREAM_VIEWS:
        return stream_database(STREAM_VIEWS[kind], folder)
    if kind in TABLE_VIEWS:
        return table_database(TABLE_VIEWS[kind], engine, folder)
    if kind == "signals":
        return signal_database(folder)
    return matrix_program() if kind == "matrix program" else matrix_database(folder)


# -- measuring ---------------------------------------------------------------------------------------------------------


class _Heap(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks")),
        *((name, ctypes.c_size_t) for name in ("uordblks", "fordblks", "keepcost")),
    ]


@dataclass(frozen=True, slots=True)
class Point:
    """Memory of a process after a number of batches, in bytes: the resident set, and what is allocated on the heap."""

    batch: int
    resident: int
    allocated: int


def resident() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def allocated() -> int:
    """Bytes in use of all arenas of glibc; 0 elsewhere."""
    try:
        info = ctypes.CDLL("libc.so.6").mallinfo2
    except (OSError, AttributeError):
        return 0
    info.restype = _Heap
    heap = info()
    return int(heap.uordblks + heap.hblkhd)


def soak(kind: str, batches: int, seconds: float, engine: str, folder: str | None) -> list[Point]:
    """Runs a kind until the batches or the seconds are up, whichever happens first."""
    db, batch = database(kind, engine, folder)
    points: list[Point] = []
    begin, step = time.monotonic(), max(batches // POINTS, 1)
    done = 0
    while done < batches and time.monotonic() - begin < seconds:
        batch(done)
        done += 1
        if done % step == 0:
            gc.collect()
            points.append(Point(done, resident(), allocated()))
    if hasattr(db, "close"):
        db.close()
    return points


def slope(points: Sequence[tuple[int, int]]) -> float:
    """The median of the slopes between any two points."""
    return median([(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2)] or [0.0])


def report(kind: str, place: str, points: Sequence[Point], seconds: float) -> str:
    late = points[len(points) // 3 :]
    grows = [slope([(each.batch, getattr(each, of)) for each in late]) for of in ("resident", "allocated")]
    first, last = (f"{each.resident / 2**20:,.0f}" for each in (late[0], late[-1]))
    return (
        f"| {kind} | {place} | {points[-1].batch:,} | {late[0].batch:,} | {first} | {last} | {grows[0]:,.0f} | "
        f"{grows[1]:,.0f} | {1e3 * seconds / points[-1].batch:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--engine", choices=["compiled", "interpreter"], default="compiled")
    parser.add_argument("--folder", action="store_true", help="in a directory, not in memory")
    parser.add_argument("--points", type=Path, help="where the points of the runs are appended, as JSON lines")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    kinds = given.kinds.split(",")
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        parser.error(f"no kind {unknown[0]!r}; there are {', '.join(KINDS)}")
    if given.inside:
        with tempfile.TemporaryDirectory(prefix="viewlet-soak-") as folder:
            place = str(Path(folder) / "db") if given.folder else None
            points = soak(kinds[0], given.batches, 60 * given.minutes, given.engine, place)
        print(json.dumps([[each.batch, each.resident, each.allocated] for each in points]))
        return
    print("| kind | where | batches | warm after | MiB then | MiB at the end | B a batch | allocated B | ms a batch |")
    print("|---" * 9 + "|")
    for kind in kinds:
        engine = "" if kind not in TABLE_VIEWS else f"{given.engine}, "
        place = engine + ("directory" if given.folder else "memory")
        command = [sys.executable, "-m", "bench.soak", "--inside", *sys.argv[1:], "--kinds", kind]
        begin = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        seconds = time.monotonic() - begin
        if done.returncode:
            print(f"| {kind} | {place} | failed with exit code {done.returncode} |", flush=True)
            continue
        measured = json.loads(done.stdout.splitlines()[-1])
        print(report(kind, place, [Point(*each) for each in measured], seconds), flush=True)
        if given.points:
            with given.points.open("a") as file:
                file.write(json.dumps({"kind": kind, "place": place, "seconds": seconds, "points": measured}) + "\n")


if __name__ == "__main__":
    main()
