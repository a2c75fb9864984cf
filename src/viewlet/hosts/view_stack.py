"""Views over views on a host where views read tables: those below take their place, as queries or as layers.

A query over views that aggregate views is made of layers where it would be too large in one piece. That is decided
when a view is declared, and noted with it: its state depends on it.
"""

from __future__ import annotations

from viewlet.engine.declaration import Declaration
from viewlet.engine.kinds import distributed_form, expression_of, is_expression, kind_of
from viewlet.engine.rows import is_limited
from viewlet.engine.stacked_views import choose_layers, over_layers
from viewlet.errors import SchemaError, UnsupportedError
from viewlet.hosts.catalogue import Catalogue


def choose_form(declared: Declaration, catalogue: Catalogue) -> Declaration:
    """A view that is declared now, which says whether the views below are its layers."""
    return choose_layers(declared, views_below(declared, catalogue))


def views_below(declared: Declaration, catalogue: Catalogue) -> dict[str, Declaration]:
    """The views that a view reads and those that they read, each after those that it reads itself."""
    found: dict[str, Declaration] = {}

    def collect(sources: frozenset[str]) -> None:
        for name in sorted(sources & catalogue.views.keys()):
            if name not in found:
                view = catalogue.views[name].declared
                collect(view.sources)
                found[name] = view

    collect(declared.sources)
    return found


def tables_under(declared: Declaration, catalogue: Catalogue) -> frozenset[str]:
    """The tables that a view is over, once the views below have taken their place; fails where they cannot."""
    _check_views(declared, catalogue)
    below = views_below(declared, catalogue)
    return declared.sources.union(*(view.sources for view in below.values())) - below.keys()


def _check_views(declared: Declaration, catalogue: Catalogue) -> None:
    """Refuses a view over views that nothing can take the place of."""
    views = catalogue.views
    inner = sorted(declared.sources & views.keys())
    if inner and distributed_form(declared).inline is None:
        hint = f"let it read the tables under {inner[0]!r}"
        raise UnsupportedError(f"{kind_of(declared).noun} over view {inner[0]!r} on Spark", hint, "engine")
    for name in inner:
        catalogue.check_source(name, declared.name)
        view = views[name].declared
        if not is_expression(view):
            hint = f"read {name!r} with its handle; let view {declared.name!r} read the tables under it"
            raise UnsupportedError(f"a view over {name!r}, {views[name].kind.noun}, on Spark", hint, "engine")
    for name in inner:
        if is_limited(views[name].declared.query):
            raise SchemaError(
                f"view {declared.name!r} reads view {name!r}, which shows its first rows only: "
                "on Spark views read tables, and views without LIMIT and OFFSET"
            )


def over_tables(declared: Declaration, catalogue: Catalogue) -> Declaration:
    """The view over tables, with the views that it reads as layers, or replaced by their queries."""
    tables = tables_under(declared, catalogue)
    if tables == declared.sources:
        return declared
    if declared.stacked:
        return over_layers(declared, views_below(declared, catalogue), tables)
    inline = distributed_form(declared).inline
    assert inline is not None
    views = {name: catalogue.views[name].declared for name in sorted(declared.sources & catalogue.views.keys())}
    queries = {name: expression_of(over_tables(view, catalogue)) for name, view in views.items()}
    return inline(declared, queries, tables)
