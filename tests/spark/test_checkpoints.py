"""Checkpoints on other file systems, the changes of views as files, and bounded growth; without Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

import viewlet
from viewlet import StateError
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.spark.run import unit_registry
from viewlet.spark.run.state import checkpoint
from viewlet.spark.run.state.partition import forget

URL = "memory://bucket/state"
DECLARED = """
    CREATE TABLE orders (id BIGINT NOT NULL, customer VARCHAR, PRIMARY KEY (id));
    CREATE STREAM items (id BIGINT NOT NULL, price BIGINT);
    CREATE MATERIALIZED VIEW revenue AS
    SELECT customer, SUM(price) AS total FROM orders JOIN items USING (id) GROUP BY customer
"""


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    forget()
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    if system.exists("/bucket"):
        system.rm("/bucket", recursive=True)


@pytest.fixture(params=["memory", "file", "dir", "path"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    pytest.importorskip("fsspec")
    (tmp_path / "state").mkdir()
    known = {"memory": URL, "file": f"file://{tmp_path}/state", "dir": f"dir::file://{tmp_path}/state"}
    return known.get(request.param, str(tmp_path / "state"))


def test_a_database_anywhere(location: str) -> None:
    """Declarations, batches, a snapshot and openings in between; nothing but the files is left each time."""
    expected: dict[str, int] = {}
    for number in range(6):
        with connect_inline(location, 2) as db:
            if number == 0:
                db.execute(DECLARED)
            assert dict(db.view("revenue").rows()) == expected
            db.apply({"orders": [(number, f"c{number % 3}")], "items": [(number, 5), (number, 7)]}, batch_id=number)
            expected[f"c{number % 3}"] = expected.get(f"c{number % 3}", 0) + 12
            db.apply({"items": [(number, 100)]}, batch_id=number)
            if number == 2:
                db.checkpoint()
            if number == 3:
                db.changes("revenue")
            with pytest.raises(StateError, match="open already"):
                connect_inline(location, 2)
        forget()
    told = viewlet.changes_of(location, "revenue", since=5)
    assert told.to_pylist() == [
        {"customer": "c2", "total": 12, "_multiplicity": -1, "_epoch": 6},
        {"customer": "c2", "total": 24, "_multiplicity": 1, "_epoch": 6},
    ]


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_damage_is_named_and_nothing_changes(damage: str) -> None:
    fsspec = pytest.importorskip("fsspec")
    with connect_inline(URL, 2) as db:
        db.execute(DECLARED)
        db.apply({"orders": [(1, "ada")], "items": [(1, 5)]})
    forget()
    system = fsspec.filesystem("memory")
    logs = [name for name in system.find("/bucket/state") if "/log-" in name]
    whole = system.cat_file(logs[-1])
    if damage == "missing":
        system.rm(logs[-1])
    else:
        system.pipe_file(logs[-1], whole[:-1] + b"?")
    with pytest.raises(StateError, match=r"memory://bucket/state/log-.* is (missing|damaged)"):
        connect_inline(URL, 2)
    system.pipe_file(logs[-1], whole)
    with connect_inline(URL, 2) as db:
        assert db.view("revenue").rows() == [("ada", 5)]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparkConnection]:
    with connect_inline(tmp_path / "state", 2, sync=False) as db:
        db.execute(DECLARED)
        yield db


def test_changes_are_read_by_another_process(db: SparkConnection, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with pytest.raises(
        StateError, match=r"keeps no changes of 'revenue'; calling changes\('revenue'\) there begins it"
    ):
        viewlet.changes_of(state, "revenue")
    db.changes("revenue")
    db.apply({"orders": [(1, "ada")], "items": [(1, 5)]})
    db.insert("items", [(1, 2)])
    code = f"import viewlet; print(viewlet.changes_of({str(state)!r}, 'revenue', since=1).to_pylist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(
        [
            {"customer": "ada", "total": 5, "_multiplicity": -1, "_epoch": 2},
            {"customer": "ada", "total": 7, "_multiplicity": 1, "_epoch": 2},
        ]
    ), done.stderr
    empty = viewlet.changes_of(state, "revenue", since=2)
    assert (empty.num_rows, empty.column_names) == (0, ["customer", "total", "_multiplicity", "_epoch"])
    db.forget_changes("revenue", until=1)
    assert viewlet.changes_of(state, "revenue").column("_epoch").to_pylist() == [2, 2]
    db.execute("DROP VIEW revenue")
    with pytest.raises(StateError, match="keeps no changes"):
        viewlet.changes_of(state, "revenue")
    with pytest.raises(StateError, match="holds no database"):
        viewlet.changes_of(tmp_path, "revenue")


def test_changes_of_a_batch_that_failed_do_not_count(
    db: SparkConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number goes to another batch, which changes nothing in the view: in this process, or in the next one."""
    db.apply({"orders": [(1, "ada"), (2, "bob")]})
    db.changes("revenue")

    def fail(*_: object, **__: object) -> int:
        raise StateError("the disk is full")

    for again in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint.Checkpoint, "commit", fail)
            with pytest.raises(StateError, match="the disk is full"):
                db.insert("items", [(1, 5)])
        assert viewlet.changes_of(tmp_path / "state", "revenue").num_rows == 0
        if again:
            db.close()
            forget()
            db = connect_inline(tmp_path / "state", 2, sync=False)
        db.insert("orders", [(7 + again, "cyd")])
        assert viewlet.changes_of(tmp_path / "state", "revenue").num_rows == 0
    db.close()


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def test_growth_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come and go; however many batches there have been, the directory stays as small as a log and a snapshot."""
    monkeypatch.setattr(checkpoint, "MANY_STEPS", 20)
    state = tmp_path / "state"
    sizes = []
    with connect_inline(state, 2, sync=False) as db:
        db.execute(DECLARED)
        db.execute("ALTER MATERIALIZED VIEW revenue PARTITION BY (customer)")  # where it stays
        for number in range(120):
            db.apply({"orders": [(number, "ada")], "items": [(number, 5)]})
            db.apply({"orders": [{"id": number, "customer": "ada", "_multiplicity": -1}]})
            sizes.append(size_of(state))
        assert db.stats()["checkpoint"]["stages_since_snapshot"] <= 40  # type: ignore[index]
    early, late = max(sizes[20:60]), max(sizes[80:])
    assert late < 1.5 * early


def by_unit(unit: str, view: str) -> str:
    return f"{unit}/{view}"


@pytest.mark.parametrize("named", [by_unit, lambda unit, view: view], ids=["now", "before"])
def test_a_snapshot_keeps_stored_views_of_the_same_name_apart(
    named: Callable[[str, str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both views store rows of the table, with other columns; older snapshots name no units."""
    views = {
        "by_a": "SELECT a, COUNT(*) AS n FROM r GROUP BY a",
        "by_b": "SELECT a, b, SUM(c) AS s FROM r GROUP BY a, b",
    }
    chosen = views if named is by_unit else {"by_b": views["by_b"]}
    monkeypatch.setattr("viewlet.spark.run.snapshots.saved_name", named)
    monkeypatch.setattr("viewlet.spark.run.execution.snapshot_tasks.saved_name", named)
    with connect_inline(tmp_path, 2, sync=False, engine="interpreter") as db:
        db.execute("CREATE TABLE r (a INTEGER, b INTEGER, c INTEGER)")
        for name, sql in chosen.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = 'recompute') AS {sql}")
        db.insert("r", [(1, 2, 3), (1, 4, 5)])
        db.checkpoint()
    forget()
    monkeypatch.undo()
    with connect_inline(tmp_path, 2, sync=False, engine="interpreter") as db:
        db.insert("r", [(1, 2, 10)])
        found = {name: db.view(name).rows() for name in chosen}
    expected = {"by_a": [(1, 3)], "by_b": [(1, 2, 13), (1, 4, 5)]}
    assert found == {name: expected[name] for name in chosen}
    forget()


