"""Triangles by their definition: products of matrices, or all combinations of tuples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tests.adaptive.streams import Change, Edge


class Tables:
    """Three relations with multiplicities."""

    def __init__(self) -> None:
        self.relations: list[dict[Edge, int]] = [{}, {}, {}]

    def apply(self, change: Change) -> None:
        relation, first, second, times = change
        held = self.relations[relation]
        held[first, second] = held.get((first, second), 0) + times
        if not held[first, second]:
            del held[first, second]

    @property
    def size(self) -> int:
        return sum(map(len, self.relations))

    def count(self) -> int:
        """The trace of R * S * T."""
        r, s, t = self._matrices()
        return int(np.trace(r @ s @ t))

    def groups(self, keys: Iterable[int]) -> dict[tuple[int, ...], int]:
        """The number of triangles for every group that has a number other than zero."""
        r, s, t = self._matrices()
        cube = np.einsum("ab,bc,ca->abc", r, s, t)
        keys = tuple(keys)
        kept = np.einsum(cube, [0, 1, 2], list(keys))
        return {tuple(map(int, at)): int(kept[tuple(at)]) for at in np.argwhere(kept)}

    def _matrices(self) -> list[Any]:
        n = 1 + max((value for held in self.relations for pair in held for value in pair), default=0)
        return [_matrix(held, n) for held in self.relations]


def _matrix(held: Mapping[Edge, int], n: int) -> Any:
    matrix = np.zeros((n, n), np.int64)
    for (first, second), times in held.items():
        matrix[first, second] = times
    return matrix
