"""Golden files: one per test and stage, under `expected/`.

`pytest tests/golden --update-golden` (or VIEWLET_UPDATE_GOLDEN=1) writes what is printed now; review the difference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

EXPECTED = Path(__file__).parent / "expected"
Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(stage, text)` compares the text with the file of this test and stage."""
    update = request.config.getoption("--update-golden", default=False) or os.environ.get("VIEWLET_UPDATE_GOLDEN")
    name = re.sub(r"\W+", "_", request.node.name.removeprefix("test_")).strip("_")

    def compare(stage: str, text: str) -> None:
        path = EXPECTED / f"{name}.{stage}.txt"
        if update:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text.rstrip() + "\n", encoding="utf-8")
        assert path.exists(), f"no golden file {path.name}; run pytest tests/golden --update-golden"
        assert text.rstrip() + "\n" == path.read_text(encoding="utf-8"), f"{path.name} differs"

    return compare
