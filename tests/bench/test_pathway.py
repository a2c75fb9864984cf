"""Pathway as a rival: its dataflows give DuckDB's answers, and without it the benchmark continues."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import check, report, worker
from bench.run import fit
from bench.sources import find_query, tpch_source
from viewlet.sql import bind_query

ROOT = Path(__file__).parents[2]


def measured(data: Path, query: str, **more: Any) -> dict[str, Any]:
    """A record of a process of its own: Pathway's dataflow graph and threads are global."""
    spec = {"workload": "tpch", "query": query, "engine": "pathway", "strategy": "dataflow", "scale": 0.002}
    finished = subprocess.run(
        [sys.executable, "-m", "bench.worker", json.dumps(spec | {"data": str(data)} | more)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, cwd=ROOT, timeout=120, capture_output=True, text=True,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr[-2000:]
    record: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return record


@pytest.mark.slow
@pytest.mark.parametrize("query", ["q03", "q13", "q16"])
def test_a_dataflow_ends_with_the_answer_of_duckdb(query: str, tmp_path: Path) -> None:
    pytest.importorskip("pathway")
    record = measured(tmp_path, query)
    assert (record["status"], record["finished"], record["correct"]) == ("ok", True, True)
    assert record["tuples"] == record["stream_tuples"] > 1000
    assert record["refreshes"] > 1


@pytest.mark.slow
def test_what_runs_out_of_time_reports_its_part(tmp_path: Path) -> None:
    pytest.importorskip("pathway")
    record = measured(tmp_path, "q06", timeout=0.0)
    assert (record["status"], record["finished"], record["tuples"]) == ("ok", False, 1000)
    assert "correct" not in record


@pytest.mark.slow
def test_rows_leave_a_dataflow(tmp_path: Path) -> None:
    pytest.importorskip("pathway")
    record = measured(tmp_path, "q12", stream="churn")
    assert (record["status"], record["correct"]) == ("ok", True)
    assert record["tuples"] > 15_000 + 20_000 // 3  # far more events than rows


def test_without_pathway_the_measurement_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    spec = worker.Spec("tpch", "q06", engine="pathway", scale=0.002, data=str(tmp_path))
    assert worker.measure(spec) == {"status": "skipped", "note": worker.WITHOUT_PATHWAY}
    assert fit(["duckdb", "pathway"], "tpch") == ["duckdb"]


def test_only_tpch_is_written_for_pathway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.run.has_pathway", lambda: True)
    assert fit(["duckdb", "pathway"], "tpch") == ["duckdb", "pathway"]
    assert fit(["duckdb", "pathway"], "finance") == ["duckdb"]


def test_a_wrong_row_is_noticed(tmp_path: Path) -> None:
    source = tpch_source(find_query("tpch", "q12"), 0.002, tmp_path, "insert", 0.25)
    query = bind_query(source.query.sql, source.tables).query
    right = check._recomputed(source)
    assert len(right) == 2
    assert check.same_rows(source, query, right)
    assert not check.same_rows(source, query, [(mode, high + 1, low) for mode, high, low in right])
    assert not check.same_rows(source, query, right[1:])


def test_the_report_has_a_column_for_pathway(tmp_path: Path) -> None:
    shared = {
        "kind": "measurement", "run": "r", "workload": "tpch", "query": "q06", "mode": "batch", "batch": 1000,
        "status": "ok", "finished": True, "best_tuples_per_second": 1.0,
    }  # fmt: skip
    own = {"engine": "viewlet", "strategy": "auto", "bytes": 1, "packed_bytes": 1, "rows": 1, "coding_seconds": 0.1}
    lines = [
        shared | own | {"tuples_per_second": 5000.0},
        shared | {"engine": "pathway", "strategy": "dataflow", "tuples_per_second": 2000.0},
    ]
    file = tmp_path / "tpch.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = report.write(file, []).read_text().splitlines()
    header = next(line for line in page if line.startswith("| query")).split(" | ")
    row = next(line for line in page if line.startswith("| q06")).split(" | ")
    assert dict(zip(header, row, strict=True))["Pathway, tuples/s"] == "2.00 k"
    assert row[header.index("÷ Pathway")] == "2.50x"
