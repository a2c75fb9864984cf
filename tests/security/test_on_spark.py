"""Hostile names and texts on Spark: fed by rows and by data frames, and loaded by Spark SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from tests.security.hostile import BREAKING_OUT, nothing_called, quoted
from tests.security.test_names import Case

pytestmark = pytest.mark.slow
CASES = [
    ["`", "a`b", "x`; DROP TABLE y; --`", "ﬁ", "fi", "${env:HOME}", "'", "\\' OR 1 = 1 OR '"],
    ["..", BREAKING_OUT[0], BREAKING_OUT[2], "a.b", "class", "a\u2028b", "/*", "${spark.app.name}' OR '1' = '1"],
]


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("names", CASES, ids=["quotes", "paths"])
def test_on_spark(spark: Any, tmp_path: Path, names: list[str], engine: str) -> None:
    case = Case(names)
    with nothing_called():
        with viewlet.connect(engine="interpreter") as db:
            case.declare(db)
            for batch in case.batches:
                db.apply(batch)
            expected = db.view(case.view).rows()
        with viewlet.connect(spark=spark, checkpoint=tmp_path / "checkpoint", partitions=2, engine=engine) as db:
            case.declare(db)
            first, second = case.batches
            db.apply({name: frame(spark, db, name, rows) for name, rows in first.items()})
            db.apply(second)
            assert sorted(db.view(case.view).rows()) == sorted(expected)
            other = case.query.replace(quoted(case.output), '"other"')
            db.execute(f'CREATE MATERIALIZED VIEW "loaded" AS {other}')
            assert sorted(db.view("loaded").rows()) == sorted(expected)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def frame(spark: Any, db: Any, table: str, rows: list[tuple[Any, ...]]) -> Any:
    columns = [column.name for column in db.table(table).schema]
    return spark.createDataFrame(pa.table({name: [row[i] for row in rows] for i, name in enumerate(columns)}))
