"""The choice of epsilon from the degrees of the tuples there are: `WITH (epsilon = 'auto')`.

At a major rebalancing a sample of tuples is taken for updates to come. For each candidate, the steps of such updates
and the entries of the views are estimated from four degrees of each tuple. The cheapest candidate whose views fit the
memory is taken; another than 1/2 has to promise a good deal less, because 1/2 is best for updates of other kinds.

    R(x, y) changes       tuples of y in S: s       tuples of x in T: t, of which some are heavy, light, sparse
    the shorter side      min(s, t)
    by the parts          1 + min(s_h, t_h) + min(s_h, t_s) + min(s_l + s_s, t)
    its view              s_l if x is heavy in R, t_h if only y is

Updates need not be like the tuples. Where they take more than `OVERRUN` * sqrt(N) steps each, and N more together, the
database is partitioned with epsilon 1/2 at once, and stays so up to the next major rebalancing but one. With that the
amortised bound of an update is that of epsilon 1/2, whatever is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

from viewlet.adaptive.triangles import Epsilons, Thresholds, thresholds_for

CANDIDATES = (0.5, 0.25, 0.75, 0.0, 1.0)
SAFE = 0.5
MARGIN = 0.8
"""Another candidate than 1/2 has to take less than this part of its steps."""
SMALLEST = 1000
"""Tuples below which epsilon stays 1/2."""
SAMPLED = 200
"""Tuples of each relation that are looked at."""
OVERRUN = 4.0


@dataclass(frozen=True, slots=True)
class Degrees:
    """Around a tuple R(x, y): the tuples of x and of y in R, those of y in S and of x in T."""

    first: int
    second: int
    following: int
    before: int


Sample = Sequence[Sequence[Degrees]]
"""Tuples of each relation."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a candidate is expected to take: steps of an update, entries of all views."""

    epsilon: float
    steps: float
    entries: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The epsilon of all relations, and why it is this one."""

    epsilon: float
    reason: str

    @property
    def epsilons(self) -> Epsilons:
        return self.epsilon, self.epsilon, self.epsilon


AT_FIRST = Choice(SAFE, f"as there are fewer than {SMALLEST:,} tuples")
OVERRAN = Choice(SAFE, "as updates took more steps than the degrees had promised")


def is_overrun(updates: int, steps: int, base: int) -> bool:
    """So many updates since the last choice took too many steps."""
    return steps > OVERRUN * sqrt(base) * updates + base


def choose_epsilon(
    sizes: Sequence[int], sample: Callable[[], Sample], linear: bool, budget: float | None, before: Choice | None
) -> Choice:
    """The choice for relations of these sizes; `budget` are the entries that all views may have together."""
    size = sum(sizes)
    if size < SMALLEST:
        return AT_FIRST
    if before is OVERRAN:
        return Choice(SAFE, "as updates took more steps than expected before")
    drawn = sample()
    found = [_estimate(epsilon, 2 * size + 1, sizes, drawn, linear) for epsilon in CANDIDATES]
    fitting = [each for each in found if budget is None or each.entries <= budget]
    best = min(fitting, key=lambda each: each.steps)
    if found[0] in fitting and best.steps > MARGIN * found[0].steps:
        best = found[0]
    told = ", ".join(
        f"{each.epsilon:g}: {each.steps:,.1f}" + ("" if each in fitting else " but too much memory")
        for each in sorted(found, key=lambda each: each.epsilon)
    )
    return Choice(best.epsilon, f"by the degrees; expected steps for an update: {told}")


def _estimate(epsilon: float, base: int, sizes: Sequence[int], sample: Sample, linear: bool) -> Estimate:
    thresholds = thresholds_for(base, (epsilon, epsilon, epsilon), linear)
    shares = [_shares(sample[i], thresholds, i) for i in range(3)]
    steps = entries = drawn = 0.0
    for i in range(3):
        next_heavy, next_light = thresholds.first[(i + 1) % 3], shares[(i + 1) % 3][1]
        heavy_share, _, sparse_share = shares[(i + 2) % 3]
        paths = 0.0
        for each in sample[i]:
            s_heavy = each.following if each.following >= next_heavy else 0
            s_rest, t = each.following - s_heavy, each.before
            by_parts = 1 + min(s_heavy, t * heavy_share) + min(s_heavy, t * sparse_share) + min(s_rest, t)
            steps += 1 + min(by_parts, s_heavy + s_rest, t)
            if each.first >= thresholds.first[i]:
                paths += s_rest * next_light
                steps += s_rest * next_light
            elif each.second >= thresholds.second[i]:
                steps += t * heavy_share
        drawn += len(sample[i])
        entries += sizes[i] * paths / max(1, len(sample[i]))
    return Estimate(epsilon, steps / max(1.0, drawn), entries)


def _shares(sample: Sequence[Degrees], thresholds: Thresholds, i: int) -> tuple[float, float, float]:
    """Of the tuples of a relation, the share that is heavy; of those that are not, the light ones; the sparse ones."""
    count = max(1, len(sample))
    heavy = sum(each.first >= thresholds.first[i] for each in sample)
    light = sum(each.first < thresholds.first[i] and each.second >= thresholds.second[i] for each in sample)
    rest = max(1, count - heavy)
    return heavy / count, light / rest, (count - heavy - light) / count


def entry_bytes(width: int) -> int:
    """About what an entry of a view takes in flat arrays: its key, its numbers, and its place in an index."""
    return 8 * (3 + width) + 24
