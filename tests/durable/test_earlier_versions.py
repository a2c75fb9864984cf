"""Directories and checkpoints that an earlier version wrote open here and continue.

`earlier/*.tar.gz` were written by `python -m tests.durable.test_earlier_versions FOLDER`, run with the version that its
name says. Each holds a snapshot and log records since, left as a killed process leaves them.
"""

from __future__ import annotations

import os
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.connection.spark_facade import SparkConnection, connect_inline

EARLIER = Path(__file__).parent / "earlier"
PARTITIONS = 2
SCHEMA = """
CREATE TABLE item (k BIGINT PRIMARY KEY, name VARCHAR, price DECIMAL(9,2), day DATE);
CREATE STREAM feed (k BIGINT, name VARCHAR, rate DOUBLE);
CREATE STREAM shops (name VARCHAR, city VARCHAR);
CREATE MATERIALIZED VIEW spend (who, total) AS SELECT name, SUM(price) FROM item GROUP BY name;
CREATE MATERIALIZED VIEW rated AS SELECT name, SUM(rate) AS s, COUNT(*) AS n FROM feed GROUP BY name;
CREATE MATERIALIZED VIEW mixed AS SELECT price, rate FROM item JOIN feed USING (k) ORDER BY rate DESC, price LIMIT 3;
CREATE MATERIALIZED VIEW model AS SELECT city, COFACTOR(rate) AS c FROM feed NATURAL JOIN shops GROUP BY city;
CREATE MATERIALIZED VIEW kept_model AS SELECT COFACTOR(price) FROM item;
CREATE MATERIALIZED VIEW pairs AS SELECT FACTORIZED * FROM feed NATURAL JOIN shops;
CREATE MATERIALIZED VIEW rich AS SELECT who FROM spend WHERE total > 5;
"""
BATCHES: list[dict[str, Any]] = [
    {
        "item": [(1, "ann", "1.50", "2026-01-01"), (2, "bob", "9.00", None)],
        "feed": [(1, "ann", 0.5), (2, "bob", 1.25), (2, None, 2.0)],
        "shops": [("ann", "Rome"), ("bob", None), ("ann", "Oslo")],
    },
    {"item": [(3, "ann", "7.25", None)], "feed": [(3, "ann", -4.0)]},
    {"feed": [{"k": 2, "name": "bob", "rate": 1.25, "_multiplicity": -1}], "shops": [("bob", "Bern")]},
    {"item": [{"k": 1, "name": "ann", "price": "1.50", "day": "2026-01-01", "_multiplicity": -1}]},
    {"feed": [(3, "cid", 8.0), (1, "bob", 0.125)], "shops": [("cid", "Rome")], "item": [(9, "cid", "6.00", None)]},
    {"shops": [{"name": "ann", "city": "Oslo", "_multiplicity": -1}], "feed": [(9, "ann", 3.0)]},
]
SNAPSHOT_AFTER, WRITTEN = 1, 4
"""Batches before the snapshot, and batches in all, that the earlier version applied."""
COME_AND_GONE = """
CREATE TABLE gone (x BIGINT);
CREATE MATERIALIZED VIEW lost AS SELECT SUM(x) AS s FROM gone;
DROP VIEW lost;
DROP TABLE gone
"""
"""Declarations in the log, after the snapshot."""
FOLLOWED = "rated"
"""The view whose changes a checkpoint keeps as files."""


def opened(place: Path, on_spark: bool, engine: str) -> viewlet.Connection:
    if on_spark:
        return connect_inline(place, PARTITIONS, sync=False, engine=engine)
    return viewlet.connect(place, engine=engine, fsync=False)


def play(db: viewlet.Connection, batches: list[dict[str, Any]]) -> None:
    for number, batch in enumerate(batches, 1):
        db.apply(batch)
        if number == SNAPSHOT_AFTER:
            db.checkpoint()
            db.execute(COME_AND_GONE)


def state_of(db: viewlet.Connection) -> tuple[object, ...]:
    names = [*(name for name in db.views), "item"]
    rows = {name: sorted(map(repr, (db.view if name in db.views else db.table)(name).rows())) for name in names}
    pairs: Any = db.view("pairs")
    return db.epoch, rows, repr(db.view("model").cofactor()), pairs.aggregate("sum", "rate")


def epochs_of_changes(db: viewlet.Connection) -> list[int]:
    """The batches that changed the followed view, of which a checkpoint has files if the earlier version wrote them."""
    if not isinstance(db, SparkConnection) or FOLLOWED not in db._host.feeds.since:
        return []
    return sorted(set(db.changes(FOLLOWED)["_epoch"].to_pylist()))


@pytest.mark.parametrize(
    "written", sorted(EARLIER.glob("*.tar.gz")), ids=lambda path: path.name.removesuffix(".tar.gz")
)
def test_what_an_earlier_version_wrote_opens_and_continues(written: Path, tmp_path: Path) -> None:
    with tarfile.open(written) as archive:
        archive.extractall(tmp_path, filter="data")
    on_spark = "checkpoint" in written.name
    expected = viewlet.connect()
    expected.execute(SCHEMA)
    play(expected, BATCHES[:WRITTEN])
    engine = "compiled" if "compiled" in written.name else "interpreter"

    def reopened() -> viewlet.Connection:
        return opened(tmp_path / "db", on_spark, engine if on_spark else "auto")

    with reopened() as db:
        assert state_of(db) == state_of(expected)
        before = epochs_of_changes(db)
        play(db, BATCHES[WRITTEN:])
        play(expected, BATCHES[WRITTEN:])
        assert state_of(db) == state_of(expected)
        assert epochs_of_changes(db) == (before and [*before, 5, 6])
    with reopened() as db:
        assert state_of(db) == state_of(expected)
        assert epochs_of_changes(db) == (before and [*before, 5, 6])
        for view in () if on_spark else ("spend", "rated", "mixed", "model", "pairs"):
            assert db.view(view).stats()["engine"] == engine


def write(folder: Path, version: str) -> None:
    """Writes the archives of the running version."""
    for engine in ("interpreter", "compiled"):
        for host in ("directory", "checkpoint"):
            place = folder / host / engine
            db = opened(place / "db", host == "checkpoint", engine)
            db.execute(SCHEMA)
            if isinstance(db, SparkConnection):
                db.changes(FOLLOWED)
            play(db, BATCHES[:WRITTEN])
            journal: Any = db._session.database().journal
            journal.storage.close()  # as the end of the process does
            with tarfile.open(folder / f"{version}-{host}-{engine}.tar.gz", "w:gz") as archive:
                archive.add(place / "db", "db")


if __name__ == "__main__":
    os.environ.setdefault("VIEWLET_JIT", "0")
    write(Path(sys.argv[1]), sys.argv[2])
