"""A kind of view from outside Viewlet: on every engine it provides, in a directory, compared with DuckDB."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import viewlet
from tests.kinds.last_rows import LAST_ROWS
from viewlet.connection.spark_facade import connect_inline

WINDOW = "SELECT *, row_number() OVER (PARTITION BY visitor ORDER BY moment DESC, page DESC) AS n FROM clicks"
SCHEMA = """
CREATE {kind} clicks (visitor VARCHAR NOT NULL, page BIGINT NOT NULL, moment BIGINT NOT NULL);
CREATE MATERIALIZED VIEW recent AS SELECT * FROM last_rows(clicks, 2, visitor, moment);
"""


def batches(seed: int, count: int = 12) -> list[dict[str, Any]]:
    """Random inserts, and deletes of rows that are there."""
    random, present, found = Random(seed), list[tuple[str, int, int]](), []
    for _ in range(count):
        gone = random.sample(present, min(len(present), random.randrange(4)))
        new = [(random.choice("abc"), random.randrange(5), random.randrange(6)) for _ in range(random.randrange(5))]
        present = [*present, *new]
        for row in gone:
            present.remove(row)
        signed = [*((row, -1) for row in gone), *((row, 1) for row in new)]
        rows = [{"visitor": v, "page": p, "moment": t, "_multiplicity": n} for (v, p, t), n in signed]
        found.append({"clicks": rows})
    return found


def check(db: viewlet.Connection, reference: viewlet.Connection) -> None:
    expected = reference.execute(f"SELECT visitor, page, moment FROM ({WINDOW}) WHERE n <= 2 ORDER BY ALL")
    assert db.view("recent").rows() == [tuple(row.values()) for row in expected.to_pylist()]


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_kept_and_survives_reopening(seed: int, kind: str, tmp_path: Path) -> None:
    reference, told = viewlet.connect(), list[int]()
    reference.execute("CREATE TABLE clicks (visitor VARCHAR NOT NULL, page BIGINT NOT NULL, moment BIGINT NOT NULL)")
    with viewlet.connect(tmp_path, fsync=False) as db:
        db.execute(SCHEMA.format(kind=kind))
    for number, batch in enumerate(batches(seed)):
        db = viewlet.connect(tmp_path, fsync=False)
        db.view("recent").subscribe(lambda epoch, changes: told.append(changes.num_rows))
        db.apply(batch)
        reference.apply(batch)
        check(db, reference)
        (db.close if number % 2 else db._session.database().journal.storage.close)()  # type: ignore[attr-defined]
    assert told


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_it_runs_in_the_partitions_of_spark(kind: str, partitions: int, tmp_path: Path) -> None:
    reference, told = viewlet.connect(), list[int]()
    reference.execute("CREATE TABLE clicks (visitor VARCHAR NOT NULL, page BIGINT NOT NULL, moment BIGINT NOT NULL)")
    for number, batch in enumerate(batches(7)):
        db = connect_inline(tmp_path, partitions, sync=False)
        if not number:
            db.execute(SCHEMA.format(kind=kind))
        db.view("recent").subscribe(lambda epoch, changes: told.append(changes.num_rows))
        db.apply(batch)
        reference.apply(batch)
        check(db, reference)
        if number == 5:
            db.checkpoint()
        (db.close if number % 2 else db._host.cluster.checkpoint.close)()
    assert told


def test_on_spark_other_views_do_not_read_it(tmp_path: Path) -> None:
    """Views over views are replaced by their queries there, and this one is none."""
    db = connect_inline(tmp_path, 2, sync=False)
    db.execute(SCHEMA.format(kind="TABLE"))
    with pytest.raises(viewlet.UnsupportedError, match="a view over 'recent', a last_rows view, on Spark"):
        db.execute("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM recent")
    assert "every partition has its own engine" in db.explain("recent", "spark")


def test_a_batch_that_fails_leaves_no_trace_and_views_read_it() -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE") + "CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM recent")
    db.insert("clicks", [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)])
    with pytest.raises(viewlet.DataError):
        db.apply({"clicks": [{"visitor": "b", "page": 9, "moment": 9, "_multiplicity": -1}]})
    db.delete("clicks", [("a", 3, 3)])
    assert db.view("recent").rows() == [("a", 1, 1), ("a", 2, 2)]
    assert db.view("n").rows() == [(2,)]
    assert "view recent (last-rows)" in db.explain("recent")
    assert db.view("recent").stats()["engine_reason"] == f"{LAST_ROWS.noun} has no compiled form"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM last_rows(clicks, 2, nobody, moment)", "nobody"),
        ("SELECT * FROM last_rows(clicks, many, visitor, moment)", "a whole number"),
        ("SELECT * FROM last_rows(clicks, 2, visitor)", "argument 4"),
        ("SELECT page FROM last_rows(clicks, 2, visitor, moment)", "a second view over it"),
    ],
)
def test_a_wrong_declaration_names_the_fragment(sql: str, message: str) -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE"))
    with pytest.raises(viewlet.SqlError, match=message):
        db.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")


def test_an_engine_that_it_does_not_provide_is_refused() -> None:
    with pytest.raises(viewlet.UnsupportedError, match="a last_rows view in the compiled engine"):
        viewlet.connect(engine="compiled").execute(SCHEMA.format(kind="TABLE"))
