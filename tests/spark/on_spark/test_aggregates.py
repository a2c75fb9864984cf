"""A view with user-defined aggregates on Spark itself: the class runs at the driver, data frames come from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import viewlet
from tests.aggregates.examples import ALL

VIEW = "SELECT g, bit_mix(x) AS m, squares(x) AS q, COUNT(*) AS n FROM t GROUP BY g"


def test_data_frames_reach_the_states(spark: Any, tmp_path: Path) -> None:
    db = viewlet.connect(spark=spark, checkpoint=tmp_path / "db", partitions=2, aggregates=ALL)
    db.execute("CREATE STREAM t (g BIGINT, x BIGINT)")
    db.execute(f"CREATE MATERIALIZED VIEW v AS {VIEW}")
    db.insert("t", spark.createDataFrame([(i % 2, i) for i in range(6)], "g bigint, x bigint"))
    db.delete("t", [(1, 3)])
    rows = [(0, 6, 20, 3), (1, 4, 26, 2)]
    assert db.view("v").rows() == rows
    db.close()
    db = viewlet.connect(spark=spark, checkpoint=tmp_path / "db", aggregates=ALL)
    assert db.view("v").rows() == rows
    db.close()
