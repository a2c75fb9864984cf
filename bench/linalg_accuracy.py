"""How far matrix programs are from exact results: `python -m bench.linalg_accuracy [--soak 100000]`.

updates   every program after 1,000 mixed updates by each strategy, beside an evaluation by NumPy
bounds    the error in extended precision, the bounds of `run.error` and of `start(bounds=True)`, and how often an
          estimate is too small, with its margin and with smaller ones, which fail more often
soak      updates during which an entry of 1e12 comes and goes, with `refresh=1e-9` and without
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from viewlet import linalg
from viewlet.linalg import analyses
from viewlet.linalg.trust import MARGIN, PROBES

n, m, p = linalg.dim("n"), linalg.dim("m"), linalg.dim("p")
A = linalg.matrix("A", n, n, dynamic=True)
B = linalg.matrix("B", n, p, dynamic=True)
X, Y = linalg.matrix("X", m, n, dynamic=True), linalg.matrix("Y", m, p, dynamic=True)
START = linalg.matrix("start", n, p)
STRATEGIES = ("incremental", "hybrid", "reevaluate", "auto")
SIZE, ROWS, COLUMNS = 40, 90, 3
ESTIMATES = 300
SEEDS = 20_000
"""Of random probes; failures are counted over them."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    arguments.add_argument("--updates", type=int, default=1000)
    arguments.add_argument("--sizes", type=int, nargs="+", default=[100, 500])
    arguments.add_argument("--soak", type=int, default=100_000)
    given = arguments.parse_args()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", linalg.LinAlgWarning)
        text = mixed(given.updates) + bounds(given.sizes) + probes() + soak(given.soak)
    (given.out / "linalg-accuracy.md").write_text(text, encoding="utf-8")


# -- programs beside NumPy ---------------------------------------------------------------------------------------------

Arrays = dict[str, Any]
Evaluate = Callable[[Arrays], Any]


def iterated(step: Callable[[Any], Any], start: Any, times: int) -> Any:
    for _ in range(times):
        start = step(start)
    return start


def power(base: Any, steps: int) -> Any:
    return iterated(lambda found: found @ base, base, steps - 1)


def exponential(a: Any) -> Any:
    from scipy.linalg import expm

    return expm(a)


def solved(x: Any, y: Any, ridge: float = 0.0) -> Any:
    return np.linalg.solve(x.T @ x + ridge * np.eye(x.shape[1]), x.T @ y)


PROGRAMS: dict[str, tuple[linalg.Expression, Evaluate]] = {
    "A^16, exponential": (linalg.matrix_power(A, 16, model="exponential"), lambda g: power(g["A"], 16)),
    "A^16, linear": (linalg.matrix_power(A, 16, model="linear"), lambda g: power(g["A"], 16)),
    "A^16, skip-4": (linalg.matrix_power(A, 16, model="skip-4"), lambda g: power(g["A"], 16)),
    "A^16, telescoped": (linalg.matrix_power(A, 16, model="telescoped"), lambda g: power(g["A"], 16)),
    "I + ... + A^15": (
        linalg.power_sum(A, 16),
        lambda g: iterated(lambda total: np.eye(SIZE) + g["A"] @ total, np.eye(SIZE), 15),
    ),
    "16 steps of T := A T + B": (
        linalg.iterate(A, B, START, steps=16),
        lambda g: iterated(lambda t: g["A"] @ t + g["B"], g["start"], 16),
    ),
    "inv(3 I + A)": (
        linalg.inv(3.0 * linalg.identity(n) + A),
        lambda g: np.linalg.inv(3 * np.eye(SIZE) + g["A"]),
    ),
    "solve(3 I + A, B)": (
        linalg.solve(3.0 * linalg.identity(n) + A, B),
        lambda g: np.linalg.solve(3 * np.eye(SIZE) + g["A"], g["B"]),
    ),
    "least squares": (analyses.least_squares(X, Y), lambda g: solved(g["X"], g["Y"])),
    "ridge": (analyses.ridge(X, Y, alpha=2.0), lambda g: solved(g["X"], g["Y"], 2.0)),
    "gradient descent, 16 steps": (
        analyses.gradient_descent(X, Y, START, rate=0.002, steps=16),
        lambda g: iterated(lambda t: t - 0.002 * g["X"].T @ (g["X"] @ t - g["Y"]), g["start"], 16),
    ),
    "Markov chain, 12 steps": (
        analyses.markov_chain(A, START, steps=12),
        lambda g: iterated(lambda t: g["A"].T @ t, g["start"], 12),
    ),
    "power iteration, 12 steps": (
        analyses.power_iteration(A, START, steps=12),
        lambda g: iterated(lambda t: g["A"] @ t, g["start"], 12),
    ),
    "paths of 4 steps": (
        analyses.path_counts(A, steps=4),
        lambda g: iterated(lambda total: np.eye(SIZE) + g["A"] @ total, np.eye(SIZE), 4),
    ),
    "exp(A)": (analyses.expm(A, terms=14, squarings=3), lambda g: exponential(g["A"])),
    "Richardson, 6 steps": (
        analyses.stationary_iteration(3.0 * linalg.identity(n) + A, B, START, steps=6, rate=0.15),
        lambda g: iterated(lambda t: t + 0.15 * (g["B"] - (3 * t + g["A"] @ t)), g["start"], 6),
    ),
    "[A, B] [A; B']": (
        linalg.hstack([A, B]) @ linalg.vstack([A, B.T]) - 2 * A.T,
        lambda g: np.hstack([g["A"], g["B"]]) @ np.vstack([g["A"], g["B"].T]) - 2 * g["A"].T,
    ),
}


