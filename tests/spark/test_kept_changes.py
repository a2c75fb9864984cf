"""Changes of views that are kept as files: what tasks write, what the driver writes, and what other jobs read."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import viewlet
from viewlet import DataError, StateError
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.spark.run.exchange import change_files
from viewlet.spark.run.execution import change_task
from viewlet.spark.run.units import generated_result

PARTITIONS = 3
TABLES = """
    CREATE TABLE sales (id BIGINT NOT NULL PRIMARY KEY, shop VARCHAR, day DATE, price DECIMAL(9,2), weight DOUBLE)
    PARTITION BY (shop);
    CREATE STREAM visits (shop VARCHAR NOT NULL, day DATE) PARTITION BY (shop);
"""
VIEWS = """
    CREATE MATERIALIZED VIEW totals AS
    SELECT shop, SUM(price) AS total, AVG(price) AS mean, COUNT(*) AS n FROM sales GROUP BY shop;
    CREATE MATERIALIZED VIEW bag ("a.b", shop, day) AS SELECT shop, shop, day FROM sales;
    CREATE MATERIALIZED VIEW weights AS SELECT shop, SUM(weight) AS weight FROM sales GROUP BY shop;
    CREATE MATERIALIZED VIEW days AS SELECT day, COUNT(*) AS n FROM sales GROUP BY day ORDER BY n LIMIT 2;
    CREATE MATERIALIZED VIEW joined AS SELECT shop, s.day, v.day AS visit FROM sales s JOIN visits v USING (shop);
    CREATE MATERIALIZED VIEW whole AS SELECT SUM(price) AS total FROM sales;
    CREATE MATERIALIZED VIEW spans AS
    SELECT shop, MIN(price) AS low, MAX(day) AS last, SUM(weight) AS weight, COUNT(DISTINCT day) AS days
    FROM sales GROUP BY shop;
    CREATE MATERIALIZED VIEW visited AS
    SELECT shop, a.n, b.visits FROM (SELECT shop, COUNT(*) AS n FROM sales GROUP BY shop) a
    LEFT JOIN (SELECT shop, COUNT(*) AS visits FROM visits GROUP BY shop) b USING (shop);
    CREATE MATERIALIZED VIEW less AS SELECT shop FROM sales EXCEPT ALL SELECT shop FROM visits;
    CREATE MATERIALIZED VIEW heavier AS SELECT id, weight FROM sales WHERE weight > (SELECT AVG(weight) FROM sales)
