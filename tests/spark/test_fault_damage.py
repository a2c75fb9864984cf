"""Files that are lost or damaged, in the checkpoint directory or at hand, and tasks that run twice; without Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from viewlet import StateError
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.runtime.durable.mapped_state import STAMP
from viewlet.spark.run.execution.cluster import InlineCluster
from viewlet.spark.run.execution.tasks import RunStage
from viewlet.spark.run.state.partition import forget
from viewlet.spark.run.state.unit_state import DONE

DECLARED = """
    CREATE TABLE orders (id BIGINT NOT NULL, customer VARCHAR NOT NULL, PRIMARY KEY (id));
    CREATE STREAM items (id BIGINT NOT NULL, price BIGINT NOT NULL);
    CREATE MATERIALIZED VIEW revenue AS
    SELECT customer, SUM(price) AS total FROM orders JOIN items USING (id) GROUP BY customer;
    CREATE MATERIALIZED VIEW prices AS SELECT price, COUNT(*) AS n FROM items GROUP BY price;
    CREATE MATERIALIZED VIEW moments AS
    SELECT customer, COFACTOR(price) AS c FROM orders JOIN items USING (id) GROUP BY customer;
    CREATE MATERIALIZED VIEW joined AS SELECT FACTORIZED customer, price FROM orders JOIN items USING (id)
"""
ENGINES = ("interpreter", "compiled")


@pytest.fixture(autouse=True)
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where this machine keeps state at hand."""
    monkeypatch.setenv("VIEWLET_STATE", str(tmp_path / "mapped"))
    yield tmp_path / "mapped"
    forget()


class Story:
    """Batches with numbers, and what the views have to be after each of them."""

    def __init__(self, path: Path, engine: str) -> None:
        self.path, self.engine = path, engine
        self.last = 0
        self.db = self.opened()
        self.db.execute(DECLARED)

    def opened(self) -> SparkConnection:
        return connect_inline(self.path, 2, sync=False, engine=self.engine)

    def reopen(self) -> None:
        self.db.close()
        forget()
        self.db = self.opened()

    def batch(self, number: int) -> dict[str, Any]:
        gone = [{"id": number - 1, "price": 5, "_multiplicity": -1}] if number > 1 else []
        come = [{"id": number, "price": price, "_multiplicity": 1} for price in (5, 100)]
        return {"orders": [(number, f"c{number % 3}")], "items": come + gone}

    def go_on(self) -> None:
        self.last += 1
        self.db.apply(self.batch(self.last), batch_id=self.last)

    def check(self) -> None:
        prices: dict[str, list[int]] = {}
        for number in range(1, self.last + 1):
            prices.setdefault(f"c{number % 3}", []).extend([100, 5] if number == self.last else [100])
        assert self.db.epoch == self.last
        assert dict(self.db.view("revenue").rows()) == {name: sum(each) for name, each in prices.items()}
        assert self.db.view("prices").rows() == [(5, 1), (100, self.last)]
        assert len(self.db.table("orders")) == self.last
        moments = self.db.view("moments").cofactor()
        assert {name: (each.count, *each.sums, each.matrix[0, 0]) for name, each in moments.items()} == {
            name: (len(each), sum(each), sum(price * price for price in each)) for name, each in prices.items()
        }
        joined = [(name, price) for name, each in prices.items() for price in each]
        assert sorted(self.db.view("joined").rows()) == sorted(joined)


@pytest.fixture(params=ENGINES)
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Story]:
    story = Story(tmp_path / "state", request.param)
    story.go_on()
    story.go_on()
    yield story
    story.db.close()


def removed(path: Path) -> None:
    path.unlink()