def inputs(rng: np.random.Generator) -> Arrays:
    shapes = {
        "A": (SIZE, SIZE),
        "B": (SIZE, COLUMNS),
        "X": (ROWS, SIZE),
        "Y": (ROWS, COLUMNS),
        "start": (SIZE, COLUMNS),
    }
    return {name: rng.standard_normal(shape) * scale(name) for name, shape in shapes.items()}


def scale(name: str) -> float:
    """Of the numbers of an input: powers of A neither grow nor vanish."""
    return 1 / (1.05 * SIZE**0.5) if name == "A" else 1.0


def change(run: linalg.Run, name: str, now: Arrays, rng: np.random.Generator) -> None:
    """One random update of a run, and of the array beside it."""
    array, size = now[name], scale(name)
    rows, columns = array.shape
    row, column = int(rng.integers(rows)), int(rng.integers(columns))
    kind = int(rng.integers(5))
    if kind == 0:
        array[row] = rng.standard_normal(columns) * size
        run.set_row(name, row, array[row])
    elif kind == 1:
        array[:, column] = rng.standard_normal(rows) * size
        run.set_column(name, column, array[:, column])
    elif kind == 2:
        array[row, column] = rng.standard_normal() * size
        run.set(name, row, column, array[row, column])
    elif kind == 3:
        added = np.zeros_like(array)
        added[row], added[:, column] = rng.standard_normal(columns), rng.standard_normal(rows)
        added *= size / 20
        run.add(name, added)
        array += added
    else:
        u, v = rng.standard_normal((rows, 2)) * size / 40, rng.standard_normal((columns, 2))
        run.apply({name: [(u, v), (-0.5 * u, v)]})
        array += 0.5 * u @ v.T


def mixed(updates: int) -> str:
    text = f"""# How accurate matrix programs are

Written by `python -m bench.linalg_accuracy`.

## {updates:,} mixed updates

Rows, columns, entries, sparse changes and batches of rank two, of every input that takes updates in turn, n = {SIZE}
and m = {ROWS}; then the difference from NumPy's evaluation, relative, in the Frobenius norm.

| program | {" | ".join(STRATEGIES)} |
|---|{"---|" * len(STRATEGIES)}
"""
    for name, (body, evaluate) in PROGRAMS.items():
        program = linalg.program(C=body)
        found = []
        for strategy in STRATEGIES:
            rng = np.random.default_rng(7)
            now = inputs(rng)
            run = program.start(**{each.name: now[each.name] for each in program.inputs}, strategy=strategy)
            dynamic = [each.name for each in program.inputs if each.dynamic]
            for i in range(updates):
                change(run, dynamic[i % len(dynamic)], now, rng)
            found.append(distance(run["C"], evaluate(now)))
        print(name, found, flush=True)
        text += f"| {name} | {' | '.join(f'{error:.0e}' for error in found)} |\n"
    return text


def distance(found: Any, wanted: Any) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


# -- bounds and estimates beside extended precision --------------------------------------------------------------------


def extended_inverse(system: Any) -> Any:
    """By Newton's iteration from the inverse in double precision."""
    found = np.linalg.inv(system.astype(float)).astype(np.longdouble)
    return iterated(lambda x: x @ (2 * np.eye(len(system)) - system @ x), found, 3)


