"""State that lives in processes is saved to files of the machine: another process runs only the batches since."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import viewlet
from tests.kinds.last_rows import LAST_ROWS
from tests.signals.events import SCHEMA as EVENTS
from tests.signals.events import irregular, over
from viewlet.connection.spark_facade import connect_inline
from viewlet.spark.run.state import partition, unit_state
from viewlet.spark.run.state.partition import forget
from viewlet.spark.run.state.saved_versions import SavedVersions

assert LAST_ROWS
SCHEMA = """
CREATE STREAM r (a BIGINT NOT NULL, b BIGINT NOT NULL);
CREATE STREAM s (b BIGINT NOT NULL, c BIGINT NOT NULL);
CREATE STREAM t (c BIGINT NOT NULL, a BIGINT NOT NULL);
CREATE STREAM clicks (visitor VARCHAR NOT NULL, page BIGINT NOT NULL, moment BIGINT NOT NULL);
CREATE MATERIALIZED VIEW triangles WITH (strategy = 'adaptive') AS
SELECT r.a, COUNT(*) AS n FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a GROUP BY r.a;
CREATE MATERIALIZED VIEW recent AS SELECT * FROM last_rows(clicks, 2, visitor, moment);
CREATE MATERIALIZED VIEW pages PARTITION BY (page) AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;
CREATE MATERIALIZED VIEW exact AS
SELECT visitor, COFACTOR(page, moment, exact => true) AS c FROM clicks GROUP BY visitor
"""


@pytest.fixture(autouse=True)
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where this machine keeps state at hand; it is saved after every batch."""
    monkeypatch.setenv("VIEWLET_STATE", str(tmp_path / "mapped"))
    monkeypatch.setattr(unit_state, "SAVE_AFTER", 0.0)
    monkeypatch.setattr(unit_state, "WORTH", 0.0)
    yield tmp_path / "mapped"
    forget()


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The units and partitions for which stages of the log were read."""
    read, found = partition.read_delivery, list[tuple[str, int]]()

    def counting(checkpoint: str, step: Any, unit: str, number: int) -> Any:
        found.append((unit, number))
        return read(checkpoint, step, unit, number)

    monkeypatch.setattr(partition, "read_delivery", counting)
    return found


def declare(*databases: viewlet.Connection) -> None:
    for db in databases:
        db.execute(SCHEMA)
        db.execute(EVENTS.format(kind="TABLE"))
        db.create_view("waves", over(db).sample(10, "linear", max_gap=100))


def batches(count: int) -> Iterator[dict[str, Any]]:
    random, there = Random(3), list[tuple[str, tuple[Any, ...]]]()
    columns = {"r": ("a", "b"), "s": ("b", "c"), "t": ("c", "a"), "clicks": ("visitor", "page", "moment")}
    events = irregular(3, rows=20 * count).rows
    for number in range(count):
        come = [(name, (random.randrange(4), random.randrange(4))) for name in "rst" for _ in range(4)]
        come += [("clicks", (random.choice("abc"), random.randrange(5), random.randrange(9))) for _ in range(4)]
        gone = [there.pop(random.randrange(len(there))) for _ in range(len(there) // 4)]
        there += come
        batch: dict[str, Any] = {name: [] for name in columns}
        for times, rows in ((1, come), (-1, gone)):
            for name, row in rows:
                batch[name].append(dict(zip(columns[name], row, strict=True)) | {"_multiplicity": times})
        yield batch | {"events": events[20 * number : 20 * (number + 1)]}


def same(db: viewlet.Connection, reference: viewlet.Connection) -> None:
    for name in reference.views:
        assert db.view(name).rows() == reference.view(name).rows(), name


def test_a_process_runs_only_the_batches_since_the_last_copy(
    tmp_path: Path, mapped: Path, replayed: list[tuple[str, int]]
) -> None:
    reference = viewlet.connect(engine="interpreter")
    with connect_inline(tmp_path / "db", 2, sync=False) as db:
        declare(db, reference)
        for number, batch in enumerate(batches(7)):
            for each in (db, reference):
                each.apply(batch)
            if number == 4:
                db.checkpoint()
            replayed.clear()
            forget()  # what another process would find
            same(db, reference)
            assert len(replayed) == len(set(replayed))  # one stage of each unit in each partition
        assert len({path.parent for path in mapped.rglob("*.saved")}) == 2 * (len(reference.views) + 1)  # and a table
    assert not list(mapped.rglob("*.saved"))


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def change(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])


@pytest.mark.parametrize("damage", [remove, cut, change])
def test_damaged_copies_cost_time_only(damage: Callable[[Path], None], tmp_path: Path, mapped: Path) -> None:
    reference = viewlet.connect(engine="interpreter")
    with connect_inline(tmp_path / "db", 2, sync=False) as db:
        declare(db, reference)
        for batch in batches(3):
            for each in (db, reference):
                each.apply(batch)
            for path in mapped.rglob("*.saved"):
                damage(path)
            forget()
            same(db, reference)


def test_copies_of_versions(tmp_path: Path) -> None:
    saved = SavedVersions(tmp_path / "folder")
    assert saved.versions() == set()
    for number in range(6):
        saved.save(f"v{number}", {"a": b"x" * number, "b": b""})
    assert len(saved.versions()) == 3
    assert saved.read("v5") == {"a": b"xxxxx", "b": b""}
    assert saved.read("v0") is None
    (tmp_path / "folder" / "v5.saved").rename(tmp_path / "folder" / "v9.saved")
    assert saved.read("v9") is None
