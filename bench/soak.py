"""Does memory grow with the batches that have gone by? Every kind of view under rows that come and go.

    python -m bench.soak --batches 20000                       # all kinds, a process each, one after the other
    python -m bench.soak --kinds lag,gapfill,median --folder   # stream views in a directory
    python -m bench.soak --kinds sums,triangle --engine interpreter --minutes 60
    python -m bench.soak --kinds streams --together --folder   # all stream views in one process, over one stream

Every batch brings new groups and texts, while the amount of live data stays the same: streams retain a few minutes, and
rows of tables are deleted after a few batches. A kind that holds on to what is gone grows with every batch. Its growth
is the slope over the last two thirds of the run (Theil and Sen), in bytes a batch: of the resident set, which is what a
machine needs, of the heap (`mallinfo2` of glibc), which leaves out fragmentation, and of the files of the directory.

Kinds that run together share a process, and a database as far as they can: their memory is one number. What each view
stores, in rows by `stats`, then tells which of them grows.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
           FROM r_text AS r JOIN q_text AS q ON r.b = q.b JOIN p_text AS p ON q.c = p.c AND p.a = r.a
           GROUP BY r.a""",
    ),
    "cofactor": ("SELECT COFACTOR(t.x, t.d, names.id) FROM t JOIN names ON t.g = names.g",),
    "cofactor of categories": ("SELECT COFACTOR(t.x, CATEGORICAL(names.title)) FROM t JOIN names ON t.g = names.g",),
    "factorized": ("SELECT FACTORIZED g, s, title FROM t NATURAL JOIN titles",),
}
"""Views over t (id, g, s, x, d), names (id, g, title), titles (g, title), and edges of numbers and of texts."""


Workload = tuple[Any, Callable[[int], None]]
"""A database, or what takes its place, and what applies batch i."""


def named(kind: str, views: Sequence[str]) -> dict[str, str]:
    """The views of a kind by names of their own, instead of v0 and v1."""
    name = kind.replace(" ", "_")
    return {f"{name}_{i}": re.sub(r"\bv(\d)\b", rf"{name}_\1", view) for i, view in enumerate(views)}


def connect(folder: str | None, **options: Any) -> Any:
    return viewlet.connect(folder, **options) if folder else viewlet.connect(**options)


def stream_database(kinds: Sequence[str], folder: str | None) -> Workload:
    """A stream whose views retain five minutes; a batch is a minute, at times with a late row and a delete."""
    db = connect(folder)
    length = 200 if any("150 MINUTES" in view for kind in kinds for view in STREAM_VIEWS[kind]) else 20
    db.execute(f"""CREATE STREAM m (ts TIMESTAMP, g VARCHAR, h BIGINT, s VARCHAR, x BIGINT, d DOUBLE)
        PARTITION LENGTH 60 BY ts LATENESS INTERVAL '2' MINUTE RETAIN INTERVAL '{length}' MINUTE""")
    for kind in kinds:
        views = named(kind, STREAM_VIEWS[kind])
        for name, view in views.items():
            db.execute(f"CREATE VIEW {name} AS {view} RETAIN INTERVAL '5' MINUTE")
        for name in list(views)[-1:]:
            db.view(name).subscribe(lambda epoch, changes: None)

    def row(i: int, k: int) -> tuple[Any, ...]:
        group = f"group {i * 5 + k % 15} of the soak"
        return ORIGIN + timedelta(minutes=i, seconds=2 * k % 60), group, k % 5, f"text {i} {k}", k + 1, k / 3

    def batch(i: int) -> None:
        db.insert("m", [row(i, k) for k in range(30)])
        if i % 10 == 9:
            db.delete("m", [row(i - 1, 29)])
            db.insert("m", [row(i - 1, 30)])

    return db, batch