def bounds(sizes: list[int]) -> str:
    text = """
## Bounds

After 100 row updates, incrementally. The error is that beside the same program in extended precision (64 bits of
mantissa); all figures are relative to the norm of the result. The last column counts estimates that are smaller than
the error, each with other random vectors.

| program | n | error | estimate | bound, computed | bound, accumulated | estimates too small |
|---|---|---|---|---|---|---|
"""
    cases = {
        "A^8": (linalg.matrix_power(A, 8, model="exponential"), lambda a: squared(a, 3)),
        "inv(3 I + A)": (
            linalg.inv(3.0 * linalg.identity(n) + A),
            lambda a: extended_inverse(a + 3 * np.eye(len(a))),
        ),
    }
    for size in sizes:
        for name, (body, evaluate) in cases.items():
            rng = np.random.default_rng(size)
            start = rng.standard_normal((size, size)) / (1.05 * size**0.5)
            runs = [
                linalg.program(C=body).start(A=start, strategy="incremental", bounds=kept) for kept in (False, True)
            ]
            for i in range(100):
                row = rng.standard_normal(size) / (1.05 * size**0.5)
                for run in runs:
                    run.set_row("A", i % size, row)
            exact = evaluate(np.array(runs[0]["A"]).astype(np.longdouble))
            norm = float(np.sqrt((exact**2).sum()))
            error = float(np.sqrt(((runs[0]["C"] - exact) ** 2).sum())) / norm
            report, kept = (run.error("C") for run in runs)
            shown = (error, report.relative_estimate, report.relative_bound, kept.relative_bound)
            if not all(error <= other for other in shown):
                raise SystemExit(f"{name}, n = {size}: {shown}")
            audit, view = runs[0]._audit(), runs[0]._matrix("C")
            short = sum(audit.estimate(view, seed) < error * norm for seed in range(ESTIMATES))
            print(name, size, shown, short, flush=True)
            shown_values = " | ".join(f"{value:.1e}" for value in shown)
            text += f"| {name} | {size} | {shown_values} | {short} of {ESTIMATES} |\n"
    return text


def squared(base: Any, times: int) -> Any:
    return iterated(lambda found: found @ found, base, times)


def probes() -> str:
    """Failures of estimates: the worst case for random probes is an error of rank one."""
    text = f"""
## Estimates

{SEEDS:,} estimates, each with {PROBES} new random vectors, of an error of rank one, which is the worst case, and of a
full one. An estimate is {MARGIN:g} times the mean length that vectors get. The table has the share of estimates that
are too small with this margin and with smaller ones, beside the probability that is stated.

| margin | rank one | full rank | stated |
|---|---|---|---|
"""
    rng = np.random.default_rng(5)
    errors = {"one": np.outer(rng.standard_normal(30), rng.standard_normal(30)), "full": rng.standard_normal((30, 30))}
    lengths = {}
    for name, error in errors.items():
        given = rng.standard_normal((SEEDS, 30, PROBES))
        lengths[name] = np.sqrt(((error @ given) ** 2).sum(axis=(1, 2)) / PROBES) / np.linalg.norm(error)
    for margin in (1.5, 2.0, 3.0, 5.0, MARGIN):
        failed = [int((margin * lengths[name] < 1).sum()) for name in ("one", "full")]
        stated = min(1.0, (math.e / margin**2) ** (PROBES / 2))
        text += f"| {margin:g} | {' | '.join(f'{count / SEEDS:.1e}' for count in failed)} | {stated:.1e} |\n"
        if any(count / SEEDS > stated for count in failed):
            raise SystemExit(f"estimates with margin {margin} fail more often than {stated}")
    return text


# -- a long run --------------------------------------------------------------------------------------------------------


def soak(updates: int) -> str:
    rng = np.random.default_rng(0)
    size = 12
    start = rng.standard_normal((size, size)) / 4
    bodies = {
        "A^4": linalg.matrix_power(A, 4, model="exponential"),
        "inv(A + 5 I)": linalg.inv(A + 5 * linalg.identity(n)),
    }
    cases: list[tuple[str, float | None]] = [
        ("A^4", 1e-9),
        ("A^4", None),
        ("inv(A + 5 I)", 1e-9),
        ("inv(A + 5 I)", None),
    ]
    runs = {
        (name, refresh): linalg.program(C=bodies[name]).start(A=start, strategy="incremental", refresh=refresh)
        for name, refresh in cases
    }
    seconds = dict.fromkeys(runs, 0.0)
    for i in range(updates):
        row = rng.standard_normal(size) / 4
        for case, run in runs.items():
            begin = time.process_time()
            run.set_row("A", i % size, row)
            if i % 500 == 7:
                kept = float(run["A"][3, 5])
                run.set("A", 3, 5, 1e12)
                run.set("A", 3, 5, kept)
            seconds[case] += time.process_time() - begin
    text = f"""
## A long run

{updates:,} row updates of a matrix with n = {size}. Every 500th is followed by an entry that is set to 1e12 and back.
Inverses notice it without `refresh=` too, by their capacitance matrix, and warn.

| program | refresh | error | evaluations | of these with a warning | ms for an update |
|---|---|---|---|---|---|
"""
    for (name, refresh), run in runs.items():
        now = np.array(run["A"])
        wanted = power(now, 4) if name == "A^4" else np.linalg.inv(now + 5 * np.eye(size))
        error = distance(run["C"], wanted)
        print(name, refresh, error, flush=True)
        text += (
            f"| {name} | {refresh or 'none'} | {error:.0e} | {run.statistics.recomputed:,} "
            f"| {run.statistics.ill_conditioned:,} | {seconds[name, refresh] / updates * 1e3:.2f} |\n"
        )
    return text


if __name__ == "__main__":
    main()
