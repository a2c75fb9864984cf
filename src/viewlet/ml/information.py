"""Mutual information of categorical variables, and the Chow-Liu tree.

Both need only the number of rows of each pair of categories, which is a block of the cofactor matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viewlet.errors import SchemaError
from viewlet.ml.estimator import CofactorEstimator, Floats, checked_rows, chosen
from viewlet.ml.source import checked, columns_of
from viewlet.rings.cofactor_table import CofactorTable

Edge = tuple[str, str]


class MutualInformation(CofactorEstimator):
    """The matrix of mutual information between categorical variables, in nats; its diagonal holds their entropies."""

    variables_: tuple[str, ...]
    matrix_: Floats
    n_features_in_: int
    feature_names_in_: Any

    def __init__(self, variables: Sequence[str] | None = None) -> None:
        self.variables = variables

    def between(self, left: str, right: str) -> float:
        """The mutual information of two variables."""
        self._check_fitted()
        if unknown := [name for name in (left, right) if name not in self.variables_]:
            raise SchemaError(f"{unknown[0]!r} is not among the variables {list(self.variables_)}")
        return float(self.matrix_[self.variables_.index(left), self.variables_.index(right)])

    def _learn(self, cofactors: CofactorTable) -> dict[str, Any]:
        table = checked(cofactors)
        count = checked_rows(table, 1, "mutual information")
        columns = columns_of(table)
        kinds = [name for name, places in columns.items() if isinstance(table.variables[places[0]], tuple)]
        names = kinds if self.variables is None else chosen(columns, self.variables)
        if numeric := [name for name in names if name not in kinds]:
            raise SchemaError(f"{numeric[0]!r} is continuous: mutual information is between categorical variables")
        if not names:
            raise SchemaError("the cofactors have no categorical variable: name some as CATEGORICAL(...)")
        matrix = np.zeros((len(names), len(names)))
        for i, left in enumerate(names):
            for j in range(i, len(names)):
                joint = table.matrix[np.ix_(columns[left], columns[names[j]])] / count
                matrix[i, j] = matrix[j, i] = information(joint)
        return {
            "variables_": tuple(names),
            "matrix_": matrix,
            "n_features_in_": len(names),
            "feature_names_in_": np.array(names, dtype=object),
        }


class ChowLiuTree(MutualInformation):
    """The Chow-Liu tree: the tree over the variables whose edges have the most mutual information.

    `edges_` are pairs (parent, child), away from the `root`, which is the first variable unless given; `weights_` has
    the mutual information of each. `score` is the mean log-likelihood of a row under the tree.
    """

    root_: str
    edges_: tuple[Edge, ...]
    weights_: Floats

    def __init__(self, variables: Sequence[str] | None = None, root: str | None = None) -> None:
        super().__init__(variables)
        self.root = root

    def parent(self, variable: str) -> str | None:
        """The parent of a variable in the tree; None for the root."""
        self._check_fitted()
        if variable not in self.variables_:
            raise SchemaError(f"{variable!r} is not among the variables {list(self.variables_)}")
        return next((above for above, below in self.edges_ if below == variable), None)

    def score(self) -> float:
        """The mean log-likelihood of the rows under the tree: mutual information of its edges minus the entropies."""
        self._check_fitted()
        return float(self.weights_.sum() - np.trace(self.matrix_))

    def _learn(self, cofactors: CofactorTable) -> dict[str, Any]:
        learned = super()._learn(cofactors)
        names, matrix = learned["variables_"], learned["matrix_"]
        if self.root is not None and self.root not in names:
            raise SchemaError(f"root {self.root!r} is not among the variables {list(names)}")
        root = names[0] if self.root is None else self.root
        edges = spanning_tree(matrix, names.index(root))
        return learned | {
            "root_": root,
            "edges_": tuple((names[above], names[below]) for above, below in edges),
            "weights_": np.array([matrix[edge] for edge in edges]),
        }


def information(joint: Floats) -> float:
    """The mutual information of a joint distribution, in nats.

    >>> round(information(np.array([[0.5, 0.0], [0.0, 0.5]])), 4), information(np.array([[0.25, 0.25], [0.25, 0.25]]))
    (0.6931, 0.0)
    """
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    present = joint > 0
    return max(0.0, float((joint[present] * np.log(joint[present] / apart[present])).sum()))


def spanning_tree(weights: Floats, root: int) -> list[tuple[int, int]]:
    """The edges of a maximum spanning tree, growing from the root; of equal ones the first variables (Prim).

    >>> spanning_tree(np.array([[0, 1, 5], [1, 0, 4], [5, 4, 0]], dtype=float), 0)
    [(0, 2), (2, 1)]
    """
    best, above = weights[root].copy(), np.full(len(weights), root)
    left = [i for i in range(len(weights)) if i != root]
    edges: list[tuple[int, int]] = []
    while left:
        nearest = max(left, key=lambda i: (best[i], -i))
        left.remove(nearest)
        edges.append((int(above[nearest]), nearest))
        closer = weights[nearest] > best
        best[closer], above[closer] = weights[nearest][closer], nearest
    return edges
