"""Stores whose arrays live in files: what one process leaves, another attaches to."""

from __future__ import annotations

import gc
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewlet
from tests.conformance.engines import changes_in_order, schemas
from tests.conformance.programs.small import QUERIES, TABLES, batches
from tests.runtime.test_flat import PAIRS, add, state_of, take, with_partner
from viewlet.changes import RowChange
from viewlet.codegen import engine as codegen_engine
from viewlet.runtime.dictionary import FileDictionary
from viewlet.runtime.durable.file_mapping import map_file
from viewlet.runtime.durable.mapped_state import STAMP, MappedState
from viewlet.runtime.flat import FlatStore, Layout, Ordered
from viewlet.sql import bind_query
from viewlet.triggers.plan import plan_query
from viewlet.types import TableKind

ORDERED = Layout("ordered", 2, ("count", "sum"), ("count", "wide"), ((1,),), (Ordered((0,)),))


def fresh(directory: Path, identity: str) -> MappedState:
    state = MappedState.open(directory, identity)
    state.reset()
    return state


def attached_at(directory: Path, identity: str, epoch: int) -> MappedState | None:
    state = MappedState.open(directory, identity)
    if state.version == f"epoch {epoch}":
        return state
    state.close()
    return None


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


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="lists the open files of this process")
def test_mapped_arrays_are_no_open_files(tmp_path: Path) -> None:
    """A process may have far fewer open files than mappings."""
    state = fresh(tmp_path, "program")
    before = len(list(Path("/proc/self/fd").iterdir()))
    stores = [FlatStore(PAIRS, state.memory(f"store {i}")) for i in range(20)]
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    mapped = Path("/proc/self/maps").read_text()
    assert mapped.count(str(tmp_path)) > len(stores)
    del stores
    gc.collect()
    assert Path("/proc/self/maps").read_text().count(str(tmp_path)) == 1  # the stamp


def test_a_mapping_beyond_the_end_of_a_file_is_refused(tmp_path: Path) -> None:
    with open(tmp_path / "short", "w+b") as file:
        file.write(bytes(100))
        file.flush()
        with pytest.raises(ValueError, match="file size"):
            map_file(file.fileno(), 0, (101,), np.uint8)
        array = map_file(file.fileno(), 8, (9,), np.int64)
    array[:] = 7
    assert (tmp_path / "short").read_bytes()[8:24] == bytes(array[:2])


def test_a_store_in_files_is_the_one_on_the_heap(tmp_path: Path) -> None:
    state = fresh(tmp_path, "program")
    mapped, heap = FlatStore(PAIRS, state.memory("pairs")), FlatStore(PAIRS)
    filled(mapped)
    filled(heap)
    same(mapped, heap)
    state.finish("epoch 1")
    state.close()
    again = attached_at(tmp_path, "program", 1)
    assert again is not None
    attached = FlatStore(PAIRS, again.memory("pairs"))
    same(attached, heap)
    for store in (attached, heap):
        for a in range(1_000, 3_000):
            add(store, a, a % 50)
    same(attached, heap)
    assert with_partner(attached, 3) == with_partner(heap, 3)
    again.close()
    after = attached_at(tmp_path, "program", 1)
    assert after is not None
    same(FlatStore(PAIRS, after.memory("pairs")), heap)


def test_ordered_indexes_are_attached_to_as_well(tmp_path: Path) -> None:
    state = fresh(tmp_path, "program")
    store = FlatStore(ORDERED, state.memory("ordered"))
    store.reserve(50)
    store.keep_orders()
    state.finish("epoch 1")
    state.close()
    again = attached_at(tmp_path, "program", 1)
    assert again is not None
    attached = FlatStore(ORDERED, again.memory("ordered"))
    assert attached.spec[0][0] == store.spec[0][0] != 0
    assert attached.tree[0].shape == store.tree[0].shape
    assert (attached.spec[0] == store.spec[0]).all()


def test_a_state_of_another_kind_is_not_attached_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert attached_at(tmp_path, "program", 1) is None
    state = fresh(tmp_path, "program")
    assert state.version is None  # not filled yet
    state.finish("epoch 4")
    state.close()
    assert attached_at(tmp_path, "program", 3) is None
    assert attached_at(tmp_path, "another program", 4) is None
    again = attached_at(tmp_path, "program", 4)
    assert again is not None
    again.begin()
    again.close()
    assert attached_at(tmp_path, "program", 4) is None, "a batch was under way"
    again = fresh(tmp_path, "program")
    again.finish("epoch 4")
    again.close()
    monkeypatch.setattr("viewlet.runtime.durable.mapped_state._BOOT", tmp_path / STAMP)
    assert attached_at(tmp_path, "program", 4) is None, "the machine was started again"


