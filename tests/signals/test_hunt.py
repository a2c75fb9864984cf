"""A slice of the hunt over random pipelines (`python -m tests.signals.hunt`), and what it has found before."""

from __future__ import annotations

import numpy as np
import pytest

from tests.signals.hunt import check
from viewlet.signals import source

FOUND = {
    42: "windows further apart than long were written behind an array",
    44: "the same of two signals",
    218: "a flush left out what one of two signals still had",
    255: "the same behind a long filter",
    314: "windows of several groups were read as if they were evenly apart",
    1778: "the same of a stream",
    1970: "the same where zeros are put in",
}


@pytest.mark.parametrize("seed", [*range(40), *FOUND])
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
