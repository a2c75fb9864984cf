"""What a CREATE VIEW asks for, once the front end has bound it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from viewlet.algebra.query import Query
from viewlet.errors import SqlError, StateError
from viewlet.types import Constraint, Table

if TYPE_CHECKING:
    from viewlet.aggregates import Aggregate
    from viewlet.sql import CreateView


PLANNED = "planned"
"""The fact of a view that says what its plan was made of."""
READ_FROM = "read_from"
"""The fact of a view that says what the plan was made of whose stored views it is read from."""
MERGED = "merged"
"""The fact of a view that says what else the plan was made of."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """A view to maintain.

    `definition` says what it keeps, and decides which kind of view it is (`engine/kinds.py`). `query` says what its
    rows look like: columns, order, limit. Of an SQL query both are the same. `sql` is the query as written, `statement`
    the whole. `partition_by` are columns to spread it by; one process has nothing to spread. `aggregates` are the names
    of the user-defined aggregates that it uses. It is `layered` if its query was cut into layers.
    """

    name: str
    query: Query
    definition: object
    sources: frozenset[str]
    sql: str
    strategy: str = "auto"
    replaces: bool = False
    statement: str = ""
    partition_by: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    layered: bool = False
    stacked: bool = False
    """The views that it reads are layers of its query, where a host would replace them by their queries."""
    together: tuple[str, ...] = ()
    """The views that were declared with it, because they read each other; they are dropped together."""
    temporary: bool = False
    """It is not written down in a directory, and goes with the connection."""
    constraint: Constraint | None = None
    """The rows of the view break it: no batch may leave any."""
    comments: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """What COMMENT ON says of columns, and under an empty name of the view."""
    chosen: str = ""
    """Why `auto` has chosen another kind than that of the definition as it is written, if it has."""


def declaration(view: CreateView, text: str = "") -> Declaration:
    """What the statement `text` asks for, once it is bound."""
    return Declaration(
        view.name,
        view.query,
        view.definition,
        view.sources,
        view.select_sql,
        view.strategy,
        view.or_replace,
        view.statement or text,
        view.partition_by,
        view.aggregates,
        view.layered,
        together=tuple(each.name for each in view.together),
    )


def declared_by(
    statement: str,
    schemas: Mapping[str, Table],
    aggregates: Mapping[str, Aggregate] | None = None,
    layered: bool = False,
) -> Declaration:
    """What a CREATE VIEW that was accepted before asks for; its query is cut into layers if it was (`layered`)."""
    from viewlet.sql import CreateView, bind_statement, split_statements

    bound = bind_statement(next(split_statements(statement)), schemas, aggregates or {}, layered)
    if not isinstance(bound, CreateView):
        raise StateError(f"{statement!r:.80} does not declare a view")
    return declaration(bound, statement)


def constraint_declaration(
    constraint: Constraint, schemas: Mapping[str, Table], aggregates: Mapping[str, Aggregate]
) -> Declaration:
    """The view of the rows that break a constraint."""
    from viewlet.sql import constraint_statement

    try:
        found = declared_by(constraint_statement(constraint), schemas, aggregates)
    except SqlError as error:
        raise SqlError(f"{constraint.text} of {constraint.table!r}: {str(error).splitlines()[0]}") from error
    return replace(found, constraint=constraint)


def planned_to_json(planned: Declaration, declared: Declaration, fact: str = PLANNED) -> dict[str, Any]:
    """The fact of a view that says what its plan was made of, if that was another declaration: its view may be gone."""
    return {} if planned is declared else {fact: declaration_to_json(planned)}


def declaration_to_json(planned: Declaration) -> dict[str, Any]:
    """A declaration that a plan is made of."""
    known = {"name": planned.name, "statement": planned.statement, "layered": planned.layered}
    stacked = {"stacked": True} if planned.stacked else {}
    return {**known, **stacked, "partition_by": list(planned.partition_by)}


def declaration_of_json(
    known: Mapping[str, Any], schemas: Mapping[str, Table], aggregates: Mapping[str, Aggregate]
) -> Declaration:
    """What `declaration_to_json` was given."""
    found = declared_by(known["statement"], schemas, aggregates, known["layered"])
    stacked = known.get("stacked", False)
    return replace(found, name=known["name"], partition_by=tuple(known["partition_by"]), stacked=stacked)


def planned_for(facts: Mapping[str, Any], declared: Declaration) -> str:
    """The name of the declaration that `planned_again` finds."""
    known = facts.get(PLANNED, facts.get(READ_FROM))
    return declared.name if known is None else str(known["name"])


def planned_again(
    facts: Mapping[str, Any],
    declared: Declaration,
    schemas: Mapping[str, Table],
    aggregates: Mapping[str, Aggregate],
) -> Declaration:
    """What the plan of a view was made of: plans of the same declaration have the same names."""
    known = facts.get(PLANNED, facts.get(READ_FROM))
    return declared if known is None else declaration_of_json(known, schemas, aggregates)
