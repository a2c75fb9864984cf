"""Long jobs show how far they are; without Spark."""

from __future__ import annotations

import io
import logging
import time
from dataclasses import dataclass

import pytest

from viewlet.hosts import progress as spark_progress
from viewlet.hosts.progress import progress_on


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@dataclass
class Stage:
    numTasks: int  # noqa: N815 - as Spark calls it
    numCompletedTasks: int  # noqa: N815


class Tracker:
    """A Spark context whose two stages get on by one task whenever somebody looks; one is already forgotten."""

    def __init__(self) -> None:
        self.looked = 0

    def statusTracker(self) -> Tracker:  # noqa: N802
        self.looked += 1
        return self

    def getActiveStageIds(self) -> list[int]:  # noqa: N802
        return [1, 2, 3] if self.looked > 1 else []

    def getStageInfo(self, stage: int) -> Stage | None:  # noqa: N802
        return None if stage == 3 else Stage(100 * stage, self.looked)


def wait_for(context: Tracker, looks: int) -> None:
    deadline = time.monotonic() + 10
    while context.looked < looks and time.monotonic() < deadline:
        time.sleep(0.005)


def test_a_long_job(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(spark_progress, "PATIENCE", 0.02)
    monkeypatch.setattr(spark_progress, "_PERIOD", 0.01)
    monkeypatch.setattr("viewlet.engine.progress._PATIENCE", 0.0)
    context, screen = Tracker(), Terminal()
    with caplog.at_level(logging.INFO, "viewlet"), progress_on(context, screen)("view v is being filled"):
        wait_for(context, looks=4)
    shown = screen.getvalue()
    assert "viewlet: view v is being filled: at the driver (0 s)" in shown
    assert "viewlet: view v is being filled: 4 of 300 tasks (0 s)" in shown
    assert shown.endswith("\r"), "the line is gone at the end"
    assert caplog.messages[0].startswith("view v is being filled: 0.")


def test_a_short_one_and_no_terminal(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    context, screen = Tracker(), Terminal()
    with caplog.at_level(logging.INFO, "viewlet"), progress_on(context, screen)("batch 7"):
        pass
    assert (screen.getvalue(), caplog.messages) == ("", [])
    monkeypatch.setattr(spark_progress, "PATIENCE", 0.0)
    elsewhere = io.StringIO()
    with progress_on(context, elsewhere)("batch 7"):
        time.sleep(0.02)
    assert (elsewhere.getvalue(), context.looked) == ("", 0)
