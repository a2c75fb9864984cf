"""The conformance programs, as SQL over tables that keep their rows: partitions give the answers of one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import viewlet
from tests.conformance import programs
from tests.conformance.engines import changes_in_order, schemas
from viewlet.changes import rows_to_arrow
from viewlet.connection.facade import Connection
from viewlet.connection.spark_facade import connect_inline
from viewlet.spark.run.partition import forget

SAMPLE = ("grouped", "star", "self_joined", "correlated", "outer_joined", "extremes", "streamed")
"""Programs of every kind of statement, for the cluster that takes seconds per batch."""


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    forget()


def declare(db: Connection, names: Sequence[str]) -> None:
    for text in programs.TABLES.values():
        db.execute(text)
    for query in programs.QUERIES:
        if query.name in names:
            db.execute(f"CREATE MATERIALIZED VIEW {query.name} AS {query.sql}")


def batches(seed: int, count: int) -> list[dict[str, Any]]:
    """Batches as Arrow tables with multiplicities."""
    tables = schemas(programs.TABLES)
    return [
        {
            name: rows_to_arrow(tables[name].columns, rows.items(), with_multiplicity=True)
            for name, rows in batch.items()
        }
        for batch in changes_in_order(tables, programs.batches(seed, count))
    ]


def answers(db: Connection, names: Sequence[str]) -> dict[str, list[tuple[object, ...]]]:
    return {name: db.view(name).rows() for name in names}


def follow(db: Connection, names: Sequence[str]) -> dict[str, Any]:
    """What subscribers are told, kept up to date."""
    told: dict[str, Any] = {}
    for name in names:
        db.view(name).subscribe(lambda epoch, changes, name=name: told.update({name: (epoch, changes.to_pylist())}))
    return told


def agree(db: Connection, home: Connection, played: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
    heard, expected = follow(db, names), follow(home, names)
    for number, batch in enumerate(played):
        home.apply(batch)
        db.apply(batch)
        assert answers(db, names) == answers(home, names), f"batch {number}"
        assert heard == expected, f"batch {number}"


@pytest.mark.parametrize(("partitions", "engine"), [(1, "interpreter"), (2, "compiled"), (7, "interpreter")])
def test_without_spark(partitions: int, engine: str, tmp_path: Path) -> None:
    """All programs, half of them declared over rows that are there; the second half of the batches after a restart."""
    names = [query.name for query in programs.QUERIES]
    early, late = names[::2], names[1::2]
    assert "streamed" in early
    played = batches(seed=5, count=8)
    with viewlet.connect(engine="interpreter") as home:
        with connect_inline(tmp_path, partitions, sync=False, engine=engine) as db:
            for each in (home, db):
                declare(each, early)
            agree(db, home, played[:2], early)
            for each in (home, db):
                for query in programs.QUERIES:
                    if query.name in late:
                        each.execute(f"CREATE MATERIALIZED VIEW {query.name} AS {query.sql}")
            assert answers(db, names) == answers(home, names)
            agree(db, home, played[2:5], names)
        forget()
        with connect_inline(tmp_path, partitions, sync=False, engine=engine) as db:
            assert answers(db, names) == answers(home, names)
            agree(db, home, played[5:], names)
            for table in ("r", "s", "t"):
                assert db.table(table).rows() == home.table(table).rows()


@pytest.mark.slow
def test_on_spark(spark: Any, tmp_path: Path) -> None:
    """A sample of them, from data frames."""
    with (
        viewlet.connect(engine="interpreter") as home,
        viewlet.connect(spark=spark, checkpoint=tmp_path, partitions=2, engine="interpreter") as db,
    ):
        for each in (home, db):
            declare(each, SAMPLE)
        for number, batch in enumerate(batches(seed=6, count=4)):
            home.apply(batch)
            db.apply({name: spark.createDataFrame(rows).repartition(2) for name, rows in batch.items()})
            assert answers(db, SAMPLE) == answers(home, SAMPLE), f"batch {number}"
