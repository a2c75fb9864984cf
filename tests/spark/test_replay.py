"""A partition that is rebuilt reads its own share of the log, once; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from viewlet.connection.spark_facade import connect_inline
from viewlet.runtime.durable.files import Files, files_at
from viewlet.spark.run.exchange import stage_record
from viewlet.spark.run.exchange.stage_record import StepHead, layout, read_head, read_shares, read_step, write_step
from viewlet.spark.run.execution.tasks import ReadViews
from viewlet.spark.run.state import partition
from viewlet.spark.run.state.partition import forget

PARTITIONS = 8
ROWS = 1_000
DECLARED = """
    CREATE STREAM s (k BIGINT NOT NULL, x BIGINT NOT NULL);
    CREATE MATERIALIZED VIEW v PARTITION BY (k) AS SELECT k, COUNT(*) AS n, SUM(x) AS t FROM s GROUP BY k
"""


class CountedFiles:
    """Files that count the bytes which are read from them."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.read_bytes = 0

    def read(self, name: str) -> bytes:
        return self._count(self._files.read(name))

    def read_part(self, name: str, start: int, size: int) -> bytes:
        return self._count(self._files.read_part(name, start, size))

    def _count(self, data: bytes) -> bytes:
        self.read_bytes += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    forget()


@pytest.mark.parametrize(("batches", "url"), [(2, "{}"), (10, "{}"), (2, "dir::file://{}")])
def test_rebuilding_all_partitions_reads_about_the_log(
    batches: int, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many batches there are: reading a whole log for each of them would be quadratic."""
    generator = np.random.default_rng(batches)
    (tmp_path / "state").mkdir()
    with connect_inline(url.format(tmp_path / "state"), PARTITIONS, sync=False) as db:
        db.execute(DECLARED)
        for _ in range(batches):
            db.apply({"s": pa.table({"k": generator.integers(0, 1 << 40, ROWS), "x": generator.integers(0, 99, ROWS)})})
        logged = db.stats()["checkpoint"]["log_bytes"]  # type: ignore[index]
        rows = db.view("v").rows()
        forget()
        counted = CountedFiles(files_at(db._host.cluster.checkpoint.directory))
        monkeypatch.setattr(partition, "files_of", lambda checkpoint: counted)
        engine = db._host.cluster
        task = ReadViews(engine.context(), "v", ())
        assert task(3, None) == []
        one = counted.read_bytes
        assert engine.cluster.run(task, [None] * PARTITIONS, "read") == [[]] * PARTITIONS
        assert one < 1.5 * logged / PARTITIONS
        assert counted.read_bytes < 1.5 * logged
        assert db.view("v").rows() == rows


PIECES: dict[tuple[str, str, int], list[Any]] = {
    ("u", "a", 0): [b"first", b"second"],
    ("u", "a", 1): [b"other"],
    ("u", "b", -1): [b"everywhere"],
    ("w", "a", 0): [b"another unit's"],
}
EXPECTED = {
    ("u", 0): {"a": [b"first", b"second"], "b": [b"everywhere"]},
    ("u", 1): {"a": [b"other"], "b": [b"everywhere"]},
    ("u", 2): {"b": [b"everywhere"]},
    ("w", 0): {"a": [b"another unit's"]},
    ("w", 1): {},
}


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_a_record_tells_every_partition_its_share(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_record, "SMALL_RECORD", small)
    record = write_step(StepHead("token", (), {"u": {"folder": "load"}}), PIECES)
    assert read_head(record) == StepHead("token", (), {"u": {"folder": "load"}})
    assert {place: read_step(record, *place) for place in EXPECTED} == EXPECTED
    assert (layout(record)[0] is None) == (small > 0)


def test_a_damaged_head_is_no_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_record, "SMALL_RECORD", 0)
    record = write_step(StepHead("token"), PIECES)
    size, _ = layout(record)
    assert size is not None
    assert read_shares(record[:size]) is not None
    for at in range(size):
        assert read_shares(record[:at] + bytes([record[at] ^ 1]) + record[at + 1 : size]) is None
        assert read_shares(record[:at]) is None
