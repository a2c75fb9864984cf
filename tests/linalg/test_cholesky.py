"""Cholesky factors inside programs: which inverses are kept as factors, and that they follow and are more accurate."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from tests.linalg.oracle import relative_error
from viewlet import linalg
from viewlet.linalg import analyses, cholesky
from viewlet.linalg.expression import Expression
from viewlet.linalg.machine import NOMINAL
from viewlet.linalg.strategy import plan_statements
from viewlet.runtime.cholesky_rotations import rotate_rows

m, n, p = linalg.dim("m"), linalg.dim("n"), linalg.dim("p")
X, Y = linalg.matrix("X", m, n, dynamic=True), linalg.matrix("Y", m, p, dynamic=True)
A, S = linalg.matrix("A", n, n, dynamic=True), linalg.matrix("S", n, n, dynamic=True, definite=True)
B = linalg.matrix("B", n, p)


def factored(**outputs: Expression) -> set[str]:
    program = linalg.program(**outputs)
    return {
        each.name
        for each in plan_statements(program, {"m": 90, "n": 30, "p": 2}, NOMINAL, "incremental", cholesky=True).factored
    }


def test_inverses_of_gram_matrices_are_kept_as_factors() -> None:
    gram, one = X.T @ X, linalg.identity(n)
    assert factored(C=linalg.solve(gram, X.T @ Y)) == {"W"}
    assert factored(C=linalg.solve(gram + 0.5 * one, X.T @ Y)) == {"W"}
    assert factored(C=linalg.solve(S + gram, X.T @ Y)) == {"W"}
    assert factored(C=linalg.solve(A.T @ linalg.inv(S) @ A + one, B)) == {"W", "W_2"}
    assert factored(C=linalg.inv(gram)) == {"F"}, "an output is a view beside the factor"


def test_inverses_of_other_matrices_are_not() -> None:
    gram, one = X.T @ X, linalg.identity(n)
    assert factored(C=linalg.solve(A, B)) == set()
    assert factored(C=linalg.solve(A + A.T, B)) == set(), "symmetric, but not definite"
    assert factored(C=linalg.solve(gram - one, B)) == set()
    assert factored(C=linalg.solve(A @ A, B)) == set()
    assert factored(C=linalg.solve(A.T @ (S - one) @ A, B)) == set()


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("compiled", [False, True])
def test_rotations_agree_with_a_new_factor(kind: Any, compiled: bool) -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((90, 40)).astype(kind)
    upper = cholesky.factor(rows.T @ rows)
    vectors = np.concatenate([rng.standard_normal((2, 40)).astype(kind), rows[:2]])
    wanted = cholesky.factor(rows[2:].T @ rows[2:] + vectors[:2].T @ vectors[:2])
    signs = np.array([1.0, 1.0, -1.0, -1.0], kind)
    rotate = rotate_rows if compiled else cholesky._rotate_rows
    assert rotate(upper, vectors.copy(), signs, 1e-6) == -1
    assert relative_error(upper, wanted) < (1e-13 if kind is np.float64 else 1e-5)
    assert rotate(upper, 9 * vectors, -signs, 1e-6) >= 0, "what is left is not positive definite"


@pytest.mark.parametrize("strategy", ["incremental", "auto"])
def test_least_squares_follow_rows_that_come_and_go(strategy: str) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((120, 40)), rng.standard_normal((120, 2))
    program = linalg.program(
        beta=analyses.least_squares(X, Y), W=linalg.inv(X.T @ X), H=X @ analyses.ridge(X, Y, alpha=0.5)
    )
    run = program.start(X=x, Y=y, strategy=strategy)
    for step in range(24):
        row, label = rng.standard_normal(40), rng.standard_normal(2)
        match step % 4:
            case 0:
                run.set_row("X", step, row)
                x[step] = row
            case 1:
                run.append_row("X", row, Y=label)
                x, y = np.vstack([x, row]), np.vstack([y, label])
            case 2:
                run.delete_row("X", step)
                x, y = np.delete(x, step, 0), np.delete(y, step, 0)
            case 3:
                run.apply({"X": (x[:, :1] / 50, row / 9), "Y": (x[:, :1], label)})
                x, y = x + np.outer(x[:, 0] / 50, row / 9), y + np.outer(x[:, 0], label)
        if step == 10:
            run.scale("X", 0.5)
            x = x * 0.5
    wanted = {
        "beta": np.linalg.lstsq(x, y)[0],
        "W": np.linalg.inv(x.T @ x),
        "H": x @ np.linalg.solve(x.T @ x + 0.5 * np.eye(40), x.T @ y),
    }
    for name, right in wanted.items():
        assert relative_error(run[name], right) < 1e-11, name
        assert np.linalg.norm(run[name] - right) <= run.error(name).bound
    assert np.array_equal(run["W"], run["W"].T)
    assert run.condition("W") == pytest.approx(np.linalg.cond(x.T @ x, 1), rel=1e-6)


def test_deferred_updates_and_single_precision() -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in ((120, 40), (120, 1)))
    run = linalg.program(beta=analyses.least_squares(X, Y)).start(X=x, Y=y, defer=8, strategy="incremental")
    for row in range(10):
        x[row] = rng.standard_normal(40)
        run.set_row("X", row, x[row])
    assert run["beta"].dtype == np.float32
    assert relative_error(run["beta"], np.linalg.lstsq(x.astype(float), y.astype(float))[0]) < 1e-4


def test_a_factor_is_more_accurate_than_an_inverse_for_ill_conditioned_systems() -> None:
    rng = np.random.default_rng(4)
    scales = np.logspace(0, -5, 40)
    mix = np.linalg.qr(rng.standard_normal((40, 40)))[0]

    def rows(count: int) -> Any:
        return (rng.standard_normal((count, 40)) * scales) @ mix

    x = rows(200)
    weights = rng.standard_normal((40, 1))
    program, errors = linalg.program(beta=analyses.least_squares(X, Y)), {}
    starts = {each: program.start(X=x, Y=x @ weights, strategy="incremental", cholesky=each) for each in (True, False)}
    for step in range(120):
        x[step] = rows(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", linalg.LinAlgWarning)
            for run in starts.values():
                run.apply({"X": change_of(run, x, step), "Y": change_of(run, x @ weights, step, "Y")})
    for each, run in starts.items():
        errors[each] = relative_error(run["beta"], weights)
    assert errors[True] < 1e-5
    assert errors[True] < errors[False] / 10, errors


def test_refinement_reaches_the_accuracy_of_the_inputs() -> None:
    rng = np.random.default_rng(7)
    mix = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    x = (rng.standard_normal((120, 20)) * np.logspace(0, -5, 20)) @ mix
    weights, noise = rng.standard_normal((20, 2)), rng.standard_normal((120, 2)) * 1e-6
    program = linalg.program(beta=analyses.least_squares(X, Y), G=X.T @ X)
    for cholesky_ in (True, False):
        run = program.start(X=x, Y=x @ weights + noise, strategy="incremental", cholesky=cholesky_)
        run.set_row("Y", 3, run["Y"][3] * 1.5)
        exact = np.linalg.lstsq(x, np.array(run["Y"]))[0]
        before = relative_error(run["beta"], exact)
        assert run.refine("beta") > 1
        assert relative_error(run["beta"], exact) < min(1e-8, before / 10)
        with pytest.raises(linalg.ProgramError, match="nothing to refine"):
            run.refine("G")


def change_of(run: Any, wanted: Any, row: int, name: str = "X") -> Any:
    change = np.zeros_like(wanted)
    change[row] = wanted[row] - run[name][row]
    return change


def test_a_difference_that_leaves_nothing_definite_is_factored_again_with_a_warning() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((80, 40)), rng.standard_normal((80, 1))
    x[0] *= 1e7
    run = linalg.program(beta=analyses.least_squares(X, Y)).start(X=x, Y=y, strategy="incremental")
    x[0] = rng.standard_normal(40)
    with pytest.warns(linalg.LinAlgWarning, match="close to singular"):
        run.set_row("X", 0, x[0])
    run.refresh()
    assert run.statistics.ill_conditioned == 1
    assert relative_error(run["beta"], np.linalg.lstsq(x, y)[0]) < 1e-2, (
        "X'X has lost the digits that the large row had"
    )
    with pytest.raises(linalg.MatrixDataError, match="not positive definite"):
        run.apply({"X": -np.asarray(run["X"]) + np.eye(80, 40, 1)})


def test_declared_inputs() -> None:
    rng = np.random.default_rng(6)
    root = rng.standard_normal((40, 40))
    s, b = root @ root.T + np.eye(40), rng.standard_normal((40, 3))
    program = linalg.program("input S(n, n) definite; static B(n, p); C := solve(S, B);")
    assert linalg.program(program.text()).text() == program.text()
    run = program.start(S=s, B=b, strategy="incremental")
    for _ in range(20):
        u, v = rng.standard_normal(40), rng.standard_normal(40) / 40
        run.update("S", np.stack([u, v], 1), np.stack([v, u], 1))
        run.update("S", u, u)
        s += np.outer(u, v) + np.outer(v, u) + np.outer(u, u)
    run.set("S", 3, 3, s[3, 3] + 1)
    s[3, 3] += 1
    assert relative_error(run["C"], np.linalg.solve(s, b)) < 1e-11
    assert "chol(S) += u_S * v_S'" in run.explain()
    before = run["C"].copy()
    for change in (lambda: run.set("S", 0, 1, 5.0), lambda: run.update("S", u, v), lambda: run.set_row("S", 1, u)):
        with pytest.raises(linalg.MatrixDataError, match="symmetric"):
            change()
    assert np.array_equal(run["C"], before)
    with pytest.raises(linalg.MatrixDataError, match="multiplied by -1"):
        run.scale("S", -1.0)
    run.scale("S", 2.0)
    assert relative_error(run["C"], before / 2) < 1e-14
    with pytest.raises(linalg.MatrixDataError, match="not symmetric"):
        program.start(S=root, B=b)
    with pytest.raises(linalg.MatrixDataError, match="not positive definite"):
        program.start(S=-s, B=b)
    with pytest.raises(linalg.ShapeError, match="square"):
        linalg.matrix("S", n, m, definite=True)
    with pytest.raises(linalg.NotationError, match="square"):
        linalg.program("input S(n, m) definite; C := S;")
