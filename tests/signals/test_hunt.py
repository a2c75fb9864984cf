"""A slice of the hunt over random pipelines (`python -m tests.signals.hunt`), and what it has found before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import viewlet
from tests.signals.hunt import check
from tests.signals.user_functions import Smooth
from viewlet.signals import source


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_random_pipeline_is_what_it_means(seed: int) -> None:
    assert check(seed) in ("same", "refused")


def test_windows_of_several_groups_need_not_be_evenly_apart() -> None:
    """Three groups of 3, 5 and 2 samples: their windows are 3 and 5 rows apart, as far together as twice the hop."""
    counts = (3, 5, 2)
    k = np.repeat(np.arange(3), counts)
    t = np.concatenate([np.arange(count) for count in counts])
    signal = source(key="k", time="t", value="v", is_timestamp=False).sample(1)
    found = signal.window(2, 4).sum().run({"k": k, "t": t, "v": 10.0 * k + t}).to_pylist()
    assert [tuple(row.values()) for row in found] == [(g, 1, 20.0 * g + 1.0) for g in range(3)]


def test_at_the_end_one_of_two_signals_may_have_nothing_left() -> None:
    x = np.arange(50.0)
    left, right = (source(name, time="t", value="v", is_timestamp=False).sample(1) for name in "lr")
    tables = {name: {"t": np.arange(50), "v": x} for name in "lr"}
    taps = np.ones(70)
    for query in (left.fir(taps) + right, right + left.fir(taps)):
        found = query.run(tables, flush=True).column("v").to_numpy()
        np.testing.assert_allclose(found, np.cumsum(x) + x, atol=1e-9)


def test_a_filter_takes_the_real_outputs_of_a_complex_signal() -> None:
    signal = source(time="t", value=["v", "w"], is_complex=True, is_timestamp=False).sample(1)
    found = signal.count(3).filter(Smooth).run(np.ones(4))
    np.testing.assert_allclose(
        found, [0.5 * 2 + 0.25, 0.5 * 3 + 0.25 * 2 + 0.2 * 1.25, 0.5 * 3 + 0.25 * 3 + 0.2 * 2.25]
    )


@pytest.mark.parametrize("place", [False, True])
def test_magnitudes_of_complex_numbers_are_real(place: bool, tmp_path: Path) -> None:
    """Beside a sample that has waited, before and after the database was opened again."""
    db = viewlet.connect(tmp_path / "db" if place else None)
    for name in "lr":
        db.execute(f"CREATE TABLE {name} (t BIGINT NOT NULL, v DOUBLE, w DOUBLE)")
    left = db.signal("l", time="t", value=["v", "w"], is_complex=True).sample(1)
    right = db.signal("r", time="t", value="v").sample(1)
    queries = {
        "energies": left.window(2, 1).energy() / right,
        "powers": left.power(2) - right.power(2, 2),
        "counts": left.count(2) * right,
        "filtered": left.window(2, 1).energy().filter(Smooth) + right,
    }
    for name, query in queries.items():
        assert not query.form.is_complex
        db.create_view(name, query)
    t = np.arange(12)
    x, y = np.cos(t) + 1j * np.sin(2 * t), 1.0 + t
    for half in (slice(0, 5), slice(5, 12)):
        db.insert("r", pa.table({"t": t[half], "v": y[half], "w": y[half]}))
    if place:
        db.close()
        db = viewlet.connect(tmp_path / "db")
    for half in (slice(0, 6), slice(6, 12)):
        db.insert("l", pa.table({"t": t[half], "v": x.real[half], "w": x.imag[half]}))
        if place:
            db.close()
            db = viewlet.connect(tmp_path / "db")
    energy = np.abs(x[1:]) ** 2 + np.abs(x[:-1]) ** 2
    found = db.view("energies").to_arrow()
    assert found.column("t").to_pylist() == list(range(1, 12))
    np.testing.assert_allclose(found.column("v").to_numpy(), energy / y[1:], rtol=1e-12)
    tables = {name: db.table(name).to_arrow() for name in "lr"}
    for name, query in queries.items():
        assert db.view(name).to_arrow().equals(query.run(tables)), name
