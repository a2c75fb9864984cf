"""Scans of views and tables: what tasks read of one epoch, without Spark (`on_spark/test_scan.py` has the frames)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from viewlet import SchemaError, StateError
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.connection.stored_view import open_view
from viewlet.spark.plan.result_location import ResultLocation
from viewlet.spark.run.execution import scan_task
from viewlet.spark.run.execution.scan_task import repeated
from viewlet.spark.run.execution.selection import selection
from viewlet.spark.run.state import partition
from viewlet.spark.run.state.checkpoint import Checkpoint
from viewlet.spark.run.units import flat_tree_node, generated_result, tree_node
from viewlet.spark.run.views.scan import TableScan, ViewScan
from viewlet.spark.run.views.stored_rows import StoredRows

cloudpickle = pytest.importorskip("pyspark.cloudpickle")

PARTITIONS = 3
TABLES = """
    CREATE TABLE sales (id BIGINT NOT NULL PRIMARY KEY, shop VARCHAR, day DATE, at TIMESTAMP, price DECIMAL(9,2),
                        weight DOUBLE, open BOOLEAN, size INTEGER)
    PARTITION BY (shop);
    CREATE STREAM visits (shop VARCHAR NOT NULL, size INTEGER) PARTITION BY (size);
"""
TOTALS = """
    CREATE MATERIALIZED VIEW totals AS
    SELECT shop, SUM(price) AS total, MAX(day) AS last, COUNT(*) AS n FROM sales GROUP BY shop;
"""
OTHERS = """
    CREATE MATERIALIZED VIEW bag AS SELECT shop, day, at, price, weight, open, size FROM sales;
    CREATE MATERIALIZED VIEW mixed AS SELECT shop, size FROM sales UNION ALL SELECT shop, size FROM visits;
    CREATE MATERIALIZED VIEW hidden AS SELECT COUNT(*) AS n FROM sales GROUP BY shop, day;
    CREATE MATERIALIZED VIEW sorted AS SELECT id, price FROM sales ORDER BY price DESC, id;
    CREATE MATERIALIZED VIEW cheapest AS SELECT id, price FROM sales ORDER BY price LIMIT 2;
    CREATE MATERIALIZED VIEW whole AS SELECT SUM(price) AS total FROM sales
"""
LISTED = """
    ; CREATE MATERIALIZED VIEW listed AS
      SELECT FACTORIZED id, shop, day, at, price, weight, open, size, shop AS again FROM sales;
    CREATE MATERIALIZED VIEW visited PARTITION BY (shop) AS
      SELECT FACTORIZED v.size, s.price, s.shop, s.open FROM sales s JOIN visits v ON s.shop = v.shop;
    CREATE MATERIALIZED VIEW sizes AS
      SELECT FACTORIZED v.size, s.day FROM sales s JOIN visits v ON s.shop = v.shop;
    CREATE MATERIALIZED VIEW days AS
      SELECT FACTORIZED a.day, b.open FROM sales a JOIN sales b ON a.shop = b.shop
