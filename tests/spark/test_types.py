"""Every type on both kernels of Spark, with awkward changes in one batch: as DuckDB has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import viewlet
from tests.conformance.typed import TYPES, TypeUnderTest, declare, objections
from viewlet.connection.spark_facade import connect_inline
from viewlet.spark.run.partition import forget

HALF, END = 4, 9
PARTITIONS = (1, 2, 7)
KERNELS = ("interpreter", "compiled")
SAMPLE = [tested for tested in TYPES if tested.name in ("double", "decimal", "varchar")]


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    forget()


def check(tested: TypeUnderTest, kernel: str, partitions: int, folder: Path) -> None:
    """The second half of the batches after a restart."""
    with connect_inline(folder, partitions, sync=False, engine=kernel) as db:
        views = declare(db, tested)
        assert len(views) == len(tested.queries)
        assert objections(db, tested, views, 0, HALF) == {}
    forget()
    with connect_inline(folder, partitions, sync=False, engine=kernel) as db:
        assert objections(db, tested, views, HALF, END) == {}


@pytest.mark.parametrize(("name", "partitions"), [("double", 2), ("varchar", 1)])
def test_generated_code(name: str, partitions: int, tmp_path: Path) -> None:
    check(next(tested for tested in TYPES if tested.name == name), "compiled", partitions, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tested", TYPES, ids=lambda tested: tested.name)
def test_both_kernels(tested: TypeUnderTest, kernel: str, partitions: int, tmp_path: Path) -> None:
    check(tested, kernel, partitions, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("tested", SAMPLE, ids=lambda tested: tested.name)
def test_on_spark(tested: TypeUnderTest, spark: Any, tmp_path: Path) -> None:
    with viewlet.connect(spark=spark, checkpoint=tmp_path, partitions=2, engine="compiled") as db:
        views = declare(db, tested)
        assert objections(db, tested, views, 0, 6) == {}
