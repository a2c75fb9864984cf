"""What the conformance suite does not see: rollback in the middle of a batch, streams, rows that come several times."""

from __future__ import annotations

import pytest

from tests.triggers.trigger_program import compiled, tables_of
from viewlet.changes import RowChange
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.store import MapStore, UndoLog, part_of

TABLES = tables_of("CREATE TABLE r (a BIGINT, b BIGINT); CREATE STREAM e (a BIGINT, v BIGINT)")
NESTED = "SELECT COUNT(*) AS n FROM r WHERE a < (SELECT COUNT(*) FROM r)"


def test_assignments_of_a_batch_that_failed_are_forgotten() -> None:
    log = UndoLog()
    store = MapStore(log=log)
    interpreter = Interpreter(compiled(NESTED, TABLES), {"r": store}, log)
    interpreter.load()
    log.begin()
    interpreter.apply("r", RowChange({(0, 0): 1}))
    log.rollback()
    assert interpreter.finish() == {}
    assert interpreter.result() == {(0,): 1}


@pytest.mark.parametrize("strategy", ["recompute", "first-order", "higher-order", "view-tree"])
@pytest.mark.parametrize("row_at_a_time", [False, True])
def test_rows_that_come_several_times_count_several_times(strategy: str, row_at_a_time: bool) -> None:
    store = MapStore()
    program = compiled("SELECT x.a, COUNT(*) AS n FROM r x, r y WHERE x.a = y.a GROUP BY x.a", TABLES, strategy)
    interpreter = Interpreter(program, {"r": store}, row_at_a_time=row_at_a_time)
    interpreter.load()
    changes = {(1, 1): 3, (1, 2): 1, (2, 1): 2}
    interpreter.apply("r", RowChange(changes))
    for row, count in changes.items():
        store.add(row, (count,))
    interpreter.finish()
    assert interpreter.result() == {(1, 16): 1, (2, 4): 1}


def test_a_row_by_row_batch_leaves_the_table_to_its_owner() -> None:
    store = MapStore()
    interpreter = Interpreter(compiled(NESTED, TABLES), {"r": store}, row_at_a_time=True)
    interpreter.load()
    interpreter.apply("r", RowChange({(0, 0): 2, (1, 0): 1}))
    assert len(store) == 0


@pytest.mark.parametrize("strategy", ["recompute", "first-order", "higher-order", "view-tree"])
def test_streams_keep_only_what_the_view_needs(strategy: str) -> None:
    program = compiled("SELECT a, SUM(v) AS total FROM e WHERE v > 1 GROUP BY a", TABLES, strategy)
    interpreter = Interpreter(program, {"e": MapStore()})
    interpreter.load()
    interpreter.apply("e", RowChange({(1, 5): 1, (1, 1): 1, (2, 7): 1}))
    assert interpreter.finish() == {(1, 5): 1, (2, 7): 1}
    interpreter.apply("e", RowChange({(1, 5): -1}))
    assert interpreter.finish() == {(1, 5): -1}


def test_touched_keys_are_kept_for_those_who_ask() -> None:
    store = MapStore()
    store.add((1,), (1,))
    assert store.touched == set()
    store.add((2,), (1,))
    assert store.touched == {(2,)}


def test_parts_of_rows() -> None:
    assert [part_of(positions)((7, 8, 9)) for positions in ((), (1,), (2, 0))] == [(), (8,), (9, 7)]