@pytest.mark.parametrize(
    ("before", "after"), [("compiled", "auto"), ("compiled", "interpreter"), ("interpreter", "compiled")]
)
def test_the_log_is_replayed_by_either_kernel(tmp_path: Path, before: str, after: str) -> None:
    """What the driver logs depends on its kernel; views at the driver were empty, or could not be opened."""
    with connect_inline(tmp_path, 2, sync=False, engine=before) as db:
        db.execute("CREATE TABLE t (a BIGINT NOT NULL, b BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW whole AS SELECT SUM(b) AS s, MAX(b) AS m, COUNT(b) AS n FROM t")
        db.execute("CREATE MATERIALIZED VIEW groups AS SELECT a, SUM(b) AS s FROM t GROUP BY a")
        db.insert("t", [(1, 2), (2, 3), (3, None)])
        db.insert("t", [(1, 7), (1, -2)])
        db.delete("t", [(2, 3)])
        found = {name: db.view(name).rows() for name in ("whole", "groups")}
    with connect_inline(tmp_path, 2, sync=False, engine=after) as db:
        assert {name: db.view(name).rows() for name in found} == found
        db.insert("t", [(2, 9)])
        assert db.view("whole").rows() == [(16, 9, 4)]


def test_closing_removes_what_the_machine_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of generated code is in mapped files; a connection that is opened again reads the checkpoint."""
    kept = tmp_path / "mapped"
    monkeypatch.setenv("VIEWLET_STATE", str(kept))
    for number in range(3):
        with connect_inline(tmp_path / "state", 2, engine="compiled") as db:
            if number == 0:
                db.execute(DECLARED)
            db.apply({"orders": [(number, "c")], "items": [(number, 5)]})
            assert dict(db.view("revenue").rows()) == {"c": 5 * (number + 1)}
            assert list(kept.glob("*/*/*/stamp"))
        assert list(kept.iterdir()) == []


def test_a_cluster_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_registry, "CLOSE_SECONDS", 0.1)
    answered = Event()
    db = connect_inline(tmp_path / "state", 2, engine="compiled")
    db.execute(DECLARED)
    db.apply({"orders": [(1, "c")], "items": [(1, 5)]})
    monkeypatch.setattr(db._host.cluster.cluster, "run", lambda *given: answered.wait())
    db.close()
    assert not answered.is_set()
    answered.set()
    assert dict(connect_inline(tmp_path / "state", 2, engine="compiled").view("revenue").rows()) == {"c": 5}


def test_each_machine_has_its_own_folder_of_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks on other machines are not told the folder of the driver; those of Spark in local mode are."""
    from types import SimpleNamespace

    from viewlet.spark.run.execution.cluster import SparkCluster

    monkeypatch.setenv("VIEWLET_STATE", str(tmp_path / "driver"))
    with connect_inline(tmp_path / "db", 1, sync=False, engine="compiled") as db:
        db.execute("CREATE TABLE r (a BIGINT); CREATE MATERIALIZED VIEW v PARTITION BY (a) AS SELECT a FROM r")
        monkeypatch.setenv("VIEWLET_STATE", str(tmp_path / "executor"))  # where the task finds itself
        db.insert("r", [(1,)])
        assert (tmp_path / "executor").exists()
        assert not (tmp_path / "driver").exists()
    for is_local, folder in ((True, str(tmp_path / "executor")), (False, "")):
        scala = SimpleNamespace(isLocal=lambda is_local=is_local: is_local)
        context = SimpleNamespace(master="spark://x", _jsc=SimpleNamespace(sc=lambda scala=scala: scala))
        assert SparkCluster(SimpleNamespace(sparkContext=context)).state_folder == folder
