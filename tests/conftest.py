"""Hypothesis profiles, one Spark session for all tests that need one, and how workers share the tests."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import garbage, scheduling, temporary_files
from tests.planning import remember_plans

os.environ.setdefault("VIEWLET_JIT", "0")
"""Generated code runs as plain Python: compiling it takes longer than most tests. Those of Numba start processes.

It is said here, for all folders, before any test imports the runtime.
"""
os.environ.setdefault("NUMBA_OPT", "1")
"""Code of these tests runs for moments: optimising it takes twice as long as compiling it."""
os.environ.setdefault("VIEWLET_CACHE", os.path.join(tempfile.gettempdir(), "viewlet-generated"))
IN_MEMORY = temporary_files.keep_in_memory()
MAPPED_STATE = None if "VIEWLET_STATE" in os.environ else tempfile.mkdtemp(prefix="viewlet-test-state-")
"""What workers of Spark keep, for this run only; the workers of pytest inherit it."""
os.environ["VIEWLET_STATE"] = MAPPED_STATE or os.environ["VIEWLET_STATE"]
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark" / "jvm"))
"""Options for every JVM of Spark: it lives for a minute, and Java's optimising compiler would take half of its time.

Classes are loaded without being verified, and Spark SQL does not compile whole stages; a test that wants it as users
have it takes the fixture `spark_with_codegen`.
"""
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
"""Random queries are large by nature; the time limits of the suite guard against the rest."""

settings.register_profile("default", max_examples=100, deadline=None, derandomize=True, suppress_health_check=QUIET)
settings.register_profile("full", max_examples=2000, deadline=None, suppress_health_check=QUIET, print_blob=True)
settings.load_profile(os.environ.get("VIEWLET_HYPOTHESIS", "default"))
remember_plans()
garbage.permit_open_files()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The only Spark session; a test that wants other SQL settings takes a `newSession()` of it.

    Its JVM is started in a folder of its own, to which relative paths of Spark lead. Its workers can import `bench`.
    """
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("PySpark is not installed")
    from viewlet import spark_session

    root, paths = str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")
    with contextlib.chdir(tmp_path_factory.mktemp("spark")), pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", f"{root}{os.pathsep}{paths}" if paths else root)
        session = spark_session("local[2]", **{"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_with_codegen(spark: Any) -> Any:
    """A session that compiles whole stages of SQL, as it does by default."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "true")
    return session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    scheduling.check(items)
    if "PYTEST_XDIST_WORKER" in os.environ:
        scheduling.order(items)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    scheduling.wait_for_bytecode()


def pytest_collection_finish() -> None:
    scheduling.tell_that_bytecode_is_there()
    garbage.collect_rarely()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(exitstatus: int) -> Iterator[None]:
    """What failed tests wrote can be looked at afterwards."""
    yield
    if IN_MEMORY is not None and exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(IN_MEMORY, ignore_errors=True)


def pytest_unconfigure() -> None:
    gc.unfreeze()
    scheduling.remove_mark()
    if MAPPED_STATE is not None:
        shutil.rmtree(MAPPED_STATE, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    config.option.loadscopereorder = False  # it would sort files by their number of tests
    return scheduling.Schedule(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return scheduling.workers()
