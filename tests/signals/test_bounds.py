"""All kernels of signals stay inside their arrays, whatever the shape of what comes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.bounds import Checked, checked_kernels
from viewlet.runtime.jit import ENABLED
from viewlet.signals import Signal, source
from viewlet.signals.maintain import Arrival, Maintenance
from viewlet.signals.program import Program

pytestmark = pytest.mark.skipif(ENABLED, reason="kernels are compiled")

SOS = [[0.2, 0.1, 0.0, 1.0, -0.3, 0.1], [0.5, 0.2, 0.1, 1.0, 0.2, 0.1]]
QUERIES: dict[str, Any] = {
    "sos": lambda s: s.sosfilt(SOS),
    "lfilter": lambda s: s.lfilter([0.2, 0.3], [1.0, -0.4, 0.1], start="full"),
    "fir": lambda s: s.fir([0.5, 0.2, -0.1]),
    "fft fir": lambda s: s.fir([0.5, 0.2, -0.1], method="fft"),
    "ewm": lambda s: s.ewm(0.3),
    "integral": lambda s: s.integral(),
    "difference": lambda s: s.difference(3),
    "sum": lambda s: s.sum(5, 2),
    "power": lambda s: s.power(4),
    "overlap_add": lambda s: s.window(8, 3).overlap_add(),
    "dual": lambda s: s.window(8, 4, "hann").fft().ifft().overlap_add(norm="dual"),
    "apart": lambda s: s.window(4, 9, missing="zero").overlap_add(),
    "far apart": lambda s: s.window(1, 5).last(),
    "arrays": lambda s: s.window(6, 2, missing="zero").autocorrelate(),
    "longer": lambda s: s.window(6, 2).correlate([1.0, 2.0, 3.0]).overlap_add(),
    "last": lambda s: s.window(3, 5).last(),
    "up": lambda s: s.resample(4, "linear"),
    "quadratic": lambda s: s.resample(7, "quadratic", max_gap=90),
    "down": lambda s: s.downsample(3),
    "twice": lambda s: s + s.shift(10),
    "as of": lambda s: s.as_of(s.shift(5), 60),
    "joined": lambda s: s.join(s.ewm(0.5)).window(4, 1).sum(),
}
REAL = {"sliding": lambda s: s.window(5, 2).sliding_rfft().magnitude()}


@pytest.fixture
def kernels() -> Iterator[tuple[set[str], set[str]]]:
    with checked_kernels("viewlet.signals") as found:
        yield found


def events(random: np.random.Generator, groups: int, rows: int, width: int, is_interval: bool) -> pa.Table:
    """Events of some groups, on and off the beats, with gaps."""
    g = random.integers(0, groups, rows)
    step = random.choice([10, 10, 10, 10, 3, 17, 250], rows)
    t = np.cumsum(step) - 40
    columns = {"g": pa.array(g, pa.int64()), "t": pa.array(t, pa.int64())}
    if is_interval:
        columns["e"] = pa.array(t + random.integers(1, 3, rows), pa.int64())
    return pa.table(columns | {f"x{i}": random.normal(size=rows) for i in range(width)})


def query_over(width: int, is_complex: bool, is_interval: bool, has_key: bool) -> Signal:
    return source(
        key="g" if has_key else (),
        time="t",
        value=[f"x{i}" for i in range(width)],
        end="e" if is_interval else None,
        is_complex=is_complex,
        is_timestamp=False,
    )


def test_checked_arrays_refuse_what_is_outside() -> None:
    array = np.zeros((2, 3)).view(Checked)
    for key in [(-1, 0), (2, 0), (0, 3), (slice(0, 3), 0), np.array([0, -1])]:
        with pytest.raises(IndexError, match="outside"):
            array[key]
    array[1, 0:3] = array[0]


def test_every_kernel_stays_inside_its_arrays(kernels: tuple[set[str], set[str]]) -> None:
    random = np.random.default_rng(5)
    for number, (name, operator) in enumerate((QUERIES | REAL).items()):
        for width, is_complex in [(1, False), (2, False), (3, False), *([] if name in REAL else [(2, True)])]:
            for groups, rows in [(1, 0), (1, 1), (1, 50), (3, 2), (4, 40), (20, 25)]:
                is_interval = (number + rows) % 4 == 0
                has_key = groups > 1 or rows == 1
                kind = [None, "linear", "last", "zero", "constant", "quadratic"][(number + width + rows) % 6]
                given = query_over(width, is_complex, is_interval, has_key)
                policy = {} if kind is None else {"max_gap": 60}
                query = operator(given.sample(10, kind, **policy))
                table = events(random, groups, rows, width, is_interval)
                query.run(table)
                query.run(table.take(random.permutation(rows)), flush=True)
    for operator in QUERIES.values():  # arrays without a key, as views of themselves
        for size in (0, 1, 5, 300):
            query = operator(source(time="t", value="x", is_timestamp=False).sample(10))
            query.run(random.normal(size=size), flush=True)
    batches(random)
    assert kernels[0] - kernels[1] == set()


def batches(random: np.random.Generator) -> None:
    """Batches with late and deleted events, in a view."""
    query = query_over(2, False, False, True).sample(10, "linear").ewm(0.5)
    made = Maintenance(query.node, [True], None)
    from viewlet.signals.batches import Events

    groups, every = made.groups, list[Events]()
    for _ in range(6):
        table = events(random, 3, 30, 2, False)
        slots, groups = groups.find((table["g"].to_numpy(),), 30)
        value = np.stack([table["x0"].to_numpy(), table["x1"].to_numpy()], axis=1)
        start = table["t"].to_numpy() * 7 + int(random.integers(1000)) * 10_000
        every.append(Events(slots, start, value))

        def history(number: int) -> Arrival:
            columns = [np.concatenate([getattr(each, name) for each in every]) for name in ("slot", "start", "value")]
            return Arrival(Events(*columns), np.ones(len(columns[0]), np.int64))

        made.advance(groups, [Arrival(every[-1], np.ones(30, np.int64))], history, str)
        made.commit()
    assert len(made.output)
    assert Program(query.node).size >= 0


def test_windows_of_several_columns_add_up_to_the_signal() -> None:
    x = np.random.default_rng(0).normal(size=(300, 3))
    query = query_over(3, False, False, False).sample(1).window(64, 16).rfft().irfft().overlap_add()
    found = query.run({"t": np.arange(300), **{f"x{i}": x[:, i] for i in range(3)}})
    for i in range(3):
        np.testing.assert_allclose(found[f"x{i}"].to_numpy()[64:], 4 * x[64 : found.num_rows, i], atol=1e-12)
