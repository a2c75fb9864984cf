"""Files that fail at a chosen step: as if the power went, or as if the disk were full."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest

from viewlet.runtime.durable import store
from viewlet.runtime.durable.files import Data, LocalFiles, Output


class PowerFailure(BaseException):
    """Nothing runs after this."""


class Plan:
    """Counts the steps of all files it is given to, and fails at one of them, or from one of them on."""

    def __init__(self, fail_at: int | None = None, error: str = "power", lasts: bool = True) -> None:
        self.steps = 0
        self.fail_at = fail_at
        self.error = error
        self.lasts = lasts
        self.unsynced: dict[Path, int] = {}
        """What a power failure may tear: file -> how much of it is safe."""

    def step(self) -> None:
        self.steps += 1
        if self.fail_at is None or self.steps < self.fail_at:
            return
        if self.error == "power":
            if self.steps == self.fail_at:
                self._tear()
            raise PowerFailure
        if self.lasts or self.steps == self.fail_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _tear(self) -> None:
        random = Random(self.steps)
        for path, safe in self.unsynced.items():
            if path.exists():
                os.truncate(path, random.randint(safe, path.stat().st_size))


class FaultyFiles(LocalFiles):
    plan = Plan()

    def __init__(self, root: Path, sync: bool = True) -> None:
        super().__init__(root, sync=False)

    def create(self, name: str) -> Output:
        self.plan.step()
        return _FaultyOutput(self.root / name, super().create(name), self.plan)

    def rename(self, old: str, new: str) -> None:
        self.plan.step()
        super().rename(old, new)
        if self.root / old in self.plan.unsynced:
            self.plan.unsynced[self.root / new] = self.plan.unsynced.pop(self.root / old)

    def remove(self, name: str) -> None:
        self.plan.step()
        super().remove(name)

    def make_folder(self, name: str) -> None:
        self.plan.step()
        super().make_folder(name)

    def sync_folder(self, name: str = "") -> None:
        self.plan.step()


class _FaultyOutput:
    def __init__(self, path: Path, output: Output, plan: Plan) -> None:
        self._path, self._output, self._plan = path, output, plan
        plan.unsynced[path] = 0

    def write(self, data: Data) -> object:
        self._plan.step()
        return self._output.write(data)

    def sync(self) -> None:
        self._plan.step()
        self._plan.unsynced[self._path] = self._path.stat().st_size

    def close(self) -> None:
        self._output.close()


def install(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    """From now on databases in directories are written under this plan."""
    monkeypatch.setattr(FaultyFiles, "plan", plan)
    monkeypatch.setattr(store, "LocalFiles", FaultyFiles)
