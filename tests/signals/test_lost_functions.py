"""A directory whose views call functions that the program does not have: the rest is open, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewlet
from tests.signals.user_functions import doubled
from viewlet import SchemaError, StateError
from viewlet.signals import register_functions
from viewlet.signals.notation import _NAMED

NAME = "tests.signals.user_functions:doubled"


@pytest.fixture
def path(tmp_path: Path) -> Any:
    """A directory with a view that calls a function, in its snapshot and in its log, which is not registered then."""
    place = tmp_path / "db"
    with viewlet.connect(place) as db:
        db.execute("CREATE TABLE r (t BIGINT NOT NULL, v DOUBLE); CREATE STREAM s (t BIGINT NOT NULL, v DOUBLE)")
        db.execute("CREATE TABLE other (n BIGINT)")
        for table in "rs":
            signal = db.signal(table, time="t", value="v").sample(1)
            db.create_view(f"{table}_doubled", signal.select(doubled).ewm(0.5))
            db.create_view(f"{table}_smooth", signal.ewm(0.5))
            db.execute(f"CREATE MATERIALIZED VIEW {table}_count AS SELECT COUNT(*) AS n FROM {table}_doubled")
            db.insert(table, [(t, float(t)) for t in range(5)])
        db.checkpoint()
        for table in "rs":
            db.insert(table, [(t, float(t)) for t in range(5, 8)])
        db.create_view("late", db.signal("r", time="t", value="v").sample(1).select(doubled))
        db._session.close(False)  # the last batches and the last view are in the log only
    _NAMED.discard(NAME)
    yield place
    _NAMED.discard(NAME)


def test_the_rest_of_a_directory_is_open_and_lost_views_say_what_they_miss(path: Path) -> None:
    with viewlet.connect(path) as db:
        assert set(db.views) == {"r_smooth", "s_smooth"}
        assert len(db.view("r_smooth").rows()) == 8
        for name in ("r_doubled", "s_doubled", "late", "r_count"):
            with pytest.raises(StateError, match=rf"view '{name}' is not open.*'{NAME}'.*otherwise DROP VIEW {name}"):
                db.view(name)
        for statement in (
            "SELECT * FROM r_doubled",
            "CREATE MATERIALIZED VIEW w AS SELECT t FROM r_doubled",
            "SELECT COUNT(*) AS n FROM R_COUNT",
        ):
            with pytest.raises(StateError, match="is not open"):
                db.execute(statement)
        with pytest.raises(StateError, match="is not open"):
            db.signal("r_doubled", time="t", value="v")
        for statement in ("CREATE TABLE late (a BIGINT)", "DROP TABLE r", "DROP VIEW r_doubled"):
            with pytest.raises(SchemaError):
                db.execute(statement)
        with pytest.raises(StateError, match=r"'r' takes no rows.*'r_doubled' is not open"):
            db.insert("r", [(8, 8.0)])
        with pytest.raises(StateError, match="'s' takes no rows"):
            db.insert("s", [(8, 8.0)])
        with pytest.raises(StateError, match="no snapshot can be written"):
            db.checkpoint()
        db.insert("other", [(1,)])
        assert len(db.view("r_smooth").rows()) == 8


def test_a_lost_view_is_as_it_was_once_its_function_is_there(path: Path) -> None:
    for n in range(3):
        with viewlet.connect(path) as db:
            db.insert("other", [(n,)])
    register_functions(doubled)
    with viewlet.connect(path) as db:
        for table in "rs":
            db.insert(table, [(8, 8.0)])
            expected = [(t, 2 * v) for t, v in db.view(f"{table}_smooth").rows()]
            assert db.view(f"{table}_doubled").rows() == expected  # doubling is exact
            assert db.view(f"{table}_count").rows() == [(9,)]
        assert db.view("late").rows() == [(t, 2.0 * t) for t in range(9)]
        assert sorted(db.table("other").rows()) == [(0,), (1,), (2,)]
        db.checkpoint()
    with viewlet.connect(path) as db:
        assert db.view("s_count").rows() == [(9,)]


def test_dropped_lost_views_free_their_tables(path: Path) -> None:
    with viewlet.connect(path) as db:
        db.execute("DROP VIEW r_count; DROP VIEW r_doubled; DROP VIEW IF EXISTS late")
        db.insert("r", [(8, 8.0)])
        assert len(db.view("r_smooth").rows()) == 9
    with viewlet.connect(path) as db:
        db.execute("DROP VIEW s_count; DROP VIEW s_doubled")
        db.insert("s", [(8, 8.0)])
        db.checkpoint()
        db.execute("CREATE TABLE late (a BIGINT)")
    register_functions(doubled)
    with viewlet.connect(path) as db:
        assert set(db.views) == {"r_smooth", "s_smooth"}
        assert len(db.view("r_smooth").rows()) == len(db.view("s_smooth").rows()) == 9
