"""The driver dies while views are loaded by Spark SQL; the load is given again, and counts once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewlet
from tests.durable.faults import Plan, PowerFailure
from viewlet import StateError
from viewlet.runtime.durable import files as durable_files
from viewlet.runtime.durable.files import LocalFiles
from viewlet.spark.run.execution import loader

pytestmark = pytest.mark.slow

STREAMS = """
    CREATE STREAM orders (id BIGINT NOT NULL, customer VARCHAR NOT NULL);
    CREATE STREAM items (id BIGINT NOT NULL, price BIGINT NOT NULL);
"""
TABLES = """
    CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR NOT NULL);
    CREATE TABLE items (id BIGINT NOT NULL, price BIGINT NOT NULL);
"""
VIEW = """
    CREATE MATERIALIZED VIEW revenue AS
    SELECT customer, SUM(price) AS total FROM orders JOIN items USING (id) GROUP BY customer
"""
EXPECTED = [(f"c{i}", sum(range(i, 60, 3))) for i in range(3)]
EVERY = 8


@pytest.fixture(autouse=True)
def _small_loader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loader, "LOAD_FROM_BYTES", 0)
    monkeypatch.setenv("VIEWLET_STATE", str(tmp_path / "mapped"))


def fill(db: Any, spark: Any) -> None:
    numbers = spark.range(60)  # of which Spark knows the size
    orders = numbers.selectExpr("id", "concat('c', id % 3) AS customer")
    items = numbers.selectExpr("id", "id AS price")
    db.apply({"orders": orders, "items": items}, batch_id=1)


def follow(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the driver does to files goes by a plan from now on."""
    for name in ("create", "rename", "remove", "make_folder", "sync_folder"):
        original = getattr(LocalFiles, name)

        def planned(self: LocalFiles, *given: Any, _original: Any = original, **named: Any) -> Any:
            plan.step()
            return _original(self, *given, **named)

        monkeypatch.setattr(LocalFiles, name, planned)
    write = durable_files._LocalOutput.write

    def torn(self: Any, data: Any) -> object:
        plan.step()
        return write(self, data)

    monkeypatch.setattr(durable_files._LocalOutput, "write", torn)


@pytest.mark.parametrize("declared", [STREAMS, TABLES], ids=["streams", "tables"])
def test_a_driver_dies_during_a_load(
    declared: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = Plan()
    fatal = 1
    while fatal <= max(total.steps, 1):
        state = tmp_path / f"{fatal} of {total.steps}"
        db = viewlet.connect(spark=spark, checkpoint=state, partitions=2)
        db.execute(declared + VIEW)
        with monkeypatch.context() as patch:
            plan = total if not total.steps else Plan(fatal)
            follow(plan, patch)
            try:
                fill(db, spark)
            except PowerFailure:
                assert plan is not total
        db._host.cluster.checkpoint._store._lock.release()
        with viewlet.connect(spark=spark, checkpoint=state) as again:
            assert again.view("revenue").rows() in ([], EXPECTED)
            if declared == TABLES:
                rows = len(again.table("orders").rows()), len(again.table("items").rows())
                assert rows == ((60, 60) if again.view("revenue").rows() else (0, 0))
            fill(again, spark)
            fill(again, spark)
            assert again.view("revenue").rows() == EXPECTED
            assert again.epoch == 1
            again.apply({"items": [(0, 1000)]})
            assert again.view("revenue").rows()[0] == ("c0", EXPECTED[0][1] + 1000)
            if declared == TABLES:
                assert (len(again.table("orders").rows()), len(again.table("items").rows())) == (60, 61)
            assert len(list(state.glob("load-*"))) == 1
        fatal += EVERY if plan is not total else 0
    assert total.steps > EVERY


def test_a_damaged_load(spark: Any, tmp_path: Path) -> None:
    """Whoever needs the file says so; when it is back, everything is."""
    state = tmp_path / "state"
    with viewlet.connect(spark=spark, checkpoint=state, partitions=2) as db:
        db.execute(STREAMS + VIEW)
        fill(db, spark)
    files = {path: path.read_bytes() for path in state.glob("load-*/*")}
    assert files
    for path, data in files.items():
        path.write_bytes(data[:-9])
    with pytest.raises(StateError, match=r"load-.* is damaged"), viewlet.connect(spark=spark, checkpoint=state) as db:
        db.apply({"items": [(0, 1000)]})
    for path, data in files.items():
        path.write_bytes(data)
    with viewlet.connect(spark=spark, checkpoint=state) as db:
        assert (db.epoch, db.view("revenue").rows()) == (1, EXPECTED)
