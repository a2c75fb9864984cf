"""The engine without Spark: tasks run in this process, and everything else is as on a cluster."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.engines import disagreement
from tests.conformance.workload import order_book, warehouse
from tests.spark.harness import Run, players
from viewlet.engine.ranking import ranking
from viewlet.errors import DataError, StateError
from viewlet.spark.plan.result_location import ResultLocation
from viewlet.spark.run.engine import Engine
from viewlet.spark.run.execution.cluster import InlineCluster
from viewlet.spark.run.state.checkpoint import Checkpoint
from viewlet.spark.run.state.partition import forget
from viewlet.spark.run.units.unit_result import ResultKey
from viewlet.sql import bind_query
from viewlet.triggers.plan import plan_query
from viewlet.triggers.result_view import result_store
from viewlet.types import BIGINT, Column, SqlType, Table, TableKind, decimal
from workloads import finance, tpch
from workloads.query import NamedQuery

SOME = [query for query in tpch.QUERIES if query.name in ("q03", "q06", "q11", "q15")]
MORE = [*SOME, *(query for query in tpch.QUERIES if query.name in ("q17", "q18", "q21"))]


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    forget()


@pytest.mark.parametrize("generated", [False, True])
@pytest.mark.parametrize("query", MORE, ids=lambda query: query.name)
def test_changes_that_are_spread(query: NamedQuery, generated: bool, tmp_path: Path) -> None:
    """The conformance suite plays changes at the driver."""
    tables, batches = warehouse().stream
    run = Run(tmp_path, [query], tables, 2, generated=generated)
    assert run.units[0][0].module is not None
    assert disagreement(players(run, spread=True), batches) is None


READ = ("q03", "q04", "q07", "q09", "q10", "q12", "q13", "q16", "q18")


@pytest.mark.parametrize("query", [q for q in tpch.QUERIES if q.name in READ], ids=lambda query: query.name)
def test_results_read_by_generated_code(query: NamedQuery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a result with a LIMIT, all rows that can be among the first, and nothing that is no row."""
    monkeypatch.setattr("viewlet.codegen.compiled_result.READ_BY_CODE_FROM", 0)
    tables, batches = warehouse().stream
    run = Run(tmp_path, [query], tables, 2, generated=True)
    ((unit, _),) = run.units
    if result_store(unit.program) is not None:
        assert unit.module is not None
        assert unit.module.generated.result is not None
    rank, limit = ranking(unit.program.query), unit.program.query.limit
    for batch in batches:
        run.apply(batch)
        expected, found = run.expect(batch)[query.name], run.results()[query.name]
        if limit is None:
            assert found == expected
            continue
        first = sorted(expected, key=rank)[:limit]
        assert sorted(found, key=rank)[:limit] == first
        assert found.items() <= expected.items()


@pytest.mark.parametrize("generated", [False, True])
@pytest.mark.parametrize("query", MORE, ids=lambda query: query.name)
def test_one_table_at_a_time(query: NamedQuery, generated: bool, tmp_path: Path) -> None:
    """Most of a plan for all tables has nothing to do then."""
    tables, batches = warehouse().stream
    apart = [{name: changes} for batch in batches for name, changes in batch.items()]
    run = Run(tmp_path, [query], tables, 2, generated=generated)
    assert disagreement(players(run, spread=generated), apart) is None


@pytest.mark.parametrize("spread", [False, True])
def test_order_book_all_queries_in_one_plan(spread: bool, tmp_path: Path) -> None:
    tables, batches = order_book().stream
    assert disagreement(players(Run(tmp_path, finance.QUERIES, tables, 3), spread), batches) is None


def test_all_ways_of_reading_are_met(tmp_path: Path) -> None:
    run = Run(tmp_path, SOME, warehouse().tables, 2)
    assert {unit.reading for unit in run.engine.units.values()} == {*ResultLocation} - {ResultLocation.GATHERED}


@pytest.mark.parametrize("generated", [False, True])
@pytest.mark.parametrize("with_snapshot", [False, True])
def test_another_process_goes_on_where_the_last_one_was(with_snapshot: bool, generated: bool, tmp_path: Path) -> None:
    """Nothing but the directory is left after every batch: neither the driver's state nor that of the workers."""
    tables, batches = warehouse().stream
    run = Run(tmp_path, SOME, tables, 3, generated=generated)
    for number, batch in enumerate(batches):
        run.apply(batch, spread=number % 2 == 1)
        expected = run.expect(batch)
        if with_snapshot and number == 1:
            run.snapshot()
            assert not run.engine.checkpoint.history.steps
        forget()
        run.reopen()
        assert run.results() == expected


@pytest.mark.parametrize("generated", [False, True])
def test_announced_changes_add_up_to_the_result(generated: bool, tmp_path: Path) -> None:
    tables, batches = warehouse().stream
    run = Run(tmp_path, SOME, tables, 3, generated=generated)
    told = {name: result for name, result in run.results().items() if run.engine.watch(ResultKey(name))}
    assert told.keys() == run.engine.units.keys()
    for number, batch in enumerate(batches):
        _, changes = run.apply(batch)
        for name, rows in told.items():
            for row, weight in changes.get(ResultKey(name), {}).items():
                rows[row] = rows.get(row, 0) + weight
        expected = run.expect(batch)
        assert {name: {row: n for row, n in rows.items() if n} for name, rows in told.items()} == {
            name: expected[name] for name in told
        }
        if number == 1:
            forget()