def changed(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 4] + bytes(byte ^ 0xFF for byte in data[len(data) // 4 :]))


def shortened(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 4])


@pytest.mark.parametrize("damage", [removed, changed, shortened])
@pytest.mark.parametrize("what", ["log-*.bin", "snapshot-*/partition-*/*.table", "snapshot-*/partition-*/*.json"])
def test_damage_in_the_checkpoint_directory(
    what: str, damage: Callable[[Path], None], story: Story, mapped: Path
) -> None:
    """No task can make the state again; the error names the file, and nothing has changed when it is back."""
    if "snapshot" in what:
        story.db.checkpoint()
    story.go_on()
    forget()
    shutil.rmtree(mapped, ignore_errors=True)
    victims = {path: path.read_bytes() for path in sorted(story.path.glob(what))}
    assert victims
    for path in victims:
        damage(path)
    with pytest.raises(StateError, match=r"(log-|snapshot-).* (is missing|is damaged)"):
        story.db.apply(story.batch(story.last + 1), batch_id=story.last + 1)
    assert story.db.epoch == story.last
    for path, data in victims.items():
        path.write_bytes(data)
    story.check()
    story.go_on()
    story.check()
    story.reopen()
    story.check()


@pytest.mark.parametrize("part", [0.02, 0.3, 0.6, 0.999, None])
def test_a_damaged_log_is_not_opened(part: float | None, story: Story) -> None:
    """One byte is enough; the files are left as they are, and the last commit is there when the log is back."""
    story.db.close()
    forget()
    log = sorted(story.path.glob("log-*.bin"))[-1]
    data = log.read_bytes()
    if part is None:
        log.unlink()
    else:
        at = int(part * len(data))
        log.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(StateError, match=r"log-\d+.bin is (damaged|missing)"):
        story.opened()
    log.write_bytes(data)
    story.db = story.opened()
    story.check()


def test_a_batch_that_is_given_again_does_nothing(story: Story) -> None:
    for number in (1, 2, 1):
        story.db.apply(story.batch(number), batch_id=number)
    story.check()
    story.reopen()
    story.db.apply(story.batch(2), batch_id=2)
    story.go_on()
    story.check()


def remove_all(mapped: Path) -> None:
    shutil.rmtree(mapped)


def call_dirty(mapped: Path) -> None:
    for stamp in mapped.rglob(STAMP):
        data = bytearray(stamp.read_bytes())
        data[24] = 1
        stamp.write_bytes(data)


def cut_arrays(mapped: Path) -> None:
    for pool in mapped.rglob("pool"):
        with pool.open("r+b") as file:
            file.truncate(8)


def cut_logs(mapped: Path) -> None:
    """With which view trees roll back."""
    for log in mapped.rglob("log"):
        with log.open("r+b") as file:
            file.truncate(8)


def remove_arrays(mapped: Path) -> None:
    for pool in mapped.rglob("pool"):
        pool.unlink()


def cut_strings(mapped: Path) -> None:
    for strings in mapped.rglob("strings"):
        with strings.open("r+b") as file:
            file.truncate(17)


def remove_strings(mapped: Path) -> None:
    for strings in mapped.rglob("strings"):
        strings.unlink()


def cut_done(mapped: Path) -> None:
    for done in mapped.rglob(DONE):
        done.write_bytes(done.read_bytes()[:5])


def cut_stamps(mapped: Path) -> None:
    for stamp in mapped.rglob(STAMP):
        stamp.unlink()
        stamp.write_bytes(b"viewlet")


DAMAGES = (
    remove_all,
    call_dirty,
    cut_arrays,
    cut_logs,
    remove_arrays,
    cut_strings,
    remove_strings,
    cut_done,
    cut_stamps,
)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("snapshot", [False, True])
def test_local_state_is_made_again(
    snapshot: bool, damage: Callable[[Path], None], tmp_path: Path, mapped: Path
) -> None:
    story = Story(tmp_path / "state", "compiled")
    for _ in range(2):
        story.go_on()
        if snapshot:
            story.db.checkpoint()
        assert any(mapped.rglob("pool"))
        forget()  # what another process would find
        damage(mapped)
        story.check()
        story.go_on()
        story.check()
    story.db.close()


@pytest.mark.parametrize("damage", [remove_all, call_dirty, remove_strings, cut_stamps])
def test_local_state_is_lost_that_a_process_has_at_hand(
    damage: Callable[[Path], None], tmp_path: Path, mapped: Path
) -> None:
    story = Story(tmp_path / "state", "compiled")
    for _ in range(4):
        story.go_on()
        damage(mapped)
        story.check()
    story.db.close()


class Twice(InlineCluster):
    """Every task runs twice; the answers of either time count. Stages of the last batch turn up again, too late."""

    def __init__(self, second_counts: bool) -> None:
        super().__init__()
        self._second_counts = second_counts
        self._late: list[tuple[RunStage, Sequence[Any]]] = []

    def run(self, task: Any, payloads: Sequence[Any], what: str, partitions: Sequence[int] | None = None) -> list[Any]:
        for late, given in self._late[-2:]:
            super().run(late, given, what)
        answers = [super(Twice, self).run(task, payloads, what, partitions) for _ in range(2)]
        if isinstance(task, RunStage):
            self._late.append((task, payloads))
        return answers[self._second_counts]


@pytest.mark.parametrize("second_counts", [False, True])
def test_tasks_that_run_twice(second_counts: bool, story: Story) -> None:
    cluster = Twice(second_counts)
    story.db._host.cluster.cluster = cluster
    for number in range(3):
        story.go_on()
        story.check()
        if number % 2:
            story.db.checkpoint()
    story.reopen()
    story.check()
