"""One Spark session for all tests that need one; without PySpark they are skipped."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("PySpark is not installed")
    from viewlet.spark.run.java import start_session

    session = start_session("local[2]", **{"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()
