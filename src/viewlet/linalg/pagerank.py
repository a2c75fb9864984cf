"""PageRank of a graph that changes: the ranks before a change are where the iteration starts after it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from viewlet.linalg.errors import MatrixDataError, ProgramError

Edge = tuple[Hashable, Hashable]


class PageRank:
    """Ranks of the nodes of a directed graph, for edges that are added and removed.

    `personalization` has weights of nodes to which a surfer jumps; the default is all nodes alike. A node without
    outgoing edges sends its rank there too. `tol` is the accuracy in the 1-norm, relative to the number of nodes as in
    NetworkX; after a change the iteration starts from the ranks before it, so that a small change takes few steps.
    """

    def __init__(
        self,
        edges: Iterable[Edge] = (),
        *,
        damping: float = 0.85,
        tol: float = 1e-12,
        max_iter: int = 1000,
        personalization: Mapping[Hashable, float] | None = None,
    ) -> None:
        if not 0 <= damping < 1 or not tol > 0 or max_iter < 1:
            raise ProgramError("PageRank takes a damping from 0 to below 1, a positive tol, and at least one step")
        self.damping = damping
        self.tol = tol
        self.max_iter = max_iter
        self.personalization = dict(personalization) if personalization else None
        self.n_iter_ = 0
        self._places: dict[Hashable, int] = {}
        self._edges: dict[tuple[int, int], None] = {}
        self._ranks = np.zeros(0)
        self.update(added=edges)

    @property
    def ranks(self) -> dict[Hashable, float]:
        """The rank of every node; all add up to one."""
        return dict(zip(self._places, self._ranks.tolist(), strict=True))

    def update(
        self,
        *,
        added: Iterable[Edge] = (),
        removed: Iterable[Edge] = (),
    ) -> int:
        """Removes and adds edges, and returns the steps of the iteration; a failed update changes nothing.

        Nodes appear with their first edge and stay.
        """
        before = dict(self._places), dict(self._edges)
        try:
            return self._update(list(added), list(removed))
        except BaseException:
            self._places, self._edges = before
            raise

    def _update(self, more: list[Edge], fewer: list[Edge]) -> int:
        absent = [edge for edge in fewer if tuple(self._places.get(node, -1) for node in edge) not in self._edges]
        if absent:
            raise MatrixDataError(f"edge {absent[0]!r} is not in the graph and cannot be removed")
        for edge in fewer:
            self._edges.pop((self._places[edge[0]], self._places[edge[1]]), None)
        for edge in more:
            places = tuple(self._places.setdefault(node, len(self._places)) for node in edge)
            self._edges[places[0], places[1]] = None
        self.n_iter_ = self._iterate() if self._places else 0
        return self.n_iter_

    def _iterate(self) -> int:
        from scipy.sparse import csr_array

        count = len(self._places)
        jump = self._jump(count)
        ends = np.array(list(self._edges), np.int64).reshape(-1, 2)
        degrees = np.bincount(ends[:, 0], minlength=count)
        weights = 1.0 / degrees[ends[:, 0]]
        backward: Any = csr_array((weights, (ends[:, 1], ends[:, 0])), shape=(count, count))
        dangling = degrees == 0
        ranks = self._start(count)
        for step in range(1, self.max_iter + 1):
            new = self.damping * (backward @ ranks + ranks[dangling].sum() * jump) + (1 - self.damping) * jump
            change = float(np.abs(new - ranks).sum())
            ranks = new
            if change < count * self.tol:
                self._ranks = ranks / ranks.sum()
                return step
        raise MatrixDataError(f"PageRank did not converge in {self.max_iter} steps: raise max_iter or tol")

    def _start(self, count: int) -> Any:
        """The ranks before the change; new nodes begin with an equal share."""
        old = len(self._ranks)
        if not old:
            return np.full(count, 1.0 / count)
        found = np.concatenate([self._ranks, np.full(count - old, 1.0 / count)])
        return found / found.sum()

    def _jump(self, count: int) -> Any:
        if self.personalization is None:
            return np.full(count, 1.0 / count)
        found = np.zeros(count)
        for node, weight in self.personalization.items():
            if node in self._places:
                found[self._places[node]] = weight
        if not found.sum() > 0 or (found < 0).any():
            raise MatrixDataError("no node of the graph has a positive weight in the personalization")
        return found / found.sum()
