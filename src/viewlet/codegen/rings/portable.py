"""The stores of a compiled tree as Arrow tables that another process can take up.

Words are as they are, but for those that stand for strings: codes mean something to one dictionary only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from viewlet.codegen.rings.compiled_tree import CompiledTree
from viewlet.codegen.rings.origins import STORE as ORIGINS
from viewlet.codegen.rings.tree_writer import count_name
from viewlet.types import Kind


def store_keys(tree: CompiledTree) -> dict[str, tuple[str, ...]]:
    """The variables that the keys of each held store are values of."""
    stored = {variant.name: tuple(variant.keys) for variant in tree.plan.stored}
    counts = {count_name(leaf): tuple(leaf.keys) for leaf in tree.tree.indicators}
    known = stored | counts | {ORIGINS: ()}
    return {name: known[name] for name in tree.held}


def to_table(tree: CompiledTree, store: str) -> Any:
    """The rows of a held store; none for no rows."""
    import pyarrow as pa

    words = tree.held[store].packed()
    if not tree.held[store].layout.arity:
        words = words[words.any(axis=1)]
    texts = _text_columns(tree, store)
    columns = [
        pa.array([tree.dictionary.texts[code] for code in words[:, i].tolist()], pa.large_string())
        if i in texts
        else pa.array(np.ascontiguousarray(words[:, i]))
        for i in range(words.shape[1])
    ]
    return pa.table(columns, names=[f"w{i}" for i in range(len(columns))])


def restore_tables(tree: CompiledTree, tables: Mapping[str, Any]) -> None:
    """Continues from the results of `to_table` for all stores, None for empty ones."""
    tree.restore({store: _words(tree, store, tables[store]) for store in tree.held})


def _words(tree: CompiledTree, store: str, table: Any) -> Any:
    layout = tree.held[store].layout
    if table is None or not table.num_rows:
        return np.zeros((0 if layout.arity else 1, layout.width), np.int64)
    texts = _text_columns(tree, store)
    columns = [
        tree.dictionary.encode_arrow(table.column(i)) if i in texts else table.column(i).to_numpy()
        for i in range(layout.width)
    ]
    return np.ascontiguousarray(np.stack(columns, axis=1), np.int64)


def _text_columns(tree: CompiledTree, store: str) -> set[int]:
    keys = store_keys(tree)[store]
    return {i for i, name in enumerate(keys) if tree.types[name].kind is Kind.VARCHAR}
