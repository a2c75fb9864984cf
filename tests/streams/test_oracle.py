"""View delta functions on random streams against naive recomputation: late rows, deletes, gaps, NULLs, equal rows."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import groupby

import pytest

import viewlet
from tests.streams.model import Model, Row, at, random_batches, signed

SEEDS = range(int(os.environ.get("VIEWLET_STREAMS", "2")))
M = "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts"
SAME = "{0}.g IS NOT DISTINCT FROM {1}.g"


def values(chance: random.Random) -> Row:
    return chance.choice(("a", "b", "c", None)), chance.choice((-4, 0, 3, 11, 12, 20, None))


def grouped(rows: Iterable[Row]) -> dict[object, list[Row]]:
    ordered = sorted(rows, key=lambda row: repr(row[1]))
    return {key: list(found) for key, found in groupby(ordered, key=lambda row: row[1])}


def total(rows: Iterable[Row]) -> int | None:
    known = [row[2] for row in rows if isinstance(row[2], int)]
    return sum(known) if known else None


def window_sums(model: Model, width: int) -> Callable[[int], list[Row]]:
    def part(number: int) -> list[Row]:
        rows = [row for each in range(number - width + 1, number + 1) for row in model.part(each)]
        return [(key, total(found), len(found)) for key, found in grouped(rows).items()]

    return part


def runs(model: Model) -> Callable[[int], list[Row]]:
    """Groups whose x has been above 10 in every part so far, with one row in each; the number of parts and the sum."""

    def part(number: int) -> list[Row]:
        found: list[Row] = []
        for key, rows in grouped(model.part(number)).items():
            high = [row for row in rows if isinstance(row[2], int) and row[2] > 10]
            if not high:
                continue
            count, sum_x, at_part = 1, total(high) or 0, number - 1
            while model.first is not None and at_part >= model.first:
                before = grouped(model.part(at_part)).get(key, [])
                above = [row for row in before if isinstance(row[2], int) and row[2] > 10]
                if not above:
                    break
                count, sum_x, at_part = count + 1, sum_x + (total(above) or 0), at_part - 1
            found.append((key, count, sum_x))
        return found

    return part


RUNS = f"""
    CREATE VIEW v AS INITIALIZE v[i] AS SELECT g, 1 AS n, SUM(x) AS x FROM m[i] WHERE x > 10 GROUP BY g
    UPDATE v[j] AS SELECT new.g, COALESCE(n, 0) + 1, COALESCE(prev.x, 0) + new.x
        FROM (SELECT g, SUM(x) AS x FROM m[j] WHERE x > 10 GROUP BY g) AS new
        LEFT JOIN v[j-1] AS prev ON {SAME.format("new", "prev")}"""
WINDOW = """
    CREATE VIEW v AS INITIALIZE v[i] AS SELECT g, SUM(x) AS x, COUNT(*) AS n FROM m[i-2..i] GROUP BY g
    UPDATE v[j] AS SELECT g, SUM(x), COUNT(*) FROM m[j-2 .. j] GROUP BY g"""
LONGER = """
    CREATE VIEW v AS INITIALIZE v[i] AS SELECT g, SUM(x) AS x, COUNT(*) AS n FROM m[i*3..i*3+2] GROUP BY g
    UPDATE v[j] AS SELECT g, SUM(x), COUNT(*) FROM m[j*3..j*3+2] GROUP BY g PARTITION LENGTH 180"""


SLIDING = """
    CREATE VIEW v AS SELECT g, SUM(x) AS x, COUNT(*) AS n FROM m [WINDOW {0} MINUTES] GROUP BY g"""
LONGEST = """
    CREATE VIEW v AS SELECT g, MAX(x) AS most, AVG(x) AS mean, COUNT(*) FILTER (WHERE x > 3) AS n
    FROM m [WINDOW 3 MINUTES] AS r WHERE x <> 3 GROUP BY g HAVING MAX(x) > 0"""


def extremes(model: Model) -> Callable[[int], list[Row]]:
    def part(number: int) -> list[Row]:
        rows = [row for each in range(number - 2, number + 1) for row in model.part(each)]
        found: list[Row] = []
        for key, group in grouped(rows).items():
            known = [row[2] for row in group if isinstance(row[2], int) and row[2] != 3]
            if known and max(known) > 0:
                found.append((key, max(known), sum(known) / len(known), sum(x > 3 for x in known)))
        return found

    return part


def play(db: viewlet.Connection, seed: int, check: Callable[[Model], None]) -> None:
    """Applies random batches, and checks after each of them."""
    model = Model()
    for number, batch in enumerate(random_batches(seed, values)):
        for _ in range(1 + number % 2):  # what is delivered twice is known by its id
            db.apply({"m": signed(batch, ("ts", "g", "x"))}, batch_id=number)
        for row, times in batch:
            model.change(row, times)
        if number % 4 == 3:
            model.close(model.closed + 2)
            db.close_parts("m", at(60 * model.closed))
        check(model)


def first_part(seed: int) -> int:
    """The part that a view declared before the first batch begins with: of the first rows, the earliest that closed."""
    model = Model()
    for number, batch in enumerate(random_batches(seed, values)):
        for row, times in batch:
            model.change(row, times)
        if number % 4 == 3:
            model.close(model.closed + 2)
        if model.first is not None and model.closed > model.first:
            return model.first
    raise AssertionError("no part was closed")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("statement", "oracle"),
    [
        (RUNS, runs),
        (WINDOW, lambda model: window_sums(model, 3)),
        (SLIDING.format(3), lambda model: window_sums(model, 3)),
        (SLIDING.format(6), lambda model: window_sums(model, 6)),
        (LONGEST, extremes),
    ],
)
def test_parts_equal_a_recomputation(
    statement: str, oracle: Callable[[Model], Callable[[int], list[Row]]], seed: int
) -> None:
    db = viewlet.connect()
    db.execute(M)
    db.execute(statement)
    first = first_part(seed)
    told: Counter[Row] = Counter()

    def note(epoch: int, changes: object) -> None:
        for row in changes.to_pylist():  # type: ignore[attr-defined]
            *shown, times = row.values()
            told[tuple(shown)] += times

    db.view("v").subscribe(note)

    def check(model: Model) -> None:
        if statement is RUNS:
            model.first = first if model.first is None else max(model.first, first)
        expected = Counter((*row, at(60 * part)) for part in range(first, model.closed) for row in oracle(model)(part))
        assert Counter(db.view("v").rows()) == expected
        assert +told == expected

    play(db, seed, check)


def test_windows_by_subtraction_equal_a_recomputation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.sql.streams.windows.NATIVE_WIDTH", 0)
    test_parts_equal_a_recomputation(SLIDING.format(6), lambda model: window_sums(model, 6), 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_longer_parts_equal_a_recomputation(seed: int) -> None:
    db = viewlet.connect()
    db.execute(M)
    db.execute(LONGER)

    def check(model: Model) -> None:
        found = Counter(db.view("v").rows())
        parts = db.view("v").parts()
        expected = Counter[Row]()
        for part in range(-5, model.closed // 3 + 1):
            if parts and part * 3 + 3 <= model.closed and at(180 * part) >= parts[0].start:
                expected.update((*row, at(180 * part)) for row in window_sums(model, 3)(part * 3 + 2))
        assert found == expected
        assert len(parts) >= model.closed // 3 - (model.first or 0) // 3

    play(db, seed, check)


def test_late_rows_recompute_only_what_reads_them_and_stop_where_nothing_changes() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.execute(WINDOW)
    db.stream_view("high", initialize="SELECT g, x FROM v[i] WHERE x > 100", length=60)
    db.insert("m", [(at(60 * minute), "a", 1) for minute in range(20)])
    before = {part.number: part.updated for part in db.view("v").parts()}
    work = db.view("v").stats()
    db.insert("m", [(at(300), "a", 5)])
    changed = [part.number for part in db.view("v").parts() if part.updated != before[part.number]]
    first = min(before)
    assert [number - first for number in changed] == [5, 6, 7]
    after = db.view("v").stats()
    assert after["recomputed"] - work["recomputed"] == 6  # three parts of v, and the three of high that read them
    db.insert("m", [(at(300), "b", None), (at(300), "b", None)])
    db.delete("m", [(at(300), "b", None)])


def test_a_view_over_old_parts_begins_with_the_newest_or_where_it_says() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.insert("m", [(at(60 * minute), "a", minute) for minute in range(5)])
    db.stream_view("newest", initialize="SELECT x FROM m[i]")
    db.stream_view("since", initialize="SELECT x FROM m[i]", start="2015-01-01 10:02")
    assert [x for x, _ in db.view("newest").rows()] == [3]
    assert [x for x, _ in db.view("since").rows()] == [2, 3]


def test_tables_without_parts_are_read_as_they_are_when_a_part_is_computed() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.execute("CREATE TABLE names (g VARCHAR PRIMARY KEY, name VARCHAR)")
    db.insert("names", [("a", "Ada")])
    db.stream_view("named", initialize="SELECT name, x FROM m[i] JOIN names USING (g)")
    db.insert("m", [(at(0), "a", 1), (at(60), "a", 2)])
    db.execute("UPDATE names SET name = 'Bo'")
    assert db.view("named").rows() == [("Ada", 1, at(0))]
    db.insert("m", [(at(120), "a", 3)])
    assert db.view("named").rows() == [("Ada", 1, at(0)), ("Bo", 2, at(60))]


def test_a_total_of_no_rows_is_a_row() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.stream_view("n", initialize="SELECT COUNT(*) AS n FROM m[i]")
    db.insert("m", [(at(0), "a", 1)])
    db.close_parts("m", at(180))
    assert [n for n, _ in db.view("n").rows()] == [0, 0, 1]


def test_ordinary_views_read_a_stream_view() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.stream_view("copy", initialize="SELECT g, x FROM m[i]")
    db.execute("CREATE MATERIALIZED VIEW sums AS SELECT part_timestamp, SUM(x) AS x FROM copy GROUP BY part_timestamp")
    db.execute("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM m")
    db.insert("m", [(at(0), "a", 1), (at(1), "a", 2), (at(60), "b", 5)])
    assert db.view("sums").rows() == [(at(0), 3)]
    db.delete("m", [(at(0), "a", 1)])
    assert db.view("sums").rows() == [(at(0), 2)]
    assert db.view("n").rows() == [(2,)]


def test_a_delete_of_an_absent_row_leaves_everything_as_it_was() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.stream_view("copy", initialize="SELECT g, x FROM m[i]")
    db.insert("m", [(at(0), "a", 1), (at(60), "b", 5)])
    with pytest.raises(viewlet.DataError, match="of which"):
        db.apply({"m": signed([((at(60), "c", 1), 1), ((at(0), "a", 2), -1)], ("ts", "g", "x"))})
    assert (db.epoch, len(db.table("m")), db.view("copy").rows()) == (1, 2, [("a", 1, at(0))])


def test_rows_need_a_time() -> None:
    db = viewlet.connect()
    db.execute(M)
    with pytest.raises(viewlet.DataError, match="ts"):
        db.insert("m", [(None, "a", 1)])
