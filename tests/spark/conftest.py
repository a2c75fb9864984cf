"""One Spark session for all tests that need one; without PySpark they are skipped."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from typing import Any

import pytest

os.environ.setdefault("VIEWLET_JIT", "0")  # before anything imports the runtime: compiling takes longer than the tests


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("PySpark is not installed")
    from viewlet import spark_session

    session = spark_session("local[2]", **{"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()
