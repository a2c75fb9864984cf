"""CREATE TYPE, DROP TYPE and COMMENT ON: what is kept in the catalogue and has no rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from viewlet.changes import did_you_mean
from viewlet.connection.database import Database
from viewlet.connection.journal import COMMENT, TYPE
from viewlet.errors import SchemaError

if TYPE_CHECKING:
    from viewlet.sql import CreateType


def create_type(statement: CreateType, database: Database) -> None:
    database.check_no_transaction("CREATE TYPE")
    name, definition, known = statement.name, statement.definition, database.catalogue
    if name in known.types and statement.if_not_exists:
        return
    if name in known.types and not statement.or_replace:
        raise SchemaError(f"there is already a type {name!r}")
    facts = {"name": name, "definition": definition}
    database.declare(TYPE, facts, partial(known.define_type, name, definition))


def drop_type(name: str, if_exists: bool, database: Database) -> None:
    database.check_no_transaction("DROP")
    known = database.catalogue
    if name in known.types:
        database.declare(TYPE, {"name": name, "definition": None}, partial(known.define_type, name, None))
    elif not if_exists:
        raise SchemaError(f"there is no type {name!r}{did_you_mean(name, known.types)}")


def comment_on(name: str, column: str, text: str | None, database: Database) -> None:
    """Says something of a table or view, or of a column of one; None takes it back."""
    database.check_no_transaction("COMMENT")
    if name not in database.tables and name not in database.catalogue.visible_views:
        raise SchemaError(f"{name!r} is a constraint, and not a view")
    finish = partial(database.catalogue.comment_on, name, column, text)
    if database.catalogue.is_temporary(name):
        finish()
    else:
        database.declare(COMMENT, {"name": name, "column": column, "text": text}, finish)
