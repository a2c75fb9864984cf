"""The text of a signal query is data: it calls no function that the program has not named, and no operator breaks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.signals import SignalError, register_functions
from viewlet.signals.notation import _NAMED

EVENTS = {"node": "Source", "table": "t", "key": ["g"], "time": "at", "values": ["x"], "is_timestamp": False}
GRID = {"node": "Grid", "period": {"fraction": "10"}, "offset": {"fraction": "0"}}
SAMPLES = {"node": "Sample", "source": EVENTS, "grid": GRID, "interpolation": None}
WINDOW = {"node": "Window", "source": SAMPLES, "size": 2, "hop": 2}


def policy(**given: Any) -> dict[str, Any]:
    found = {"node": "Interpolation", "kind": "user", "max_gap": {"fraction": "9"}, **given}
    return {**SAMPLES, "interpolation": found}


def stage(operation: str, *arguments: Any) -> dict[str, Any]:
    return {**WINDOW, "stages": [{"node": "Stage", "operation": operation, "arguments": arguments}]}


def calls(name: str) -> list[dict[str, Any]]:
    """Queries that call a function or class."""
    return [
        {"node": "Select", "source": EVENTS, "function": name},
        {"node": "Where", "source": EVENTS, "function": name},
        {"node": "Filter", "source": SAMPLES, "name": name},
        {**SAMPLES, "source": {**EVENTS, "function": name}},
        {**SAMPLES, "source": {**EVENTS, "function": f"1=numpy:sin,2={name}"}},
        {**SAMPLES, "source": {**EVENTS, "payload": name}},
        policy(name=name),
        stage("select", name, None, None),
        stage("user", name),
    ]


MALFORMED: list[Any] = [
    5,
    [],
    GRID,
    {"complex": ["a", "b"]},
    {"node": "Scale", "source": 5, "factor": 1},
    {"node": "Scale", "source": EVENTS, "factor": "x"},
    {"node": "Shift", "source": SAMPLES, "ticks": "5"},
    {"node": "Downsample", "source": SAMPLES, "factor": 0},
    {"node": "Lfilter", "source": SAMPLES, "b": [1], "a": [0]},
    {"node": "Lfilter", "source": SAMPLES, "b": ["x"], "a": [1]},
    {"node": "Sos", "source": SAMPLES, "sections": [[1, 2]]},
    {"node": "Fir", "source": SAMPLES, "taps": [1, 2], "block": -3},
    {"node": "Ewm", "source": SAMPLES, "alpha": 2},
    {"node": "Integral", "source": SAMPLES, "step": None},
    {"node": "Difference", "source": SAMPLES, "step": 0},
    {"node": "Aggregate", "source": SAMPLES, "operation": "nope", "size": 1, "hop": 1},
    {"node": "Aggregate", "source": SAMPLES, "operation": "sum", "size": 10**30, "hop": 1},
    {"node": "Combine", "left": SAMPLES, "right": SAMPLES, "operation": "nope"},
    {**WINDOW, "size": 0},
    {**WINDOW, "missing": "x"},
    {**SAMPLES, "grid": 5},
    {**SAMPLES, "grid": {**GRID, "period": {"fraction": "1/0"}}},
    {**SAMPLES, "source": {**EVENTS, "values": []}},
    policy(kind="nope"),
]


@pytest.fixture
def db() -> viewlet.Connection:
    found = viewlet.connect()
    found.execute("CREATE TABLE t (g VARCHAR NOT NULL, at BIGINT NOT NULL, x DOUBLE)")
    return found


def declare(db: viewlet.Connection, query: Any) -> None:
    text = json.dumps(query).replace("'", "''")
    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT * FROM signal_query('{text}', t)")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that leaves a file behind once it is imported."""
    (tmp_path / "hostile_module.py").write_text(
        f"open({str(tmp_path / 'imported')!r}, 'w').close()\ndef f(x):\n    return x + 1\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "imported"


def test_a_text_cannot_import_or_call(db: viewlet.Connection, module: Path) -> None:
    for name in ("hostile_module:f", "os:system", "builtins:exec", "numpy:save", "numpy:loadtxt"):
        for query in calls(name):
            with pytest.raises(viewlet.SqlError, match="has not named"):
                declare(db, query)
    with pytest.raises(viewlet.SqlError, match="has not named"):
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM sample(t, KEY => g, TIME => at, VALUE => x, PERIOD => 10, "
            "INTERPOLATE => 'hostile_module:f')"
        )
    assert not module.exists()


@pytest.mark.parametrize("query", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_text_is_refused(db: viewlet.Connection, query: Any) -> None:
    with pytest.raises(viewlet.ViewletError) as refused:
        declare(db, query)
    assert not isinstance(refused.value, viewlet.InternalError)


def test_ufuncs_and_registered_functions_are_called(
    db: viewlet.Connection, module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewlet.signals.notation._NAMED", set(_NAMED))
    register_functions("hostile_module:f")
    for name, expected in (("numpy:negative", -1.0), ("hostile_module:f", 2.0)):
        declare(db, calls(name)[0])
        db.insert("t", [("a", 1, 1.0)])
        assert db.view("v").rows() == [("a", 1, expected)]
        db.execute("DROP MATERIALIZED VIEW v; DELETE FROM t")
    with pytest.raises(SignalError, match="there is no function"):
        register_functions("hostile_module:g")


def test_a_directory_calls_what_its_reader_has_named(db: viewlet.Connection, module: Path, tmp_path: Path) -> None:
    """Another process made the directory; opening it imports nothing."""
    made = f"""
import viewlet, hostile_module
db = viewlet.connect({str(tmp_path / "db")!r})
db.execute("CREATE TABLE t (g VARCHAR NOT NULL, at BIGINT NOT NULL, x DOUBLE)")
db.create_view("v", db.signal("t", key="g", time="at", value="x").select(hostile_module.f))
db.insert("t", [("a", 1, 1.0)])
db.close()
"""
    subprocess.run([sys.executable, "-c", made], cwd=tmp_path, check=True)
    module.unlink()
    with viewlet.connect(tmp_path / "db") as opened, pytest.raises(viewlet.StateError, match="has not named"):
        opened.view("v")
    assert not module.exists()
