"""What a change of a kept table must not do: delete a row that is not there, or leave a primary key twice."""

from __future__ import annotations

from typing import NoReturn

from viewlet.changes import Changes, describe_row
from viewlet.errors import ConstraintError, DataError
from viewlet.triggers.store import MapStore, part_of
from viewlet.types import Row, Table

MAX_MULTIPLICITY = 2**63 - 1


def check_rows(schema: Table, key: tuple[int, ...], store: MapStore, changes: Changes) -> None:
    """Refuses a change of the rows in a store; `key` are the positions of the primary key."""
    if not len(store) and _is_first_load(key, changes):
        return
    for row, weight in changes.items():
        payload = store.get(row)
        present = 0 if payload is None else payload[0]
        if present + weight < 0:
            refuse_absent(schema, row, present)
        if present + weight > MAX_MULTIPLICITY:
            raise DataError(f"{schema.name} would hold {describe_row(schema, row)} more than 2^63 times")
    if key:
        _check_keys(schema, key, store, changes)


def _is_first_load(key: tuple[int, ...], changes: Changes) -> bool:
    """Rows are inserted in a table that has none, and no key is there twice: there is nothing else to check."""
    if not changes or min(changes.values()) < 0 or max(changes.values()) > MAX_MULTIPLICITY:
        return False
    return not key or len(set(map(part_of(key), changes))) == len(changes) == sum(changes.values())


def _check_keys(schema: Table, positions: tuple[int, ...], store: MapStore, changes: Changes) -> None:
    """No key may be there twice once the whole batch is in; absent deletes have been refused already."""
    key_of = part_of(positions)
    added: dict[Row, int] = {}
    for row, weight in changes.items():
        key = key_of(row)
        added[key] = added.get(key, 0) + weight
    for row, weight in changes.items():
        if weight > 0 and added[key := key_of(row)] + _rows_with_key(store, positions, key) > 1:
            refuse_duplicate(schema, row)


def _rows_with_key(store: MapStore, positions: tuple[int, ...], key: Row) -> int:
    count = 0
    for row in store.slice(positions, key):
        count += (store.get(row) or (0,))[0]
    return count


def refuse_absent(schema: Table, row: Row, present: int) -> NoReturn:
    there = f"it is there {present} times" if present else "it is not there"
    raise DataError(f"cannot delete {describe_row(schema, row)} from {schema.name}: {there}")


def refuse_duplicate(schema: Table, row: Row) -> NoReturn:
    names = ", ".join(schema.primary_key)
    raise ConstraintError(f"duplicate key ({names}) in {schema.name}: {describe_row(schema, row)}")