"""
"""Factorised results: that of `sizes` has rows with parts in several partitions, which may be negative."""
ROWS: list[tuple[Any, ...]] = [
    (
        id,
        [None, "ab", "çd", ""][id % 4],
        None if id % 5 == 0 else date(2024, 2, 27 + id % 3),
        None if id % 7 == 0 else datetime(1969, 12, 31, 23, 59, id % 60, 123456),
        None if id % 6 == 0 else Decimal(id * 7 - 50) / 100,
        None if id % 8 == 0 else id / 8 - 1,
        [None, True, False][id % 3],
        None if id % 9 == 0 else -id,
    )
    for id in range(40)
]
ROWS += [(100 + id, *ROWS[1][1:]) for id in range(3)]


@pytest.fixture(params=["interpreter", "compiled"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    monkeypatch.setattr("viewlet.codegen.compiled_result.READ_BY_CODE_FROM", 0)

    def made(views: str) -> SparkConnection:
        db = connect_inline(tmp_path / "state", PARTITIONS, sync=False, engine=request.param)
        db.execute(TABLES)
        db.partition_by("mixed_sales", "shop_3")
        db.partition_by("mixed_visits", "size_3")
        db.partition_by("shares_sales", "shop")
        db.partition_by("above_sales", "shop")
        db.execute(views)
        db.apply({"sales": ROWS, "visits": [("ab", -1), ("ab", -1), ("x", None)]})
        return db

    return made


@pytest.fixture
def db(make: Callable[[str], SparkConnection]) -> SparkConnection:
    return make(TOTALS)


def scan(db: SparkConnection, name: str) -> ViewScan | TableScan:
    found = db._host.scan(name)
    assert found is not None
    return found


def parts(found: ViewScan | TableScan) -> list[Any]:
    read = found.read
    return [rows for number in range(PARTITIONS) if (rows := read(number)) is not None]


def rows_of(found: ViewScan | TableScan) -> Counter[tuple[Any, ...]]:
    """The rows of all partitions, with parts of the same row added up."""
    total: Counter[tuple[Any, ...]] = Counter()
    for table in parts(found):
        for *row, times in zip(*(column.to_pylist() for column in table.columns), strict=True):
            total[tuple(row)] += times
    return +total


def shown(db: SparkConnection, name: str) -> Counter[tuple[Any, ...]]:
    handle = db.table(name) if name in db.tables else db.view(name)
    return Counter(handle.rows())


def test_the_partitions_have_the_rows(make: Callable[[str], SparkConnection], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_node, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(flat_tree_node, "ROWS_AT_ONCE", 7)
    db = make(TOTALS + OTHERS + LISTED)
    adds_up = {}
    for name in ("bag", "totals", "hidden", "sorted", "mixed", "sales", "listed", "visited", "sizes", "days"):
        found = scan(db, name)
        assert rows_of(found) == shown(db, name)
        assert sum(rows_of(found).values()) > 0
        adds_up[name] = isinstance(found, ViewScan) and found.adds_up
    assert [name for name, adds in adds_up.items() if adds] == ["mixed", "sizes"]
    found = scan(db, "days")
    assert isinstance(found, ViewScan)
    pieces = list(scan_task.ListRows(found.context, found.key, found.columns, (1,))(0))
    assert [piece.num_rows for piece in pieces[:-1]] == [7] * (len(pieces) - 1)
    assert pa.concat_tables(pieces) == found.read_columns([1])(0)
    assert db._host.scan("cheapest") is None
    assert db._host.scan("whole") is None
    for name in ("bag", "listed", "visited"):
        for table in parts(scan(db, name)):
            assert table.schema.types[:-1] == db.view(name).to_arrow().schema.types
    if db._host.cluster.code("bag").module is not None:
        monkeypatch.setattr(scan_task, "rows_to_arrow", lambda *_, **__: pytest.fail("rows were made"))
        assert sum(table.num_rows for table in parts(scan(db, "bag"))) > 0


def test_multiplicities() -> None:
    table = pa.table({"a": ["x", None, "z"], "_multiplicity": [3, -1, 1]})
    assert repeated(table).column("a").to_pylist() == ["x", "x", "x", "z"]
    assert repeated(table.slice(0, 0)).num_rows == 0


def test_a_batch_after_the_scan_was_made(db: SparkConnection) -> None:
    """The earlier epoch is computed again, and the state that batches continue from stays as it is."""
    earlier = {name: (scan(db, name), shown(db, name)) for name in ("totals", "sales")}
    db.apply({"sales": [(500, "new", None, None, Decimal(9), None, None, None)]})
    db.delete("sales", ROWS[:5])
    states = dict(partition._kept)
    versions = {key: state.token for key, state in states.items()}
    for found, rows in earlier.values():
        assert rows_of(found) == rows
        assert rows_of(found) == rows
    assert {key: state.token for key, state in partition._kept.items()} == versions
    assert all(partition._kept[key] is state for key, state in states.items())
    for name in earlier:
        assert rows_of(scan(db, name)) == shown(db, name) != earlier[name][1]


def test_a_snapshot_without_a_batch_after_the_scan_was_made(db: SparkConnection) -> None:
    found, rows = scan(db, "totals"), shown(db, "totals")
    db.checkpoint()
    assert rows_of(found) == rows
    partition.forget()
    remove_local_state(found)
    assert rows_of(found) == rows


def test_a_snapshot_that_has_the_version_among_its_log(db: SparkConnection) -> None:
    db.checkpoint()
    db.insert("sales", [(600, "a", None, None, None, None, None, None)])
    found, rows = scan(db, "totals"), shown(db, "totals")
    db.insert("sales", [(601, "a", None, None, None, None, None, None)])
    partition.forget()
    remove_local_state(found)
    assert rows_of(found) == rows
    assert rows_of(scan(db, "totals")) == shown(db, "totals")


def test_a_version_that_is_gone(db: SparkConnection) -> None:
    found, table = scan(db, "totals"), scan(db, "sales")
    db.insert("sales", [(600, "a", None, None, None, None, None, None)])
    db.checkpoint()
    for each in (found, table):
        with pytest.raises(StateError, match=r"no longer in .*call to_spark\(\) again, or cache\(\) the frame"):
            rows_of(each)
    assert rows_of(scan(db, "totals")) == shown(db, "totals")


def test_damage_is_not_taken_for_a_version_that_is_gone(db: SparkConnection, tmp_path: Path) -> None:
    found = scan(db, "totals")
    partition.forget()
    remove_local_state(found)
    for log in (tmp_path / "state").glob("log-*.bin"):
        data = bytearray(log.read_bytes())
        data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
        log.write_bytes(data)
    with pytest.raises(StateError, match="damaged"):
        rows_of(found)


def test_a_view_that_was_dropped(db: SparkConnection) -> None:
    found, rows = scan(db, "totals"), shown(db, "totals")
    db.execute("DROP MATERIALIZED VIEW totals")
    assert rows_of(found) == rows
    db.execute("CREATE MATERIALIZED VIEW totals AS SELECT shop FROM sales")
    with pytest.raises(StateError, match="no longer in"):
        rows_of(found)
    assert rows_of(scan(db, "totals")) == shown(db, "totals")


def test_scans_of_two_epochs_side_by_side(db: SparkConnection) -> None:
    first, before = scan(db, "totals"), shown(db, "totals")
    db.delete("sales", ROWS[:20])
    second, after = scan(db, "totals"), shown(db, "totals")
    for number in range(PARTITIONS):
        first.read(number), second.read(number)
    assert (rows_of(first), rows_of(second)) == (before, after)


# -- other jobs -------------------------------------------------------------------------------------------------------


def read_by_others(db: SparkConnection, name: str) -> tuple[Counter[tuple[Any, ...]], StoredRows]:
    """The rows that a job finds that has not opened the database; what it needs is sent to its tasks."""
    found: StoredRows = cloudpickle.loads(cloudpickle.dumps(open_view(directory_of(db), name)))
    rows: Counter[tuple[Any, ...]] = Counter()
    for task in range(found.tasks):
        table = found.read(task, range(len(found.columns)))
        rows.update(zip(*(column.to_pylist() for column in table.columns), strict=True))
        last = len(found.columns) - 1
        assert found.read(task, [last, 0]).columns == [table.column(last), table.column(0)]
    return rows, found


def directory_of(db: SparkConnection) -> str:
    return db._host.cluster.checkpoint.directory


def test_other_jobs_read_any_view(make: Callable[[str], SparkConnection]) -> None:
    over = "; CREATE MATERIALIZED VIEW over AS SELECT last, SUM(n) AS n FROM totals GROUP BY last"
    db = make(TOTALS + OTHERS + LISTED + over)
    names = (
        "totals",
        "bag",
        "mixed",
        "hidden",
        "sorted",
        "cheapest",
        "whole",
        "over",
        "sales",
        "listed",
        "sizes",
        "days",
    )
    for step in range(3):
        tasks = {}
        for name in names:
            rows, found = read_by_others(db, name)
            tasks[name] = found.tasks
            assert rows == shown(db, name)
            read = scan(db, name) if tasks[name] > 1 else None
            if isinstance(read, ViewScan):
                count = scan_task.CountRows(read.context, read.key, read.columns)
                assert sum(map(count, range(PARTITIONS))) == rows.total()
            handle = db.table(name) if name in db.tables else db.view(name)
            assert [column.name for column in found.columns] == handle.to_arrow().column_names
        assert [name for name, count in tasks.items() if count == 1] == ["mixed", "cheapest", "whole", "sizes"]
        if step == 0:
            db.delete("sales", ROWS[3:20])
        elif step == 1:
            db.checkpoint()
            db.insert("sales", ROWS[3:9])


def test_other_jobs_read_the_epoch_that_they_have_opened(db: SparkConnection) -> None:
    found, rows = open_view(directory_of(db), "totals"), shown(db, "totals")
    db.delete("sales", ROWS[:20])
    tables = [found.read(task, range(len(found.columns))) for task in range(found.tasks)]
    assert Counter(row for table in tables for row in zip(*table.to_pydict().values(), strict=True)) == rows
    assert read_by_others(db, "totals")[0] == shown(db, "totals") != rows


def test_what_other_jobs_cannot_read(db: SparkConnection, tmp_path: Path) -> None:
    where = directory_of(db)
    with pytest.raises(SchemaError, match=r"there is no view 'total' in .*did you mean 'totals'"):
        open_view(where, "total")
    with pytest.raises(SchemaError, match="'visits' is a stream"):
        open_view(where, "visits")
    with pytest.raises(StateError, match="check the path"):
        open_view(str(tmp_path / "absent"), "totals")
    viewlet.connect(tmp_path / "local").execute("CREATE TABLE t (a BIGINT)")
    with pytest.raises(StateError, match="of a database in one process"):
        open_view(str(tmp_path / "local"), "t")


def test_a_commit_while_the_checkpoint_is_opened(db: SparkConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot removes the log that is about to be read."""
    records, steps = Checkpoint.records, iter([True])

    def interfered(self: Checkpoint) -> Iterator[Any]:
        if next(steps, False):
            db.insert("sales", [(700, "late", None, None, None, None, None, None)])
            db.checkpoint()
        return records(self)

    monkeypatch.setattr(Checkpoint, "records", interfered)
    assert read_by_others(db, "totals")[0] == shown(db, "totals")


