"""The compiled back end, in a process of its own: the tests run without Numba."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.linalg.oracle import relative_error
from viewlet import linalg
from viewlet.errors import MissingExtraError


@pytest.mark.slow
def test_compiled_kernels_and_programs_agree_with_numpy() -> None:
    pytest.importorskip("numba")
    environment = {**os.environ, "VIEWLET_JIT": "1"}
    command = [sys.executable, "-m", "tests.linalg.compiled_runs"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.stdout.strip() == "passed", done.stderr


def test_without_numba_the_compiled_back_end_says_what_is_missing() -> None:
    A = linalg.matrix("A", 2, 2, dynamic=True)  # noqa: N806
    with pytest.raises(MissingExtraError, match="VIEWLET_JIT=0"):
        linalg.program(C=A @ A).start(A=np.eye(2), backend="compiled")


@pytest.mark.parametrize("cap", [1, 5, 64])
def test_deferred_updates_are_there_when_a_view_is_read(cap: int) -> None:
    n = linalg.dim("n")
    A = linalg.matrix("A", n, n, dynamic=True)  # noqa: N806
    program = linalg.program(C=linalg.matrix_power(A, 8, model="exponential"), S=linalg.inv(A + 4 * linalg.identity(n)))
    rng = np.random.default_rng(0)
    run = program.start(A=rng.standard_normal((20, 20)) / 5, strategy="incremental", defer=cap)
    for i in range(30):
        run.set_row("A", i % 20, rng.standard_normal(20) / 5)
        if i % 7 == 0:
            assert relative_error(run["C"], np.linalg.matrix_power(np.array(run["A"]), 8)) < 1e-11
    assert relative_error(run["S"], np.linalg.inv(np.array(run["A"]) + 4 * np.eye(20))) < 1e-11
    with pytest.raises(linalg.ProgramError, match="defer is a whole number"):
        program.start(A=np.eye(2), defer=-1)
