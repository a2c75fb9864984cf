"""Runs one measurement, in a process of its own so that it can be killed, and prints one JSON line.

python -m bench.worker '{"workload": "tpch", "query": "q06", "scale": 0.01, "mode": "batch", "batch": 1000}'
"""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

WITHOUT_PATHWAY = "Pathway is not installed (pip install pathway)"


@dataclass(frozen=True, slots=True)
class Spec:
    """What to measure; everything in it is repeated in the record."""

    workload: str
    query: str
    engine: str = "viewlet"
    strategy: str = "auto"
    mode: str = "batch"
    batch: int = 1000
    scale: float = 0.01
    stream: str = "insert"
    working_set: float = 0.25
    finance_file: str = ""
    finance_limit: int = 0
    data: str = "bench/results/data"
    repeats: int = 2
    timeout: float = 60.0
    threads: int = 0
    check: bool = False

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two records measurements of the same thing."""
        stream = (self.workload, self.scale, self.stream, self.working_set, Path(self.finance_file).name)
        return (*stream, self.query, self.engine, self.strategy, self.mode, self.batch)

    def described(self) -> dict[str, Any]:
        """The part of a record that tells what was measured; of paths only the file's name."""
        fields = asdict(self) | {"finance_file": Path(self.finance_file).name}
        del fields["data"]
        return fields


def measure(spec: Spec) -> dict[str, Any]:
    from bench.sources import finance_source, find_query, tpch_source

    query = find_query(spec.workload, spec.query)
    if spec.workload == "tpch":
        source = tpch_source(query, spec.scale, Path(spec.data), spec.stream, spec.working_set)
    else:
        file = Path(spec.finance_file) if spec.finance_file else None
        source = finance_source(query, file, spec.finance_limit or None)
    if spec.engine == "duckdb":
        from bench.duckdb_rival import measure_duckdb

        return {"status": "ok"} | measure_duckdb(source, spec.batch, spec.threads, spec.timeout)
    if spec.engine == "pathway":
        return _pathway_record(source, spec)
    return _engine_record(source, spec)


def has_pathway() -> bool:
    return importlib.util.find_spec("pathway") is not None


def _pathway_record(source: Any, spec: Spec) -> dict[str, Any]:
    """An answer is always checked: the dataflows are written by hand."""
    if not has_pathway():
        return {"status": "skipped", "note": WITHOUT_PATHWAY}
    from bench.check import same_rows
    from bench.pathway_rival import measure_pathway
    from viewlet.sql import bind_query

    record = measure_pathway(source, spec.batch, spec.timeout)
    rows = record.pop("result", [])
    if record.get("finished"):
        record["correct"] = same_rows(source, bind_query(source.query.sql, source.tables).query, rows)
    return record


def _engine_record(source: Any, spec: Spec) -> dict[str, Any]:
    from bench.measure import measure_engine
    from viewlet.codegen.scalars import NotCompilable
    from viewlet.errors import ViewletError

    try:
        record = measure_engine(source, spec.strategy, spec.mode, spec.batch, spec.repeats, spec.timeout)
    except NotCompilable as reason:
        return {"status": "skipped", "note": f"no compiled form: {reason}"}
    except ViewletError as error:
        return {"status": "error", "note": f"{type(error).__name__}: {error}"}
    engine = record.pop("result", None)
    if spec.check and engine is not None and record["finished"]:
        record |= _checked(source, engine)
    return {"status": "ok", **record}


def _checked(source: Any, engine: Any) -> dict[str, Any]:
    """The verdict on the answer; a rival that cannot compute it does not spoil the measurement."""
    import duckdb

    from bench.check import same_answer

    try:
        return {"correct": same_answer(source, engine)}
    except duckdb.Error as error:
        return {"note": f"not checked, DuckDB: {error}"[:300]}


def main() -> None:
    spec = Spec(**json.loads(sys.argv[1]))
    print(json.dumps(spec.described() | measure(spec)))


if __name__ == "__main__":
    main()
