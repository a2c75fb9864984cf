"""Contents that move between stages through files of the checkpoint directory; without Spark."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.conformance.workload import warehouse
from tests.spark.harness import Run
from tests.spark.test_fault_damage import Story, Twice, changed, removed, shortened
from viewlet import StateError
from viewlet.errors import DataError
from viewlet.runtime.durable.files import LocalFiles
from viewlet.spark.run.exchange.file_range import FileRange
from viewlet.spark.run.exchange.moves import Outbox, fetch
from viewlet.spark.run.exchange.stage_record import Piece
from viewlet.spark.run.execution import tasks
from viewlet.spark.run.execution.tasks import chunks
from viewlet.spark.run.state.checkpoint import Checkpoint
from viewlet.spark.run.state.partition import forget
from workloads import tpch
from workloads.query import NamedQuery

FOLDERS = "moves-*"
SOME = [query for query in tpch.QUERIES if query.name in ("q03", "q15", "q18")]


@pytest.fixture(autouse=True)
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("VIEWLET_STATE", str(tmp_path / "mapped"))
    yield tmp_path / "mapped"
    forget()


SPENT = """
    SELECT o_custkey, SUM(l_quantity) AS pieces FROM orders JOIN lineitem ON o_orderkey = l_orderkey
    WHERE o_orderpriority <> '{}' GROUP BY o_custkey
"""


def moved(path: Path) -> list[Path]:
    return sorted(path.glob(f"{FOLDERS}/*"))


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    story = FileStory(tmp_path / "state", "interpreter")
    story.go_on()
    story.go_on()
    story.db.checkpoint()
    assert not moved(story.path)  # a snapshot needs no files of moves
    yield story
    story.db.close()


@pytest.mark.parametrize(
    ("limit", "spread", "generated"), [(1 << 20, False, False), (1 << 20, True, True), (0, True, False)]
)
def test_different_views_over_the_same_changes(limit: int, spread: bool, generated: bool, tmp_path: Path) -> None:
    """What views read of `lineitem` is the same for all of them: it is computed, sent and logged once."""
    tables, batches = warehouse().stream
    costs = []
    for count in (1, 5):
        queries = [NamedQuery(f"v{i}", SPENT.format(f"{i + 1}-URGENT")) for i in range(count)]
        run = Run(tmp_path / str(count), queries, tables, 2, generated=generated)
        for batch in batches[:2]:
            run.engine.inline_bytes = limit
            stats, _ = run.apply(batch, spread)
            expected = run.expect(batch)
        files = sum(path.stat().st_size for path in moved(run.directory))
        costs.append((stats.moved_bytes, stats.log_bytes + files))
        forget()
        run.reopen()
        assert run.results() == expected
    (moved_for_one, kept_for_one), (moved_for_five, kept_for_five) = costs
    assert moved_for_five < 4 * moved_for_one
    assert kept_for_five < 3.5 * kept_for_one


class FileStory(Story):
    """Batches whose moves are all in files."""

    def opened(self) -> Any:
        db = super().opened()
        db._host.cluster.inline_bytes = 0
        return db


@pytest.mark.parametrize(("limit", "generated"), [(0, False), (1_500, True)])
def test_changes_that_are_spread(limit: int, generated: bool, tmp_path: Path) -> None:
    """Mappers, stages, the driver and replays read what was moved; a snapshot removes it.

    Everything is in files and read by way of the log; or only what is larger, and tasks are sent the ranges.
    """
    tables, batches = warehouse().stream
    run = Run(tmp_path / "state", SOME[:1] if generated else SOME, tables, 3, generated=generated)
    for number, batch in enumerate(batches[:4]):
        run.engine.inline_bytes = limit
        run.apply(batch, spread=number % 2 == 0)
        expected = run.expect(batch)
        assert run.results() == expected
        assert moved(run.directory)
        if number == 1:
            run.snapshot()
            assert not moved(run.directory)
        forget()
        shutil.rmtree(tmp_path / "mapped", ignore_errors=True)
        run.reopen()
        assert run.results() == expected


def test_moves_at_a_url(tmp_path: Path) -> None:
    """A file cannot be appended to there, and exists once it is closed."""
    pytest.importorskip("fsspec")
    (tmp_path / "state").mkdir()
    tables, batches = warehouse().stream
    run = Run(f"dir::file://{tmp_path}/state", SOME[:1], tables, 2)
    for batch in batches[:2]:
        run.engine.inline_bytes = 0
        run.apply(batch, spread=True)
        expected = run.expect(batch)
        assert list(tmp_path.rglob(f"{FOLDERS}/*.bin"))
        forget()
        run.reopen()
        assert run.results() == expected
    run.snapshot()
    assert not list(tmp_path.rglob(FOLDERS))
    run.engine.checkpoint.close()


def test_moves_count_for_the_next_snapshot(tmp_path: Path) -> None:
    """The log refers to them, so that they are what there is to replay."""
    tables, batches = warehouse().stream
    run = Run(tmp_path / "state", SOME, tables, 3)
    run.engine.inline_bytes = 0
    run.apply(batches[0], spread=True)
    in_logs = sum(path.stat().st_size for path in run.directory.glob("log-*"))
    beside = sum(path.stat().st_size for path in moved(run.directory))
    told = run.engine.checkpoint.stats()["log_bytes"]
    assert isinstance(told, int)
    assert in_logs + beside // 2 < told <= in_logs + beside
    run.reopen()
    assert run.engine.checkpoint.stats()["log_bytes"] == told


@pytest.mark.parametrize("damage", [removed, changed, shortened])
def test_damage_is_named_and_nothing_is_lost(damage: Callable[[Path], None], tmp_path: Path) -> None:
    tables, batches = warehouse().stream
    run = Run(tmp_path / "state", SOME[:1], tables, 2)
    run.engine.inline_bytes = 0
    run.apply(batches[0], spread=True)
    run.expect(batches[0])
    forget()
    victims = {path: path.read_bytes() for path in moved(run.directory)}
    for path in victims:
        damage(path)
    with pytest.raises(StateError, match=r"moves-\w+/\w+\.bin is (missing|damaged)"):
        run.apply(batches[1])
    run.engine.abandon()
    assert {path: path.exists() for path in victims} == dict.fromkeys(victims, damage is not removed)
    for path, data in victims.items():
        path.write_bytes(data)
    run.apply(batches[1], spread=True)
    assert run.results() == run.expect(batches[1])


@pytest.mark.parametrize("second_counts", [False, True])
def test_tasks_that_run_twice(second_counts: bool, tmp_path: Path) -> None:
    tables, batches = warehouse().stream
    run = Run(tmp_path / "state", SOME[:1], tables, 2, Twice(second_counts))
    run.engine.inline_bytes = 0
    for batch in batches[:3]:
        run.apply(batch, spread=True)
        expected = run.expect(batch)
        assert run.results() == expected
    run.reopen()
    assert run.results() == expected


def test_an_abandoned_batch_leaves_no_files(story: Story) -> None:
    with pytest.raises(DataError, match="orders"):
        story.db.apply({"orders": [(1, "twice")], "items": [(1, 2)]})
    assert not moved(story.path)
    story.check()


def test_a_driver_that_dies_before_the_commit_leaves_files_that_the_next_one_removes(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.db.close()
    pid = os.fork()
    if pid == 0:
        forget()
        story.db = story.opened()
        monkeypatch.setattr(Checkpoint, "commit", lambda *_, **__: os._exit(9))
        story.go_on()
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert moved(story.path)
    story.reopen()
    assert not moved(story.path)
    story.check()
    story.go_on()
    story.check()


def test_files_stay_while_it_is_not_known_whether_the_batch_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest gets its name, and the disk fails before that is certain."""
    tables, batches = warehouse().stream
    run = Run(tmp_path / "state", SOME[:1], tables, 2)
    run.engine.inline_bytes = 0
    put = LocalFiles.put

    def fail(self: LocalFiles, name: str, data: Any, new: bool = False) -> None:
        put(self, name, data, new)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "put", fail)
        with pytest.raises(StateError, match="not known whether the last commit survives"):
            run.apply(batches[0], spread=True)
    run.engine.abandon()
    assert moved(run.directory)
    forget()
    run.reopen()
    assert run.results() == run.expect(batches[0])


def test_a_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)

    def pieces() -> Iterator[Piece]:
        yield "u", "t", 0, b"x" * 100
        assert moved(tmp_path)
        raise DataError("no such row")

    with pytest.raises(DataError), Outbox(files, "moves-1", 10) as outbox:
        outbox.put(pieces())
    assert not moved(tmp_path)


def test_an_outbox_moves_everything_to_one_file_when_it_gets_large(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    with Outbox(files, "moves-1", 10) as outbox:
        outbox.put([("u", "t", 0, b"12345"), ("u", "t", -1, b"1234")])
        assert [piece[3] for piece in outbox.pieces] == [b"12345", b"1234"]
        outbox.put([("u", "t", 1, b"more than ten")])
    sent = [piece[3] for piece in outbox.pieces]
    assert all(isinstance(each, FileRange) for each in sent)
    assert fetch(files, sent) == [b"12345", b"1234", b"more than ten"]
    assert len(moved(tmp_path)) == 1


def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "moves-1").write_bytes(b"")
    with (
        pytest.raises(StateError, match=r"cannot write to .*moves-1"),
        Outbox(LocalFiles(tmp_path), "moves-1", 0) as box,
    ):
        box.put([("u", "t", 0, b"x")])


def test_batches_are_cut_into_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "CHUNK_ROWS", 5)
    batches = [pa.record_batch({"a": pa.array(range(n), pa.int64())}) for n in (0, 2, 3, 4, 9, 1)]
    assert [table.num_rows for table in chunks(iter(batches))] == [5, 4, 9, 1]
    assert [table.num_rows for table in chunks(batches[:1])] == [0]
    assert list(chunks([])) == []


def test_mappers_run_on_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "chunks", lambda batches: (part for table in chunks(batches) for part in parts(table)))
    tables, batches = warehouse().stream
    run = Run(tmp_path / "state", SOME, tables, 2)
    for batch in batches[:3]:
        run.apply(batch, spread=True)
        assert run.results() == run.expect(batch)


def parts(table: pa.Table) -> list[pa.Table]:
    return [table.slice(at, 7) for at in range(0, table.num_rows, 7)]
