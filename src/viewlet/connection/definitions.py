"""Types, comments and sequences: what is declared, kept in the catalogue, and has no rows.

Sequences of columns GENERATED AS IDENTITY are made before their table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from viewlet.changes import did_you_mean
from viewlet.changes.generated import with_types
from viewlet.changes.sequences import NumberSequence, called_sequences, defined_sequence
from viewlet.connection.database import Database
from viewlet.connection.journal import COMMENT, SEQUENCE, TYPE
from viewlet.errors import SchemaError
from viewlet.types import Column, Table

if TYPE_CHECKING:
    from viewlet.sql import CreateSequence, CreateTable, CreateType


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


def create_sequence(statement: CreateSequence, database: Database) -> None:
    database.check_no_transaction("CREATE SEQUENCE")
    made = defined_sequence(statement.text)
    known = database.sequences.find(made.name)
    if known is not None and statement.if_not_exists:
        return
    if known is not None and not statement.or_replace:
        raise SchemaError(f"there is already a sequence {known.name!r}")
    if known is not None and known.implied:
        raise SchemaError(f"{known.name!r} belongs to a column GENERATED AS IDENTITY")
    _declare(made, database)


def _declare(made: NumberSequence, database: Database) -> None:
    database.declare(SEQUENCE, made.facts(), partial(database.sequences.put, made))


def drop_sequences(names: Iterable[str], if_exists: bool, database: Database) -> None:
    """Drops sequences, all of them or none, that no default of a column calls."""
    sequences, found = database.sequences, list[NumberSequence]()
    for name in names:
        known = sequences.find(name)
        if known is not None:
            found.append(known)
        elif not if_exists:
            hint = did_you_mean(name, [each.name for each in sequences.known.values()])
            raise SchemaError(f"there is no sequence {name!r}{hint}")
    database.check_no_transaction("DROP")
    keys = {each.name.casefold() for each in found}
    for table in database.tables.values():
        for column in table.schema.columns:
            called = [name for name in called_sequences(column.default or "") if name.casefold() in keys]
            if called:
                place = f"{table.schema.name}.{column.name}"
                raise SchemaError(f"cannot drop sequence {called[0]!r}: {place} takes its values")
    for each in found:
        database.declare(SEQUENCE, {"name": each.name, "dropped": True}, partial(sequences.drop, each.name))


def settle_sequences(database: Database) -> None:
    """After a statement: what it took is durable before it is shown, and sequences of columns that are gone go."""
    sequences = database.sequences
    if sequences.known:
        sequences.sweep(table.schema for table in database.tables.values())
    for name in sorted(sequences.moved):
        database.declare(SEQUENCE, sequences.known[name].facts(), partial(sequences.moved.discard, name))


def declared_table(statement: CreateTable, database: Database) -> Table:
    """A table whose columns GENERATED AS IDENTITY take their values from new sequences, and all have types."""
    columns: list[Column] = []
    for column in statement.table.columns:
        options = dict(statement.identities).get(column.name)
        if options is not None:
            name = database.sequences.free_name(f"{statement.table.name}_{column.name}_seq")
            made = replace(defined_sequence(f"CREATE SEQUENCE s {options}"), name=name, implied=True)
            _declare(made, database)
            column = replace(column, default=f"CAST({made.call} AS {column.type})")
        columns.append(column)
    for column in columns:
        for name in called_sequences(column.default or ""):
            if database.sequences.find(name) is None:
                raise SchemaError(f"{statement.table.name}.{column.name}: there is no sequence {name!r}")
    return with_types(replace(statement.table, columns=tuple(columns)))
