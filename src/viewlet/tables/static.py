"""The rule of static tables: rows are inserted before the first view reads them, and stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from viewlet.errors import SchemaError
from viewlet.types import Table, TableKind


def check_unread(schema: Table, readers: Callable[[], Sequence[str]]) -> None:
    """Refuses a change of a static table that comes after views which read the table."""
    if schema.kind is TableKind.STATIC and (users := readers()):
        raise SchemaError(
            f"{schema.name!r} is a STATIC TABLE and already used by view {', '.join(map(repr, users))}: "
            "load it before declaring views, or make it a TABLE"
        )


def check_inserts(schema: Table, multiplicities: Iterable[int]) -> None:
    """Refuses a change of a static table that deletes rows."""
    if schema.kind is TableKind.STATIC and any(weight < 0 for weight in multiplicities):
        raise SchemaError(f"{schema.name!r} is a STATIC TABLE: rows can only be inserted")
