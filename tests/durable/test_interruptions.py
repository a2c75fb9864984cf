"""The commit protocol, interrupted at every step: afterwards the last commit is there, or the one before it."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

import viewlet
from tests.durable.faults import Plan, PowerFailure, install
from tests.durable.scripts import LONG_HISTORY, Step, abandon, state_of, states
from viewlet.runtime.durable.lock import DirectoryLock

ENGINES = ("interpreter", "compiled")
STRIDES = {"interpreter": 1 if os.environ.get("VIEWLET_INTERRUPTS") in ("contexts", "all") else 3, "compiled": 7}
"""The protocol is the same for both engines; what they write differs."""


@pytest.fixture(autouse=True)
def locks(monkeypatch: pytest.MonkeyPatch) -> list[DirectoryLock]:
    """The locks taken, so that a test can drop them as the end of a process would."""
    taken: list[DirectoryLock] = []
    original = DirectoryLock.__init__

    def remember(self: DirectoryLock, directory: Path, notes: bool = True) -> None:
        original(self, directory, notes)
        taken.append(self)

    monkeypatch.setattr(DirectoryLock, "__init__", remember)
    return taken


def run(path: Path, engine: str) -> int:
    """Goes through the history; returns how many steps were acknowledged before the power went."""
    done = -1
    try:
        db = viewlet.connect(path, engine=engine)
        done = 0
        for step in LONG_HISTORY:
            step(db)
            done += 1
        db.close()
    except PowerFailure:
        pass
    return done


def message_of(step: Step, db: viewlet.Connection) -> str:
    """Takes a step; what the directory had to say against it."""
    try:
        step(db)
    except viewlet.StateError as error:
        return str(error)
    return ""


def steps_of(path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> int:
    plan = Plan()
    install(monkeypatch, plan)
    assert run(path, engine) == len(LONG_HISTORY)
    return plan.steps


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_after_a_power_failure_at_any_step(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: list[DirectoryLock]
) -> None:
    expected = states(engine)
    total = steps_of(tmp_path / "whole", engine, monkeypatch)
    assert total > 8 * len(LONG_HISTORY)
    for fail_at in range(1, total + 1, STRIDES[engine]):
        path = tmp_path / str(fail_at)
        install(monkeypatch, Plan(fail_at))
        done = run(path, engine)
        for lock in locks:
            lock.release()
        install(monkeypatch, Plan())
        db = viewlet.connect(path, engine=engine)
        found = state_of(db)
        possible = expected[max(done, 0) : done + 2]
        assert found in possible, f"step {fail_at}, {done} acknowledged"
        if fail_at % 3 == 0:
            for step in LONG_HISTORY[expected.index(found) :]:
                step(db)
            assert state_of(db) == expected[-1], f"going on after step {fail_at}"
        db.close()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("lasts", [True, False], ids=["for_a_while", "once"])
def test_with_a_full_disk_nothing_is_lost(
    engine: str, lasts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A refused step leaves memory and directory as they were; once there is room, it can be repeated."""
    caplog.set_level(logging.CRITICAL)
    expected = states(engine)
    total = steps_of(tmp_path / "whole", engine, monkeypatch)
    refused = doubted = 0
    for fail_at in range(4, total, 5 * STRIDES[engine]):
        path = tmp_path / str(fail_at)
        install(monkeypatch, plan := Plan(error="full"))
        db = viewlet.connect(path, engine=engine)
        plan.fail_at, plan.lasts = max(fail_at, plan.steps + 1), lasts
        for number, step in enumerate(LONG_HISTORY):
            message = message_of(step, db)
            if message:
                plan.fail_at = None
                if "survives" in message:  # it is not known whether the step was committed
                    doubted += 1
                    with pytest.raises(viewlet.StateError, match="open"):
                        step(db)
                    abandon(db)
                    db = viewlet.connect(path, engine=engine)
                    if state_of(db) == expected[number + 1]:
                        continue
                else:
                    refused += 1
                    assert "No space left" in message
                assert state_of(db) == expected[number]
                step(db)
            assert state_of(db) == expected[number + 1]
        abandon(db)
        db = viewlet.connect(path, engine=engine)
        assert state_of(db) == expected[-1]
        abandon(db)
    assert refused
    assert doubted or engine == "compiled"
