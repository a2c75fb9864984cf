"""The state of a unit in a partition, in the version that a task needs.

The next task of a partition may run in any process of any machine. The driver sends the history with every task: a
snapshot in the checkpoint directory, and the log records since. A process that has some version of the state runs the
missing stages. A process without one reads the snapshot first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from viewlet.errors import StateError
from viewlet.runtime.durable.files import Files, files_at
from viewlet.runtime.durable.log import OVERHEAD, read_record
from viewlet.runtime.durable.snapshot import SnapshotReader, index_of
from viewlet.runtime.private_folders import private_folder
from viewlet.spark.run.exchange.change_files import Commit, KeptChanges
from viewlet.spark.run.exchange.moves import INLINE_BYTES, Outbox, fetch_all, folder_of
from viewlet.spark.run.exchange.stage_record import Delivery, StepHead, read_contents, read_shares, read_step
from viewlet.spark.run.exchange.wire import table_bytes
from viewlet.spark.run.state.saved_versions import SavedVersions
from viewlet.spark.run.state.unit_state import (
    NOTHING,
    WAIT_SECONDS,
    FileState,
    PrivateState,
    ResidentState,
    UnitState,
)
from viewlet.spark.run.units.node import Node
from viewlet.spark.run.units.unit import UnitCode
from viewlet.spark.run.units.unit_result import OWN, ResultCode, ResultKey

T_co = TypeVar("T_co", covariant=True)
UNUSED_DAYS = 3
"""Cached state that has not been used for this long is removed from the machine."""


def state_root() -> str:
    """The folder of cached state on a machine: VIEWLET_STATE, or a folder among the temporary files."""
    chosen = os.environ.get("VIEWLET_STATE")
    return chosen or str(Path(tempfile.gettempdir()) / f"viewlet-state-{os.getuid() if hasattr(os, 'getuid') else 0}")


class Broadcast(Protocol[T_co]):
    """A broadcast value, which every process receives once."""

    @property
    def value(self) -> T_co: ...


_codes: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""The code that states of this process run."""


@dataclass(frozen=True, slots=True)
class SharedCode(Generic[T_co]):
    """The code of a unit or a result.

    Spark may discard a broadcast value that no task uses, so states keep their own reference.
    """

    key: str
    sent: Broadcast[T_co]

    @property
    def value(self) -> T_co:
        code: T_co | None = _codes.get(self.key)
        if code is None:
            code = _codes[self.key] = self.sent.value
        return code


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """A stage whose inputs are in a log, as a record of `size` bytes.

    Its first bytes, `index` of the payload, tell where the shares of units and partitions are, if it has such.
    `bytes_beside` are in files that it refers to.
    """

    head: StepHead
    log: str
    at: int
    size: int
    index: int | None
    bytes_beside: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """How to reach a version: from a snapshot (of every partition), or from an empty state, through some stages.

    `bases` has the version of each unit in the snapshot.
    """

    bases: Mapping[str, str] = field(default_factory=dict)
    snapshot: str | None = None
    checksums: tuple[int, ...] = ()
    steps: tuple[LoggedStep, ...] = ()

    def base(self, unit: str) -> str:
        return self.bases.get(unit, NOTHING)

    def steps_of(self, unit: str) -> list[LoggedStep]:
        return [step for step in self.steps if step.head.concerns(unit)]

    def token(self, unit: str) -> str:
        """The version it leads to."""
        last = (step.head.token for step in reversed(self.steps) if step.head.concerns(unit))
        return next(last, self.base(unit))

    def followed_by(self, step: LoggedStep) -> History:
        return replace(self, steps=(*self.steps, step))

    def of(self, unit: str) -> History:
        """What concerns one unit."""
        bases = {name: token for name, token in self.bases.items() if name == unit}
        return replace(self, bases=bases, steps=tuple(self.steps_of(unit)))

    def up_to(self, unit: str, token: str) -> History | None:
        """The history of one unit that leads to an earlier version; None if this one does not lead through it."""
        mine = self.of(unit)
        if token == mine.base(unit):
            return replace(mine, steps=())
        at = next((i for i, step in enumerate(mine.steps) if step.head.token == token), None)
        return None if at is None else replace(mine, steps=mine.steps[: at + 1])

    def without_base(self, unit: str) -> History:
        return replace(self, bases={name: token for name, token in self.bases.items() if name != unit})


