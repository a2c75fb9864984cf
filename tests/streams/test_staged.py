"""Rows that come as files of the host: parts are made of them without reading them, also after a crash."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import viewlet
from tests.streams.model import at
from viewlet.changes.staged_change import PART_COLUMN
from viewlet.streams import DuckDBHost
from viewlet.types import Table

M = "CREATE STREAM m (ts TIMESTAMP, x BIGINT) PARTITION LENGTH 60 BY ts LATENESS INTERVAL '2' MINUTES"


FIRST = 23668440
"""The part of the time that tests begin with."""


class Frame:
    """Stands for a data frame of Spark."""

    __module__ = "pyspark.stand_in"

    def __init__(self, *rows: tuple[int, int]) -> None:
        self.rows = rows

    def toArrow(self) -> Any:  # noqa: N802 - Spark's name
        times = pa.array([at(second) for second, _ in self.rows], pa.timestamp("us"))
        return pa.table({"ts": times, "x": pa.array([x for _, x in self.rows], pa.int64())})


class Host(DuckDBHost):
    """DuckDB with a folder for rows that are staged."""

    def __init__(self, place: Path) -> None:
        super().__init__(str(place / "parts.duckdb"))
        self.staging = place / "staged"
        self.loaded: list[str] = []

    def stage(self, frame: Frame, table: Table) -> str:
        place = self.staging / str(len(list(self.staging.glob("*"))))
        parts = pa.array([FIRST + second // 60 for second, _ in frame.rows])
        pq.write_to_dataset(frame.toArrow().append_column(PART_COLUMN, parts), place, partition_cols=[PART_COLUMN])
        return str(place)

    def adopt(self, table: str, folder: str) -> None:
        self.create_over(table, "SELECT * FROM adopted", "adopted", pq.ParquetDataset(folder).read())

    def load(self, table: str, rows: Any) -> None:
        self.loaded.append(table)
        super().load(table, rows)


def test_staged_rows_are_parts_and_repeated_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(tmp_path)
    db = viewlet.connect(tmp_path / "db", streams=host)
    db.execute(M)
    db.execute("CREATE VIEW v AS SELECT SUM(x) AS x FROM m [WINDOW 2 MINUTES]")
    db.insert("m", Frame((0, 1), (70, 2)))
    db.apply({"m": Frame((59, 4), (130, 8))}, batch_id=1)
    db.apply({"m": Frame((59, 4), (130, 8))}, batch_id=1)
    expected = [(5, at(0)), (7, at(60))]
    assert sorted(db.view("v").rows(), key=str) == expected
    assert not host.loaded

    def crash(*_: object) -> None:
        shutil.copytree(tmp_path, tmp_path.parent / "copy")
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(host, "commit", crash)
        with pytest.raises(KeyboardInterrupt):
            db.insert("m", Frame((200, 16), (400, 32)))
    assert len(db.table("m")) == 6  # the journal has the batch
    db.close()
    copy = tmp_path.parent / "copy"
    shutil.rmtree(tmp_path)
    copy.rename(tmp_path)
    with viewlet.connect(tmp_path / "db", streams=Host(tmp_path)) as again:
        assert len(again.table("m")) == 6
        assert (24, at(180)) in again.view("v").rows()
        again.insert("m", Frame((3, 99)))
        assert [row["x"] for row in again.late_rows("m").to_pylist()] == [99]
