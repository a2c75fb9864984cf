"""Table functions of signals in SQL."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewlet
from tests.signals.events import irregular, same_bits
from viewlet.signals import Query, Signal

ARGUMENTS = (
    "events, KEY => g, TIME => t, VALUE => x, UNIT => 'ms', "
    "PERIOD => '10ms', INTERPOLATE => 'linear', MAX_GAP => '100ms'"
)

FUNCTIONS = {
    "SAMPLE({})": lambda s: s,
    "LFILTER({}, B => [0.5, -0.25], A => [1, -0.5e-1], START => 'full')": lambda s: s.lfilter(
        [0.5, -0.25], [1, -0.05], start="full"
    ),
    "sosfilt({}, sos => [[1, 0, 0, 1, -0.5, 0]], missing => 'reset')": lambda s: s.sosfilt(
        [[1, 0, 0, 1, -0.5, 0]], missing="reset"
    ),
    "fir({}, TAPS => ARRAY[1, 2, 1])": lambda s: s.fir([1, 2, 1]),
    "correlate({}, VALUES => [1, 2])": lambda s: s.correlate([1, 2]),
    "ewm({}, ALPHA => 0.5, ADJUST => false)": lambda s: s.ewm(0.5, adjust=False),
    "derivative({})": lambda s: s.derivative(),
    "integral({}, METHOD => 'sum')": lambda s: s.integral(method="sum"),
    "decimate({}, FACTOR => 2)": lambda s: s.decimate(2),
    "moving({}, OPERATION => 'power', SIZE => 5, HOP => 2)": lambda s: s.power(5, 2),
    "power_spectrum({}, SIZE => 8, HOP => 4, WINDOW => 'hann')": lambda s: (
        s.window(8, 4, "hann").rfft().power_spectrum()
    ),
}


def connected(path: Path | None = None) -> viewlet.Connection:
    db = viewlet.connect(path, fsync=False) if path else viewlet.connect()
    db.execute("CREATE TABLE events (g VARCHAR NOT NULL, t BIGINT NOT NULL, x DOUBLE, y DOUBLE)")
    return db


def even(db: viewlet.Connection) -> Signal:
    return db.signal("events", key="g", time="t", value="x", unit="ms").sample("10ms", "linear", max_gap="100ms")


@pytest.mark.parametrize("call", FUNCTIONS)
def test_a_function_is_the_query_that_its_operator_makes(call: str) -> None:
    db = connected()
    query: Query = FUNCTIONS[call](even(db))
    db.create_view("v", query)
    db.execute(f"CREATE MATERIALIZED VIEW w AS SELECT * FROM {call.format(ARGUMENTS)}")
    db.insert("events", irregular(1, rows=150).rows)
    assert len(db.view("w")) > 0
    assert same_bits(db.view("w").to_arrow(), db.view("v").to_arrow())


def test_it_is_declared_again_when_a_directory_is_opened(tmp_path: Path) -> None:
    db = connected(tmp_path)
    db.execute(f"CREATE MATERIALIZED VIEW w AS SELECT * FROM ewm({ARGUMENTS}, ALPHA => 0.5, RETAIN => '1s')")
    rows = irregular(2, rows=100).rows
    db.insert("events", rows[:50])
    db.close()
    db = viewlet.connect(tmp_path, fsync=False)
    db.insert("events", rows[50:])
    other = connected()
    view = other.create_view("w", even(other).ewm(0.5), retain="1s")
    other.insert("events", rows)
    assert db.view("w").rows() == view.rows()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("sample(events, KEY => g, TIME => t, PERIOD => 10)", "needs VALUE => ..."),
        ("sample(events, TIME => t, VALUE => x, PERIOD => 10, COLOUR => 'red')", "no argument COLOUR"),
        ("sample(events, TIME => t, VALUE => nothing, PERIOD => 10)", "no column 'nothing'"),
        ("sample(nowhere, TIME => t, VALUE => x, PERIOD => 10)", "nowhere"),
        ("sample(events, TIME => t, VALUE => x)", "needs a period"),
        ("sample(events, t, x)", "NAME => value"),
        ("ewm(events, TIME => t, VALUE => x, PERIOD => 10)", "needs ALPHA"),
        ("ewm(events, TIME => t, VALUE => x, PERIOD => 10, ALPHA => y)", "a number, a text or a list"),
        ("signal_query('{}', events)", "not the text of a signal query"),
    ],
)
def test_a_wrong_call_names_what_is_wrong(call: str, message: str) -> None:
    db = connected()
    with pytest.raises(viewlet.SqlError, match=message):
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT * FROM {call}")


def test_outside_a_view_it_is_computed_from_the_rows_of_a_table() -> None:
    db = connected()
    call = "SAMPLE(events, KEY => g, TIME => t, VALUE => x, PERIOD => 10, INTERPOLATE => 'linear')"
    db.insert("events", [("a", 0, 1.0, 0.0), ("a", 25, 3.5, 0.0), ("b", 10, 2.0, 0.0)])
    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT * FROM {call}")
    assert db.execute(f"SELECT * FROM {call} ORDER BY g, t").equals(db.view("v").to_arrow())
    found = db.execute(f"SELECT s.g, COUNT(*) AS n, MAX(s.x) AS x FROM {call} s WHERE t > 0 GROUP BY s.g ORDER BY s.g")
    assert found.to_pylist() == [{"g": "a", "n": 2, "x": 3.0}, {"g": "b", "n": 1, "x": 2.0}]
    with pytest.raises(viewlet.SqlError, match="needs TIME"):
        db.execute("SELECT * FROM sample(events, VALUE => x, PERIOD => 10)")
    db.execute("CREATE STREAM passing (t BIGINT NOT NULL, x DOUBLE)")
    with pytest.raises(viewlet.SchemaError, match="streams do not keep their rows"):
        db.execute("SELECT * FROM sample(passing, TIME => t, VALUE => x, PERIOD => 10)")
