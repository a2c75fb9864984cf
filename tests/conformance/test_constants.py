"""What is there before the first change is there on every engine, after a restart, and when the engine changes."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewlet
from tests.conformance import constants
from viewlet.connection.spark_facade import connect_inline
from viewlet.engine import chooser as engines
from viewlet.spark.run.partition import forget


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_in_one_process(engine: str) -> None:
    with viewlet.connect(engine=engine) as db:
        constants.declare(db)
        assert constants.objections(db, constants.expected()) == {}


def test_a_failed_batch_leaves_them() -> None:
    steps = constants.expected()
    with viewlet.connect(engine="compiled") as db:
        constants.declare(db)
        with pytest.raises(viewlet.errors.DataError):
            db.apply({"c": [{"id": 1, "w": 1, "y": 1.0, "_multiplicity": 1}, {"id": 9, "w": 9, "_multiplicity": -1}]})
        assert constants.objections(db, steps) == {}


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("played", [1, 3])
def test_opened_again(engine: str, played: int, tmp_path: Path) -> None:
    steps = constants.expected()
    with viewlet.connect(tmp_path, engine=engine) as db:
        constants.declare(db)
        assert constants.objections(db, steps[:played]) == {}
    with viewlet.connect(tmp_path, engine=engine) as db:
        assert constants.objections(db, [constants.Step({}, steps[played - 1].expected), *steps[played:]]) == {}


def test_when_the_default_engine_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "COMPILE_AFTER_ROWS", 2)
    with viewlet.connect() as db:
        constants.declare(db)
        assert constants.objections(db, constants.expected()) == {}


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_in_partitions(engine: str, partitions: int, tmp_path: Path) -> None:
    """Restarted from the log, then from a snapshot."""
    steps = constants.expected()
    with connect_inline(tmp_path, partitions, sync=False, engine=engine) as db:
        constants.declare(db)
        assert constants.objections(db, steps[:2]) == {}
    for first, last in ((2, 4), (4, 5)):
        forget()
        with connect_inline(tmp_path, partitions, sync=False, engine=engine) as db:
            again = constants.Step({}, steps[first - 1].expected)
            assert constants.objections(db, [again, *steps[first:last]]) == {}
            db.checkpoint()
    forget()
