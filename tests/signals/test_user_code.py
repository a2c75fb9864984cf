"""Users' functions: what is no finite number is missing to the next operator, and what is wrong is an error."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import viewlet
from tests.signals import user_functions as own
from viewlet.signals import SignalError, source

TABLE = "CREATE TABLE r (k BIGINT NOT NULL, t BIGINT NOT NULL, v DOUBLE)"
OPERATORS: dict[str, Any] = {
    "log": lambda s: s.select(np.log),
    "sqrt": lambda s: s.select(np.sqrt),
    "reciprocal": lambda s: s.select(np.reciprocal),
    "exp": lambda s: s.select(np.exp) - 1.0,
    "huge": lambda s: s.scale(1e200),
    "tiny": lambda s: s.scale(-1e-200),
    "ratio": lambda s: s.shift(10) / s,
    "ewm": lambda s: s.ewm(0.3),
    "lfilter": lambda s: s.lfilter([0.2, 0.3], [1.0, -0.4, 0.1]),
    "sosfilt": lambda s: s.sosfilt([[0.2, 0.1, 0.0, 1.0, -0.3, 0.1]]),
    "fir": lambda s: s.fir([0.5, 0.2, -0.1]),
    "blocks": lambda s: s.fir([0.5, 0.2, -0.1], method="fft"),
    "sum": lambda s: s.sum(3),
    "power": lambda s: s.power(4),
    "difference": lambda s: s.difference(),
    "integral": lambda s: s.integral(),
    "linear": lambda s: s.resample(interpolate="linear", max_gap=40),
    "last": lambda s: s.window(4, 1).last(),
    "spectrum": lambda s: s.window(4, 1).sliding_rfft().magnitude().max(),
    "added": lambda s: s.window(4, 2, "hann").overlap_add(),
    "user": lambda s: s.filter(own.Recursion),
    "where": lambda s: s.where(np.isfinite),
}


@pytest.mark.parametrize("seed", range(12))
def test_a_query_in_one_view_and_cut_into_many_is_the_same(seed: int) -> None:
    random = Random(seed)
    for _ in range(3):
        names = [random.choice(list(OPERATORS)) for _ in range(random.randint(2, 4))]
        db = viewlet.connect()
        db.execute(TABLE)
        whole = db.signal("r", key="k", time="t", value="v").sample(10)
        parts = "r"
        for number, name in enumerate(names):
            whole = OPERATORS[name](whole)
            cut = db.signal(parts, key="k", time="t", value="v").sample(10)
            parts = f"part{number}"
            db.create_view(parts, OPERATORS[name](cut))
        db.create_view("whole", whole)
        rows = []
        with np.errstate(all="ignore"):
            for batch in range(6):
                new = [
                    (k, 10 * t, random.choice([None, 0.0, -1.0, random.gauss(0, 2), random.gauss(0, 2), 3.0]))
                    for k in range(2)
                    for t in range(20 * batch, 20 * batch + 20)
                    if random.random() < 0.9
                ]
                rows += new
                db.insert("r", new)
                if batch % 2:
                    gone = random.sample(rows, 3)
                    rows = [row for row in rows if row not in gone]
                    db.delete("r", gone)
                assert db.view("whole").rows() == db.view(parts).rows(), names
            assert whole.run(db.table("r")).num_rows == len(db.view("whole").rows())


def test_a_number_that_is_not_finite_does_not_stay() -> None:
    x = np.array([1.0, 2.0, 1e308, 1.7e308, 1.7e308, *range(1, 30)])
    signal = source(time="t", value="v", is_timestamp=False).sample(1)
    with np.errstate(all="ignore"):
        for query in [
            signal.scale(2.0).ewm(0.5),
            signal.lfilter([3.0], [1.0, -0.5]),
            signal.sosfilt([[3.0, 0.0, 0.0, 1.0, -0.5, 0.0]]),
            signal.sum(3),
            signal.power(3),
            signal.window(4, 1).sliding_rfft().magnitude().sum(),
            signal.select(np.log).filter(own.Recursion),
            signal.window(4, 2).rfft().irfft().overlap_add(),
        ]:
            assert np.isfinite(query.run(x)[-5:]).all(), query
        # A sum whose window has a value that overflows is NULL as long as it has it, and exact behind it.
        power = signal.power(3).run(x)
    assert np.isnan(power[2:7]).all()
    assert power[7:9].tolist() == [14 / 3, 29 / 3]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.select(own.imaginary), r"select\(.*imaginary\) gave complex numbers.*is_complex=True"),
        (lambda s: s.select(own.text), "has to give numbers"),
        (lambda s: s.select(own.ragged), "no array of numbers"),
        (lambda s: s.select(own.fails_above_nine), r"fails_above_nine\) failed: RuntimeError: more than nine"),
        (lambda s: s.where(own.fails_above_nine), "failed: RuntimeError"),
        (lambda s: s.window(4).select("numpy.fft:rfft", size=3), "gave complex numbers"),
        (lambda s: s.window(4).apply(own.Spectrum), "is_complex = True in the class"),
        (lambda s: s.window(4, 1).apply(own.Short), r"shape \(3,\) for a window"),
        (lambda s: s.window(4).apply(own.NoSize), "is a whole number of at least 1"),
        (lambda s: s.filter(own.ImaginaryFilter), "gave complex numbers"),
        (lambda s: s.filter(own.WideFilter), "has to give one number"),
        (lambda s: s.filter(own.NoFilter), "feed_forward is -1"),
        (lambda s: s.resample(5, own.ImaginaryPoints), "gave complex numbers"),
    ],
)
def test_wrong_results_are_refused_by_name(build: Any, message: str) -> None:
    signal = source(time="t", value="v", is_timestamp=False).sample(10)
    with pytest.raises(SignalError, match=message):
        build(signal).run({"t": np.arange(0, 200, 10), "v": np.arange(20.0)})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.select(own.imaginary), "gave complex numbers"),
        (lambda s: s.scale(2.0).select(own.text).ewm(0.5), "has to give numbers"),
        (lambda s: s.select(own.takes_two), r"takes_two\) failed: TypeError"),
        (lambda s: s.where(own.doubled), "true or false"),
        (lambda s: s.window(4).select("numpy.fft:rfft", size=3), "gave complex numbers"),
        (lambda s: s.window(4).apply(own.Spectrum).magnitude(), "is_complex = True in the class"),
        (lambda s: s.window(4, 1).apply(own.Short).sum(), r"shape \(3,\) for a window"),
        (lambda s: s.window(4).apply(own.NoMethod), "no method recompute"),
        (lambda s: s.filter(own.ImaginaryFilter), "gave complex numbers"),
        (lambda s: s.filter(own.doubled), "failed: TypeError"),
        (lambda s: s.resample(5, own.ImaginaryPoints), "gave complex numbers"),
        (lambda s: s.resample(5, own.doubled), "a subclass of viewlet.signals.Interpolator"),
        (lambda s: s.as_of(s.select(own.imaginary)), "gave complex numbers"),
    ],
)
def test_what_no_values_can_mend_refuses_the_view_and_no_batch(build: Any, message: str) -> None:
    db = viewlet.connect()
    db.execute(TABLE)
    signal = db.signal("r", key="k", time="t", value="v").sample(10)
    with pytest.raises(SignalError, match=message):
        db.create_view("wrong", build(signal))
    db.insert("r", [(1, 10 * i, float(i)) for i in range(20)])
    assert len(db.table("r").rows()) == 20


def test_functions_that_are_tried_before_a_view_is_declared_may_fail_for_some_values() -> None:
    db = viewlet.connect()
    db.execute(TABLE)
    signal = db.signal("r", key="k", time="t", value="v").sample(10)
    built = {
        "a": signal.select(own.fails_below_two),
        "b": signal.window(4).apply(own.ComplexSpectrum),
        "c": signal.filter(own.Recursion),
        "d": signal.window(4).select(own.spread, size=2),
        "e": signal.window(1 << 17).select(own.doubled),
    }
    for name, query in built.items():
        db.create_view(name, query)
    db.insert("r", [(1, 10 * i, 2.0 + i) for i in range(20)])
    for name, query in built.items():
        assert db.view(name).to_arrow().equals(query.run(db.table("r")))
    with pytest.raises(SignalError, match="RuntimeError: less than two"):
        db.insert("r", [(1, 200, 1.0)])
    db.insert("r", [(1, 200, 3.0)])
    assert db.view("a").rows()[-1] == (1, 200, 3.0)


@pytest.mark.parametrize("change", [lambda s: s, lambda s: s.scale(2.0), lambda s: s + 1.0, lambda s: s.shift(3)])
def test_functions_of_time_are_no_values_before_they_are_sampled(change: Any) -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE f (a BIGINT NOT NULL, b BIGINT NOT NULL, x DOUBLE, y DOUBLE)")
    columns: Any = {"time": "a", "end": "b", "value": ["x", "y"], "function": own.line}
    with pytest.raises(SignalError, match=r"functions of time: sample\(\) the signal first"):
        db.create_view("events", change(db.signal("f", **columns)))
    table = {"a": [0], "b": [40], "x": [0.5], "y": [1.0]}
    with pytest.raises(SignalError, match=r"functions of time: sample\(\) the signal first"):
        change(source(**columns, is_timestamp=False)).run(table)
    db.create_view("samples", change(db.signal("f", **columns)).sample(10))
    db.insert("f", [(0, 40, 0.5, 1.0)])
    assert len(db.view("samples").rows()) >= 3


def test_imaginary_parts_of_payloads_are_no_values() -> None:
    signal = source(time="t", value="v", is_timestamp=False, payload=own.ImaginarySum).sample(1)
    with pytest.raises(SignalError, match=r"ImaginarySum.plus\(\) gave complex numbers"):
        signal.fir([1.0, 1.0]).run({"t": np.arange(5), "v": np.arange(5.0)})


def test_an_operator_that_says_that_it_is_complex_has_both_parts() -> None:
    db = viewlet.connect()
    db.execute(TABLE)
    signal = db.signal("r", time="t", value="v").sample(1).window(4)
    own_view, view = db.create_view("o", signal.apply(own.ComplexSpectrum)), db.create_view("f", signal.rfft())
    db.insert("r", [(0, t, float(t * t)) for t in range(8)])
    assert own_view.to_arrow()["v_im"].to_pylist() == view.to_arrow()["v_im"].to_pylist()
    assert own_view.rows() == view.rows()


@pytest.mark.parametrize("function", [own.imaginary, own.text, own.takes_two, own.ragged])
def test_a_wrong_function_is_refused_in_a_statement_too(function: Any, tmp_path: Any) -> None:
    """And a directory whose functions have become wrong since is opened."""
    from viewlet.signals.declare import view_statement

    with viewlet.connect(tmp_path) as db:
        db.execute(TABLE)
        signal = db.signal("r", key="k", time="t", value="v").sample(1)
        right = view_statement("right", signal.select(own.fails_above_nine, is_complex=False), None)
        wrong = view_statement("wrong", signal.select(function, is_complex=False), None)
        with pytest.raises(SignalError):
            db.execute(wrong)
        assert db.views == ()
        db.execute(right)
        db.insert("r", [(1, 0, 2.0)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "fails_above_nine", function)
        with viewlet.connect(tmp_path) as db:
            assert len(db.view("right")) == 1
