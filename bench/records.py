"""Results as JSON lines: appended during a run, read back for tables and plots.

A line is a measurement or a machine, both marked with the run they belong to. Of several measurements of the same thing
the last one counts.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Record = dict[str, Any]
IDENTITY = ("query", "engine", "strategy", "mode", "batch")


@dataclass(frozen=True, slots=True)
class Results:
    measurements: list[Record]
    machines: dict[str, Record]

    def find(self, query: str, **wanted: Any) -> Record | None:
        """The usable measurement of a query with these properties, if there is one."""
        for record in self.measurements:
            matches = all(record.get(name) == value for name, value in wanted.items())
            if record["query"] == query and matches and record["status"] == "ok":
                return record
        return None

    def all(self, **wanted: Any) -> Iterator[Record]:
        for record in self.measurements:
            if all(record.get(name) == value for name, value in wanted.items()):
                yield record

    @property
    def queries(self) -> list[str]:
        return sorted({record["query"] for record in self.measurements})

    def upserts(self, record: Record) -> float:
        """Upserts a second of the machine at the time of a measurement."""
        machine = self.machines.get(record["run"], {})
        known = [machine[when] for when in ("upserts_before", "upserts_after") if machine.get(when)]
        return 1e6 * sum(known) / len(known) if known else math.nan


def read(file: Path) -> Results:
    latest: dict[tuple[Any, ...], Record] = {}
    machines: dict[str, Record] = {}
    for line in file.read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "machine":
            machines[record["run"]] = machines.get(record["run"], {}) | record
        else:
            latest[tuple(record[name] for name in IDENTITY)] = record
    return Results(list(latest.values()), machines)


def append(file: Path, record: Record) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps(record) + "\n")


def anchors(workload: str) -> dict[str, dict[str, float]]:
    """The original system's throughput per query and mode, in upserts."""
    table = tomllib.loads(Path(__file__).with_name("anchors.toml").read_text())
    known: dict[str, dict[str, float]] = table[workload]
    return known


def rate(record: Record | None) -> float:
    """Median tuples a second with the view fresh after each refresh, or NaN for what was not measured."""
    if record is None:
        return math.nan
    return float(record["fresh_tuples_per_second" if "fresh_tuples_per_second" in record else "tuples_per_second"])


def best_rate(record: Record | None) -> float:
    """The best pass instead of the median one; the cost of a selection at reading time is known only once."""
    if record is None or "fresh_tuples_per_second" in record:
        return rate(record)
    return float(record["best_tuples_per_second"])


def geometric_mean(numbers: Iterable[float]) -> float:
    logs = [math.log(number) for number in numbers if number > 0 and math.isfinite(number)]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan
