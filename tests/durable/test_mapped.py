"""Stores whose arrays live in files: what one process leaves, another attaches to."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import viewlet
from tests.conformance.engines import changes_in_order, schemas
from tests.conformance.programs import QUERIES, TABLES, batches
from tests.runtime.test_flat import PAIRS, add, state_of, take, with_partner
from viewlet.codegen import engine as codegen_engine
from viewlet.runtime.durable.mapped import STAMP, MappedState
from viewlet.runtime.flat import FlatStore, Layout, Ordered
from viewlet.sql import bind_query
from viewlet.types import TableKind
from viewlet.viewtree.plan import plan_query

ORDERED = Layout("ordered", 2, ("count", "sum"), ("count", "wide"), ((1,),), (Ordered((0,)),))


def filled(store: FlatStore) -> None:
    for a in range(200):
        add(store, a, a % 7)
    for a in range(0, 200, 3):
        take(state_of(store), a, a % 7)


def same(one: FlatStore, other: FlatStore) -> None:
    assert list(one.items()) == list(other.items())
    for part in one.layout.parts:
        if part not in ("before", "touched"):
            assert (one.array(part) == other.array(part)).all(), part


def test_a_store_in_files_is_the_one_on_the_heap(tmp_path: Path) -> None:
    state = MappedState.create(tmp_path, "program")
    mapped, heap = FlatStore(PAIRS, state.memory("pairs")), FlatStore(PAIRS)
    filled(mapped)
    filled(heap)
    same(mapped, heap)
    state.finish(1)
    state.close()
    again = MappedState.attach(tmp_path, "program", 1)
    assert again is not None
    attached = FlatStore(PAIRS, again.memory("pairs"))
    same(attached, heap)
    for store in (attached, heap):
        for a in range(1_000, 3_000):
            add(store, a, a % 50)
    same(attached, heap)
    assert with_partner(attached, 3) == with_partner(heap, 3)
    again.close()
    after = MappedState.attach(tmp_path, "program", 1)
    assert after is not None
    same(FlatStore(PAIRS, after.memory("pairs")), heap)


def test_ordered_indexes_are_attached_to_as_well(tmp_path: Path) -> None:
    state = MappedState.create(tmp_path, "program")
    store = FlatStore(ORDERED, state.memory("ordered"))
    store.reserve(50)
    store.keep_orders()
    state.finish(1)
    state.close()
    again = MappedState.attach(tmp_path, "program", 1)
    assert again is not None
    attached = FlatStore(ORDERED, again.memory("ordered"))
    assert attached.spec[0][0] == store.spec[0][0] != 0
    assert attached.tree[0].shape == store.tree[0].shape
    assert (attached.spec[0] == store.spec[0]).all()


def test_a_state_of_another_kind_is_not_attached_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MappedState.attach(tmp_path, "program", 1) is None
    state = MappedState.create(tmp_path, "program")
    assert state.epoch is None  # not filled yet
    state.finish(4)
    state.close()
    assert MappedState.attach(tmp_path, "program", 3) is None
    assert MappedState.attach(tmp_path, "another program", 4) is None
    again = MappedState.attach(tmp_path, "program", 4)
    assert again is not None
    again.begin()
    again.close()
    assert MappedState.attach(tmp_path, "program", 4) is None, "a batch was under way"
    again = MappedState.create(tmp_path, "program")
    again.finish(4)
    again.close()
    monkeypatch.setattr("viewlet.runtime.durable.mapped._BOOT", tmp_path / STAMP)
    assert MappedState.attach(tmp_path, "program", 4) is None, "the machine was started again"


def test_a_state_has_one_user_at_a_time(tmp_path: Path) -> None:
    state = MappedState.create(tmp_path, "program")
    state.finish(1)
    with pytest.raises(viewlet.StateError, match="in use"):
        MappedState.attach(tmp_path, "program", 1)
    state.close()
    state.close()
    assert MappedState.attach(tmp_path, "program", 1) is not None


def test_without_room_there_is_an_error_not_a_signal(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    state = MappedState.create(tmp_path, "program")
    store = FlatStore(PAIRS, state.memory("pairs"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(viewlet.StateError, match="no room for"):
            store.reserve(100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


WORKER = """
import sys
from pathlib import Path
from tests.durable.test_mapped import PAIRS, FlatStore, MappedState, add
state = MappedState.attach(Path(sys.argv[1]), "program", int(sys.argv[2]))
store = FlatStore(PAIRS, state.memory("pairs"))
epoch = state.epoch
print("attached", flush=True)
while True:
    state.begin()
    for a in range(epoch * 10, epoch * 10 + 10):
        add(store, a, a % 3)
    epoch += 1
    state.finish(epoch)
    print(epoch, flush=True)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_a_whole_epoch_or_a_mark(tmp_path: Path) -> None:
    made(tmp_path, 0)
    epoch = 0
    for number in range(6):
        last = killed(tmp_path, epoch, lines=number * 7 + 2, pause=0.001 * number)
        epoch = next((each for each in (last, last + 1) if rows_at(tmp_path, each) is not None), -1)
        if epoch < 0:  # a batch was under way: the state is made again
            epoch = last
            made(tmp_path, epoch)
        assert rows_at(tmp_path, epoch) == rows_of(epoch)
    assert epoch >= 6


