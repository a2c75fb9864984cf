"""The hosts of parts: DuckDB in a file, PostgreSQL, and Arrow batches as they come."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewlet
from tests.streams import postgres
from tests.streams.host_programs import check
from tests.streams.model import at
from viewlet.streams import DuckDBHost, PostgresHost


def test_duckdb_in_a_file(tmp_path: Path) -> None:
    check(lambda: DuckDBHost(str(tmp_path / "parts.duckdb")), tmp_path)


@pytest.mark.skipif(postgres.obstacle() is not None, reason=postgres.obstacle() or "")
def test_postgresql(tmp_path: Path) -> None:
    with postgres.cluster() as connection:
        check(lambda: PostgresHost(connection), tmp_path)
        db = viewlet.connect(streams=PostgresHost(connection))
        db.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts")
        db.execute("""CREATE VIEW v AS SELECT g, COUNT(*) AS n, SUM(x) AS x FROM m PATTERN [a+, b]
            WHERE a.x > 1 AND b.x > a.x GROUP BY g""")
        db.insert(
            "m",
            [(at(60 * minute + second), "g", x) for minute, second, x in ((0, 0, 2), (0, 1, 2), (1, 0, 9), (2, 0, 1))],
        )
        assert db.view("v").rows() == [("g", 3, 13, at(60))]
        db.close()


def test_arrow_batches_are_stored_as_they_come(tmp_path: Path) -> None:
    import pyarrow as pa

    times = pa.array([at(0), at(61), at(62)], pa.timestamp("us"))
    batch = pa.table(
        {"ts": times, "g": pa.array(["a", None, "b"], pa.large_string()), "x": pa.array([1, 2, 3], pa.int32())}
    )
    with viewlet.connect(tmp_path / "db") as db:
        db.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts")
        db.execute("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n, SUM(x) AS x FROM m")
        db.stream_view("copy", initialize="SELECT g, x FROM m[i]")
        db.insert("m", batch)
        db.apply({"m": batch.slice(1)})
        db.delete("m", batch.slice(2))
        assert db.view("n").rows() == [(4, 8)]
        assert db.view("copy").rows() == [("a", 1, at(0))]
        with pytest.raises(viewlet.DataError, match="NULL"):
            db.insert("m", batch.set_column(0, "ts", pa.nulls(3, pa.timestamp("us"))))
    with viewlet.connect(tmp_path / "db") as db:
        assert len(db.table("m")) == 4
