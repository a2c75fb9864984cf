"""How long declaring a view takes, and how that grows with the query.

python -m bench.declare --before ../other/src --out docs/benchmarks/declare.md
python -m bench.declare --host spark

Each family of `declare_queries` is declared at growing sizes, one process per declaration; with `--before`, by another
source tree as well, case by case in the same run. The exponent is the slope of the last two sizes that were measured on
logarithmic axes: 1 is linear, 2 quadratic. Once a size runs out of time, larger ones are not tried. On the host of
Spark, which needs no JVM for this, a column of its own says what it took to write the code that executors would run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from math import log
from pathlib import Path
from typing import Annotated

import typer

from bench.declare_queries import FAMILIES, Family
from bench.run import ROOT

LIMIT = 2.0
"""Seconds for any query of up to ten joins, five nested aggregates and a thousand conditions."""
NOISE = 0.05
"""Seconds below which nothing is said about growth."""

IMPORTS = 3
"""Seconds that a process may take before it declares anything."""

Times = dict[int, float | None]
"""Seconds for each size; None where it failed or ran out of time."""


class Host(StrEnum):
    """Where views are declared."""

    PROCESS = "process"
    SPARK = "spark"


@dataclass(slots=True)
class Measured:
    """What one source tree took for the sizes of a family."""

    declared: Times = field(default_factory=dict)
    generated: Times = field(default_factory=dict)
    """For writing the code of executors."""


def main(
    before: Annotated[Path | None, typer.Option(help="source tree to compare with")] = None,
    families: Annotated[str, typer.Option(help="families to measure, separated by ';'")] = "",
    timeout: Annotated[float, typer.Option(help="seconds of CPU per declaration")] = 30.0,
    repeats: Annotated[int, typer.Option(help="the fastest of so many")] = 1,
    out: Annotated[Path | None, typer.Option(help="where the table goes")] = None,
    host: Annotated[Host, typer.Option(help="where views are declared")] = Host.PROCESS,
) -> None:
    """Declare every family at every size, and write a table."""
    trees = {"after": ROOT / "src"} | ({"before": before} if before else {})
    rows = []
    for name, family in FAMILIES.items():
        if families and name not in families.split(";"):
            continue
        measured = {tree: Measured() for tree in trees}
        for size in family.sizes:
            for tree, path in trees.items():
                found = measured[tree]
                if None not in found.declared.values():
                    found.declared[size], found.generated[size] = seconds(path, name, size, timeout, repeats, host)
        rows += table_rows(name, family, measured, timeout, host)
        print("\n".join(table_rows(name, family, measured, timeout, host)), flush=True)
    page = "\n".join([*header(bool(before), host), *rows, ""])
    if out:
        out.write_text(page)


def seconds(
    source: Path, family: str, size: int, timeout: float, repeats: int, host: Host
) -> tuple[float | None, float | None]:
    """The fastest of some declarations, and of writing their code, in processes that import viewlet from `source`."""
    environment = os.environ | {"PYTHONPATH": f"{source.resolve()}:{ROOT}", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "bench.declare_queries", family, str(size), host]
    found: list[list[float]] = []
    for _ in range(repeats):
        limited = ["prlimit", f"--cpu={round(timeout) + IMPORTS}", *command]
        done = subprocess.run(limited, env=environment, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            print(done.stderr.strip().splitlines()[-1:], file=sys.stderr)
        found.append([float(line) for line in done.stdout.splitlines()])
    declared, generated = ([each[i] for each in found if len(each) > i] for i in range(2))
    return min(declared, default=None), min(generated, default=None)


def exponent(times: Times) -> str:
    """The slope between the last two sizes on logarithmic axes."""
    known = [(size, each) for size, each in times.items() if each is not None and each > NOISE]
    if len(known) < 2:
        return ""
    (small, fast), (large, slow) = known[-2:]
    return f"{log(slow / fast) / log(large / small):.1f}"


def header(compared: bool, host: Host) -> list[str]:
    names = ["family", "size", *(["before (s)"] if compared else []), "after (s)"]
    if host is Host.SPARK:
        names += [*(["code before (s)"] if compared else []), "code after (s)"]
    names += [*(["exponent before"] if compared else []), "exponent"]
    return ["|" + "|".join(f" {name} " for name in names) + "|", "|---" * len(names) + "|"]


def table_rows(name: str, family: Family, measured: dict[str, Measured], timeout: float, host: Host) -> list[str]:
    trees = [measured[tree] for tree in ("before", "after") if tree in measured]
    lines = []
    for size in family.sizes:
        cells = [name, f"{size:,}", *(_cell(tree.declared, size, timeout) for tree in trees)]
        if host is Host.SPARK:
            cells += [_cell(tree.generated, size, timeout) for tree in trees]
        last = size == family.sizes[-1]
        cells += [exponent(tree.declared) if last else "" for tree in trees]
        lines.append("|" + "|".join(f" {cell} " for cell in cells) + "|")
    return lines


def _cell(times: Times, size: int, timeout: float) -> str:
    if size not in times:
        return "–"
    found = times[size]
    return f"> {timeout:g}" if found is None else f"{found:.3f}"


if __name__ == "__main__":
    typer.run(main)
