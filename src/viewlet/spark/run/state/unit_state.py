"""The state of a unit in one partition: a node and its version, in this process or in files that processes share.

The state of generated code is in mapped files: a process attaches to the files that another one left. Other state is in
the process, which keeps it for the next task, and saves a copy now and then; another process continues from the copy.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viewlet.errors import StateError
from viewlet.runtime.durable.compression import packed, unpacked
from viewlet.spark.run.exchange.stage_record import Delivery, UnitStage
from viewlet.spark.run.state.saved_versions import SavedVersions, newest
from viewlet.spark.run.units.node import Node, ResultNode, with_result
from viewlet.spark.run.units.plan_code import WorkerBlock
from viewlet.spark.run.units.unit import ProgramCode, UnitCode
from viewlet.spark.run.units.unit_result import OWN, ResultCode

if TYPE_CHECKING:
    from viewlet.runtime.durable.mapped_state import MappedState
    from viewlet.spark.run.units.node import SharedNode

Watched = Sequence[ResultCode | None]
"""The results of a unit whose changes are wanted; None is its own."""
NOTHING = "nothing"
"""The token of the state before the first batch."""
SAVE_AFTER = 0.5
"""Seconds of work after which a state in a process is saved."""
WORTH = 5.0
"""It is not saved again before so many times the time has been worked that saving it took."""
FEW_STAGES = 8
"""A process that is behind by less than this runs the stages."""
SPARE_STRINGS = 50_000
"""A state that has twice as many strings as when its files were made, and this many, is written to new files."""
DONE = "done"
"""The file that tells what the batch has done so far that led to the state."""
WAIT_SECONDS = 120.0
"""How long a task waits for another one that holds the same state, such as one that Spark has abandoned."""


@dataclass(slots=True)
class UnitState(ABC):
    """A unit in one partition: a node and its version; `before` is the version that a rollback returns to.

    `initial` is what its views hold before the first batch.
    """

    node: Node
    digest: str
    token: str | None
    initial: Mapping[str, bytes]
    before: str | None = None

    @property
    @abstractmethod
    def has_files(self) -> bool:
        """Files of this machine belong to it."""

    @abstractmethod
    def acquire(self) -> None:
        """Takes it again for a task, after `release`."""

    def runs(self, code: UnitCode) -> bool:
        """Whether it is a state of this code."""
        return self.digest == code.digest

    @abstractmethod
    def release(self) -> None:
        """Releases the state for other processes."""

    @abstractmethod
    def give_up(self) -> None:
        """Releases the object, which is not used again."""

    def perform(
        self, code: UnitCode, stage: UnitStage, token: str, delivery: Delivery, watched: Watched
    ) -> WorkerBlock:
        """Runs one stage, of which this is the version before."""
        plan = code.plan(stage.plan, stage.tables)
        block = plan.blocks[stage.block]
        if not isinstance(block, WorkerBlock):
            raise StateError(f"block {stage.block} of a batch of {stage.unit} does not run at workers")
        if isinstance(self.node, ResultNode):
            self.node.keep_results([OWN if each is None else each.key.digest for each in watched])
        for each in watched:
            with_result(self.node, each).watch()
        if stage.first:
            self.node.begin(plan)
            self._is_committed()
            self.before = self.token
        else:
            self.node.go_on(plan)
        for target, blobs in delivery.items():
            self.node.put(target, blobs)
        self.node.run(block.statements)
        self.token = token
        return block

    def _is_committed(self) -> None:  # noqa: B027 - most states have nothing to do then
        """The next batch begins, so that the version is one of the history."""

    def find_version(self, tokens: list[str]) -> None:  # noqa: B027
        """Takes a later version of a history than it has, if one is at hand."""

    def load(self, contents: Mapping[str, Any], token: str) -> None:
        """Puts contents in place of those of all views."""
        for name, blob in contents.items():
            self.node.restore(name, blob)
        self.token, self.before = token, None

    def take_back(self) -> None:
        """Returns to the version before the last batch, or to no version if that is impossible."""
        taken_back = self.node.rollback()
        self.token, self.before = (self.before or self.token) if taken_back else None, None

    @abstractmethod
    def start_over(self, code: UnitCode) -> None:
        """Brings it to where it was before the first batch."""

    def _begin_history(self) -> None:
        for name, blob in self.initial.items():
            self.node.restore(name, blob)
        self.token, self.before = NOTHING, None


class ResidentState(UnitState):
    """State in this process, of which copies are saved when enough work has been done since the last one.

    What a process has to do again is bounded by that, and so is what saving adds to the work.
    """

    __slots__ = ("_code", "_cost", "_saved", "_work")

    def __init__(self, code: UnitCode, initial: Mapping[str, bytes], saved: SavedVersions | None = None) -> None:
        super().__init__(self._empty(code), code.digest, NOTHING, initial)
        self._code, self._saved = code, saved
        self._work = self._cost = 0.0
        self._begin_history()

    @property
    def has_files(self) -> bool:
        return self._cost > 0

    def perform(
        self, code: UnitCode, stage: UnitStage, token: str, delivery: Delivery, watched: Watched
    ) -> WorkerBlock:
        started = time.perf_counter()
        block = super().perform(code, stage, token, delivery, watched)
        self._work += time.perf_counter() - started
        return block

    def _is_committed(self) -> None:
        if self._saved is None or self.token in (None, NOTHING) or self._work < max(SAVE_AFTER, WORTH * self._cost):
            return
        started = time.perf_counter()
        assert self.token is not None
        self._saved.save(self.token, {name: self.node.contents(name) for name in self._code.views})
        self._cost = time.perf_counter() - started
        self._work = -self._cost  # `perform` counts it

    def find_version(self, tokens: list[str]) -> None:
        at = tokens.index(self.token) if self.token in tokens else -1
        if self._saved is None or at == len(tokens) - 1:
            return
        found = newest(self._saved.versions(), tokens)
        least = at + (1 if self.token in (None, NOTHING) or at < 0 else FEW_STAGES)
        contents = self._saved.read(found) if found is not None and tokens.index(found) >= least else None
        if contents is not None and contents.keys() == self._code.views.keys():
            assert found is not None
            self.start_over(self._code)
            self.load(contents, found)

    @staticmethod
    def _empty(code: UnitCode) -> Node:
        return code.evaluated(code.views)

    def acquire(self) -> None:
        """Does nothing: no other process can hold this state."""

    def release(self) -> None:
        """Does nothing: the state stays in this process."""

    def give_up(self) -> None:
        """There is nothing to close."""

    def start_over(self, code: UnitCode) -> None:
        self.node = self._empty(code)
        self._begin_history()


class PrivateState(ResidentState):
    """State of either kernel in this process, for one task: it is not kept."""

    @staticmethod
    def _empty(code: UnitCode) -> Node:
        return empty_node(code)


def empty_node(code: UnitCode) -> Node:
    """A node with the worker's views of a unit, in the memory of this process."""
    if not isinstance(code, ProgramCode) or code.module is None:
        return code.evaluated(code.views)
    from viewlet.spark.run.units.generated_node import GeneratedNode

    return GeneratedNode(code, code.views)


