"""Batches that an exception cuts short at a chosen line or instruction, and what must be true afterwards.

`Interruption` counts the lines (or instructions) of Viewlet and of generated code that run, and raises at chosen ones.
`Trial` interrupts the batches of one database again and again. After each, everything is as before the batch or as
after it, whichever the epoch says; a good batch then leads where it should, and subscribers have been told every change
once.

`VIEWLET_INTERRUPTS` says at which events: `all` of them, or with `contexts` every line in every context, where the
context is the chain of lines that led there: at its first, second and last execution. Most lines of a batch run once
for each row or value, hundreds of times from the same place. Both modes also interrupt, at every line in every context,
what follows an exception at four lines of a batch: the rollback, and the next call, which completes it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import viewlet
from viewlet.codegen.module_cache import cache_directory

MODE = os.environ.get("VIEWLET_INTERRUPTS", "some")
"""Where to interrupt: at `some` events, in all `contexts`, or at `all` events."""
COMPLETE = MODE in ("contexts", "all")
POINTS = 40
OURS = (str(Path(viewlet.__file__).parent), str(cache_directory()))
Batch = Mapping[str, Any]
State = dict[str, Any]


class Interruption:
    """Raises `error` at the events with given numbers, and counts all of them.

    Python stops tracing when a trace function raises; the next call or return, of which a profile function is told,
    starts it again. So what handles the exception can be interrupted too.
    """

    def __init__(self, *at: int, opcodes: bool = False, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.at, self.opcodes, self.error = at, opcodes, error
        self.seen = 0
        self.contexts: list[int] | None = None
        """Where each event after the interruptions was, if that is asked for."""

    def __enter__(self) -> Interruption:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> bool:
        sys.settrace(None)
        sys.setprofile(None)
        return False

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = self.opcodes, not self.opcodes
        return self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        if event in ("line", "opcode"):
            self.seen += 1
            if self.contexts is not None and self.seen > max(self.at, default=0):
                self.contexts.append(self._context(frame))
            if self.seen in self.at:
                sys.setprofile(self._resume)
                raise self.error
        return self._step

    def _resume(self, frame: FrameType | None, event: str, argument: object) -> None:
        sys.setprofile(None)
        sys.settrace(self._call)
        while frame is not None:
            frame.f_trace = self._call(frame, "call", None)
            frame = frame.f_back

    def _context(self, frame: FrameType | None) -> int:
        """The line or instruction that runs next, and those of ours that called it; nothing, where nobody needs it."""
        if not COMPLETE:
            return 0
        places: list[object] = []
        while frame is not None:
            if frame.f_code.co_filename.startswith(OURS):
                places += (frame.f_code, frame.f_lasti if self.opcodes else frame.f_lineno)
            frame = frame.f_back
        return hash(tuple(places))


class Timer:
    """Raises KeyboardInterrupt after some seconds, wherever that may be."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        signal.signal(signal.SIGALRM, self._interrupt)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    @staticmethod
    def _interrupt(*_: object) -> None:
        raise KeyboardInterrupt


