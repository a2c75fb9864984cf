"""Compiled functions run as plain Python here unless told otherwise, and tables are flat when a test says so."""

from __future__ import annotations

import pytest

from viewlet.changes import arrow_reader
from viewlet.tables import store


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables move to flat arrays with the first batch of columns, however small."""
    monkeypatch.setattr(store, "flat_from", lambda: 1)
    monkeypatch.setattr(arrow_reader, "FEW_ROWS", 0)
