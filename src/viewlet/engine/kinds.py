"""The table of kinds of views. Nothing else knows which kinds there are.

A package outside adds its own entry with `register_kind`.
"""

from __future__ import annotations

from viewlet.algebra.query import Query
from viewlet.engine.adaptive_views import ADAPTIVE_VIEWS
from viewlet.engine.aggregate_views import AGGREGATE_VIEWS
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import CompiledForm, DistributedForm, ViewKind
from viewlet.engine.layered_views import LAYERED_VIEWS
from viewlet.engine.matrix_programs import MATRIX_PROGRAMS
from viewlet.engine.ring_trees import COFACTOR_VIEWS, FACTORISED_VIEWS
from viewlet.engine.signal_views import ARRAY_VIEWS, SIGNAL_VIEWS
from viewlet.engine.split_views import SPLIT_VIEWS
from viewlet.engine.stream_views import STREAM_VIEWS
from viewlet.engine.trigger_programs import TRIGGER_PROGRAMS
from viewlet.errors import InternalError, SchemaError, UnsupportedError

KINDS: list[ViewKind] = [
    TRIGGER_PROGRAMS,
    LAYERED_VIEWS,
    AGGREGATE_VIEWS,
    COFACTOR_VIEWS,
    FACTORISED_VIEWS,
    ADAPTIVE_VIEWS,
    SPLIT_VIEWS,
    MATRIX_PROGRAMS,
    STREAM_VIEWS,
    SIGNAL_VIEWS,
    ARRAY_VIEWS,
]
"""The first that accepts a definition is its kind."""


def register_kind(kind: ViewKind) -> ViewKind:
    """Adds a kind of view to the table. A kind with the same table function replaces the one registered before."""
    if not isinstance(kind, ViewKind):
        raise SchemaError(f"register_kind() takes a ViewKind, not {type(kind).__name__}")
    if kind.function is not None:
        from viewlet.sql.table_functions import TABLE_FUNCTIONS

        name, bind = kind.function
        KINDS[:] = [each for each in KINDS if each.function is None or each.function[0] != name]
        TABLE_FUNCTIONS[name.lower()] = bind
    if kind not in KINDS:
        KINDS.append(kind)
    return kind


def kind_of(declared: Declaration) -> ViewKind:
    """The entry of the table that a declaration belongs to."""
    return kind_defined_by(declared.definition, declared.name)


def kind_defined_by(definition: object, name: str = "") -> ViewKind:
    """The entry of the table that a definition belongs to."""
    for kind in KINDS:
        if kind.accepts(definition):
            return kind
    raise InternalError(f"view {name!r}: no kind of view is defined by a {type(definition).__name__}")


def compiled_form(declared: Declaration) -> CompiledForm:
    """How the kind of a view is compiled, if it can be."""
    kind = kind_of(declared)
    if kind.compiled is None:
        hint = f"view {declared.name!r} runs with connect(engine='interpreter') or 'auto'"
        raise UnsupportedError(f"{kind.noun} in the compiled engine", hint, "engine")
    return kind.compiled


def distributed_form(declared: Declaration) -> DistributedForm:
    """How the kind of a view is spread over a cluster, if it can be."""
    kind = kind_of(declared)
    if kind.distributed is None:
        hint = f"keep view {declared.name!r} in a connection without spark="
        raise UnsupportedError(f"{kind.noun} on Spark", hint, "engine")
    return kind.distributed


def is_expression(declared: Declaration) -> bool:
    """Views over this one can be over what it reads: a query takes its place."""
    return distributed_form(declared).expression is not None


def expression_of(declared: Declaration) -> Query:
    """The query that takes the place of a view in others that read it."""
    expression = distributed_form(declared).expression
    if expression is None:
        raise InternalError(f"{declared.name} is not a query")
    return expression(declared)