def table_database(kinds: Sequence[str], engine: str, folder: str | None) -> Workload:
    db = connect(folder, engine=engine)
    db.execute("CREATE TABLE t (id BIGINT NOT NULL, g VARCHAR, s VARCHAR, x BIGINT, d DOUBLE)")
    db.execute("CREATE TABLE names (id BIGINT NOT NULL, g VARCHAR, title VARCHAR)")
    db.execute("CREATE TABLE titles (g VARCHAR, title VARCHAR)")
    for name, a, b in (("r", "a", "b"), ("q", "b", "c"), ("p", "c", "a")):
        db.execute(f"CREATE TABLE {name} ({a} BIGINT NOT NULL, {b} BIGINT NOT NULL)")
        db.execute(f"CREATE TABLE {name}_text ({a} VARCHAR NOT NULL, {b} VARCHAR NOT NULL)")
    read: set[str] = set()
    for kind in kinds:
        for name, view in named(kind, TABLE_VIEWS[kind]).items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} {view if view.startswith('WITH') else f'AS {view}'}")
            read.update(re.findall(r"(?:FROM|JOIN) (\w+)", view))
            if "FACTORIZED" not in view:
                db.view(name).subscribe(lambda epoch, changes: None)

    def rows(i: int) -> dict[str, list[tuple[Any, ...]]]:
        edges: list[tuple[Any, ...]] = [(i * 10 + k % 7, i * 10 + k * 3 % 10) for k in range(40)]
        texts: list[tuple[Any, ...]] = [(str(a), str(b)) for a, b in edges]
        tables: dict[str, list[tuple[Any, ...]]] = {
            "t": [(i * 60 + k, f"group {i * 10 + k % 20}", f"text {i} {k}", k, k / 3) for k in range(60)],
            "names": [(i * 60 + k, f"group {i * 10 + k}", f"title {i} {k}") for k in range(20)],
            "titles": [(f"group {i * 10 + k}", f"title {i} {k}") for k in range(20)],
            **dict.fromkeys(("r", "q", "p"), edges),
            **dict.fromkeys(("r_text", "q_text", "p_text"), texts),
        }
        return {name: rows for name, rows in tables.items() if name in read}

    def batch(i: int) -> None:
        db.apply(rows(i))
        if i >= LIVE:
            for name, old in rows(i - LIVE).items():
                db.delete(name, old)

    return db, batch


def signal_database(folder: str | None) -> Workload:
    db = connect(folder)
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


def matrix_program() -> Workload:
    import numpy as np

    from viewlet import linalg

    program = linalg.program("input X(m, n), Y(m, p); B := inv(X' * X) * X' * Y;")
    random = np.random.default_rng(1)
    running = program.start(X=random.normal(size=(50, 8)), Y=random.normal(size=(50, 2)))

    def batch(i: int) -> None:
        running.set_row("X", i % 50, random.normal(size=8))
        running.set_row("Y", i % 50, random.normal(size=2))

    return running, batch


def matrix_database(folder: str | None) -> Workload:
    """A matrix of links between nodes that come and go, and its second power."""
    from viewlet import linalg

    db = connect(folder)
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


OTHERS: dict[str, Callable[[str | None], Workload]] = {
    "signals": signal_database,
    "matrix program": lambda folder: matrix_program(),
    "matrix view": matrix_database,
}
GROUPS = {"streams": [*STREAM_VIEWS], "tables": [*TABLE_VIEWS], "others": [*OTHERS]}
KINDS = [kind for kinds in GROUPS.values() for kind in kinds]


def workloads(kinds: Sequence[str], engine: str, folder: Path | None) -> list[Workload]:
    """Databases with some kinds: one for those over streams, one for those over tables, one for each other."""
    streams, tables, others = ([kind for kind in kinds if kind in group] for group in GROUPS.values())

    def place(name: str) -> str | None:
        return str(folder / name) if folder else None

    found = [stream_database(streams, place("streams"))] if streams else []
    found += [table_database(tables, engine, place("tables"))] if tables else []
    return found + [OTHERS[kind](place(kind)) for kind in others]


# -- measuring ---------------------------------------------------------------------------------------------------------


class _Heap(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks")),
        *((name, ctypes.c_size_t) for name in ("uordblks", "fordblks", "keepcost")),
    ]


@dataclass(frozen=True, slots=True)
class Point:
    """A process after a number of batches; sizes are in bytes."""

    batch: int
    seconds: float
    resident: int
    allocated: int
    """What is allocated on the heap."""
    disk: int
    files: int
    stored: Mapping[str, int]
    """The rows that each view stores, with those of its helpers."""


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


def stored(databases: Sequence[Any]) -> dict[str, int]:
    views = [item for db in databases if hasattr(db, "stats") for item in db.stats()["views"].items()]
    return {name: sum(facts["stored"].values()) for name, facts in views}


