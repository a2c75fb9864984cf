"""Matrix programs on this machine: `python -m bench.linalg [--sizes 500 1000 2000 4000] [--out docs/benchmarks]`.

Each program is updated one row at a time, beside re-evaluation with BLAS and a step written with plain NumPy, in turns,
so that what else runs on the machine slows all of them. Seconds of processors are given besides those of the clock:
their ratios hold on a busy machine too. The limit is, for each matrix that a step touches, the longer of its bytes by
the bandwidth of additions in place and its operations by the rate of a product of matrices, both measured in all
threads between the steps: the speed of a processor changes within seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from viewlet import linalg
from viewlet.linalg.cost import seconds
from viewlet.linalg.machine import Machine

THREADS = len(os.sched_getaffinity(0))
POWER = 16
REST = 0.06
"""Seconds before a step: threads of BLAS that have just finished keep the processors busy for a while."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000, 4000])
    arguments.add_argument("--largest", type=int, default=6000, help="a size of the first program only; 0 for none")
    arguments.add_argument("--steps", type=int, default=9)
    arguments.add_argument("--again", type=int, default=2, help="re-evaluations")
    arguments.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    arguments.add_argument("--programs", nargs="+", default=list(PROGRAMS))
    given = arguments.parse_args()
    records = []
    with threadpool_limits(THREADS):
        rates = Rates()
        for name in given.programs:
            sizes = [*given.sizes, *([given.largest] if given.largest and name == next(iter(PROGRAMS)) else [])]
            for n in sizes:
                record = measure(name, n, given.steps, given.again if n <= max(given.sizes) else 1, rates)
                records.append(record)
                print(json.dumps(record), flush=True)
    file = given.out / "linalg.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    (given.out / "linalg.md").write_text(report(records), encoding="utf-8")


class Rates:
    """Multiplications with an addition, and bytes read and written in place, in a second by all threads."""

    def __init__(self) -> None:
        self.factor = np.random.default_rng(0).standard_normal((1200, 1200))
        self.large = np.zeros((4000, 4000))
        self.pool = ThreadPoolExecutor(THREADS)
        self.found: list[tuple[float, float]] = []

    def begin(self) -> None:
        """Forgets what was measured."""
        self.found = []

    def measure(self) -> None:
        """Measures both, which takes some hundredths of a second."""
        product, _ = clock(lambda: self.factor @ self.factor)
        traffic, _ = clock(lambda: list(self.pool.map(self._add, range(THREADS))))
        self.found.append((len(self.factor) ** 3 / product, 2 * self.large.nbytes / traffic))

    def _add(self, part: int) -> None:
        share = len(self.large) // THREADS
        rows = self.large[part * share : (part + 1) * share]
        np.add(rows, 1.0, out=rows)

    def machine(self) -> Machine:
        """The medians of what was measured."""
        operations, bandwidth = (statistics.median(each) for each in zip(*self.found, strict=True))
        return Machine(operations, bandwidth, 0.0, 8)


