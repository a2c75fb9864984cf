"""Declarations on partitions: names that are used again, and declarations that fail; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from viewlet import StateError, UnsupportedError
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.runtime.durable.store import StateStore
from viewlet.spark.run.engine import Engine
from viewlet.spark.run.state.partition import forget

TOTALS = "MATERIALIZED VIEW totals AS SELECT k, SUM(v) AS s FROM t GROUP BY k"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparkConnection]:
    with connect_inline(tmp_path, 2, sync=False) as db:
        db.execute(f"CREATE TABLE t (k BIGINT, v BIGINT); CREATE STREAM f (k BIGINT); CREATE {TOTALS}")
        db.apply({"t": [(1, 2), (1, 3), (2, 4)], "f": [(7,)]})
        yield db
    forget()


def reopened(db: SparkConnection, tmp_path: Path) -> SparkConnection:
    db.close()
    forget()
    return connect_inline(tmp_path, 2, sync=False)


def last_snapshot(db: SparkConnection) -> object:
    checkpoint: Any = db.stats()["checkpoint"]
    return checkpoint["last_checkpoint"]


def test_a_name_is_used_again_while_the_log_has_stages_of_its_first_owner(db: SparkConnection, tmp_path: Path) -> None:
    db.execute("DROP VIEW totals; DROP TABLE t")
    assert last_snapshot(db) is None
    db.execute("CREATE TABLE t (v BIGINT)")
    assert last_snapshot(db) is not None
    db.execute("CREATE MATERIALIZED VIEW totals AS SELECT SUM(v) AS s FROM t")
    db.insert("t", [(40,), (2,)])
    for _ in range(2):
        assert (db.view("totals").rows(), db.table("t").rows()) == ([(42,)], [(2,), (40,)])
        db = reopened(db, tmp_path)
    db.close()


def test_what_is_dropped_stays_away_when_the_log_is_replayed(db: SparkConnection, tmp_path: Path) -> None:
    db.execute("DROP VIEW totals; CREATE MATERIALIZED VIEW others AS SELECT COUNT(*) AS n FROM t")
    db.insert("t", [(5, 5)])
    db = reopened(db, tmp_path)
    assert (db.views, db.view("others").rows()) == (("others",), [(4,)])
    db.close()


def test_a_stream_that_is_declared_again_has_no_rows(db: SparkConnection, tmp_path: Path) -> None:
    db.execute("DROP STREAM f; CREATE STREAM f (k BIGINT)")
    db = reopened(db, tmp_path)
    db.execute("CREATE MATERIALIZED VIEW seen AS SELECT COUNT(*) AS n FROM f")
    db.insert("f", [(1,)])
    assert db.view("seen").rows() == [(1,)]
    db.close()


@pytest.mark.parametrize("statement", [f"CREATE OR REPLACE {TOTALS}", f"CREATE {TOTALS.replace('totals', 'more')}"])
@pytest.mark.parametrize("where", [(Engine, "fill"), (StateStore, "commit")], ids=["fill", "commit"])
def test_a_declaration_that_fails_changes_nothing(
    db: SparkConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, where: tuple[type, str]
) -> None:
    def fail(*args: object) -> None:
        raise StateError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(*where, fail)
        with pytest.raises(StateError, match="no room"):
            db.execute(statement.replace("SUM(v)", "MAX(v)"))
    for _ in range(2):
        db.insert("t", [(2, 10)])
        assert db.views == ("totals",)
        assert db.view("totals").rows()[0] == (1, 5)
        db = reopened(db, tmp_path)
    assert db.view("totals").rows() == [(1, 5), (2, 24)]
    db.close()


def test_a_batch_is_committed_even_if_no_snapshot_can_be_written_after_it(
    db: SparkConnection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object) -> None:
        raise StateError("no room")

    monkeypatch.setattr(StateStore, "checkpoint", fail)
    monkeypatch.setattr("viewlet.spark.run.state.checkpoint.MANY_STEPS", 0)
    assert db.insert("t", [(1, 1)]) == 2
    assert "no snapshot was written, the log continues: no room" in caplog.text
    assert db.view("totals").rows() == [(1, 6), (2, 4)]


def test_changes_of_a_view_are_not_those_of_an_earlier_one_of_its_name(
    db: SparkConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the process had died between dropping the view and removing its files."""
    db.changes("totals")
    db.insert("t", [(1, 1)])
    assert db.changes("totals").num_rows == 2
    monkeypatch.setattr("viewlet.hosts.feeds.Feeds.forget", lambda self, name, with_files: self.since.pop(name, None))
    db.execute(f"DROP VIEW totals; CREATE {TOTALS.replace('SUM', 'MAX')}")
    db.changes("totals")
    assert db.changes("totals", since=-1).num_rows == 0


def test_a_stream_in_parts_is_refused_before_it_is_written_down(db: SparkConnection, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="a partitioned stream on this host"):
        db.execute("CREATE STREAM m (ts TIMESTAMP, x BIGINT) PARTITION LENGTH 60 BY ts")
    for _ in range(2):
        db.insert("t", [(2, 1)])
        db = reopened(db, tmp_path)
    assert db.view("totals").rows() == [(1, 5), (2, 6)]
    db.close()
