"""The columns of its tables that a definition reads; all others are ignored when it is evaluated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from viewlet.algebra.nodes import Expr, Rel
from viewlet.algebra.traverse import mentioned, walk
from viewlet.triggers.program import ViewDefinition
from viewlet.types import Table


def columns_read(views: Iterable[ViewDefinition], tables: Mapping[str, Table]) -> dict[str, frozenset[str]]:
    """Table -> columns, for every table that some view reads.

    A column is read if its variable is a key of the view, or is named a second time in the definition.
    """
    found: dict[str, set[str]] = {}
    for view in views:
        keys = [var.name for var in view.keys]
        for field in view.fields:
            named = Counter(keys) + _names(field.definition)
            for node in walk(field.definition):
                if isinstance(node, Rel):
                    pairs = zip(tables[node.name].column_names, node.args, strict=True)
                    read = {column for column, var in pairs if named[var.name] > 1}
                    found.setdefault(node.name, set()).update(read)
    return {name: frozenset(columns) for name, columns in found.items()}


def _names(definition: Expr) -> Counter[str]:
    return Counter(var.name for node in walk(definition) for var in mentioned(node))
