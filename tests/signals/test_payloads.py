"""Values with an arithmetic of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
import scipy.signal as ss

import viewlet
from tests.signals.events import in_order, irregular, online, regular, same_bits
from tests.signals.payloads import Cubes, Quaternion, Wrong
from viewlet.signals import Signal, SignalError, source

B, A = ss.butter(3, 0.3)
LINEAR: dict[str, Callable[[Signal], Signal]] = {
    "scale": lambda x: -x.scale(2.5),
    "shift": lambda x: x + x.shift(20),
    "minus": lambda x: x - x.shift(10),
    "fir": lambda x: x.fir([0.5, -0.2, 0.1]),
    "fir, full": lambda x: x.fir([0.5, -0.2, 0.1], start="full", missing="reset"),
    "long": lambda x: x.fir(np.hanning(70)),
    "correlate": lambda x: x.correlate([1.0, 2.0, -1.0]),
    "lfilter": lambda x: x.lfilter(B, A),
    "lfilter, reset": lambda x: x.lfilter(B, A, missing="reset"),
    "sosfilt": lambda x: x.sosfilt(ss.butter(4, 0.2, output="sos")),
    "ewm": lambda x: x.ewm(0.3),
    "ewm, not adjusted": lambda x: x.ewm(0.3, adjust=False),
    "difference": lambda x: x.difference(2),
    "derivative": lambda x: x.derivative(),
    "integral": lambda x: x.integral(),
    "rectangles": lambda x: x.integral(method="sum"),
    "sum": lambda x: x.sum(5, 2),
    "mean": lambda x: x.mean(4, 3, min_samples=2),
    "downsample": lambda x: x.downsample(3),
}


@pytest.mark.parametrize("name", LINEAR)
def test_what_is_linear_is_so_in_any_arithmetic(name: str) -> None:
    history = regular(2, groups=3, samples=50, missing=0.2)
    found, query = online(history, lambda x: LINEAR[name](x.sample(10)), 1, payload=Cubes)
    assert same_bits(found, query.run(history.table()))
    table = history.table()
    cubes = table.set_column(2, "x", pa.array(np.array(table["x"].to_numpy()) ** 3))
    cubes = cubes.filter(table["x"].is_valid())
    numbers = LINEAR[name](source(key="g", time="t", value="x", is_timestamp=False, ticks=1000).sample(10))
    expected = in_order(numbers.run(cubes, flush=True))
    assert found.select(["g", "t"]).equals(expected.select(["g", "t"]))
    np.testing.assert_allclose(found["x"].to_numpy() ** 3, expected["x"].to_numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("policy", [None, "last", "zero", "constant", "linear"])
def test_interpolation_uses_the_arithmetic(policy: str | None) -> None:
    history = irregular(1, rows=150)
    found, query = online(history, lambda x: x.sample(10, policy), 2, payload=Cubes)
    assert same_bits(found, query.run(history.table()))
    table = history.table()
    cubes = table.set_column(2, "x", pa.array(table["x"].to_numpy() ** 3)).filter(table["x"].is_valid())
    expected = source(key="g", time="t", value="x", is_timestamp=False).sample(10, policy).run(cubes)
    np.testing.assert_allclose(found["x"].to_numpy() ** 3, in_order(expected)["x"].to_numpy(), atol=1e-12)


def test_quaternions_turn_each_other_on_both_engines() -> None:
    random = np.random.default_rng(1)
    columns = ["w", "i", "j", "k"]
    db = viewlet.connect()
    db.execute("CREATE TABLE turns (t BIGINT NOT NULL, w DOUBLE, i DOUBLE, j DOUBLE, k DOUBLE)")
    turns = db.signal("turns", time="t", value=columns, payload=Quaternion).sample(1)
    product = db.create_view("product", turns * turns.shift(1))
    energy = db.create_view("energy", turns.energy(3))
    values = random.normal(size=(20, 4))
    db.insert("turns", [(n, *value) for n, value in enumerate(values.tolist())])
    expected = Quaternion().times(values[1:], values[:-1])
    assert np.array_equal(np.array([row[1:] for row in product.rows()]), expected)
    squares = Quaternion().times(values, values)
    sums = np.array([squares[max(0, n - 2) : n + 1].sum(axis=0) for n in range(20)])
    np.testing.assert_allclose(np.array([row[1:] for row in energy.rows()]), sums)
    db.update("turns", [(3, *values[3].tolist())], [(3, 1.0, 0.0, 0.0, 0.0)])
    assert product.rows()[2][1:] == tuple(values[2].tolist())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: x + 1, "a number that is added"),
        (lambda x: x.sample(1) / x.sample(1), "not divided"),
        (lambda x: x.sample(1, "quadratic"), "no 'quadratic'"),
        (lambda x: x.sample(1).window(4), "window\\(\\) is for numbers"),
        (lambda x: x.sample(1).filtfilt([1.0], [1.0]), "filtfilt\\(\\) is for numbers"),
        (lambda x: x.sample(1) + source(time="t", value="x", is_timestamp=False).sample(1), "of the same kind"),
        (lambda x: source(time="t", value=("x", "y"), payload=Cubes), "has 1 components, and a value of the signal 2"),
        (lambda x: source(time="t", value="x", payload=Cubes, overlap="mean"), "without is_complex="),
    ],
)
def test_what_an_arithmetic_does_not_have_is_refused(build: Callable[[Signal], object], message: str) -> None:
    with pytest.raises(SignalError, match=message):
        build(source(time="t", value="x", is_timestamp=False, payload=Cubes))


def test_a_result_that_is_no_value_is_named() -> None:
    query = source(time="t", value="x", is_timestamp=False, payload=Wrong).sample(1).integral()
    with pytest.raises(SignalError, match=r"Wrong.plus\(\) gave an array of shape"):
        query.run({"t": [1, 2], "x": [1.0, 2.0]})
