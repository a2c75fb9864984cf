"""The benchmark of views on Spark runs from end to end at toy size; its changes are real and its check is strict."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import spark_run
from bench.spark_changes import MULTIPLICITY, ChangeStream, change_stream, possible
from bench.spark_check import same_answer
from bench.spark_report import FLAT, Results, write
from workloads.query import NamedQuery

ORDERS, LINES = 300, 4


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Orders with four line items each, in row groups."""
    keys = list(range(1, ORDERS + 1))
    tables = {
        "orders": pa.table({"o_orderkey": keys, "o_comment": [f"order {key}" for key in keys]}),
        "lineitem": pa.table({
            "l_orderkey": [key for key in keys for _ in range(LINES)],
            "l_linenumber": [line for _ in keys for line in range(LINES)],
        }),
    }  # fmt: skip
    for name, table in tables.items():
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=100)
    return {name: tmp_path / f"{name}.parquet" for name in tables}


def stream_of(files: dict[str, Path], batches: dict[int, int]) -> ChangeStream:
    sizes = {name: pq.read_metadata(file).num_rows for name, file in files.items()}
    return change_stream(files, sizes, batches)


def contents(stream: ChangeStream, name: str) -> list[tuple]:
    """What is left alone, and what is there of the rest."""
    cut, whole = stream.cuts[name], pq.read_table(stream.files[name])
    kept = [row for row in whole.to_pylist() if cut.first < row[cut.column] <= cut.last]
    return sorted(tuple(row.values()) for row in [*kept, *dict(stream.present())[name].to_pylist()])


def test_batches_lead_from_what_is_loaded_to_what_is_present(files: dict[str, Path]) -> None:
    stream = stream_of(files, {10: 4, 50: 2})
    loaded = {
        name: {tuple(row.values()) for row in pq.read_table(file).to_pylist() if row[cut.column] <= cut.last}
        for name, file in files.items()
        for cut in [stream.cuts[name]]
    }
    for size in (10, 10, 10, 50, 50):
        batch = stream.next(size)
        assert sum(map(len, batch.values())) == size
        assert set(batch["lineitem"][MULTIPLICITY].to_pylist()) == {1, -1}
        for name, changes in batch.items():
            for change in changes.to_pylist():
                weight, row = change.pop(MULTIPLICITY), tuple(change.values())
                assert (row in loaded[name]) == (weight < 0)
                (loaded[name].add if weight > 0 else loaded[name].remove)(row)
            assert sorted(loaded[name]) == contents(stream, name)


def test_orders_and_their_line_items_are_cut_at_the_same_key(files: dict[str, Path]) -> None:
    cuts = stream_of(files, {10: 4}).cuts
    assert (cuts["orders"].first, cuts["orders"].last) == (cuts["lineitem"].first, cuts["lineitem"].last)


def test_a_batch_without_rows_for_another_one_is_taken_back_and_applied_in_turn(files: dict[str, Path]) -> None:
    stream = stream_of(files, {300: 4})
    before = contents(stream, "lineitem")
    first, back, again = (stream.next(300)["lineitem"] for _ in range(3))
    rows = [batch.drop_columns([MULTIPLICITY]) for batch in (first, back, again)]
    assert rows[0] == rows[1] == rows[2]
    signs = [batch[MULTIPLICITY].to_pylist() for batch in (first, back, again)]
    assert signs[0] == signs[2] == [-sign for sign in signs[1]]
    stream.next(300)
    assert contents(stream, "lineitem") == before


def test_batches_that_would_leave_nothing_to_be_changed_are_refused(files: dict[str, Path]) -> None:
    sizes = {"orders": ORDERS, "lineitem": ORDERS * LINES}
    assert possible(sizes, 700)
    assert not possible(sizes, 800)
    with pytest.raises(ValueError, match="too few"):
        stream_of(files, {1500: 1})