def points(contexts: Sequence[int], many: int = POINTS, mode: str = MODE) -> list[int]:
    """Numbers of events to interrupt at, counted from one; among some are the last ones."""
    total = len(contexts)
    if mode == "all" or total <= many:
        return [*range(1, total + 1)]
    if mode == "contexts":
        seen: dict[int, list[int]] = {}
        for number, context in enumerate(contexts, 1):
            seen.setdefault(context, []).append(number)
        return sorted({number for numbers in seen.values() for number in (*numbers[:2], numbers[-1])})
    return sorted({1 + i * total // many for i in range(many)} | {*range(total - 10, total + 1)})


@dataclass
class Trial:
    """`make` opens the database and declares things; `first` are rows to start from, then a batch and its opposite."""

    make: Callable[[], viewlet.Connection]
    first: Batch
    batch: Batch
    opposite: Batch
    good: Batch
    good_opposite: Batch
    listens: bool = True
    """Subscribe to the views; a signal may also interrupt the subscriber, who then has missed something."""
    told: dict[str, Counter[str]] = field(default_factory=dict)
    followed: int = 0
    """Events after the last interruption."""

    def __post_init__(self) -> None:
        self.db = self.make()
        self.db.apply(self.first)
        for name in self.db.views if self.listens else ():
            if "FACTORIZED" not in self.db.explain(name):
                self._listen(name)
        self.before = self.state()
        self.db.apply(self.good)
        self.before_good = self.state()
        self.db.apply(self.good_opposite)
        assert self.state() == self.before
        self.db.apply(self.batch)
        self.after = self.state()
        self.db.apply(self.good)
        self.after_good = self.state()
        self.db.apply(self.good_opposite)
        self.db.apply(self.opposite)
        assert self.state() == self.before
        assert self.after != self.before != self.before_good != self.after_good

    def _listen(self, name: str) -> None:
        heard = self.told[name] = Counter(map(repr, self.db.view(name).rows()))

        def hear(epoch: int, changes: Any) -> None:
            for row in changes.to_pylist():
                weight = row.pop("_multiplicity")
                heard[repr(tuple(row.values()))] += weight

        self.db.view(name).subscribe(hear)

    def state(self) -> State:
        return state_of(self.db)

    def events(self, *at: int, opcodes: bool = False) -> list[int]:
        """The context of every event of a batch, or of those that follow its interruptions."""
        run, epoch = Interruption(*at, opcodes=opcodes), self.db.epoch
        run.contexts = []
        self._attempt(run, KeyboardInterrupt)
        if self.db.epoch > epoch:
            self.db.apply(self.opposite)
        return run.contexts

    def _attempt(self, interrupted: AbstractContextManager[Any], error: type[BaseException]) -> None:
        """A batch, and if it is interrupted a read: that completes what an interrupted rollback has left."""
        with suppress(error), interrupted:
            try:
                self.db.apply(self.batch)
            except error:
                with suppress(error):
                    _ = self.db.epoch

    def interrupt(
        self, *at: int, opcodes: bool = False, error: type[BaseException] = KeyboardInterrupt, look: Any = None
    ) -> bool:
        """One batch, interrupted at some events; says whether it was committed."""
        run = Interruption(*at, opcodes=opcodes, error=error)
        committed = self.attempt(run, f"interrupted at {at}", error, look)
        self.followed = run.seen - at[-1]
        return committed

    def attempt(
        self,
        interrupted: AbstractContextManager[Any],
        where: str,
        error: type[BaseException] = KeyboardInterrupt,
        look: Any = None,
    ) -> bool:
        """One batch that `interrupted` may interrupt, and all that must be true then; whether it was committed."""
        epoch, batches = self.db.epoch, self._batches()
        self._attempt(interrupted, error)
        if look is not None:
            look(self)
        committed = self.db.epoch > epoch
        where += ", committed" if committed else ", not committed"
        assert self.db.epoch in (epoch, epoch + 1), where
        assert self.state() == (self.after if committed else self.before), where
        assert self._batches() == batches + (1 if committed else 0), where
        self.db.apply(self.good)
        assert self.state() == (self.after_good if committed else self.before_good), where
        for name, heard in self.told.items():
            assert +heard == Counter(map(repr, self.db.view(name).rows())), f"{where}: subscriber of {name}"
        self.db.apply(self.good_opposite)
        if committed:
            self.db.apply(self.opposite)
        assert self.state() == self.before, where
        return committed

    def _batches(self) -> int:
        views: Any = self.db.stats()["views"]
        return int(views[self.db.views[0]].get("batches", self.db.epoch))


def state_of(db: viewlet.Connection) -> State:
    """What is in a database."""
    tables: Any = db.stats()["tables"]
    kept = [name for name in db.tables if tables[name]["kind"] != "STREAM"]
    return {name: sorted(db.table(name).rows(), key=repr) for name in kept} | {
        name: sorted(db.view(name).rows(), key=repr) for name in db.views
    }


def same_when_reopened(trial: Trial, path: Path, engine: str) -> None:
    """The directory, as it is right after an exception, opens to the state with which the connection continues."""
    copy = path.with_name("copy")
    shutil.copytree(path, copy)
    found = viewlet.connect(copy, engine=engine, fsync=False)
    assert found.epoch == trial.db.epoch
    assert state_of(found) == trial.state()
    found.close()
    shutil.rmtree(copy)


def check_all(trial: Trial, many: int = POINTS, **how: Any) -> int:
    """Interrupts a trial's batch at all points, or some; at some of them twice, for a rollback can be interrupted.

    Returns how many of the batches were committed.
    """
    opcodes = how.get("opcodes", False)
    contexts = trial.events(opcodes=opcodes)
    assert len(contexts) > 20
    committed = 0
    for number, at in enumerate(points(contexts, many)):
        again = [at + 1 + number * 7 % max(1, trial.followed)] if number % 3 == 2 and not COMPLETE else []
        committed += trial.interrupt(at, *again, **how)
    if COMPLETE:
        for quarter in range(1, 5):
            committed += _check_rollback(trial, quarter * len(contexts) // 4, opcodes, how, thrice=quarter == 2)
    return committed


def _check_rollback(trial: Trial, at: int, opcodes: bool, how: Mapping[str, Any], thrice: bool) -> int:
    """Interrupts what follows an interruption in every context; `thrice`, also what follows one in the middle of it."""
    after = trial.events(at, opcodes=opcodes)
    committed = sum(trial.interrupt(at, at + second, **how) for second in points(after, 0, "contexts"))
    if thrice and after:
        middle = at + len(after) // 2
        rest = trial.events(at, middle, opcodes=opcodes)
        committed += sum(trial.interrupt(at, middle, middle + third, **how) for third in points(rest, 0, "contexts"))
    return committed
