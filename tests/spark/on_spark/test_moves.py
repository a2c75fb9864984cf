"""Contents that move between Spark's tasks through files of the checkpoint directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.spark.run.execution import frame_change

DECLARED = """
    CREATE STREAM orders (id BIGINT NOT NULL, customer VARCHAR NOT NULL);
    CREATE STREAM items (id BIGINT NOT NULL, price BIGINT NOT NULL);
    CREATE MATERIALIZED VIEW revenue AS
    SELECT customer, SUM(price) AS total FROM orders JOIN items USING (id) GROUP BY customer
"""


@pytest.mark.slow
def test_large_changes_in_data_frames_pass_the_driver_by(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is told where the files are; a connection that is opened again replays them."""
    monkeypatch.setattr(frame_change, "SMALL_BYTES", 0)
    state = tmp_path / "state"
    ids = range(1, 41)
    orders = spark.createDataFrame([(i, f"c{i % 3}") for i in ids], "id bigint, customer string").repartition(3)
    items = spark.createDataFrame([(i, 10 * i) for i in ids], "id bigint, price bigint").repartition(3)
    expected = [(f"c{k}", sum(10 * i for i in ids if i % 3 == k)) for k in range(3)]
    with viewlet.connect(spark=spark, checkpoint=state, partitions=2, engine="interpreter") as db:
        db._host.cluster.inline_bytes = 0  # type: ignore[attr-defined]
        db.execute(DECLARED)
        db.apply({"orders": orders, "items": items})
        assert db.view("revenue").rows() == expected
        assert list(state.glob("moves-*/*.bin"))
    with viewlet.connect(spark=spark, checkpoint=state, engine="interpreter") as db:
        db.insert("items", [(1, 5)])
        assert db.view("revenue").rows() == [(name, total + 5 * (name == "c1")) for name, total in expected]
        db.checkpoint()
        assert not list(state.glob("moves-*"))
