"""What is there before the first change is there after a batch that failed."""

from __future__ import annotations

import pytest

import viewlet
from tests.conformance.adapters import Compiled
from tests.conformance.programs import PROGRAMS

ABSENT = [{"id": 1, "w": 1, "y": 1.0, "_multiplicity": 1}, {"id": 9, "w": 9, "_multiplicity": -1}]
"""The second row is not there to be deleted."""


def test_a_failed_batch_leaves_them() -> None:
    program, engine = PROGRAMS["constants"], Compiled()
    with viewlet.connect(engine="compiled") as db:
        for statement in (*program.tables.values(), *(view.statement for view in program.views)):
            db.execute(statement)
        for moment in program.moments:
            with pytest.raises(viewlet.errors.DataError):
                db.apply({"c": ABSENT})
            db.apply(engine.changes(program, moment.batch))
            for view in program.views:
                assert moment.expected[view.name].objection(db.view(view.name)) is None