def test_the_check_lets_ties_and_rounding_pass_and_nothing_else() -> None:
    top = NamedQuery("top", "SELECT name, total", order=("total",), limit=2)
    every = pa.table({"name": ["a", "b", "c"], "total": [Decimal("9.00"), Decimal("5.00"), Decimal("5.00")]})
    assert same_answer(top, every.take([0, 2]), every)
    assert not same_answer(top, every.take([1, 2]), every)
    assert not same_answer(top, every.take([0, 0]), every)
    assert not same_answer(top, every.slice(0, 1), every)
    plain = NamedQuery("all", "SELECT name, total")
    rounded = pa.table({"name": ["b", "a", "c"], "total": [Decimal("5.000001"), Decimal("9"), Decimal("5")]})
    assert same_answer(plain, rounded, every)
    assert not same_answer(plain, rounded.slice(0, 2), every)
    wrong = pa.table({"name": ["b", "a", "c"], "total": [Decimal("5.01"), Decimal("9"), Decimal("5")]})
    assert not same_answer(plain, wrong, every)


def test_the_page_says_where_spark_sql_is_faster(tmp_path: Path) -> None:
    def measured(query: str, what: str, **facts: object) -> str:
        known = {"kind": "measurement", "run": "r", "scale": 1.0, "query": query, "status": "ok", "what": what}
        return json.dumps(known | facts)

    batch = {"batch": 10_000, "mode": "arrow", "read_seconds": 0.1, "first_batch_seconds": 9, "stages": 2}
    lines = [
        measured("q01", "recompute", seconds=4.0), measured("q01", "refresh", seconds=0.5, **batch),
        measured("q02", "recompute", seconds=1.0), measured("q02", "refresh", seconds=2.0, **batch),
        measured("q02", "check", correct=False),
    ]  # fmt: skip
    file = tmp_path / "spark.jsonl"
    file.write_text("\n".join(lines) + "\n")
    page = write(file, plots=False).read_text()
    assert "arrow: 8.0x in the mean, 0.5x at least (q02); slower than Spark SQL: q02 of 2" in page
    assert "| **no** |" in page
    assert "q02" not in FLAT
    assert Results.of([]).scales == []


@pytest.mark.slow
def test_a_view_on_spark_is_measured_checked_and_not_measured_again(
    monkeypatch: pytest.MonkeyPatch, spark: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("VIEWLET_STATE", os.environ["VIEWLET_STATE"])  # it changes that, and is undone
    monkeypatch.setattr(spark_run.Runs, "session", spark)
    for _ in range(2):
        spark_run.main(
            scales="0.001",
            queries="q03",
            batches="50",
            repeats=2,
            recomputations=1,
            data=tmp_path / "data",
            out=tmp_path,
        )
    found = [json.loads(line) for line in (tmp_path / "spark.jsonl").read_text().splitlines()]
    assert [record["what"] for record in found] == ["recompute", "load", "refresh", "refresh", "check"]
    assert all(record["status"] == "ok" for record in found)
    assert found[-1]["correct"]
    arrow, frames = found[2:4]
    assert (arrow["mode"], frames["mode"]) == ("arrow", "frames")
    assert arrow["packed_bytes"] > 0
    assert arrow["undo_bytes"] > 0


def test_equal_views_take_the_state_of_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from bench import spark_sharing
    from bench.spark_sharing import DIFFERENT, EQUAL, GROUPS_IN_COMMON

    monkeypatch.setattr(spark_sharing, "ROWS", 40)

    def rows(where: str, views: int, queries: str) -> int:
        with spark_sharing.opened(where, str(tmp_path / f"{where}{views}{queries}")) as db:
            return int(spark_sharing.sharing(where, db, views, queries)["state_rows"])

    one = rows("partitions", 1, EQUAL)
    assert rows("partitions", 5, EQUAL) == one
    assert rows("partitions", 5, GROUPS_IN_COMMON) == one
    assert one < rows("partitions", 5, DIFFERENT) == rows("process", 5, DIFFERENT) < 5 * one
    one = rows("process", 1, EQUAL)
    assert rows("process", 5, GROUPS_IN_COMMON) == one
    assert one < rows("process", 5, DIFFERENT) < 5 * one
    assert spark_sharing.moves(500)["groups"] == 500
