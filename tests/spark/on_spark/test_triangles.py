"""An adaptive view on Spark itself: data frames are split where they are, shares keep their state in the workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import viewlet

CYCLES = """
    CREATE MATERIALIZED VIEW cycles WITH (strategy = 'adaptive') AS
    SELECT x.a, COUNT(*) AS n FROM e x JOIN e y ON x.b = y.a JOIN e z ON y.b = z.a AND z.b = x.a GROUP BY x.a
"""


def test_data_frames_reach_the_shares(spark: Any, tmp_path: Path) -> None:
    db = viewlet.connect(spark=spark, checkpoint=tmp_path / "db", partitions=4)
    db.execute("CREATE STREAM e (a BIGINT NOT NULL, b BIGINT NOT NULL)")
    db.execute(CYCLES)
    edges = [(0, i) for i in range(1, 9)] + [(i, 9) for i in range(1, 9)] + [(9, 0), (0, 0)]
    db.insert("e", spark.createDataFrame(edges, "a bigint, b bigint"))
    db.delete("e", [(0, 3)])
    rows = [(0, 8), *((i, 1) for i in (1, 2, 4, 5, 6, 7, 8)), (9, 7)]
    assert db.view("cycles").rows() == rows
    db.close()
    db = viewlet.connect(spark=spark, checkpoint=tmp_path / "db")
    db.insert("e", [(0, 3)])
    assert db.view("cycles").rows() == [(0, 9), *((i, 1) for i in range(1, 9)), (9, 8)]
    db.close()
