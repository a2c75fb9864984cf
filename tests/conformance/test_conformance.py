"""One set of programs on every engine: after every batch every view is what the oracle says, or is refused as listed.

`programs/` has the programs, `adapters.py` the engines, `refused.py` what engines refuse.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.adapters import ENGINES, Engine, OnSpark, Partitions
from tests.conformance.play import Objections, play
from tests.conformance.programs import PROGRAMS
from tests.conformance.refused import REFUSED
from viewlet.codegen import engine as compiled
from viewlet.engine import chooser
from viewlet.runtime import ordered

LARGE_IN_PARTITIONS = {("tpch in streams", Partitions("compiled", 2))}
"""Planning takes half a minute; `tests/spark_plan` plays these queries on 1, 2 and 7 simulated workers."""
ON_SPARK = ("small", "type decimal", "type double", "type varchar")
"""Programs of every kind of statement and value, for the engine that takes seconds per batch."""
AS_MACHINE_CODE = {"small": "grouped,extremes,streamed"}
"""A few views, because compiling takes seconds for each: sums of exact and inexact numbers, ordered rows, a join."""
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


@pytest.fixture(autouse=True)
def whatever_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views are compiled, results read by code and ranges kept in order however few rows there are."""
    monkeypatch.setattr(chooser, "COMPILE_AFTER_ROWS", 2)
    monkeypatch.setattr(compiled, "READ_BY_CODE_FROM", 0)
    monkeypatch.setattr(ordered, "SHORT", 2)


def objections(engine: Engine, program: str, folder: Path) -> Objections:
    return play(engine, PROGRAMS[program], folder, REFUSED.get((engine.name, program), {}))


def cases() -> list[Any]:
    """Every program on every engine; of the large ones, those that `LARGE_IN_PARTITIONS` names in partitions."""
    found = []
    for engine in ENGINES:
        for program in PROGRAMS.values():
            is_heavy = program.is_large and isinstance(engine, Partitions)
            if not is_heavy or (program.name, engine) in LARGE_IN_PARTITIONS:
                marks = pytest.mark.slow if program.is_large else ()
                found.append(pytest.param(program.name, engine, id=f"{program.name}-{engine.name}", marks=marks))
    return found


@pytest.mark.parametrize(("program", "engine"), cases())
def test_in_one_process(program: str, engine: Engine, tmp_path: Path) -> None:
    assert objections(engine, program, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("program", ON_SPARK)
def test_on_spark(program: str, spark: Any, tmp_path: Path) -> None:
    assert objections(OnSpark(spark), program, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("program", AS_MACHINE_CODE)
def test_as_machine_code(program: str, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    command = [sys.executable, "-m", "tests.conformance.machine_code", program, AS_MACHINE_CODE[program]]
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "VIEWLET_JIT": "1", "VIEWLET_CACHE": str(tmp_path), "PYTHONPATH": paths}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {}