class FileState(UnitState):
    """State of generated code, in files that the processes of a machine share."""

    __slots__ = ("_code", "_count", "_done_bytes", "_files", "_shared", "_strings")

    def __init__(self, code: UnitCode, files: MappedState, initial: Mapping[str, bytes]) -> None:
        self._files, self._code, self.digest, self.initial = files, code, code.digest, initial
        self._done_bytes = 0
        self._make()

    def _make(self) -> None:
        """Attaches to the existing files, or starts from an empty state if they hold no valid one."""
        version = self._files.version
        if version is not None:
            with contextlib.suppress(FileNotFoundError):
                self._attach()
                self.token = version
                if self._read_done():
                    return
        self._files.reset()
        self._attach()
        self._begin_history()
        self._finish(NOTHING)

    def _attach(self) -> None:
        from viewlet.runtime.dictionary import FileDictionary

        files = self._files
        self._strings = FileDictionary(files.file("strings"))
        self._strings.catch_up()
        self._shared: SharedNode = self._code.mapped(self._strings, files.memory)
        self.node = self._shared
        self._count = files.count

    @property
    def has_files(self) -> bool:
        return True

    def runs(self, code: UnitCode) -> bool:
        """The node knows statements by identity: code that came once more is other code."""
        return self._code is code

    def acquire(self) -> None:
        is_same = self._files.acquire(WAIT_SECONDS)
        version = self._files.version
        if not is_same or version is None or not self._strings.catch_up():
            self._make()
        elif self._files.count != self._count:
            self._count, self.token = self._files.count, version
            with contextlib.suppress(FileNotFoundError):
                self._shared.attach_again()
                if self._read_done():
                    return
            self._make()

    def _read_done(self) -> bool:
        """What the process did that had the state last; False if its files are not as it left them."""
        data = self._files.file(DONE).read_bytes()
        if not self._files.is_whole(self._strings.size + len(data)):
            return False
        self._done_bytes = len(data)
        self.before = self._shared.take_over(unpacked(data))
        return True

    def release(self) -> None:
        known = self._strings.size
        self._strings.save()
        if self._strings.size != known and self.token is not None:
            self._files.finish(self.token, self._strings.size + self._done_bytes)
        self._files.release()

    def give_up(self) -> None:
        self._files.close()

    def perform(
        self, code: UnitCode, stage: UnitStage, token: str, delivery: Delivery, watched: Watched
    ) -> WorkerBlock:
        if stage.first and len(self._strings) > 2 * self._strings.at_first + SPARE_STRINGS:
            self._leave_unused_strings()
        self._files.begin()
        block = super().perform(code, stage, token, delivery, watched)
        self._finish(token)
        return block

    def _leave_unused_strings(self) -> None:
        """Continues in new files, which have only the strings that the contents of the views need."""
        contents = {name: self.node.contents(name) for name in self._code.views}
        token = self.token
        assert token is not None
        self._files.begin()
        self._files.reset()
        self._attach()
        self._begin_history()
        self.load(contents, token)

    def load(self, contents: Mapping[str, Any], token: str) -> None:
        self._files.begin()
        super().load(contents, token)
        self._finish(token)

    def take_back(self) -> None:
        self._files.begin()
        super().take_back()
        assert self.token is not None
        self._finish(self.token)

    def _finish(self, token: str) -> None:
        """Writes what another process needs to continue or roll back the batch; only then is the state a version."""
        data = packed(self._shared.progress(self.before), quick=True)
        self._strings.save()
        self._done_bytes = self._files.file(DONE).write_bytes(data)
        self._files.finish(token, self._strings.size + len(data))
        self._count = self._files.count

    def start_over(self, code: UnitCode) -> None:
        self._files.begin()
        self._make()