@dataclass(frozen=True, slots=True)
class Context:
    """The context that every task receives."""

    checkpoint: str
    state: str
    """The folder of cached state; empty if each machine has its own."""
    partitions: int
    units: Mapping[str, SharedCode[UnitCode]]
    history: History
    watched: frozenset[ResultKey] = frozenset()
    """The results whose changes tasks tell, or write to files."""
    compared: frozenset[ResultKey] = frozenset()
    """Those of them whose changes depend on views at the driver, so that they are told when the batch has run."""
    kept: Mapping[ResultKey, KeptChanges] = field(default_factory=dict)
    """The watched results whose changes tasks write to files."""
    results: Mapping[ResultKey, SharedCode[ResultCode]] = field(default_factory=dict)
    """The results that are watched or read, and are not those of the units' own queries."""
    commit: Commit | None = None
    """The batch that a stage belongs to."""
    inline_bytes: int = INLINE_BYTES
    """What the tasks of a stage may send through the driver, all of them together."""
    sync: bool = True
    """Files that tasks write have to survive a power failure."""
    sent: Mapping[str, bytes] = field(default_factory=dict)
    """What views of the unit at the driver hold, if its rows are read along with them."""

    def outbox(self, token: str, tasks: int, units: int = 2) -> Outbox:
        """For what leaves one of the tasks of a stage that so many units run, or several."""
        return Outbox(files_at(self.checkpoint, self.sync), folder_of(token), self.inline_bytes // tasks, units)

    def code(self, unit: str) -> UnitCode:
        return self.units[unit].value

    def result(self, key: ResultKey) -> ResultCode | None:
        """What is read of the views of a unit; None is the result of its own query."""
        return None if key.digest == OWN else self.results[key].value

    def watched_of(self, unit: str) -> list[ResultKey]:
        """The results of a unit that are watched."""
        return sorted((key for key in self.watched if key.unit == unit), key=lambda key: key.digest)

    def of(self, key: ResultKey) -> Context:
        """What tasks need to know to read one result."""
        unit = key.unit
        watched = frozenset(self.watched_of(unit))
        results = {each: code for each, code in self.results.items() if each == key or each in watched}
        units = {unit: self.units[unit]}
        return replace(self, units=units, history=self.history.of(unit), watched=watched, kept={}, results=results)


_kept: dict[tuple[str, str, int], UnitState] = {}
"""What this process has, by checkpoint, unit and partition; good for nothing but saving time."""


@contextlib.contextmanager
def held(context: Context, unit: str, partition: int) -> Iterator[UnitState]:
    """A unit in a partition in the version of a context, for this task alone."""
    code = context.code(unit)
    with _taken(context, code, partition) as state:
        _bring_up_to_date(context, code, partition, state)
        yield state


@contextlib.contextmanager
def shown(context: Context, unit: str, partition: int) -> Iterator[Node]:
    """A unit in a partition in the version of a context, to be read.

    State of a later version, which the next batch continues from, is left as it is: the version is computed again in
    the memory of this process.
    """
    code = context.code(unit)
    kept = _kept.get((context.checkpoint, unit, partition))
    if kept is None or kept.runs(code):
        with _taken(context, code, partition) as state:
            if state.token in (None, NOTHING, *_tokens(context.history, unit)):
                _bring_up_to_date(context, code, partition, state)
                yield state.node
                return
    private = PrivateState(code, code.at_worker(partition, context.partitions))
    _bring_up_to_date(context, code, partition, private)
    yield private.node


@contextlib.contextmanager
def _taken(context: Context, code: UnitCode, partition: int) -> Iterator[UnitState]:
    """What this machine has of a unit in a partition, in whatever version, for this task alone."""
    key = (context.checkpoint, code.name, partition)
    state = _kept.pop(key, None)
    if state is not None and state.runs(code):
        state.acquire()
    else:
        if state is not None:
            state.give_up()
        state = _opened(context, code, partition)
    try:
        yield state
    except BaseException:
        state.give_up()
        raise
    state.release()
    _kept[key] = state


def _opened(context: Context, code: UnitCode, partition: int) -> UnitState:
    initial = code.at_worker(partition, context.partitions)
    if not code.is_mapped:
        try:
            return ResidentState(code, initial, SavedVersions(_folder(context, code, partition)))
        except StateError:  # files only save time
            return ResidentState(code, initial)
    from viewlet.codegen.module_cache import runtime_digest
    from viewlet.runtime.durable.mapped_state import MappedState
    from viewlet.spark.run.units.batch_file import FORMAT

    folder, identity = _folder(context, code, partition), f"{code.digest}{runtime_digest().hex()}{FORMAT}"
    return FileState(code, MappedState.open(folder, identity, WAIT_SECONDS), initial)


def _folder(context: Context, code: UnitCode, partition: int) -> Path:
    """Where this machine has files of a unit in a partition; nobody else may write there."""
    root, home = _private(_root(context)), _home(context)
    if not home.exists():
        _tidy(root)
    return home / code.digest / str(partition)


def _root(context: Context) -> Path:
    """The folder of cached state on this machine."""
    return Path(context.state or state_root())


def _home(context: Context) -> Path:
    """The folder with what this machine has of a checkpoint."""
    return Path(_root(context), hashlib.blake2b(context.checkpoint.encode(), digest_size=8).hexdigest())


def _private(root: Path) -> Path:
    """The folder of cached state; its contents are trusted, so no other user may write to it."""
    try:
        return private_folder(root, "remove it, or set VIEWLET_STATE to a folder that only you can write to")
    except OSError as error:
        raise StateError(
            f"state cannot be kept in {root}: {error.strerror or error}; set VIEWLET_STATE to a folder you can write to"
        ) from error


def _tidy(root: Path) -> None:
    """Removes what belongs to checkpoints that have not been used for days."""
    oldest = time.time() - UNUSED_DAYS * 86_400
    for home in root.glob("*"):
        with contextlib.suppress(OSError):
            if home.stat().st_mtime < oldest and all(path.stat().st_mtime < oldest for path in home.glob("*/*/*")):
                shutil.rmtree(home)


def nearest(context: Context, unit: str) -> int:
    """A partition that this process has worked on, if there is one."""
    here = (number for checkpoint, name, number in _kept if (checkpoint, name) == (context.checkpoint, unit))
    return next(here, 0)


def remove_state(context: Context) -> None:
    """Removes what this machine has of a checkpoint. Another process that still holds some finds its files gone."""
    for key in [key for key in _kept if key[0] == context.checkpoint]:
        _kept.pop(key).give_up()
    shutil.rmtree(_home(context), ignore_errors=True)


def forget() -> None:
    """Gives up what this process has."""
    while _kept:
        _kept.popitem()[1].give_up()


def _bring_up_to_date(context: Context, code: UnitCode, partition: int, state: UnitState) -> None:
    """Rolls back uncommitted changes, and runs the missing stages."""
    history, unit = context.history, code.name
    steps, tokens = history.steps_of(unit), _tokens(history, unit)
    if state.token not in tokens and state.before in tokens:
        state.take_back()
    state.find_version(tokens)
    if state.token not in tokens:
        _restore(context, code, partition, state)
    for step in steps[tokens.index(state.token or "") :]:
        _run_again(context, code, partition, state, step)


def _tokens(history: History, unit: str) -> list[str]:
    """The versions that a history leads through."""
    return [history.base(unit), *(step.head.token for step in history.steps_of(unit))]


def _run_again(context: Context, code: UnitCode, partition: int, state: UnitState, step: LoggedStep) -> None:
    if code.name in step.head.loads:
        state.load(loaded_contents(context.checkpoint, code, step.head.loads[code.name], partition), step.head.token)
        return
    stage = step.head.stage(code.name)
    assert stage is not None
    delivery = read_delivery(context.checkpoint, step, code.name, partition)
    watched = [context.result(key) for key in context.watched_of(code.name)]
    state.perform(code, stage, step.head.token, delivery, watched)


def loaded_contents(checkpoint: str, code: UnitCode, known: Any, partition: int) -> dict[str, bytes | memoryview]:
    """What was loaded into the views of a partition."""
    from viewlet.spark.run.state.segment_files import LoadedViews

    loaded = LoadedViews.of_json(checkpoint, known)
    return {name: loaded.read(name, partition) for name in code.views}


def _restore(context: Context, code: UnitCode, partition: int, state: UnitState) -> None:
    """Makes the state what the snapshot has."""
    state.start_over(code)
    history = context.history
    if history.snapshot is not None and code.name in history.bases:
        folder = partition_folder(history.snapshot, partition)
        checksum = history.checksums[partition]
        reader = SnapshotReader(files_of(context.checkpoint), folder, checksum, index_of(checksum))
        contents = {name: saved_view(reader, code.name, name) for name in code.views}
        state.load(contents, history.base(code.name))


def saved_name(unit: str, view: str) -> str:
    """What a snapshot calls a view: units may have views of the same name, such as the rows of a table that both read.

    >>> saved_name("revenue", "orders_rows")
    'revenue/orders_rows'
    """
    return f"{unit}/{view}"


def saved_view(reader: SnapshotReader, unit: str, view: str) -> bytes:
    """What a snapshot has of a view; older versions name it without its unit."""
    part = next((name for name in (saved_name(unit, view), view) if name in reader), None)
    return b"" if part is None else table_bytes(reader.table(part))


def read_delivery(checkpoint: str, step: LoggedStep, unit: str, partition: int) -> Delivery:
    """What a unit was given in a partition; other shares of a large record are not read."""
    files = files_of(checkpoint)
    where = files.path(step.log)
    try:
        if step.index is None:
            whole = read_record(files, step.log, step.at, step.size)
            return fetch_all(files, read_step(whole.payload, unit, partition))
        start = step.at + OVERHEAD
        shares = read_shares(files.read_part(step.log, start, step.index))
        if shares is None:
            raise StateError(f"{where} is damaged at byte {step.at}")
        mine = [share for share in shares if share.concerns(unit, partition)]
        found = [files.read_part(step.log, start + share.at, share.size) for share in mine]
    except FileNotFoundError as error:
        raise StateError(f"{where} is missing; restore it from a copy") from error
    except OSError as error:
        raise StateError(f"cannot read {where}: {error.strerror}") from error
    for share, data in zip(mine, found, strict=True):
        if not share.is_whole(data):
            raise StateError(f"{where} is damaged at byte {start + share.at}")
    return fetch_all(files, read_contents(found, unit, partition))


def files_of(checkpoint: str) -> Files:
    return files_at(checkpoint)


def partition_folder(snapshot: str, partition: int) -> str:
    return f"{snapshot}/partition-{partition:05}"
