"""The figures of the LINVIEW paper on this machine: `python -m bench.linalg_figures [--largest 6000] [--out FOLDER]`.

Figures 3a to 3e, 3g and 3h, and Tables 3 and 4; Figure 3f, the number of Spark nodes, is `bench.linalg_spark`. One row
of an input changes; seconds of processors with BLAS in one thread, which hold on a busy machine. Re-evaluation is that
of the whole program by BLAS and LAPACK as a run starts. Writes `linalg-figures.jsonl`, `linalg-figures.md` and, with
matplotlib, `linalg-figures.png`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from viewlet import linalg
from viewlet.linalg import analyses

K = 16
SIZES = (500, 1000, 2000, 4000, 6000)
FIXED = 1000
"""The size of the figures that vary something else."""
Record = dict[str, Any]

n, p = linalg.dim("n"), linalg.dim("p")
A = linalg.matrix("A", n, n, dynamic=True)
X = linalg.matrix("X", n, n, dynamic=True)
Y, T = linalg.matrix("Y", n, p), linalg.matrix("T", n, p)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--largest", type=int, default=SIZES[-1])
    arguments.add_argument("--fixed", type=int, default=FIXED)
    arguments.add_argument("--steps", type=int, default=5)
    arguments.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    arguments.add_argument(
        "--figures", nargs="*", default=[*TITLES, "T4"], help="the others stay as they were measured"
    )
    given = arguments.parse_args()
    file = given.out / "linalg-figures.jsonl"
    known = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    records = [one for one in map(json.loads, known) if one["figure"] not in given.figures]
    sizes = [size for size in SIZES if size <= given.largest]
    with threadpool_limits(1):
        for record in figures(set(given.figures), sizes, given.fixed, given.steps):
            records.append(record)
            print(json.dumps(record), flush=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    drawn = draw(given.out / "linalg-figures.png", records)
    (given.out / "linalg-figures.md").write_text(report(records, drawn), encoding="utf-8")


def figures(wanted: set[str], sizes: list[int], fixed: int, steps: int) -> Iterator[Record]:
    """The measurements of some figures, small ones first."""
    for model in ("linear", "skip-2", "skip-4", "skip-8", "exponential", "telescoped") if "3a" in wanted else ():
        yield measured("3a", model, linalg.program(C=linalg.matrix_power(A, K, model=model)), fixed, steps)
    for k in (4, 8, 16, 32, 64, 128, 256) if "3c" in wanted else ():
        yield measured("3c", k, linalg.program(C=linalg.matrix_power(A, k, model="exponential")), fixed, steps)
    for columns in (1, 4, 16, 64, 256) if "3g" in wanted else ():
        program = linalg.program(C=linalg.iterate(A, None, T, steps=K, model="linear"))
        for strategy in ("incremental", "hybrid", "auto"):
            yield measured("3g", columns, program, fixed, steps, columns, strategy)
    for model in ("linear", "skip-2", "skip-4", "skip-8", "exponential") if "3h" in wanted else ():
        program = linalg.program(C=analyses.gradient_descent(X, Y, T, rate=1e-4, steps=K, model=model))
        yield measured("3h", model, program, fixed, steps, fixed // 10)
    for factor in (5.0, 4.0, 3.0, 2.0, 1.0, 0.0) if "T4" in wanted else ():
        yield zipf(fixed, factor)
    large = {
        "3b": linalg.program(C=linalg.matrix_power(A, K, model="exponential")),
        "3d": linalg.program(C=linalg.power_sum(A, K, model="exponential")),
        "3e": linalg.program(C=analyses.least_squares(X, Y)),
    }
    for size in sizes:
        for figure, program in large.items():
            if figure in wanted:
                yield measured(figure, size, program, size, steps)


def inputs(program: linalg.Program, size: int, columns: int) -> dict[str, Any]:
    rng = np.random.default_rng(size)
    square = rng.standard_normal((size, size)) / (1.02 * size**0.5)
    made = {"A": square, "X": square + 4 * np.eye(size)}
    made |= {name: rng.standard_normal((size, columns)) for name in ("Y", "T")}
    return {each.name: made[each.name] for each in program.inputs}


def measured(
    figure: str,
    value: Any,
    program: linalg.Program,
    size: int,
    steps: int,
    columns: int = 1,
    strategy: str = "incremental",
) -> Record:
    """The seconds of a one-row update and of re-evaluation, and the bytes of all matrices."""
    given = inputs(program, size, columns)
    name = next(each.name for each in program.inputs if each.dynamic)
    rng = np.random.default_rng(1)
    begin = time.process_time()
    run = program.start(**given, strategy=strategy, copy=False)
    again = time.process_time() - begin
    if again < 2.0:  # a start plans and calibrates besides
        begin = time.process_time()
        run.refresh()
        again = time.process_time() - begin
    taken = []
    for i in range(steps + 1):
        row = rng.standard_normal(size) / (1.02 * size**0.5)
        row[i] += 4.0 * (name == "X")  # the system stays well-conditioned
        begin = time.process_time()
        run.set_row(name, i, row)
        taken.append(time.process_time() - begin)
    stored = sum(array.nbytes for array in run._matrices.stored.values())
    own = sum(array.nbytes for array in given.values()) + run[next(iter(program.outputs))].nbytes
    return {
        "figure": figure,
        "value": value,
        "n": size,
        "strategy": strategy,
        "update": statistics.median(taken[1:]),
        "reevaluation": again,
        "bytes": stored,
        "bytes_without": own,
    }


def zipf(size: int, factor: float) -> Record:
    """A batch of 1,000 row updates whose rows are drawn from a Zipf distribution."""
    program = linalg.program(C=linalg.matrix_power(A, K, model="exponential"))
    run = program.start(**inputs(program, size, 1), strategy="auto")
    rng = np.random.default_rng(7)
    weights = np.arange(1, size + 1) ** -factor
    rows = rng.choice(size, 1000, p=weights / weights.sum())
    change = np.zeros((size, size))
    np.add.at(change, rows, rng.standard_normal((1000, size)) * 1e-4)
    taken = []
    for sign in (1.0, -1.0, 1.0):
        begin = time.process_time()
        run.add("A", sign * change)
        taken.append(time.process_time() - begin)
    begin = time.process_time()
    run.refresh()
    again = time.process_time() - begin
    found = {"figure": "T4", "value": factor, "n": size, "rows": len(set(rows.tolist()))}
    return found | {"update": statistics.median(taken), "reevaluation": again}


# -- the record --------------------------------------------------------------------------------------------------------

TITLES = {
    "3a": ("A^16 by models of iteration", "model"),
    "3b": ("A^16, exponential, over n", "n"),
    "3c": ("A^k, exponential, over k", "k"),
    "3d": ("I + ... + A^15, exponential, over n", "n"),
    "3e": ("least squares over n", "n"),
    "3g": ("16 steps of T := A T over columns of T", "p"),
    "3h": ("16 steps of gradient descent by models", "model"),
}


def report(records: list[Record], drawn: bool) -> str:
    text = """# The figures of LINVIEW

