"""Is "auto" as fast as the best fixed strategy? `python -m bench.linalg_strategies [--out docs/benchmarks]`.

Programs, sizes and ranks of updates on both sides of the crossovers, and batches of 1,000 row updates whose rows are
drawn from Zipf distributions (Table 4 of the LINVIEW paper). Seconds of processors, medians, all strategies in turns,
each of them first in one of four rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from viewlet import linalg

STRATEGIES = ("incremental", "hybrid", "reevaluate", "auto")
SMALL = 400
"""Matrices up to this size, whose updates take less than a millisecond or two, are updated more often."""
n, p = linalg.dim("n"), linalg.dim("p")
A = linalg.matrix("A", n, n, dynamic=True)
B, T = linalg.matrix("B", n, p), linalg.matrix("T", n, p)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    arguments.add_argument("--steps", type=int, default=5)
    given = arguments.parse_args()
    with threadpool_limits(1):
        text = compare(given.steps) + batches()
    (given.out / "linalg-strategies.md").write_text(text, encoding="utf-8")
    print(text)


def inputs(size: int, columns: int) -> dict[str, Any]:
    rng = np.random.default_rng(size)
    found = {"A": rng.standard_normal((size, size)) / (1.02 * size**0.5)}
    return found | {"B": rng.standard_normal((size, columns)), "T": rng.standard_normal((size, columns))}


def cases() -> list[tuple[str, linalg.Program, dict[str, Any], int]]:
    """Programs with their inputs and the rank of an update."""
    found = []
    for size, rank in ((50, 1), (200, 1), (200, 60), (800, 1), (800, 16), (800, 200)):
        power = linalg.program(C=linalg.matrix_power(A, 8, model="exponential"))
        found.append((f"A^8, n = {size}", power, {"A": inputs(size, 1)["A"]}, rank))
    for k, rank in ((2, 1), (32, 1), (128, 1), (128, 4)):
        power = linalg.program(C=linalg.matrix_power(A, k, model="exponential"))
        found.append((f"A^{k}, n = 400", power, {"A": inputs(400, 1)["A"]}, rank))
    for size, columns, rank in ((300, 1, 1), (300, 40, 1), (800, 1, 1), (800, 100, 1), (800, 100, 20)):
        steps = linalg.program(C=linalg.iterate(A, B, T, steps=8, model="linear"))
        found.append((f"8 steps of T := A T + B, n = {size}, p = {columns}", steps, inputs(size, columns), rank))
    return found


def compare(steps: int) -> str:
    text = """# Strategies of matrix programs

Written by `python -m bench.linalg_strategies`, in one thread. Milliseconds of the processor for
one update, medians; the last column is "auto" over the best of the other three.

| program | rank | incremental | hybrid | re-evaluated | auto | auto / best |
|---|---|---|---|---|---|---|
"""
    for name, program, given, rank in cases():
        runs = {strategy: program.start(**given, strategy=strategy) for strategy in STRATEGIES}
        rng = np.random.default_rng(1)
        taken: dict[str, list[float]] = {strategy: [] for strategy in STRATEGIES}
        size = len(given["A"])
        for step in range((steps if size > SMALL else 8 * steps) + 1):
            u, v = rng.standard_normal((size, rank)) / size, rng.standard_normal((size, rank)) / size
            turn = step % len(STRATEGIES)  # what runs after re-evaluation finds caches full of its matrices
            for strategy in STRATEGIES[turn:] + STRATEGIES[:turn]:
                run = runs[strategy]
                taken[strategy].append(seconds(lambda run=run, u=u, v=v: run.update("A", u, v)))  # type: ignore[misc]
        middle = {strategy: statistics.median(times[1:]) for strategy, times in taken.items()}
        ratio = middle["auto"] / min(middle[strategy] for strategy in STRATEGIES[:3])
        times = " | ".join(f"{middle[strategy] * 1e3:.3g}" for strategy in STRATEGIES)
        text += f"| {name} | {rank} | {times} | {ratio:.2f} |\n"
    return text


def batches() -> str:
    """Batches of 1,000 row updates: the more often a row repeats, the fewer factors are left."""
    text = """
A batch of 1,000 row updates of A, A^16 by the exponential model, n = 1,000; rows by a Zipf distribution.

| Zipf factor | rows that change | incremental, ms | auto, ms | re-evaluated, ms | auto / best |
|---|---|---|---|---|---|
"""
    given = {"A": inputs(1000, 1)["A"]}
    program = linalg.program(C=linalg.matrix_power(A, 16, model="exponential"))
    runs = {strategy: program.start(**given, strategy=strategy) for strategy in ("incremental", "auto", "reevaluate")}
    for factor in (5.0, 4.0, 3.0, 2.0, 1.0, 0.0):
        rng = np.random.default_rng(7)
        weights = np.arange(1, 1001) ** -factor
        rows = rng.choice(1000, 1000, p=weights / weights.sum())
        change = np.zeros((1000, 1000))
        np.add.at(change, rows, rng.standard_normal((1000, 1000)) * 1e-4)
        taken = {
            strategy: statistics.median(
                seconds(lambda run=run, change=change: run.add("A", change))  # type: ignore[misc]
                for _ in range(3)
            )
            for strategy, run in runs.items()
            if strategy != "incremental" or len(set(rows.tolist())) <= 200
        }
        shown = [f"{taken[each] * 1e3:,.0f}" if each in taken else "" for each in ("incremental", "auto", "reevaluate")]
        ratio = taken["auto"] / min(time for strategy, time in taken.items() if strategy != "auto")
        text += f"| {factor:g} | {len(set(rows.tolist()))} | {' | '.join(shown)} | {ratio:.2f} |\n"
    return text


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


if __name__ == "__main__":
    main()