SHARES = """
    ; CREATE MATERIALIZED VIEW shares AS
      SELECT shop, SUM(price) AS total, (SELECT SUM(price) FROM sales) AS whole, (SELECT COUNT(*) FROM visits) AS visits
      FROM sales GROUP BY shop;
    CREATE MATERIALIZED VIEW above AS
      SELECT shop, COUNT(*) AS n, SUM(weight) AS weight FROM sales GROUP BY shop
      HAVING COUNT(*) > (SELECT COUNT(*) / 5 FROM sales) OR SUM(weight) > (SELECT AVG(weight) FROM sales)
"""
"""Rows in partitions that are compared with what is at the driver."""


def test_partitions_read_along_with_what_is_at_the_driver(make: Callable[[str], SparkConnection]) -> None:
    db = make(TOTALS + SHARES)
    for step in range(3):
        for number, name in enumerate(("shares", "above")):
            assert db.view(name).stats()["reading"] == ResultLocation.SENT.value
            found, rows = scan(db, name), shown(db, name)
            assert rows_of(found) == rows == read_by_others(db, name)[0]
            assert rows.total() == len(db.view(name)) == db.view(name).to_arrow().num_rows > 0
            db.insert(
                "sales", [(500 + 2 * step + number, f"new {step}{name}", None, None, Decimal(step), 9.5, None, None)]
            )
            assert rows_of(found) == rows != shown(db, name)
        if step == 0:
            db.checkpoint()
    whole = sum((row[4] for row in db.table("sales").rows() if row[4] is not None), Decimal())
    assert {row[2:] for row in db.view("shares").rows()} == {(whole, 3)}
    few = sum((Counter({row[1]: 1}) for row in db.table("sales").rows()), Counter())
    assert {row[0]: row[1] for row in db.view("above").rows()}.items() <= few.items()


