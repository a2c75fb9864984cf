"""Sources of cofactors for models: cofactor tables, view trees, and any object with a method `cofactor`.

A source is read again at every refresh; the cofactors are small, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from viewlet.errors import DataError, SchemaError
from viewlet.rings.cofactor import CofactorRing
from viewlet.rings.cofactor_table import CofactorTable, cofactor_moments
from viewlet.viewtree.ring_engine import MaintainedTree

Columns = dict[str, list[int]]
"""The columns of each variable in a table: one for a continuous variable, one per category otherwise."""


Groups = Mapping[Hashable, CofactorTable]


def read(source: Any) -> CofactorTable | Groups:
    """The current cofactors of a source, by group if the source has groups."""
    if isinstance(source, CofactorTable):
        return source
    if isinstance(source, Mapping):
        return {group: read_one(part) for group, part in source.items()}
    if isinstance(source, MaintainedTree):
        return _of_tree(source)
    if callable(getattr(source, "cofactor", None)):
        return read(source.cofactor())
    raise SchemaError(
        f"a model reads cofactors, and a {type(source).__name__} has none: "
        f"give it a view of COFACTOR(...), a cofactor table, or a view tree over a CofactorRing"
    )


def read_one(source: Any) -> CofactorTable:
    """The cofactors of a source without groups."""
    found = read(source)
    if isinstance(found, Mapping):
        raise SchemaError("the cofactors are by group: wrap the model, PerGroup(model), or give it one of the groups")
    return found


def checked(table: CofactorTable) -> CofactorTable:
    """The table, checked for NaN and infinities."""
    finite = np.isfinite(table.sums) & np.isfinite(table.matrix).all(axis=0)
    if not finite.all():
        column = table.variables[int(np.argmin(finite))]
        raise DataError(
            f"the sums of {column_name(column)!r} are not finite: a NaN or an infinity is among its values, "
            f"or their squares are too large; delete those rows and load the view again"
        )
    return table


def columns_of(table: CofactorTable) -> Columns:
    """The columns of each variable, in the order of the table."""
    found: Columns = {}
    for place, column in enumerate(table.variables):
        found.setdefault(variable_of(column), []).append(place)
    return found


def variable_of(column: Any) -> str:
    return str(column[0] if isinstance(column, tuple) else column)


def column_name(column: Any) -> str:
    """As a one-hot encoder would name it.

    >>> column_name("price"), column_name(("city", "Rome"))
    ('price', 'city_Rome')
    """
    return f"{column[0]}_{column[1]}" if isinstance(column, tuple) else str(column)


def _of_tree(tree: MaintainedTree[Any]) -> CofactorTable | Groups:
    ring = tree.ring
    if not isinstance(ring, CofactorRing):
        raise SchemaError(f"a model reads cofactors, and the payloads of this tree are of the ring {ring.name!r}")
    if ring.degree < 2:
        raise SchemaError("a cofactor ring of degree 1 has sums only: models need products of two variables")
    shown = dict.fromkeys(ring.categorical, _as_it_is)
    if not tree.tree.root.keys:
        return cofactor_moments(ring, tree.payload, shown)
    entries = tree.result.entries
    return {at if len(at) > 1 else at[0]: cofactor_moments(ring, payload, shown) for at, payload in entries.items()}


def _as_it_is(value: Any) -> Any:
    return value