def killed(directory: Path, epoch: int, lines: int, pause: float) -> int:
    """Lets a process work until it has said so much; returns the last epoch it told of."""
    command = [sys.executable, "-c", WORKER, str(directory), str(epoch)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(lines)]
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        told += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    return int([line for line in told if line.endswith("\n")][-1])


def rows_of(epoch: int) -> list[tuple[int, ...]]:
    return [(a, a % 3) for a in range(epoch * 10)]


def made(directory: Path, epoch: int) -> None:
    state = MappedState.create(directory, "program")
    store = FlatStore(PAIRS, state.memory("pairs"))
    for a, b in rows_of(epoch):
        add(store, a, b)
    state.finish(epoch)
    state.close()


def rows_at(directory: Path, epoch: int) -> list[tuple[int, ...]] | None:
    state = MappedState.attach(directory, "program", epoch)
    if state is None:
        return None
    rows = sorted(key for key, _ in FlatStore(PAIRS, state.memory("pairs")).items())
    state.close()
    return rows


@pytest.mark.parametrize("name", ["grouped", "star", "extremes", "triangles", "correlated", "outer_joined"])
def test_generated_triggers_run_on_mapped_state(name: str, tmp_path: Path) -> None:
    (query,) = (query for query in QUERIES if query.name == name)
    tables = {each.name: each for each in schemas(TABLES).values()}
    view = bind_query(query.sql, tables)
    streams = {each: _stream(tables[each]) for each in sorted(view.sources)}
    program = plan_query("v", view.query, streams)
    heap = codegen_engine.CompiledEngine(program, streams)
    state = MappedState.create(tmp_path, "program")

    def mapped_store(layout: Layout) -> FlatStore:
        return FlatStore(layout, state.memory(layout.name))

    mapped = codegen_engine.CompiledEngine(program, streams, make_store=mapped_store)
    for epoch, batch in enumerate(changes_in_order(tables, batches(seed=2)), 1):
        state.begin()
        for engine in (heap, mapped):
            for table, changes in batch.items():
                engine.apply(table, changes)
        state.finish(epoch)
        assert mapped.result() == heap.result()
        if epoch % 4 == 0:  # as another process would
            state.close()
            again = MappedState.attach(tmp_path, "program", epoch)
            assert again is not None
            state = again
            mapped = codegen_engine.CompiledEngine(program, streams, make_store=mapped_store)
            assert mapped.result() == heap.result()


def _stream(table: Any) -> Any:
    return type(table)(table.name, table.columns, TableKind.STREAM, table.primary_key, table.non_negative)
