"""A slice of the hunt for differences from exact arithmetic, and estimates of errors of systems close to singular."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from tests.linalg.hunt import Trial, exact
from viewlet import linalg


@pytest.mark.parametrize("first", [100_000, 100_020])
def test_random_programs_are_right_in_exact_arithmetic(first: int) -> None:
    checked = 0
    for seed in range(first, first + 20):
        trial = Trial(seed).run()
        assert not trial.problems, "\n".join([*trial.log, *trial.problems])
        checked += trial.counts["checked"]
    assert checked > 40


@pytest.mark.parametrize("cholesky", [True, False])
def test_estimates_hold_where_a_system_is_close_to_singular(cholesky: bool) -> None:
    """With nearly equal columns of X the inverse of X'X has few digits, and so has what it is compared with."""
    checked = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((4, 2))
        x[:, 1] = x[:, 0] + 10.0 ** -rng.uniform(3, 8.5) * rng.standard_normal(4)
        program = linalg.program("input X(m, n); W := inv(X' * X); C := X * W * X'; output W, C;")
        try:
            run = program.start(X=x, strategy="incremental", cholesky=cholesky)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", linalg.LinAlgWarning)
                run.set_row("X", 0, rng.standard_normal(2) * 10.0 ** rng.uniform(-3, 3))
                run.set_row("X", 0, x[1] * (1 + 1e-9))
        except linalg.MatrixDataError:
            continue
        now = exact(np.array(run["X"]))
        (a, b), (_, d) = now.T @ now
        inverse = np.array([[d, -b], [-b, a]], object) / (a * d - b * b)
        for name, wanted in (("W", inverse), ("C", now @ inverse @ now.T)):
            error = math.sqrt(sum((each * each for each in (exact(np.array(run[name])) - wanted).flat), Fraction(0)))
            assert error <= run.error(name).estimate, (seed, name)
            checked += run.error(name).estimate < math.inf
    assert checked > 40