class Interruption(Exception):  # noqa: N818 - not an error of ours
    pass


class FailingCluster(InlineCluster):
    """Fails at a given stage, before or after the tasks have run on some partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.fail_at: int | None = None

    def run(self, task, payloads, what):  # type: ignore[no-untyped-def]
        if self.fail_at is not None and self.stages >= self.fail_at:
            for number in range(len(payloads) // 2):
                task(number, payloads[number])
            raise Interruption
        return super().run(task, payloads, what)


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("forgetful", [False, True])
@pytest.mark.parametrize("generated", [False, True])
def test_a_batch_that_fails_leaves_no_trace(stage: int, forgetful: bool, generated: bool, tmp_path: Path) -> None:
    """Some partitions have done their part of a stage when the batch fails; it is then applied again."""
    gc.collect()  # the tracebacks of failed batches hold mapped files
    tables, batches = warehouse().stream
    cluster = FailingCluster()
    run = Run(tmp_path, SOME, tables, 4, cluster, generated)
    for batch in batches:
        before = run.results()
        cluster.fail_at = cluster.stages + stage
        with pytest.raises(Interruption):
            run.apply(batch)
        cluster.fail_at = None
        run.engine.abandon()
        if forgetful:
            forget()
        assert run.results() == before
        run.apply(batch)
        assert run.results() == run.expect(batch)
    run.reopen()
    forget()
    assert run.results() == run.expect({})


@pytest.mark.parametrize("generated", [False, True])
def test_a_stage_may_be_run_twice(generated: bool, tmp_path: Path) -> None:
    """As after the loss of an executor whose answers never arrived."""
    tables, batches = warehouse().stream

    class Repeating(InlineCluster):
        def run(self, task, payloads, what):  # type: ignore[no-untyped-def]
            super().run(task, payloads, what)
            return super().run(task, payloads, what)

    assert disagreement(players(Run(tmp_path, SOME, tables, 3, Repeating(), generated)), batches) is None


def _damage(directory: Path, change: str) -> None:
    (log,) = directory.glob("log-*.bin")
    if change == "missing":
        log.unlink()
    else:
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 0xFF
        log.write_bytes(bytes(data))


@pytest.mark.parametrize("change", ["missing", "changed"])
def test_a_damaged_log_is_named_and_nothing_is_lost(change: str, tmp_path: Path) -> None:
    tables, batches = warehouse().stream
    run = Run(tmp_path, SOME[:1], tables, 2)
    for batch in batches:
        run.apply(batch)
    forget()
    _damage(tmp_path, change)
    with pytest.raises(StateError, match="log-"):
        run.results()
    assert run.engine.checkpoint.epoch == len(batches)
    with pytest.raises(StateError, match=r"log-.*restore the file"):
        run.reopen()


def test_two_drivers(tmp_path: Path) -> None:
    run = Run(tmp_path, SOME[:1], warehouse().tables, 2)
    with pytest.raises(StateError, match="open already"):
        run._open()


def test_errors_of_tasks_reach_the_user(tmp_path: Path) -> None:
    tables, batches = warehouse().stream
    run = Run(tmp_path, SOME[:1], tables, 2)
    frame = run.frame("lineitem", batches[0]["lineitem"])
    frame.frame[0] = frame.frame[0].drop_columns(["l_orderkey"])
    with pytest.raises(DataError, match="l_orderkey is missing"):
        run.engine.apply(1, {"lineitem": frame})


def test_a_batch_that_never_began_takes_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables, batches = warehouse().stream
    run = Run(tmp_path, SOME, tables, 2)
    run.apply(batches[0])
    before = run.results()

    def broken(*_: object) -> None:
        raise Interruption

    monkeypatch.setattr(run.engine, "_run", broken)
    with pytest.raises(Interruption):
        run.apply(batches[1])
    monkeypatch.undo()
    run.engine.abandon()
    assert run.results() == before == run.expect(batches[0])


def test_log_bytes_are_those_of_the_change(tmp_path: Path) -> None:
    """What a small batch writes does not depend on how much state there is."""
    tables, batches = warehouse().stream
    run = Run(tmp_path, SOME, tables, 2)
    whole, _ = run.apply(batches[0])
    part, _ = run.apply({"orders": dict(list(batches[1]["orders"].items())[:1])})
    assert 0 < part.log_bytes < whole.log_bytes / 5


@pytest.mark.parametrize(
    ("type", "sql", "moves"),
    [
        (decimal(18, 2), "SELECT g, SUM(x) AS s FROM t GROUP BY g", True),
        (decimal(30, 2), "SELECT g, SUM(x) AS s FROM t GROUP BY g", False),
        (BIGINT, "SELECT g FROM t AS o WHERE x > (SELECT VAR_POP(x) FROM t WHERE t.g = o.g)", False),
    ],
)
def test_numbers_beyond_a_word_stay_with_the_evaluator(
    type: SqlType, sql: str, moves: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generated code would refuse a batch that the evaluator takes."""
    monkeypatch.setattr("viewlet.spark.run.unit_registry.GENERATE_FROM_ROWS", -1)
    table = Table("t", (Column("g", BIGINT), Column("x", type)), TableKind.STREAM)
    engine = Engine(InlineCluster(), Checkpoint(tmp_path, sync=False), 2)
    program = plan_query("v", bind_query(sql, {"t": table}).query, {"t": table}, "higher-order")
    engine.add(engine.unit([program], {"t": table}))
    assert engine.needs_snapshot is moves
