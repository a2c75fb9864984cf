"""An interrupt while generated code asks Python for the value of a function: answers stay right, the batch fails."""

from __future__ import annotations

from typing import Any

import pytest

import viewlet


@pytest.fixture
def db() -> viewlet.Connection:
    found = viewlet.connect(engine="compiled")
    found.execute("CREATE STREAM s (x VARCHAR NOT NULL, y VARCHAR NOT NULL)")
    found.execute("CREATE MATERIALIZED VIEW v AS SELECT x || y AS z, COUNT(*) AS n FROM s GROUP BY x || y")
    found.insert("s", [("a", "b"), ("c", "d")])
    return found


def answers(db: viewlet.Connection) -> Any:
    with db._session.open() as database:
        return database.views["v"].engine._engine._process._answers  # type: ignore[union-attr]


def test_the_batch_is_taken_back_exactly(db: viewlet.Connection) -> None:
    asked, before = answers(db), db.view("v").rows()
    (number,) = range(len(asked._closures))
    compute, given = asked._closures[number], list[Any]()

    def interrupted(values: Any) -> Any:
        given.append(values)
        if len(given) == 2:
            raise KeyboardInterrupt
        return compute(values)

    asked._closures[number] = interrupted
    with pytest.raises(KeyboardInterrupt):
        db.insert("s", [("e", "f"), ("g", "h"), ("i", "j")])
    assert given[1] == given[2]
    assert db.view("v").rows() == before
    assert db.epoch == 1
    db.insert("s", [("g", "h")])
    assert db.view("v").rows() == [*before, ("gh", 1)]


def test_a_question_that_python_never_saw_is_asked_again(
    db: viewlet.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    from viewlet.codegen.answers import AGAIN, ANSWERED

    asked = answers(db)
    asked.calls[ANSWERED] = AGAIN
    monkeypatch.setattr(asked, "_compute", lambda number: None)
    asked._answer(0)
    assert isinstance(asked.take_failure(), KeyboardInterrupt)
