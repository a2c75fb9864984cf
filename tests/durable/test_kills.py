"""Processes killed while they commit; `python -m bench.kill_soak` does the same for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.kill_soak import kills


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "count"), [("interpreter", 6), ("compiled", 4)])
def test_after_a_kill_every_acknowledged_batch_is_there(engine: str, count: int, tmp_path: Path) -> None:
    epochs = list(kills(str(tmp_path / "db"), count, engine, seed=3))
    assert len(epochs) == count
    assert epochs[-1][0] > 0
