"""Results of the ring benchmarks: one file of JSON lines for all of them, of each benchmark the last run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

from bench.records import Record
from bench.run import ROOT, machine_facts

OUT = ROOT / "docs" / "benchmarks"
FILE = "rings.jsonl"

clock = process_time
"""Everything measured here has one thread, whose own time does not count what else the machine does."""


@dataclass(slots=True)
class Recorder:
    """Collects the measurements of one benchmark."""

    bench: str
    found: list[Record] = field(default_factory=list)

    def add(self, **facts: Any) -> Record:
        record = {"kind": "measurement", "bench": self.bench} | facts
        self.found.append(record)
        print(f"{self.bench}: {', '.join(f'{name} {_short(value)}' for name, value in facts.items())}", flush=True)
        return record


@contextmanager
def recording(bench: str, out: Path, calibrated: bool = True, **settings: Any) -> Iterator[Recorder]:
    """Runs a benchmark; then its records replace those of its last run, and the page is rewritten."""
    recorder = Recorder(bench)
    before = _unit() if calibrated else None
    yield recorder
    machine = {"kind": "machine", "bench": bench, "settings": settings} | machine_facts()
    machine |= {"upserts_before": before, "upserts_after": _unit() if calibrated else None}
    others = [record for record in read(out) if record["bench"] != bench]
    out.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(record) for record in [*others, machine, *recorder.found])
    (out / FILE).write_text("\n".join(lines) + "\n")
    from bench.rings_report import write

    print(f"wrote {write(out)}")


def _unit() -> float:
    """This machine's unit by the same clock as the measurements."""
    from bench.calibrate import million_upserts_per_second

    upserts = round(million_upserts_per_second(clock=clock), 2)
    print(f"calibration: {upserts} million upserts/s", flush=True)
    return upserts


def read(out: Path) -> list[Record]:
    file = out / FILE
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def best_seconds(work: Callable[[], object], repeats: int) -> float:
    """The fastest of some runs: what the others took more is the machine's."""
    found = []
    for _ in range(repeats):
        started = clock()
        work()
        found.append(clock() - started)
    return min(found)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"[{len(value)}]"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