def clock(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock and of processors."""
    begin, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begin, time.process_time() - used


# -- programs ----------------------------------------------------------------------------------------------------------


class Case:
    """A program with its inputs, the row that an update changes, and how it is evaluated without us."""

    def __init__(
        self,
        program: linalg.Program,
        inputs: dict[str, Any],
        name: str,
        row: Callable[[np.random.Generator], Any],
        evaluate: Callable[[dict[str, Any]], Any],
        step: Callable[[dict[str, Any], int, Any], None] | None = None,
    ) -> None:
        self.program = program
        self.inputs = inputs
        self.name = name
        self.row = row
        self.evaluate = evaluate
        self.step = step


def small(rng: np.random.Generator, *shape: int) -> Any:
    """Random numbers that give a square matrix a spectral radius below one."""
    return rng.standard_normal(shape) / (1.02 * shape[-1] ** 0.5)


def powers(n: int) -> Case:
    rng = np.random.default_rng(n)
    size = linalg.dim("n")
    a = linalg.matrix("A", size, size, dynamic=True)
    program = linalg.program(C=linalg.matrix_power(a, POWER, model="exponential"))
    chain: list[Any] = []

    def evaluate(inputs: dict[str, Any]) -> Any:
        power = inputs["A"]
        for _ in range(4):
            power = power @ power
        return power

    def step(inputs: dict[str, Any], place: int, row: Any) -> None:
        """Factored deltas by hand, as one would write them with NumPy."""
        if not chain:
            chain.append(inputs["A"].copy())
            for _ in range(4):
                chain.append(chain[-1] @ chain[-1])
        u, v = np.zeros((n, 1)), (row - chain[0][place])[:, None]
        u[place] = 1.0
        for power in chain:
            new_u = np.hstack([u, power @ u + u @ (v.T @ u)])
            new_v = np.hstack([power.T @ v, v])
            power += u @ v.T
            u, v = new_u, new_v

    return Case(program, {"A": small(rng, n, n)}, "A", lambda rng: small(rng, n), evaluate, step)


def sums(n: int) -> Case:
    rng = np.random.default_rng(n)
    size = linalg.dim("n")
    a = linalg.matrix("A", size, size, dynamic=True)
    program = linalg.program(C=linalg.power_sum(a, POWER, model="exponential"))

    def evaluate(inputs: dict[str, Any]) -> Any:
        power, total = inputs["A"], np.eye(n) + inputs["A"]
        for _ in range(3):
            power = power @ power
            total = power @ total + total
        return total

    return Case(program, {"A": small(rng, n, n)}, "A", lambda rng: small(rng, n), evaluate)


def iteration(n: int) -> Case:
    """T := A T + B with as many columns as a tenth of the rows."""
    rng = np.random.default_rng(n)
    size, p = linalg.dim("n"), linalg.dim("p")
    a = linalg.matrix("A", size, size, dynamic=True)
    b, t = linalg.matrix("B", size, p), linalg.matrix("T", size, p)
    program = linalg.program(C=linalg.iterate(a, b, t, steps=POWER))
    inputs = {"A": small(rng, n, n), "B": rng.standard_normal((n, n // 10)), "T": rng.standard_normal((n, n // 10))}

    def evaluate(inputs: dict[str, Any]) -> Any:
        found = inputs["T"]
        for _ in range(POWER):
            found = inputs["A"] @ found + inputs["B"]
        return found

    return Case(program, inputs, "A", lambda rng: small(rng, n), evaluate)


def least_squares(n: int) -> Case:
    """m = 2 n rows; re-evaluation forms X'X and solves by Cholesky."""
    from scipy.linalg import cho_factor, cho_solve

    rng = np.random.default_rng(n)
    program = linalg.program("input X(m, n); static Y(m, p); beta := inv(X' * X) * X' * Y;")
    inputs = {"X": rng.standard_normal((2 * n, n)), "Y": rng.standard_normal((2 * n, 1))}

    def evaluate(inputs: dict[str, Any]) -> Any:
        x = inputs["X"]
        return cho_solve(cho_factor(x.T @ x), x.T @ inputs["Y"])

    return Case(program, inputs, "X", lambda rng: rng.standard_normal(n), evaluate)


def maintained_gram(n: int) -> Case:
    """As above, beside a rival that maintains X'X and X'Y and solves by Cholesky."""
    from scipy.linalg import cho_factor, cho_solve

    case = least_squares(n)
    x, y = case.inputs["X"], case.inputs["Y"]
    gram, cross = x.T @ x, x.T @ y
    case.evaluate = lambda inputs: cho_solve(cho_factor(gram), cross)
    return case


PROGRAMS: dict[str, Callable[[int], Case]] = {
    "A^16, exponential": powers,
    "I + ... + A^15, exponential": sums,
    "16 steps of T := A T + B, p = n/10": iteration,
    "least squares": least_squares,
    "least squares, X'X maintained": maintained_gram,
}


# -- measurements ------------------------------------------------------------------------------------------------------


def measure(name: str, n: int, steps: int, again: int, rates: Rates) -> dict[str, Any]:
    case = PROGRAMS[name](n)
    rng = np.random.default_rng(1)
    run = case.program.start(**case.inputs, strategy="incremental")
    inputs = {key: value.copy() for key, value in case.inputs.items()}
    outcome: list[Any] = []
    found: dict[str, list[tuple[float, float]]] = {"incremental": [], "reevaluation": [], "numpy": []}
    rates.begin()
    for place in range(steps):
        row = case.row(rng)
        rates.measure()
        if case.step is not None and place < 5:
            found["numpy"].append(clock(lambda place=place, row=row: case.step(inputs, place, row)))  # type: ignore[misc]
        inputs[case.name][place] = row
        time.sleep(REST)
        found["incremental"].append(clock(lambda place=place, row=row: run.set_row(case.name, place, row)))  # type: ignore[misc]
        if place >= steps - again:
            found["reevaluation"].append(clock(lambda: outcome.append(case.evaluate(inputs))))
    output = next(iter(case.program.outputs))
    error = None
    if name != "least squares, X'X maintained":
        error = float(np.linalg.norm(run[output] - outcome[-1]) / np.linalg.norm(outcome[-1]))
    plan = run._matrices.last
    assert plan is not None
    machine = rates.machine()
    record = {"program": name, "n": n, "error": error, "limit": seconds(plan.steps, run._matrices.sizes, machine)}
    for kind, times in found.items():
        kept = times[1:] if kind != "reevaluation" else times
        if kept:
            record[kind] = statistics.median(wall for wall, _ in kept)
            record[f"{kind}_cpu"] = statistics.median(cpu for _, cpu in kept)
    record |= {"threads": THREADS, "gflops": 2 * machine.operations / 1e9, "gb_s": machine.bandwidth / 1e9}
    return record


INTRODUCTION = """# Matrix programs

Written by `python -m bench.linalg`: {threads} threads, products of matrices at {gflops} GFLOP/s, additions in place
at {gb_s} GB/s, both measured between the steps. One row of the input changes; medians in milliseconds, of the clock
and (cpu) of all processors together. Re-evaluation is BLAS and LAPACK in all threads; NumPy is a step of factored
deltas written by hand. The limit is the sum over the passes of a step of the longer of bytes and operations at these
rates, and a step takes so many times that by the clock. The speed-up is that of processor time, which holds on a busy
machine.
"""


def report(records: list[dict[str, Any]]) -> str:
    text = INTRODUCTION.format(
        threads=records[0]["threads"], gflops=_range(records, "gflops"), gb_s=_range(records, "gb_s")
    )
    text += "\n| program | n | Viewlet | cpu | NumPy by hand, cpu | re-evaluation | cpu | speed-up "
    text += "| limit | times the limit | error |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
    for one in records:
        ratio = one["reevaluation_cpu"] / one["incremental_cpu"]
        by_hand = _ms(one, "numpy_cpu") if "numpy_cpu" in one else ""
        error = f"{one['error']:.0e}" if one["error"] is not None else ""
        text += (
            f"| {one['program']} | {one['n']:,} | {_ms(one, 'incremental')} | {_ms(one, 'incremental_cpu')} "
            f"| {by_hand} "
            f"| {_ms(one, 'reevaluation')} | {_ms(one, 'reevaluation_cpu')} | {ratio:.0f}x "
            f"| {_ms(one, 'limit')} | {one['incremental'] / one['limit']:.1f} | {error} |\n"
        )
    return text


def _range(records: list[dict[str, Any]], key: str) -> str:
    """The rates that were measured, which differ where programs were measured apart on a busy machine."""
    least, most = (round(choice(record[key] for record in records)) for choice in (min, max))
    return f"{least}" if least == most else f"{least} to {most}"


def _ms(record: dict[str, Any], key: str) -> str:
    return f"{record[key] * 1e3:,.0f}" if record[key] >= 0.1 else f"{record[key] * 1e3:.3g}"


if __name__ == "__main__":
    main()
