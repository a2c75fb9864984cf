"""From the reference engine to generated code: what a tree holds, as the rows that compiled stores hold of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from viewlet.codegen.rings.columns import encode
from viewlet.codegen.rings.compiled_tree import CompiledTree
from viewlet.codegen.rings.forms import Words
from viewlet.codegen.rings.plan import Variant
from viewlet.codegen.rings.tree_writer import count_name
from viewlet.types import Row

Payloads = Mapping[Row, Any]
Unpack = Callable[[Variant, Payloads], Iterable[tuple[Row, Any]]]
"""The rows of a variant in the payloads of its node: the values of its keys, and the words after them."""
Hide = Callable[[Sequence[str], Mapping[Row, Any]], Mapping[Row, Any]]
"""Puts something in the place of NULLs."""


def stores_of(tree: CompiledTree, nodes: Mapping[str, Payloads], unpack: Unpack, hide: Hide) -> dict[str, Words]:
    """All held stores of a compiled tree, for `restore`; `nodes` has the payloads of every stored node."""
    found = {
        variant.name: _packed(tree, variant.name, variant.keys, unpack(variant, nodes[variant.node]), hide)
        for variant in tree.plan.stored
    }
    for leaf in tree.tree.indicators:
        if count_name(leaf) in tree.held:
            schema = tree.tree.order.relations[leaf.relation]
            places = [schema.index(name) for name in leaf.keys]
            counts = Counter(tuple(row[i] for i in places) for row in nodes[leaf.relation])
            rows = ((key, (count,)) for key, count in counts.items())
            found[count_name(leaf)] = _packed(tree, count_name(leaf), leaf.keys, rows, hide)
    return found


def _packed(tree: CompiledTree, store: str, keys: Sequence[str], rows: Iterable[tuple[Row, Any]], hide: Hide) -> Words:
    layout = tree.held[store].layout
    shown = hide(keys, dict(rows))
    if not shown and not layout.arity:
        return np.zeros((1, layout.width), np.int64)
    words = np.zeros((len(shown), layout.width), np.int64)
    for i, (name, values) in enumerate(zip(keys, zip(*shown, strict=True), strict=False)):
        column = encode(name, tree.types[name], values, tree.dictionary)
        words[:, i] = (column + 0.0).view(np.int64) if column.dtype == np.float64 else column
    for row, payload in zip(words, shown.values(), strict=True):
        row[len(keys) :] = payload
    return words