def remove_local_state(found: ViewScan | TableScan) -> None:
    """As on a machine that has never worked on the views."""
    import hashlib
    import shutil

    home = hashlib.blake2b(found.context.checkpoint.encode(), digest_size=8).hexdigest()
    shutil.rmtree(Path(found.context.state or partition.state_root()) / home, ignore_errors=True)


# -- Arrow ------------------------------------------------------------------------------------------------------------

AWKWARD = """
    ; CREATE MATERIALIZED VIEW ranked AS
      SELECT id, shop, open, price, day FROM sales ORDER BY shop DESC NULLS LAST, open NULLS FIRST, price;
    CREATE MATERIALIZED VIEW hides AS SELECT shop FROM sales ORDER BY price DESC;
    CREATE MATERIALIZED VIEW several AS
      SELECT a.shop, a.n, b.total FROM (SELECT shop, COUNT(*) AS n FROM sales GROUP BY shop) a
      JOIN (SELECT size, SUM(price) AS total FROM sales GROUP BY size) b ON a.n = -b.size;
    CREATE MATERIALIZED VIEW less AS SELECT shop, size FROM sales EXCEPT ALL SELECT shop, size FROM visits
"""


def test_arrow_has_the_rows_in_reading_order(make: Callable[[str], SparkConnection]) -> None:
    """Rows are sorted and added up as Arrow; `rows()` does the same one by one."""
    db = make(TOTALS + OTHERS + AWKWARD)
    db.delete("sales", ROWS[5:9])
    names = (
        "totals",
        "bag",
        "mixed",
        "hidden",
        "sorted",
        "cheapest",
        "whole",
        "ranked",
        "hides",
        "several",
        "less",
        "sales",
    )
    for name in names:
        handle = db.table(name) if name in db.tables else db.view(name)
        table = handle.to_arrow()
        assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == handle.rows(), name
        assert len(handle) == table.num_rows
        assert table.schema.names == list(handle.columns)
    assert db.view("several").stats()["reading"] == "gathered"
    assert db.execute("SELECT SUM(n) AS n FROM totals").to_pydict() == {"n": [len(ROWS) - 4]}


