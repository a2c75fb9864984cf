"""The benchmark: every query, mode and rival asked for, each in a process of its own, then tables and plots.

python -m bench.run --scale 0.1 --workload all --finance-file orderbook.csv.gz
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import records
from bench.worker import WITHOUT_PATHWAY, Spec, has_pathway

ROOT = Path(__file__).parents[1]
GRACE = 90.0
"""Seconds a measurement may spend on reading, coding, compiling and checking, on top of its own time limit."""

WORKLOADS = {"tpch": [f"q{n:02}" for n in range(1, 23)], "finance": ["axf", "bsp", "bsv", "mst", "psp", "vwap"]}


RIVALS = {"duckdb": "recompute", "pathway": "dataflow"}
"""Rivals, and what they do with a batch."""


def names(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def main(
    workload: Annotated[str, typer.Option(help="tpch, finance or all")] = "tpch",
    scale: Annotated[float, typer.Option(help="TPC-H scale factor")] = 0.1,
    queries: Annotated[str, typer.Option(help="q01,q03,...; all when empty")] = "",
    modes: Annotated[str, typer.Option(help="any of batch, single, compile, check")] = "batch,single,compile,check",
    batch_sizes: Annotated[str, typer.Option(help="batch sizes of the batch mode")] = "1000",
    strategies: Annotated[
        str, typer.Option(help="any of auto, higher-order, view-tree, first-order, recompute")
    ] = "auto",
    rivals: Annotated[str, typer.Option(help="any of duckdb, pathway (TPC-H, where installed)")] = "duckdb,pathway",
    rival_batch: Annotated[int, typer.Option(help="batch size for rivals and for lower strategies")] = 1000,
    threads: Annotated[int, typer.Option(help="threads of DuckDB; 0 leaves the choice to it")] = 0,
    stream: Annotated[str, typer.Option(help="insert, or churn: the oldest rows leave")] = "insert",
    working_set: Annotated[float, typer.Option(help="share of each table that a churning stream keeps")] = 0.25,
    repeats: Annotated[int, typer.Option(help="passes over the stream")] = 2,
    timeout: Annotated[float, typer.Option(help="seconds per measurement")] = 60.0,
    finance_file: Annotated[str, typer.Option(help="csv or csv.gz of order-book messages; generated when empty")] = "",
    data: Annotated[Path, typer.Option(help="where generated tables are kept")] = ROOT / "bench" / "results" / "data",
    out: Annotated[Path, typer.Option(help="where results go")] = ROOT / "docs" / "benchmarks",
    fresh: Annotated[bool, typer.Option(help="forget earlier results of the same name")] = False,
    calibration: Annotated[bool, typer.Option(help="measure the machine's unit before and after")] = True,
    plots: Annotated[bool, typer.Option(help="draw plots")] = True,
) -> None:
    """Measure, and write tables, plots and JSON lines."""
    for name in list(WORKLOADS) if workload == "all" else [workload]:
        base = Spec(
            name, "", scale=scale if name == "tpch" else 0.0, stream=stream if name == "tpch" else "book",
            working_set=working_set, finance_file=str(Path(finance_file).resolve()) if finance_file else "",
            data=str(data), repeats=repeats, timeout=timeout, threads=threads,
        )  # fmt: skip
        file = out / f"{title(base)}.jsonl"
        if fresh:
            file.unlink(missing_ok=True)
        chosen = [query for query in WORKLOADS[name] if not queries or query in names(queries)]
        sizes = [int(size) for size in names(batch_sizes)]
        plan = planned(base, chosen, names(modes), sizes, names(strategies), fit(names(rivals), name), rival_batch)
        carry_out(list(plan), file, calibration)
        publish(file, plots)


def fit(rivals: list[str], workload: str) -> list[str]:
    """The rivals that can take part: Pathway where it is installed, in the workload that is written for it."""
    if "pathway" not in rivals or (workload == "tpch" and has_pathway()):
        return rivals
    if workload == "tpch":
        print(WITHOUT_PATHWAY, flush=True)
    return [rival for rival in rivals if rival != "pathway"]


def title(spec: Spec) -> str:
    if spec.workload == "finance":
        return "finance-" + (Path(spec.finance_file).name.split(".")[0] if spec.finance_file else "generated")
    return f"tpch-sf{spec.scale:g}" + ("" if spec.stream == "insert" else f"-{spec.stream}")


def planned(
    base: Spec, queries: list[str], modes: list[str], sizes: list[int], strategies: list[str], rivals: list[str],
    rival_batch: int,
) -> Iterator[Spec]:  # fmt: skip
    """All measurements, query by query; other strategies and rivals take one batch size."""
    check = "check" in modes
    for query in queries:
        for strategy in strategies:
            spec = replace(base, query=query, strategy=strategy)
            if strategy == "auto" and "compile" in modes:
                yield replace(spec, mode="compile", batch=0)
            if strategy == "auto" and "single" in modes:
                yield replace(spec, mode="single", batch=1)
            if "batch" in modes:
                for size in sizes if strategy == "auto" else [rival_batch]:
                    yield replace(spec, batch=size, check=check and size == sizes[-1])
        for rival in rivals:
            yield replace(base, query=query, engine=rival, strategy=RIVALS[rival], batch=rival_batch)


def carry_out(plan: list[Spec], file: Path, calibration: bool) -> None:
    """Measures everything between two calibrations; what is done is on disk at any time."""
    run = time.strftime("%Y%m%dT%H%M%S")
    if plan and plan[0].workload == "tpch":
        generate(plan[0])
    machine = {"kind": "machine", "run": run} | machine_facts()
    records.append(file, machine | {"upserts_before": calibrate() if calibration else None})
    for number, spec in enumerate(plan, 1):
        record = compile_record(spec) if spec.mode == "compile" else isolated(spec, caches())
        records.append(file, {"kind": "measurement", "run": run} | record)
        print(f"[{number}/{len(plan)}] {line(record)}", flush=True)
    records.append(file, machine | {"upserts_after": calibrate() if calibration else None})


def generate(spec: Spec) -> None:
    """Makes the tables before the first measurement, whose time limit they would use up."""
    from workloads.tpch import load_tpch

    load_tpch(spec.scale, Path(spec.data))


def compile_record(spec: Spec) -> records.Record:
    """Compile time with every cache empty, then again with what the first process left behind."""
    with tempfile.TemporaryDirectory() as empty:
        environment = {"VIEWLET_CACHE": empty, "NUMBA_CACHE_DIR": empty}
        cold, warm = isolated(spec, environment), isolated(spec, environment)
    for name, record in (("cold_seconds", cold), ("cached_seconds", warm)):
        if record["status"] == "ok":
            parts = ("import_seconds", "plan_seconds", "compile_seconds")
            warm[name] = round(sum(record[part] for part in parts), 3)
    return warm if cold["status"] == "ok" else cold


def isolated(spec: Spec, environment: dict[str, str], tree: Path = ROOT) -> records.Record:
    """One measurement by the code of a checkout, in a process group of its own, killed when it is overdue."""
    paths = os.pathsep.join([str(tree), str(tree / "src"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.worker", json.dumps(asdict(spec))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=tree,
        env=os.environ | {"PYTHONPATH": paths} | environment,
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=spec.timeout + GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return spec.described() | {"status": "timeout"}
    if process.returncode:
        last = errors.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        return spec.described() | {"status": "error", "note": last[0][:300]}
    record: records.Record = json.loads(output.splitlines()[-1])
    return record


def caches() -> dict[str, str]:
    """Compiled code by the engine's sources: Numba does not notice a change in a function that another one calls."""
    digest = hashlib.blake2b(digest_size=6)
    for file in sorted((ROOT / "src" / "viewlet").glob("*/*.py")):
        digest.update(file.read_bytes())
    place = str(ROOT / "bench" / "results" / "cache" / digest.hexdigest())
    return {"VIEWLET_CACHE": place, "NUMBA_CACHE_DIR": place}