Written by `python -m bench.linalg_figures`: one row of an input changes, k = 16 where nothing else is said.
Milliseconds of processors, medians, with BLAS in one thread. Re-evaluation is that of the whole program by BLAS and
LAPACK. Figure 3f, the number of nodes, is in [linalg-spark.md](linalg-spark.md).
"""
    if drawn:
        text += "\n![figures 3a to 3h and table 4](linalg-figures.png)\n"
    for figure, (title, name) in TITLES.items():
        own = [one for one in records if one["figure"] == figure]
        if own:
            size = "" if name == "n" else f", n = {own[0]['n']:,}"
            text += (
                f"\n## Figure {figure}: {title}{size}\n\n| {name} | strategy | update | re-evaluation | speed-up |\n"
            )
            text += "|---|---|---|---|---|\n"
            for one in own:
                text += f"| {one['value']} | {one['strategy']} | {_ms(one['update'])} | {_ms(one['reevaluation'])} "
                text += f"| {one['reevaluation'] / one['update']:.1f}x |\n"
    text += "\n## Table 3: memory against speed-up, A^16\n\n"
    text += (
        "| n | MB re-evaluated | MB incremental | memory | speed-up | speed-up / memory |\n|---|---|---|---|---|---|\n"
    )
    for one in (one for one in records if one["figure"] == "3b"):
        memory, speed = one["bytes"] / one["bytes_without"], one["reevaluation"] / one["update"]
        text += f"| {one['n']:,} | {one['bytes_without'] / 1e6:,.0f} | {one['bytes'] / 1e6:,.0f} | {memory:.1f}x "
        text += f"| {speed:.1f}x | {speed / memory:.1f} |\n"
    text += "\n## Table 4: batches of 1,000 row updates by a Zipf distribution, A^16, `auto`\n\n"
    text += "| factor | rows that change | batch | re-evaluation |\n|---|---|---|---|\n"
    for one in (one for one in records if one["figure"] == "T4"):
        text += f"| {one['value']:g} | {one['rows']} | {_ms(one['update'])} | {_ms(one['reevaluation'])} |\n"
    return text


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f}" if seconds >= 0.1 else f"{seconds * 1e3:.3g}"


def draw(file: Path, records: list[Record]) -> bool:
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 4, figsize=(18, 8))
    for axis, (name, (title, label)) in zip(
        axes.flat, [*TITLES.items(), ("T4", ("Zipf batches", "factor"))], strict=True
    ):
        own = [one for one in records if one["figure"] == name]
        strategies = list(dict.fromkeys(one.get("strategy", "auto") for one in own))
        for strategy in strategies:
            line = [one for one in own if one.get("strategy", "auto") == strategy]
            axis.plot(_places(line), [one["update"] * 1e3 for one in line], marker="o", label=strategy)
        line = [one for one in own if one.get("strategy", "auto") == strategies[0]] if own else []
        axis.plot(_places(line), [one["reevaluation"] * 1e3 for one in line], marker="s", label="re-evaluation")
        axis.set_yscale("log")
        if name in ("3b", "3c", "3d", "3e", "3g"):
            axis.set_xscale("log", base=2)
        axis.set_title(f"{'Table 4' if name == 'T4' else name}: {title}", fontsize=9)
        axis.set_xlabel(label)
        axis.legend(fontsize=7)
    axes[0][0].set_ylabel("ms of processors")
    axes[1][0].set_ylabel("ms of processors")
    figure.tight_layout()
    figure.savefig(file, dpi=100)
    return True


def _places(line: list[Record]) -> list[Any]:
    return [one["value"] for one in line]


if __name__ == "__main__":
    main()
