"""Views over rings in a directory: reopened, killed and reopened, over tables and over streams."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import viewlet

SCHEMA = """
CREATE {kind} sales (shop BIGINT, day DATE, units DOUBLE);
CREATE {kind} shops (shop BIGINT, city VARCHAR);
CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(units, CATEGORICAL(day), CATEGORICAL(city)) FROM sales NATURAL JOIN shops;
CREATE MATERIALIZED VIEW g AS SELECT city, COFACTOR(units, {option}) AS c
    FROM sales NATURAL JOIN shops GROUP BY city;
CREATE MATERIALIZED VIEW j WITH (variable_order = 'shop(day(units), city)') AS
    SELECT FACTORIZED * FROM sales NATURAL JOIN shops;
"""
FIRST = {
    "sales": [(1, "2026-01-01", 0.1), (1, "2026-01-02", 1e17), (2, None, 3.5), (1, "2026-01-01", 0.1)],
    "shops": [(1, "Rome"), (2, None), (2, "Oslo")],
}
SECOND = {
    "sales": [{"shop": 1, "day": "2026-01-02", "units": 1e17, "_multiplicity": -1}],
    "shops": [{"shop": 2, "city": None, "_multiplicity": -1}],
}
KILLED = """
import os, sys, viewlet
from tests.durable.test_ring_views import FIRST, SECOND, schema
db = viewlet.connect(sys.argv[1], engine=sys.argv[4])
db.execute(schema(sys.argv[2], sys.argv[4]))
db.apply(FIRST)
if sys.argv[3] == "checkpoint":
    db.checkpoint()
db.apply(SECOND)
os._exit(9)
"""


def schema(kind: str, engine: str) -> str:
    """Exact sums have no compiled form."""
    return SCHEMA.format(kind=kind, option="exact => true" if engine == "interpreter" else "degree => 2")


def state_of(db: viewlet.Connection) -> tuple[Any, ...]:
    cofactor = db.view("m").cofactor()
    groups = {city: (table.count, table.matrix.tolist()) for city, table in db.view("g").cofactor().items()}
    rows = sorted(db.view("j").rows(), key=repr)
    return db.epoch, cofactor.variables, cofactor.count, cofactor.matrix.tolist(), groups, rows


def expected(kind: str, engine: str) -> tuple[Any, ...]:
    db = viewlet.connect(engine=engine)
    db.execute(schema(kind, engine))
    db.apply(FIRST)
    db.apply(SECOND)
    return state_of(db)


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("moment", ["checkpoint", "log"])
@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_a_killed_process_leaves_its_views(kind: str, moment: str, engine: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "db"), kind, moment, engine]
    assert subprocess.run(command, check=False).returncode == 9
    with viewlet.connect(tmp_path / "db", engine=engine) as db:
        assert state_of(db) == expected(kind, engine)
        db.apply({"shops": [{"shop": 1, "city": "Rome", "_multiplicity": -1}]})
        assert set(db.view("g").cofactor()) == {"Oslo"}


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_a_closed_database_goes_on_where_it_was(kind: str, engine: str, tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "db", engine=engine) as db:
        db.execute(schema(kind, engine))
        db.apply(FIRST)
    with viewlet.connect(tmp_path / "db", engine=engine) as db:
        db.apply(SECOND)
        assert state_of(db)[1:] == expected(kind, engine)[1:]
        assert db.view("m").stats()["tuples"] == 8
        db.execute("DROP VIEW j")
    with viewlet.connect(tmp_path / "db", engine=engine) as db:
        assert db.views == ("m", "g")
        if engine == "interpreter":
            assert db.view("g").cofactor()["Rome"].matrix.tolist() == [[0.020000000000000004]]
        assert db.view("g").stats()["engine"] == engine
