"""Every type as key, in joins, comparisons and aggregates, with awkward changes in one batch: as DuckDB has it."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewlet
from tests.conformance.typed import TYPES, TypeUnderTest, declare, objections, sampled

HALF, END = 4, 9
WITHOUT_COMPILED_FORM = {"compared", "above_the_least", "products", "weighted"}
"""Of some types; the list may only get shorter."""


@pytest.mark.slow
@pytest.mark.parametrize("tested", TYPES, ids=lambda tested: tested.name)
def test_interpreter(tested: TypeUnderTest) -> None:
    with viewlet.connect(engine="interpreter") as db:
        views = declare(db, tested)
        assert len(views) == len(tested.queries)
        assert objections(db, tested, views, 0, END) == {}


@pytest.mark.parametrize("tested", sampled(TYPES, "double", "decimal", "varchar"))
def test_compiled_and_opened_again(tested: TypeUnderTest, tmp_path: Path) -> None:
    with viewlet.connect(tmp_path, engine="compiled") as db:
        views = declare(db, tested)
        assert {query.name for query in tested.queries}.difference(views) <= WITHOUT_COMPILED_FORM
        assert objections(db, tested, views, 0, HALF) == {}
    with viewlet.connect(tmp_path, engine="compiled") as db:
        assert objections(db, tested, views, HALF, END) == {}
