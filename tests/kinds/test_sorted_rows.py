"""A second engine for a kind of view: asked for, reached by itself when a view is busy, and reopened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import viewlet
from tests.kinds.last_rows import LAST_ROWS
from tests.kinds.sorted_rows import SORTED_LAST_ROWS
from tests.kinds.test_last_rows import SCHEMA, batches, check
from viewlet.engine import chooser, register_kind


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register_kind(SORTED_LAST_ROWS)
    yield
    register_kind(LAST_ROWS)


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("engine", ["compiled", "auto"])
def test_the_second_engine_agrees(engine: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chooser, "COMPILE_AFTER_ROWS", 6)
    reference = viewlet.connect()
    reference.execute("CREATE TABLE clicks (visitor VARCHAR NOT NULL, page BIGINT NOT NULL, moment BIGINT NOT NULL)")
    with viewlet.connect(tmp_path, engine=engine, fsync=False) as db:
        db.execute(SCHEMA.format(kind=kind))
    for number, batch in enumerate(batches(11, 16)):
        db = viewlet.connect(tmp_path, engine=engine, fsync=False)
        db.apply(batch)
        reference.apply(batch)
        db.settle()
        check(db, reference)
        (db.close if number % 2 else db._session.database().journal.storage.close)()  # type: ignore[attr-defined]
    with viewlet.connect(tmp_path) as db:
        assert db.view("recent").stats()["engine"] == "compiled"


def test_a_batch_that_fails_leaves_no_trace() -> None:
    db = viewlet.connect(engine="compiled")
    db.execute(SCHEMA.format(kind="TABLE"))
    db.insert("clicks", [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)])

    def fail(*args: object) -> None:
        raise OSError("the disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("viewlet.connection.journal.InMemory.batch", fail)
        with pytest.raises(OSError, match="the disk is full"):
            db.insert("clicks", [("a", 9, 9)])
    assert db.view("recent").rows() == [("a", 2, 2), ("a", 3, 3)]
