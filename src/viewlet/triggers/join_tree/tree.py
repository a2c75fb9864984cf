"""Join trees: the factors of a product, grouped into subtrees that are views of their own.

    ((lineitem part) orders (supplier nation))

A change of one leaf is joined with the views of the other children of each node on its way to the root: a delta tree
of the paper (Figure 4). A node of more than two children joins them at once, without views in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Leaf:
    index: int


@dataclass(frozen=True, slots=True)
class Node:
    children: tuple[Tree, ...]


Tree = Leaf | Node


def leaves(tree: Tree) -> Iterator[int]:
    """The indexes at the leaves, left to right."""
    if isinstance(tree, Leaf):
        yield tree.index
    else:
        for child in tree.children:
            yield from leaves(child)


def maximal_subtrees(tree: Tree, available: Set[int]) -> list[list[int]]:
    """The leaves of the largest subtrees that lie wholly within `available`: the views that a change elsewhere reads.

    >>> maximal_subtrees(Node((Node((Leaf(0), Leaf(1))), Leaf(2), Node((Leaf(3), Leaf(4))))), {1, 2, 3, 4})
    [[1], [2], [3, 4]]
    """
    own = list(leaves(tree))
    if available >= set(own):
        return [own]
    if isinstance(tree, Leaf):
        return []
    return [found for child in tree.children for found in maximal_subtrees(child, available)]
