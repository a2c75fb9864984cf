"""A slice of the hunt over random pipelines (`python -m tests.signals.hunt`), and what it has found before."""

from __future__ import annotations

import numpy as np
import pytest

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
