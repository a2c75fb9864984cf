"""Views over views whose queries are layers of one query: how a stack of views is kept where views read tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from viewlet.algebra.layered_query import LayeredQuery
from viewlet.algebra.query import Query
from viewlet.engine.declaration import Declaration
from viewlet.engine.kinds import expression_of


def choose_layers(declared: Declaration, below: Mapping[str, Declaration]) -> Declaration:
    """A view that is declared now, with the views below it as layers if they are too large to be written out."""
    from viewlet.sql.view_layers import are_too_large

    if not below or not isinstance(declared.definition, Query | LayeredQuery):
        return declared
    return replace(declared, stacked=are_too_large(_definitions(below)))


def over_layers(declared: Declaration, below: Mapping[str, Declaration], tables: frozenset[str]) -> Declaration:
    """The view over tables; `below` are the views that it reads and those under them, each after what it reads."""
    from viewlet.sql import view_layers

    assert isinstance(declared.definition, Query | LayeredQuery)
    layered = view_layers.over_layers(declared.definition, _definitions(below))
    return replace(declared, query=layered.result, definition=layered, sources=tables)


def _definitions(views: Mapping[str, Declaration]) -> dict[str, Query | LayeredQuery]:
    """What views are defined by: each is a query, perhaps in layers."""
    return {
        name: view.definition if isinstance(view.definition, LayeredQuery) else expression_of(view)
        for name, view in views.items()
    }
