"""What holds between two updates, checked from the definitions: for tests, and for those who debug."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from viewlet.adaptive.rebalance import join
from viewlet.adaptive.triangles import RELATIONS, Triangles, thresholds_for
from viewlet.errors import InternalError
from viewlet.types import Datum

T = TypeVar("T")
Same = Callable[[Any, Any], bool]


def check(state: Triangles[T], same: Same = lambda left, right: bool(left == right)) -> None:
    """Raises an `InternalError` that names the invariant that does not hold; `same` compares payloads."""
    _check_size(state)
    for i in RELATIONS:
        _check_partition(state, i)
        _check_view(state, i, same)
    work = state.work.steps
    _check_equal("the result", dict(join(state)), dict(state.groups.items()), same)
    state.work.steps = work


def _check_size(state: Triangles[T]) -> None:
    base, size = state.parts.base, state.parts.size
    _require(base // 4 <= size < base, f"floor(N / 4) <= |D| < N, where N = {base} and |D| = {size}")
    expected = thresholds_for(base, state.parts.epsilons, state.shape.linear)
    _require(state.parts.thresholds == expected, "theta = N ** epsilon")


def _check_partition(state: Triangles[T], i: int) -> None:
    partition, thresholds = state.parts.partitions[i], state.parts.thresholds
    heavy, light, sparse = (set(part.firsts()) for part in partition.parts)
    _require(not heavy & (light | sparse), f"relation {i}: no value is both heavy and light")
    _check_degrees(f"relation {i}", heavy, light | sparse, partition.degree, thresholds.first[i])
    kept, left = (set(part.seconds()) for part in (partition.light, partition.sparse))
    _require(not kept & left, f"relation {i}: no second value is both heavy and light")
    _check_degrees(f"second values of relation {i}", kept, left, partition.second_degree, thresholds.second[i])
    for part in partition.parts:
        pairs = list(part.items())
        _require(len(part) == len(pairs), f"relation {i}: the size of a part counts its tuples")
        mirrored = sum(part.column(second).get(first) == payload for first, second, payload in pairs)
        _require(mirrored == len(pairs), f"relation {i}: both indexes have every tuple")


def _check_degrees(
    what: str, heavy: set[Datum], light: set[Datum], degree: Callable[[Datum], int], threshold: float
) -> None:
    _require(all(degree(value) >= threshold / 2 for value in heavy), f"{what}: heavy degrees >= theta / 2")
    _require(all(degree(value) < 1.5 * threshold for value in light), f"{what}: light degrees < 1.5 * theta")


def _check_view(state: Triangles[T], i: int, same: Same) -> None:
    """V_i = Sum over the middle of heavy * light, from its definition."""
    ring, view = state.ring, state.parts.views[i]
    light = state.parts.partitions[(i + 1) % 3].light
    paths: dict[tuple[Datum, Datum, Datum], T] = {}
    for first, middle, payload in state.parts.partitions[i].heavy.items():
        for last, other in light.row(middle).items():
            key = (first, last, middle if view.witnesses else None)
            product = ring.mul(payload, other)
            paths[key] = ring.add(paths[key], product) if key in paths else product
    held = {(first, last, middle): payload for (first, last), middle, payload in view.items()}
    _check_equal(f"view {i}", {key: m for key, m in paths.items() if not ring.is_zero(m)}, held, same)
    _require(len(view) == len(held), f"view {i}: its size counts its payloads")


def _check_equal(what: str, expected: dict[Any, T], held: dict[Any, T], same: Same) -> None:
    _require(expected.keys() == held.keys(), f"{what} has the keys of its definition")
    _require(all(same(payload, held[key]) for key, payload in expected.items()), f"{what} has the right payloads")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InternalError(f"adaptive maintenance: it does not hold that {what}")