def calibrate() -> float:
    finished = subprocess.run(
        [sys.executable, "-m", "bench.calibrate"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    upserts: float = json.loads(finished.stdout)["upserts"]
    print(f"calibration: {upserts} million upserts/s", flush=True)
    return upserts


def machine_facts() -> dict[str, Any]:
    return {
        "processor": _processor(), "cores": os.cpu_count(), "system": platform.system(),
        "python": platform.python_version(), "numba": version("numba"), "numpy": version("numpy"),
        "duckdb": version("duckdb"), "pathway": version("pathway") if has_pathway() else None,
        "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip


def _processor() -> str:
    """The processor's name where the system tells it."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def line(record: records.Record) -> str:
    """A measurement for the eyes of whoever waits."""
    head = f"{record['query']} {record['engine']} {record['strategy']} {record['mode']} {record['batch']}"
    if record["status"] != "ok":
        return f"{head}: {record['status']} {record.get('note', '')}"
    if record["mode"] == "compile":
        return f"{head}: {record['cold_seconds']} s cold, {record.get('cached_seconds')} s cached"
    checked = {None: "", True: ", answer checked", False: ", WRONG ANSWER"}[record.get("correct")]
    part = "" if record["finished"] else f" over the first {record['tuples']} tuples"
    return f"{head}: {records.rate(record):,.0f} tuples/s{part}{checked}"


def publish(file: Path, plots: bool) -> None:
    from bench import report

    drawn: list[Path] = []
    if plots:
        try:
            from bench import plot

            drawn = plot.draw(file)
        except ImportError:
            print("no plots: matplotlib is not installed (pip install -r bench/requirements.txt)")
    print(f"wrote {report.write(file, drawn)}")


if __name__ == "__main__":
    typer.run(main)