"""
SEVERAL = ("spans", "visited", "less", "heavier")
"""Views that are made of several stored ones, or of one that every batch replaces."""
NAMES = ("totals", "bag", "weights", "days", "joined", "whole", *SEVERAL)
WRITTEN_BY_TASKS = {"totals", "bag", "weights", "joined", *SEVERAL}

COLUMNS = ("id", "shop", "day", "price", "weight")

Rows = Counter[tuple[Any, ...]]


@pytest.fixture(params=["interpreter", "compiled"])
def db(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkConnection:
    monkeypatch.setattr("viewlet.codegen.compiled_result.READ_BY_CODE_FROM", 0)
    db = connect_inline(tmp_path / "state", PARTITIONS, sync=False, engine=request.param)
    db.execute(TABLES)
    db.execute(VIEWS)
    return db


def sale(random: random.Random, id: int) -> tuple[Any, ...]:
    shop = random.choice([None, "ab", "çd", "", "e"])
    day = random.choice([None, date(2024, 2, 29), date(1969, 1, 1)])
    return (
        id,
        shop,
        day,
        random.choice([None, Decimal(random.randrange(-500, 500)) / 100]),
        random.choice([None, 0.5, -2.0]),
    )


def played(db: SparkConnection, batches: int, seed: int) -> None:
    choice = random.Random(seed)
    kept: dict[int, tuple[Any, ...]] = {row[0]: row for row in db.table("sales").rows()}
    for _ in range(batches):
        gone = [kept.pop(id) for id in choice.sample(sorted(kept), min(len(kept), choice.randrange(6)))]
        new = [sale(choice, max(kept, default=0) + 1 + i) for i in range(choice.randrange(9))]
        kept |= {row[0]: row for row in new}
        visits = [(choice.choice(["ab", "e"]), date(2024, 1, 1))] * choice.randrange(3)
        signed = [(row, -1) for row in gone] + [(row, 1) for row in new]
        sales = [dict(zip((*COLUMNS, "_multiplicity"), (*row, sign), strict=True)) for row, sign in signed]
        db.apply({"sales": sales, "visits": visits})


def rows_of(db: SparkConnection, name: str) -> Rows:
    return Counter(db.view(name).rows())


def told(table: Any) -> dict[int, Rows]:
    """Changes by epoch, as an Arrow table has them."""
    found: dict[int, Rows] = {}
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        rows = found.setdefault(row[-1], Counter())
        assert row[:-2] not in rows
        rows[row[:-2]] = row[-2]
    return found


def difference(before: Rows, after: Rows) -> Rows:
    return Counter({row: n for row in before | after if (n := after[row] - before[row])})


@pytest.mark.parametrize("inline_bytes", [0, 1 << 20])
def test_changes_lead_from_one_state_to_the_next(db: SparkConnection, tmp_path: Path, inline_bytes: int) -> None:
    db._host.cluster.inline_bytes = inline_bytes
    played(db, 1, 1)
    states = {db.epoch: {name: rows_of(db, name) for name in NAMES}}
    for name in NAMES:
        db.changes(name)
    keys = {name: view.engine.key for name, view in db._host.catalogue.views.items()}
    assert keys["less"].unit == "visited"
    assert {name for name in NAMES if db._host.cluster.keeps_changes_of(keys[name], name)} == WRITTEN_BY_TASKS
    heard: dict[int, Rows] = {}
    db.view("totals").subscribe(lambda epoch, rows: heard.update(told_once(epoch, rows)))
    for seed in range(2, 8):
        played(db, 1, seed)
        states[db.epoch] = {name: rows_of(db, name) for name in NAMES}
    epochs = sorted(states)
    for name in NAMES:
        expected = {
            after: change
            for before, after in pairwise(epochs)
            if (change := difference(states[before][name], states[after][name]))
        }
        assert told(viewlet.changes_of(tmp_path / "state", name)) == expected
        assert told(db.changes(name)) == expected
        indexes = list((tmp_path / "state" / change_files.folder_of_view(name)).glob("commit-*.json"))
        assert bool(indexes) == (inline_bytes == 0 and name in WRITTEN_BY_TASKS)
    assert heard == told(db.changes("totals"))


def told_once(epoch: int, rows: Any) -> dict[int, Rows]:
    return {epoch: Counter({row[:-1]: row[-1] for row in zip(*(c.to_pylist() for c in rows.columns), strict=True)})}


def test_generated_code_tells_changes_without_rows(db: SparkConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    db.changes("totals")
    if db._host.cluster.code("totals").module is None:
        return
    for name in (*SEVERAL, "weights"):
        db.changes(name)
    for module in (change_task, generated_result):
        monkeypatch.setattr(module, "rows_to_arrow", lambda *_, **__: pytest.fail("rows were made"))
    played(db, 3, 5)
    for name in ("totals", "weights", *SEVERAL):
        assert db.changes(name).num_rows > 0


def test_generated_code_tells_what_is_new_without_rows(db: SparkConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows there were before."""
    monkeypatch.setattr("viewlet.codegen.compiled_result.READ_BY_CODE_FROM", 10)
    db.changes("spans")
    if db._host.cluster.code(db._host._views["spans"].unit.name).module is None:
        return
    monkeypatch.setattr(generated_result, "evaluate_result", lambda *_: pytest.fail("rows were made"))
    db.apply({"sales": [(i, f"shop {i}", None, Decimal(i), 0.5 * i) for i in range(100, 200)]})
    assert db.changes("spans").num_rows == 100


