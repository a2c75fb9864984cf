"""One set of programs on every engine: after every batch every view is what the oracle says, or is refused as listed.

`programs/` has the programs, `adapters.py` the engines, `refused.py` what engines refuse.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.adapters import ENGINES, KERNELS, PARTITIONS, Engine, MovedInFiles, OnSpark, Partitions
from tests.conformance.play import Objections, play
from tests.conformance.program import Program
from tests.conformance.programs import PROGRAMS
from tests.conformance.refused import REFUSED
from viewlet.codegen import compiled_result
from viewlet.codegen import engine as compiled
from viewlet.engine import chooser
from viewlet.runtime import ordered_index

FULL = os.environ.get("VIEWLET_CONFORMANCE") == "full"
EVERYWHERE = "small"
"""Every kind of statement: played on all numbers of partitions."""
FEW = PARTITIONS[:2]
"""For the same queries over every type, whose few values leave most of seven partitions empty."""
IN_FILES = 2
"""The partitions between which contents are moved in files."""
ON_SPARK = ("small", "types side by side")
"""Programs of every kind of statement and value, for the engine that takes seconds per batch."""
AS_MACHINE_CODE = {
    "small": "grouped,extremes,streamed",
    "aggregates over a stream": "joined",
    "triangles": "cycles,by_pair",
}
"""A few views, because compiling takes seconds for each: sums of exact and inexact numbers, ordered rows, a join, and
the kernel of triangles."""
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


@pytest.fixture(autouse=True)
def whatever_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views are compiled, results read by code and ranges kept in order however few rows there are."""
    monkeypatch.setattr(chooser, "COMPILE_AFTER_ROWS", 2)
    for module in (compiled, compiled_result):
        monkeypatch.setattr(module, "READ_BY_CODE_FROM", 0)
    monkeypatch.setattr(ordered_index, "SHORT", 2)


def objections(engine: Engine, program: str, folder: Path) -> Objections:
    return play(engine, PROGRAMS[program], folder, REFUSED.get((engine.name, program), {}))


def is_played(program: Program, engine: Engine) -> bool:
    """Every program on every engine, but of the numbers of partitions on one for each kernel: on one of the kernels
    contents move between stages in files, on the other they are sent along.

    A large program is played from streams on one half of the engines and from tables on the other. Planning it for
    partitions takes half a minute; `tests/spark_plan` plays its queries on 1, 2 and 7 simulated workers.
    """
    if FULL:
        return True
    number = list(PROGRAMS).index(program.name)
    if not isinstance(engine, Partitions):
        return not program.is_large or (number + ENGINES.index(engine)) % 2 == 0
    if program.is_large:
        return False
    is_moved = isinstance(engine, MovedInFiles)
    is_turn = is_moved == (KERNELS.index(engine.engine) == number % len(KERNELS))
    if is_moved:
        return is_turn and engine.count == IN_FILES
    counts = FEW if program.name.startswith("type ") else PARTITIONS
    return program.name == EVERYWHERE or (is_turn and engine.count == counts[number // 2 % len(counts)])


def cases() -> list[Any]:
    return [
        pytest.param(
            program.name,
            engine,
            id=f"{program.name}-{engine.name}",
            marks=pytest.mark.slow if program.is_large else (),
        )
        for engine in ENGINES
        for program in PROGRAMS.values()
        if is_played(program, engine)
    ]


def test_every_program_is_played_on_both_kernels_and_every_engine_plays_all_kinds_of_programs() -> None:
    played = {(name, engine) for name, engine in (case.values for case in cases())}
    small = [program.name for program in PROGRAMS.values() if not program.is_large]
    alone = [engine for engine in ENGINES if not isinstance(engine, Partitions)]
    assert played >= set(product(small, alone))
    partitions = {(name, engine) for name, engine in played if isinstance(engine, Partitions)}
    assert {(name, engine.engine) for name, engine in partitions} == set(product(small, KERNELS))
    assert {(engine.engine, engine.count) for _, engine in partitions} == set(product(KERNELS, PARTITIONS))
    assert {name for name, engine in partitions if isinstance(engine, MovedInFiles)} == set(small)
    assert {engine for name, engine in played if PROGRAMS[name].is_large} >= set(alone)


@pytest.mark.parametrize(("program", "engine"), cases())
def test_in_one_process(program: str, engine: Engine, tmp_path: Path) -> None:
    assert objections(engine, program, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("program", ON_SPARK)
def test_on_spark(
    program: str, spark: Any, spark_with_codegen: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One program with code of whole stages and frames that are fetched, the others with changes that are spread."""
    from viewlet.spark.run.execution import frame_change

    session = spark_with_codegen if program == EVERYWHERE else spark
    if program != EVERYWHERE:
        monkeypatch.setattr(frame_change, "SMALL_BYTES", 0)
    assert objections(OnSpark(session), program, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("program", AS_MACHINE_CODE)
def test_as_machine_code(program: str) -> None:
    pytest.importorskip("numba")
    command = [sys.executable, "-m", "tests.conformance.machine_code", program, AS_MACHINE_CODE[program]]
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "VIEWLET_JIT": "1", "PYTHONPATH": paths}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {}
