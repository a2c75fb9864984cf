"""Sessions, windows with offsets and windows in GROUP BY: random streams against recomputation, and what is refused."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import pytest

import viewlet
from tests.streams.model import Model, Row, at, part_number
from tests.streams.test_oracle import SEEDS, M, grouped, play, total
from viewlet.errors import SqlError

GAP = timedelta(seconds=70)
AHEAD = 2
"""Parts after that of its last row that may continue a session."""


def sessions(model: Model, keep: Callable[[Row], bool] = lambda row: True) -> list[tuple[object, list[Row]]]:
    """The sessions of each group over the closed parts, in the order of time."""
    found: list[tuple[object, list[Row]]] = []
    rows = [row for row in model.rows.elements() if part_number(row) < model.closed and keep(row)]
    for key, group in grouped(rows).items():
        group.sort(key=lambda row: moment(row))
        run: list[Row] = []
        for row in group:
            if run and moment(row) - moment(run[-1]) > GAP:
                found.append((key, run))
                run = []
            run.append(row)
        found.append((key, run))
    return found


def moment(row: Row) -> datetime:
    assert isinstance(row[0], datetime)
    return row[0]


def bounds(run: list[Row]) -> tuple[datetime, datetime]:
    return moment(run[0]), moment(run[-1]) + GAP


def shown(db: viewlet.Connection, name: str, found: Iterable[tuple[int, Row]], until: int) -> list[Row]:
    """What a view shows of rows with their parts: parts from its first one on, before `until`."""
    listed = db.view(name).parts()
    first = (listed[0].start - at(0)).total_seconds() // 60 if listed else until
    rows = [(*row, at(60 * part)) for part, row in found if first <= part < until]
    return sorted(rows, key=repr)


SESSIONS = {
    "sums": (
        "SELECT g, window_start, window_end, SUM(x) AS x, COUNT(*) AS n FROM SESSION(m PARTITION BY g, {0})"
        " WHERE x <> 3 GROUP BY g, window_start, window_end",
        lambda key, run: [row for row in run if row[2] is not None and row[2] != 3],
        lambda key, run, kept: (key, *bounds(run), total(kept), len(kept)),
    ),
    "medians": (
        "SELECT s.g, window_end, MEDIAN(x) AS x FROM SESSION(m PARTITION BY g, {0}) AS s GROUP BY s.g, window_end",
        lambda key, run: run,
        lambda key, run, kept: (key, bounds(run)[1], median(kept)),
    ),
}


def median(rows: list[Row]) -> float | None:
    known = [row[2] for row in rows if isinstance(row[2], int)]
    return float(statistics.median(known)) if known else None


@pytest.mark.parametrize(("kind", "seed"), [("sums", 0), ("medians", 1), *(("sums", seed) for seed in SEEDS[2:])])
def test_sessions_move_and_merge(kind: str, seed: int) -> None:
    query, keep, make = SESSIONS[kind]
    db = viewlet.connect()
    db.execute(M)
    call = query.format("INTERVAL '70' SECONDS")
    db.execute(f"CREATE VIEW changes AS {call} EMIT CHANGES")
    db.execute(f"CREATE VIEW closed AS {call} EMIT ON WINDOW CLOSE")

    def check(model: Model) -> None:
        found = [
            (part_number(run[-1]), make(key, run, keep(key, run))) for key, run in sessions(model) if keep(key, run)
        ]
        for name, until in (("changes", model.closed), ("closed", model.closed - AHEAD)):
            assert sorted(db.view(name).rows(), key=repr) == shown(db, name, found, until)

    play(db, seed, check)


@pytest.mark.parametrize("seed", SEEDS[1:])
def test_spark_spelling_of_sessions_filters_first(seed: int) -> None:
    db = viewlet.connect()
    db.execute(M)
    db.execute("""CREATE VIEW v AS SELECT g, session_window.start AS start, session_window.end, MAX(x) AS x
        FROM m WHERE x > 0 GROUP BY g, session_window(ts, '70 seconds')""")
    assert db.view("v").columns == ("g", "start", "end", "x", "part_timestamp")

    def check(model: Model) -> None:
        runs = sessions(model, lambda row: isinstance(row[2], int) and row[2] > 0)
        found = [(part_number(run[-1]), (key, *bounds(run), max(int(str(row[2])) for row in run))) for key, run in runs]
        assert sorted(db.view("v").rows(), key=repr) == shown(db, "v", found, model.closed)

    play(db, seed, check)


WINDOWS = {
    "tumble": ("TUMBLE(m, INTERVAL '3' MINUTES)", 180, 180, 0),
    "offset": ("TUMBLE(m, INTERVAL '3' MINUTES, INTERVAL '75' SECONDS)", 180, 180, 75),
    "uneven": ("HOP(m, INTERVAL '2' MINUTES, INTERVAL '3' MINUTES)", 120, 180, 0),
    "uneven offset": ("HOP(m, INTERVAL '3' MINUTES, INTERVAL '7' MINUTES, INTERVAL '1' MINUTE)", 180, 420, 60),
    "hop": ("HOP(m, INTERVAL '2' MINUTES, INTERVAL '4' MINUTES, INTERVAL '1' MINUTE)", 120, 240, 60),
}


@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_with_offsets(kind: str) -> None:
    call, slide, size, offset = WINDOWS[kind]
    db = viewlet.connect()
    db.execute(M)
    query = f"SELECT window_start, window_end, SUM(x) AS x, COUNT(*) AS n FROM {call} GROUP BY window_start, window_end"
    db.execute(f"CREATE VIEW changes AS {query}")
    db.execute(f"CREATE VIEW closed AS {query} EMIT ON WINDOW CLOSE")
    same = f"window(ts, '{size} seconds', '{slide} seconds', '{offset} seconds')"
    db.execute(
        f"CREATE VIEW spark AS SELECT window.start, window.end, SUM(x) AS x, COUNT(*) AS n FROM m GROUP BY {same}"
    )
    db.execute(f"""CREATE VIEW groups AS SELECT w.g, window_end, MAX(x) AS x, COUNT(*) AS n FROM {call} AS w WHERE x > 0
        GROUP BY w.g, window_end HAVING COUNT(*) > 1""")

    def check_groups(seen: list[Row]) -> None:
        first = min((part.start for part in db.view("groups").parts()), default=at(0))
        wanted = []
        for number in range(-10, 60):
            start = at(number * slide + offset)
            end = start + timedelta(seconds=size)
            inside = [row for row in seen if start <= moment(row) < end and isinstance(row[2], int) and row[2] > 0]
            for key, rows in grouped(inside).items():
                if len(rows) > 1 and end > first:
                    wanted.append((key, end, max(int(str(row[2])) for row in rows), len(rows)))
        assert sorted((row[:4] for row in db.view("groups").rows()), key=repr) == sorted(wanted, key=repr)

    def check(model: Model) -> None:
        check_groups([row for row in model.rows.elements() if part_number(row) < model.closed])
        seen = [row for row in model.rows.elements() if part_number(row) < model.closed]
        windows = {}
        for number in range(-10, 60):
            start = at(number * slide + offset)
            rows = [row for row in seen if start <= moment(row) < start + timedelta(seconds=size)]
            if rows:
                windows[start] = (start, start + timedelta(seconds=size), total(rows), len(rows))
        ended = {start for start, row in windows.items() if row[1] <= at(60 * model.closed)}
        for name in ("changes", "closed", "spark"):
            got = {row[0]: row[:4] for row in db.view(name).rows()}
            first = min((part.start for part in db.view(name).parts()), default=at(0))
            wanted = windows if name != "closed" else {start: windows[start] for start in ended}
            late = timedelta(seconds=60) if offset % 60 else timedelta()  # the part with its end has to be closed
            if name != "closed" or not late:
                assert got == {start: row for start, row in wanted.items() if row[1] > first}

    play(db, 1, check)


def test_a_session_of_all_rows_and_queries_over_sessions() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.execute(
        "CREATE VIEW v AS SELECT window_start, COUNT(*) AS n FROM SESSION(m, INTERVAL '1' MINUTE) GROUP BY window_start"
    )
    db.execute("CREATE VIEW total AS SELECT SUM(n) AS n FROM v")
    db.insert("m", [(at(0), "a", 1), (at(60), "b", 1), (at(121), "c", 1)])
    db.close_parts("m", at(240))
    assert db.view("v").rows() == [(at(0), 2, at(60)), (at(121), 1, at(120))]
    changes: list[object] = []
    db.view("v").subscribe(lambda epoch, changed: changes.append(changed.to_pylist()))
    db.insert("m", [(at(110), "d", 1)])
    assert db.view("v").rows() == [(at(0), 4, at(120))]
    assert len(changes[0]) == 3  # type: ignore[arg-type]
    db.delete("m", [(at(60), "b", 1)])
    assert db.view("v").rows() == [(at(0), 1, at(0)), (at(110), 2, at(120))]
    assert db.view("total").rows() == [(3,)]


def test_sessions_that_are_declared_later_know_what_was_before() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.insert("m", [(at(-200), "b", 1), *((at(50 * number), "a", 1) for number in range(20))])
    query = "SELECT g, window_start, COUNT(*) AS n FROM SESSION(m PARTITION BY g, INTERVAL '60' SECONDS)"
    db.execute(f"CREATE VIEW v AS {query} GROUP BY ALL")
    db.execute(f"CREATE VIEW w AS {query} GROUP BY g, window_start")
    assert sorted(db.view("v").rows()) == sorted(db.view("w").rows())
    assert sorted(row[:3] for row in db.view("v").rows()) == [("a", at(0), 18), ("b", at(-200), 1)]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT g FROM SESSION(m PARTITION BY h, INTERVAL '1' MINUTE) GROUP BY g", "no column 'h'"),
        ("SELECT g FROM SESSION(m) GROUP BY g", "SESSION"),
        ("SELECT g FROM SESSION(m, INTERVAL '0' SECONDS) GROUP BY g", "SESSION"),
        ("SELECT g FROM SESSION(hourly, INTERVAL '1' SECONDS) GROUP BY g", "SESSION reads a stream"),
        ("SELECT g FROM SESSION(nothing, INTERVAL '1' SECONDS) GROUP BY g", "stream"),
        ("SELECT h, COUNT(*) AS n FROM SESSION(m, INTERVAL '1' SECONDS) GROUP BY h", "h"),
        ("SELECT g FROM TUMBLE(m, INTERVAL '90' SECONDS)", "multiple"),
        ("SELECT g FROM TUMBLE(m, INTERVAL '2' MINUTES) EMIT SOMETIMES", "EMIT"),
        ("SELECT window FROM m GROUP BY window(ts, '2 minutes')", "window.start"),
        ("SELECT g FROM m GROUP BY g, window(x, '2 minutes')", "over its time"),
        ("SELECT g FROM m GROUP BY g, window(ts, '1 month')", "interval"),
        ("SELECT g FROM m GROUP BY g, window(ts, '90 seconds')", "multiple"),
        ("SELECT x + 1 AS y FROM m GROUP BY x + 1, session_window(ts, '2 minutes')", "columns"),
    ],
)
def test_what_is_refused(query: str, reason: str) -> None:
    db = viewlet.connect()
    db.execute(M)
    db.execute("CREATE VIEW hourly AS SELECT g, SUM(x) AS x FROM TUMBLE(m, INTERVAL '1' HOUR) GROUP BY g")
    with pytest.raises(SqlError, match=reason):
        db.execute(f"CREATE VIEW v AS {query}")
    assert "v" not in db.views