def test_a_file_that_was_cut_short_shows(tmp_path: Path) -> None:
    made(tmp_path, 3)
    for damaged in (False, True):
        if damaged:
            with next(tmp_path.glob("*/pool")).open("r+b") as file:
                file.truncate(16)
        state = attached_at(tmp_path, "program", 3)
        assert state is not None
        FlatStore(PAIRS, state.memory("pairs"))
        assert state.is_whole() is not damaged
        assert not state.is_whole(beside=1)
        state.close()


def test_a_process_finds_out_that_its_files_were_removed(tmp_path: Path) -> None:
    home = tmp_path / "state"
    made(home, 1)
    mine = attached_at(home, "program", 1)
    assert mine is not None
    mine.release()
    shutil.rmtree(home)
    assert not mine.acquire()
    assert mine.version is None
    mine.close()
    made(home, 2)  # as many changes as there were before
    assert rows_at(home, 2) == rows_of(2)


def test_a_state_has_one_user_at_a_time(tmp_path: Path) -> None:
    state = fresh(tmp_path, "program")
    state.finish("epoch 1")
    with pytest.raises(viewlet.StateError, match="in use"):
        attached_at(tmp_path, "program", 1)
    state.close()
    state.close()
    assert attached_at(tmp_path, "program", 1) is not None


def test_without_room_there_is_an_error_not_a_signal(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    state = fresh(tmp_path, "program")
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
from tests.durable.test_mapped import PAIRS, FlatStore, add, attached_at
state = attached_at(Path(sys.argv[1]), "program", int(sys.argv[2]))
store = FlatStore(PAIRS, state.memory("pairs"))
epoch = int(sys.argv[2])
print("attached", flush=True)
while True:
    state.begin()
    for a in range(epoch * 10, epoch * 10 + 10):
        add(store, a, a % 3)
    epoch += 1
    state.finish(f"epoch {epoch}")
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
    state = fresh(directory, "program")
    store = FlatStore(PAIRS, state.memory("pairs"))
    for a, b in rows_of(epoch):
        add(store, a, b)
    state.finish(f"epoch {epoch}")
    state.close()


def rows_at(directory: Path, epoch: int) -> list[tuple[int, ...]] | None:
    state = attached_at(directory, "program", epoch)
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
    state = fresh(tmp_path, "program")

    def mapped_store(layout: Layout) -> FlatStore:
        return FlatStore(layout, state.memory(layout.name))

    mapped = codegen_engine.CompiledEngine(program, streams, make_store=mapped_store)
    for epoch, batch in enumerate(changes_in_order(tables, batches(seed=2)), 1):
        state.begin()
        for engine in (heap, mapped):
            for table, changes in batch.items():
                engine.apply(table, RowChange(changes))
        state.finish(f"epoch {epoch}")
        assert mapped.result() == heap.result()
        if epoch % 4 == 0:  # as another process would
            state.close()
            again = attached_at(tmp_path, "program", epoch)
            assert again is not None
            state = again
            mapped = codegen_engine.CompiledEngine(program, streams, make_store=mapped_store)
            assert mapped.result() == heap.result()


def _stream(table: Any) -> Any:
    return type(table)(table.name, table.columns, TableKind.STREAM, table.primary_key, table.non_negative)


def test_a_process_that_lets_go_sees_what_others_did(tmp_path: Path) -> None:
    mine = fresh(tmp_path, "program")
    store = FlatStore(PAIRS, mine.memory("pairs"))
    add(store, 1, 1)
    mine.finish("one")
    mine.release()
    seen = mine.count
    other = MappedState.open(tmp_path, "program")
    with pytest.raises(viewlet.StateError, match="in use"):
        mine.acquire(0.01)
    theirs = FlatStore(PAIRS, other.memory("pairs"))
    other.begin()
    for a in range(2, 500):
        add(theirs, a, a % 5)
    other.finish("two")
    other.close()
    mine.acquire()
    assert (mine.version, mine.count > seen) == ("two", True)
    store.attach_again()
    same(store, theirs)
    add(store, 1_000, 1)
    assert len(store) == 500


def test_strings_have_the_same_codes_in_all_processes(tmp_path: Path) -> None:
    one, two = FileDictionary(tmp_path / "strings"), FileDictionary(tmp_path / "strings")
    assert [one.code(text) for text in ("a", "ß\n", "")] == [0, 1, 2]
    one.save()
    assert two.catch_up()
    assert [two.code(text) for text in ("", "new", "a")] == [2, 3, 0]
    two.save()
    with (tmp_path / "strings").open("ab") as file:
        file.write(b"\x09\x00\x00\x00half")
    assert one.catch_up()
    assert one.texts == ["a", "ß\n", "", "new"]
    one.code("last")
    one.save()
    three = FileDictionary(tmp_path / "strings")
    assert three.catch_up()
    assert three.texts == ["a", "ß\n", "", "new", "last"]
    (tmp_path / "strings").unlink()
    assert not one.catch_up()