def soak(
    kinds: Sequence[str], batches: int, seconds: float, engine: str, folder: Path | None, tell: Callable[[Point], None]
) -> None:
    """Runs kinds until the batches or the seconds are up, whichever happens first."""
    running = workloads(kinds, engine, folder)
    databases = [db for db, _ in running]
    begin, done, told, spent = time.monotonic(), 0, 0, 0.0
    while done < batches and spent < seconds:
        for _, batch in running:
            batch(done)
        done, spent = done + 1, time.monotonic() - begin
        if max(done / batches, spent / seconds) * POINTS >= told + 1:
            gc.collect()
            sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()] if folder else []
            tell(Point(done, spent, resident(), allocated(), sum(sizes), len(sizes), stored(databases)))
            told += 1
    for db in databases:
        if hasattr(db, "close"):
            db.close()


def slope(points: Sequence[tuple[int, int]]) -> float:
    """The median of the slopes between any two points."""
    return median([(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2)] or [0.0])


COLUMNS = "kind, where, batches, warm after, MiB then, MiB at the end, B a batch, allocated B, on disk B, ms a batch"


def report(what: str, place: str, points: Sequence[Point]) -> str:
    late = points[len(points) // 3 :]
    first, last = late[0], late[-1]
    grows = [slope([(each.batch, getattr(each, of)) for each in late]) for of in ("resident", "allocated", "disk")]
    memory = (f"{each.resident / 2**20:,.0f}" for each in (first, last))
    return (
        f"| {what} | {place} | {last.batch:,} | {first.batch:,} | {' | '.join(memory)} | "
        f"{' | '.join(f'{each:,.0f}' for each in grows)} | {1e3 * last.seconds / last.batch:.1f} |"
    )


def growing(points: Sequence[Point]) -> list[str]:
    """The views that store more and more rows, and how many more in 1,000 batches."""
    late = points[len(points) // 3 :]
    grows = {name: 1e3 * slope([(each.batch, each.stored[name]) for each in late]) for name in late[0].stored}
    return [f"{name}: {rows:,.1f} rows more in 1,000 batches" for name, rows in grows.items() if rows > 0.5]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(GROUPS), help="kinds, and groups of them: streams, tables, others")
    parser.add_argument("--together", action="store_true", help="in one process, not each in one of its own")
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--engine", choices=["compiled", "interpreter"], default="compiled")
    parser.add_argument("--folder", action="store_true", help="in a directory, not in memory")
    parser.add_argument("--points", type=Path, help="where the points of the runs are appended, as JSON lines")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    kinds = [kind for name in given.kinds.split(",") for kind in GROUPS.get(name, [name])]
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        parser.error(f"no kind {unknown[0]!r}; there are {', '.join(KINDS)}")
    given.kinds = kinds
    return given


def run_inside(given: argparse.Namespace) -> None:
    """Prints each point as a line of JSON."""
    with tempfile.TemporaryDirectory(prefix="viewlet-soak-") as folder:
        place = Path(folder) if given.folder else None
        soak(
            given.kinds,
            given.batches,
            60 * given.minutes,
            given.engine,
            place,
            lambda point: print(json.dumps(asdict(point)), flush=True),
        )


def main() -> None:
    given = parsed()
    if given.inside:
        run_inside(given)
        return
    print(f"| {COLUMNS.replace(', ', ' | ')} |\n{'|---' * (COLUMNS.count(',') + 1)}|")
    for kinds in [given.kinds] if given.together else [[kind] for kind in given.kinds]:
        engine = f"{given.engine}, " if any(kind in TABLE_VIEWS for kind in kinds) else ""
        place = engine + ("directory" if given.folder else "memory")
        command = [sys.executable, "-m", "bench.soak", "--inside", *sys.argv[1:], "--kinds", ",".join(kinds)]
        points: list[Point] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                points.append(Point(**json.loads(line)))
                if given.points:
                    with given.points.open("a") as file:
                        file.write(json.dumps({"kinds": kinds, "place": place, **asdict(points[-1])}) + "\n")
        what = ", ".join(kinds)
        if process.returncode or not points:
            print(f"| {what} | {place} | failed with exit code {process.returncode} |", flush=True)
            continue
        print(report(what, place, points), *growing(points), sep="\n", flush=True)


if __name__ == "__main__":
    main()
