"""Join trees: which views the change of a leaf reads."""

from __future__ import annotations

import pytest

from viewlet.triggers.join_tree.tree import Leaf, Node, maximal_subtrees

R, S, T = range(3)
FIGURE_2 = Node((Leaf(R), Node((Leaf(T), Leaf(S)))))


@pytest.mark.parametrize(
    ("changed", "read"),
    [(T, [[R], [S]]), (S, [[R], [T]]), (R, [[T, S]])],
)
def test_a_change_reads_the_siblings_on_its_path(changed: int, read: list[list[int]]) -> None:
    """Example 4.2: updates to T need the views of S and R only; updates to R need that of S and T."""
    assert maximal_subtrees(FIGURE_2, {R, S, T} - {changed}) == read
