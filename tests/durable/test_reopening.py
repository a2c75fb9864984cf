"""What is there when a directory is opened again."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from tests.conformance.programs.small import QUERIES, TABLES, batches
from tests.durable.scripts import HISTORY, abandon, rates, state_of
from tests.oracle.play import changes_of
from viewlet.hosts.local import LocalHost
from viewlet.runtime.durable import store
from viewlet.triggers.program import Program

ENGINES = ("interpreter", "compiled")


def played(path: Path, engine: str = "auto") -> viewlet.Connection:
    db = viewlet.connect(path, engine=engine)
    for step in HISTORY:
        step(db)
    return db


@pytest.mark.parametrize("ending", ["closed", "killed", "checkpointed"])
@pytest.mark.parametrize("engine", ENGINES)
def test_everything_is_there_again(engine: str, ending: str, tmp_path: Path) -> None:
    db = played(tmp_path / "db", engine)
    before = state_of(db)
    if ending == "checkpointed":
        db.checkpoint()
    (db.close if ending == "closed" else lambda: abandon(db))()
    again = viewlet.connect(tmp_path / "db")
    assert state_of(again) == before
    assert again.view("rated").stats()["engine"] == engine
    assert again.execute("SELECT COUNT(*) AS n FROM item").to_pylist() == [{"n": 2}]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_snapshot_is_not_computed_again(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = played(tmp_path, engine)
    before = state_of(db)
    db.close()

    def refuse(*args: object) -> Any:
        raise AssertionError("a view was filled from its tables")

    monkeypatch.setattr(LocalHost, "start", refuse)
    assert state_of(viewlet.connect(tmp_path)) == before


@pytest.mark.parametrize("engine", ENGINES)
def test_every_kind_of_view_goes_on_from_its_snapshot(engine: str, tmp_path: Path) -> None:
    """A database that is opened again before every batch, and one in memory."""
    strategies = ("auto", "first-order") if engine == "interpreter" else ("auto",)
    expected, columns = viewlet.connect(engine=engine), dict[str, tuple[str, ...]]()
    with viewlet.connect(tmp_path, engine=engine) as db:
        for each in (expected, db):
            for table in TABLES.values():
                each.execute(table)
            for query in QUERIES:
                for strategy in strategies:
                    name = f'"{query.name} {strategy}"'
                    each.execute(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{strategy}') AS {query.sql}")
        columns = {name: db.table(name).columns for name in TABLES}
    for number, batch in enumerate(batches(seed=1, count=6)):
        changes = {name: rows for name, rows in changes_of(batch, columns).items() if rows}
        expected.apply(changes)
        db = viewlet.connect(tmp_path)
        db.apply(changes)
        assert state_of(db) == state_of(expected)
        (db.close if number % 2 else lambda db=db: abandon(db))()  # type: ignore[misc]


def test_values_of_every_type_come_back_as_they_were(tmp_path: Path) -> None:
    rows = [
        (True, -(2**15), 2**31 - 1, -(2**63) + 1, 0.5, 1e307, "4" * 36 + ".25", "ß\0'\"", "0001-01-01", "9999-12-31"),
        (None,) * 10,
        (False, 0, 0, 0, 1e-45, -5e-324, "-0.01", "", "2026-01-01", "1970-01-01 00:00:00.000001"),
    ]
    with viewlet.connect(tmp_path) as db:
        db.execute(
            "CREATE TABLE t (a BOOLEAN, b SMALLINT, c INTEGER, d BIGINT, e REAL, f DOUBLE, g DECIMAL(38,2), h VARCHAR, "
            "i DATE, j TIMESTAMP)"
        )
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT h, SUM(g) AS g, SUM(f) AS f, MIN(i) AS i FROM t GROUP BY h")
        db.insert("t", rows * 2)
        before = state_of(db)
        abandon(db)
        again = viewlet.connect(tmp_path)  # from the log
        assert state_of(again) == before
        again.close()
    db = viewlet.connect(tmp_path)  # from a snapshot
    assert state_of(db) == before
    db.delete("t", rows * 2)
    assert db.view("v").rows() == []


def test_doubles_leave_no_residue_across_openings(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path) as db:
        db.execute("CREATE TABLE t (x DOUBLE); CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS s, COUNT(*) AS n FROM t")
        db.insert("t", [(0.1,), (0.2,), (1e17,)])
    with viewlet.connect(tmp_path) as db:
        db.delete("t", [(1e17,)])
        assert db.view("v").rows() == [(0.1 + 0.2, 2)]


def test_batches_of_columns_are_replayed(tmp_path: Path) -> None:
    db = viewlet.connect(tmp_path, engine="compiled")
    db.execute("CREATE STREAM feed (name VARCHAR, rate DOUBLE, day DATE, price DECIMAL(9,2), unread VARCHAR)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT name, day, SUM(rate) AS r, SUM(price) AS p FROM feed GROUP BY ALL")
    for first in range(0, 9, 3):
        db.apply({"feed": _feed(first)})
    expected = db.view("v").rows()
    assert len(expected) > 3
    abandon(db)
    again = viewlet.connect(tmp_path, engine="interpreter")
    assert again.view("v").rows() == expected
    assert again.view("v").stats()["engine"] == "compiled"


def _feed(first: int) -> pa.Table:
    days = pa.array([first, None, first + 1], pa.int32()).cast(pa.date32())
    prices = pa.array([Decimal(first), None, Decimal("0.25")], pa.decimal128(9, 2))
    names = [f"n{first}", None, "x"]
    return pa.table({"name": names, "rate": [0.5, None, 2.0], "day": days, "price": prices, "unread": names})


def test_a_batch_id_counts_once_across_openings(tmp_path: Path) -> None:
    db = played(tmp_path)
    before = state_of(db)
    assert db.apply({"feed": rates(0, 5)}, batch_id=2) == before[0]
    abandon(db)
    db = viewlet.connect(tmp_path)
    db.apply({"feed": rates(0, 5)}, batch_id=3)
    assert state_of(db) == before
    assert db.apply({}, batch_id=9) == before[0]
    db.close()
    db = viewlet.connect(tmp_path)
    assert db.apply({"feed": rates(0, 5)}, batch_id=9) == before[0]
    assert db.apply({"feed": rates(0, 5)}, batch_id=9, source="another") == before[0] + 1
    assert db.apply({"feed": rates(0, 5)}, batch_id=4) == before[0] + 2


def test_a_refused_batch_does_not_use_up_its_id(tmp_path: Path) -> None:
    db = played(tmp_path)
    with pytest.raises(viewlet.DataError):
        db.apply({"item": [(2, "twice", "1.00", None)]}, batch_id=70)
    epoch = db.epoch
    assert db.apply({"item": [(70, "once", "1.00", None)]}, batch_id=70) == epoch + 1


@pytest.mark.parametrize("wrong", ["7", 7.0, True])
def test_a_batch_id_is_an_integer(wrong: Any) -> None:
    with pytest.raises(viewlet.DataError, match="batch_id is an integer"):
        viewlet.connect().apply({}, batch_id=wrong)


def test_a_directory_grows_with_the_state_not_with_the_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SHORTEST_LOG", 20_000)
    db = viewlet.connect(tmp_path, fsync=False)
    db.execute(
        "CREATE TABLE t (a BIGINT, b VARCHAR); CREATE MATERIALIZED VIEW v AS SELECT b, SUM(a) AS s FROM t GROUP BY b"
    )
    largest = 0
    for number in range(300):
        rows = [(i, f"text {i}") for i in range(20)]
        db.apply({"t": rows} if number % 2 == 0 else {"t": _deletes(rows)})
        largest = max(largest, sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()))
    assert largest < 3 * 20_000
    durability: Any = db.stats()["durability"]
    assert durability["log_bytes"] < 25_000
    assert 0 < durability["snapshot_bytes"] < 10_000
    assert durability["last_checkpoint"]


def _deletes(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [{"a": a, "b": b, "_multiplicity": -1} for a, b in rows]


def test_a_commit_writes_in_proportion_to_the_change(tmp_path: Path) -> None:
    db = viewlet.connect(tmp_path, fsync=False)
    db.execute("CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s FROM t")
    db.insert("t", [(i,) for i in range(20_000)])

    def log_bytes() -> int:
        durability: Any = db.stats()["durability"]
        return int(durability["log_bytes"])

    before = log_bytes()
    db.insert("t", [(1,)])
    assert log_bytes() - before < 1_500


def test_a_view_that_changed_inside_is_filled_from_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = viewlet.connect(tmp_path)
    db.execute("CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s FROM t")
    db.insert("t", [(1,), (41,)])
    db.close()
    monkeypatch.setattr(Program, "state_digest", property(lambda program: "of a newer version"))
    assert viewlet.connect(tmp_path).view("v").rows() == [(42,)]


def test_a_view_over_a_stream_that_changed_inside_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = played(tmp_path)
    before = state_of(db)
    db.close()
    with monkeypatch.context() as patch:
        patch.setattr(Program, "state_digest", property(lambda program: "of a newer version"))
        with pytest.raises(
            viewlet.StateError, match=r"view 'rated' cannot be restored: .* stream 'feed' keeps no rows"
        ):
            viewlet.connect(tmp_path)
    assert state_of(viewlet.connect(tmp_path)) == before


@pytest.mark.parametrize("ending", ["closed", "killed"])
def test_a_view_that_is_no_longer_accepted_is_named(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = played(tmp_path)
    before = state_of(db)
    (db.close if ending == "closed" else lambda: abandon(db))()

    def refuse(*args: object) -> Any:
        raise viewlet.UnsupportedError("SUM", "it was once")

    with monkeypatch.context() as patch:
        patch.setattr("viewlet.sql.bind_statement", refuse)
        with pytest.raises(
            viewlet.StateError, match=f"'spend' cannot be restored: SUM.*with version {viewlet.__version__}"
        ):
            viewlet.connect(tmp_path)
    assert state_of(viewlet.connect(tmp_path)) == before


def test_a_directory_needs_no_numpy_unless_views_are_compiled(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules["numpy"] = None
import viewlet
for _ in range(2):
    with viewlet.connect({str(tmp_path)!r}) as db:
        db.execute("CREATE TABLE IF NOT EXISTS t (a BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT SUM(a) AS s FROM t")
        db.insert("t", [(21,)])
        print(db.view("v").rows())
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert answer.stdout.splitlines() == ["[(21,)]", "[(42,)]"], answer.stderr


def test_a_closed_connection_lets_others_in(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path) as db:
        db.execute("CREATE TABLE t (a BIGINT)")
    db.close()
    assert viewlet.connect(tmp_path).tables == ("t",)


def test_in_memory_there_is_nothing_to_checkpoint() -> None:
    db = viewlet.connect()
    db.checkpoint()
    assert "durability" not in db.stats()