def test_arrow_is_read_without_rows(make: Callable[[str], SparkConnection], monkeypatch: pytest.MonkeyPatch) -> None:
    db = make(TOTALS + OTHERS + AWKWARD)
    if db._host.cluster.code("bag").module is None:
        return
    for module in ("viewlet.spark.run.execution.scan_task", "viewlet.spark.run.execution.change_task"):
        monkeypatch.setattr(f"{module}.rows_to_arrow", lambda *_, **__: pytest.fail("rows were made"))
    monkeypatch.setattr(generated_result, "evaluate_result", lambda *_: pytest.fail("rows were made"))
    for name in ("bag", "sorted", "whole", "totals", "mixed", "several", "less"):
        assert db.view(name).to_arrow().num_rows == len(db.view(name)) > 0
    assert db.table("sales").to_arrow().num_rows == len(db.table("sales")) == len(ROWS)


@pytest.mark.parametrize(
    ("columns", "where", "told"),
    [
        ([], None, "name at least one column"),
        (["total", "x"], None, "there is no column 'x'"),
        (["b"], None, "there are several columns 'b'"),
        (["a", "total", "A"], None, "named twice"),
        (None, "total + 1", "this is not a condition"),
        (None, "total >", "syntax error"),
        (None, "n > 1", '"n" not found'),
        (None, "b > 1", "one of several columns of the same name"),
        (None, "a IN (SELECT * FROM read_csv('/etc/passwd'))", "disabled by configuration"),
    ],
)
def test_what_cannot_be_selected(columns: list[str] | None, where: str | None, told: str) -> None:
    known = pa.schema([("a", pa.string()), ("total", pa.int64()), ("b", pa.int64()), ("b", pa.int64())])
    with pytest.raises(viewlet.ViewletError, match=re.escape(told)):
        selection(known, columns, where)