def test_few_rows_are_evaluated_one_by_one_and_no_others(db: SparkConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch reads what its changes concern, not all that there is."""
    monkeypatch.setattr("viewlet.codegen.compiled_result.READ_BY_CODE_FROM", 10_000)
    db.apply({"sales": [(i, f"shop {i}", date(2024, 1, 1), Decimal(i), 0.5 * i) for i in range(100, 200)]})
    for name in ("spans", "visited", "weights"):
        db.changes(name)
    if db._host.cluster.code(db._host._views["spans"].unit.name).module is None:
        return
    seen: list[int] = []
    evaluate = generated_result.evaluate_result

    def counted(program: Any, views: Any) -> Any:
        seen.append(sum(map(len, views.values())))
        return evaluate(program, views)

    monkeypatch.setattr(generated_result, "evaluate_result", counted)
    db.apply({"sales": [(300, "shop 150", None, Decimal(7), 1.5)], "visits": [("shop 150", date(2024, 1, 1))]})
    assert 0 < max(seen) <= 8
    (spans,) = told(db.changes("spans")).values()
    day = date(2024, 1, 1)
    assert spans == {("shop 150", Decimal(150), day, 75.0, 1): -1, ("shop 150", Decimal(7), day, 76.5, 1): 1}


def test_files_look_like_a_change_data_feed(db: SparkConnection, tmp_path: Path) -> None:
    db._host.cluster.inline_bytes = 0
    db.changes("totals")
    db.insert("sales", [(1, "ab", None, Decimal(5), None)])
    db.insert("sales", [(2, "ab", None, Decimal(1), None)])
    folder = tmp_path / "state" / change_files.folder_of_view("totals")
    found = [row for file in sorted(folder.glob("parts-*/*.parquet")) for row in pq.read_table(file).to_pylist()]
    second = [row for row in found if row["_commit_version"] == 2]
    assert sorted((row["_change_type"], row["total"], row["_multiplicity"]) for row in second) == [
        ("delete", Decimal("5.00"), -1),
        ("insert", Decimal("6.00"), 1),
    ]
    times = sorted({row["_commit_timestamp"] for row in found})
    assert len(times) == 2
    assert times[0].tzinfo is not None
    db.forget_changes("totals", until=1)
    assert len(list(folder.glob("parts-*"))) == len(list(folder.glob("commit-*"))) == 1
    assert change_files.kept_since(db._host.feeds.files, "totals") == 1


def test_what_a_failed_batch_has_written_is_removed(db: SparkConnection, tmp_path: Path) -> None:
    db._host.cluster.inline_bytes = 0
    db.changes("totals")
    db.changes("bag")
    db.insert("sales", [(1, "ab", None, Decimal(5), None)])
    with pytest.raises(DataError, match="duplicate key"):
        db.insert("sales", [(2, "e", None, None, None), (3, "ab", None, None, None), (1, "çd", None, None, None)])
    left = {path.parent.name for path in (tmp_path / "state" / "changes").rglob("parts-*/*")}
    db.insert("sales", [(4, "e", None, None, None)])
    now = {path.name for path in (tmp_path / "state" / "changes").rglob("parts-*")}
    assert len(left | now) > len(now) == 2
    assert [row["shop"] for row in viewlet.changes_of(tmp_path / "state", "totals", since=1).to_pylist()] == ["e"]


def test_a_driver_that_died_leaves_nothing_behind(db: SparkConnection, tmp_path: Path) -> None:
    db._host.cluster.inline_bytes = 0
    db.changes("totals")
    db.insert("sales", [(1, "ab", None, Decimal(5), None)])
    files, stray = db._host.feeds.files, change_files.Commit(9, 0, "dead")
    table = pq.read_table(next((tmp_path / "state" / "changes").rglob("parts-*/*.parquet"))).select([0, 1, 2, 3, 4])
    change_files.write_part(files, "totals", stray, 0, table)
    part = change_files.write_part(files, "totals", change_files.Commit(2, 0, "late"), 0, table)
    change_files.write_index(files, "totals", change_files.Commit(2, 0, "late"), [part])
    db.close()
    with connect_inline(tmp_path / "state", PARTITIONS, sync=False) as again:
        assert set(told(again.changes("totals"))) == {1}
        again.insert("sales", [(2, "ab", None, None, None)])
        assert set(told(again.changes("totals"))) == {1, 2}
    assert len(list((tmp_path / "state" / "changes").rglob("parts-*"))) <= 2


def test_a_missing_file_is_an_error(db: SparkConnection, tmp_path: Path) -> None:
    db._host.cluster.inline_bytes = 0
    db.changes("totals")
    db.insert("sales", [(1, "ab", None, Decimal(5), None)])
    next((tmp_path / "state" / "changes").rglob("parts-*/*.parquet")).unlink()
    with pytest.raises(StateError, match="is missing: forget_changes"):
        viewlet.changes_of(tmp_path / "state", "totals")


def test_a_stream_has_changes(db: SparkConnection, tmp_path: Path) -> None:
    """The source of a stream, without the processes of Spark that call it (`on_spark/test_scan.py` has those)."""
    pytest.importorskip("pyspark")
    from viewlet.connection.stored_view import open_view
    from viewlet.spark.run.views.data_source import source_class

    source = source_class(open_view, str(tmp_path))
    options = {"path": "state", "view": "totals"}
    with pytest.raises(DataError, match=r"add .option.'readChangeFeed', 'true'"):
        source(options).streamReader(None)
    db._host.cluster.inline_bytes = 0
    db.insert("sales", [(1, "ab", None, Decimal(5), None)])
    db.changes("totals")
    stream = source({**options, "readChangeFeed": "true"}).streamReader(None)
    begin = stream.initialOffset()
    assert stream.latestOffset() == begin == {"version": 1}
    assert stream.partitions(begin, begin) == []
    played(db, 4, 3)
    middle = {"version": 3}
    found = [
        [read_by(stream, task) for task in stream.partitions(*ends)]
        for ends in ((begin, middle), (middle, stream.latestOffset()))
    ]
    told_twice = Counter(row for part in found for rows in part for row in rows)
    table = db.changes("totals")
    expected = zip(*(column.to_pylist() for column in table.columns), strict=True)
    assert told_twice == Counter((*row[:-2], "insert" if row[-2] > 0 else "delete", row[-1]) for row in expected)
    db.forget_changes("totals", 3)
    with pytest.raises(StateError, match=r"before epoch 4.*begin with .option\('startingVersion', 4\)"):
        stream.partitions(begin, middle)
    with pytest.raises(DataError, match="'startingVersion' is the number of an epoch, not 'x'"):
        source({**options, "readChangeFeed": "true", "startingVersion": "x"}).streamReader(None).initialOffset()


def read_by(stream: Any, task: Any) -> list[tuple[Any, ...]]:
    return [
        row[:-1] for batch in stream.read(task) for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)
    ]
