"""BEGIN ... COMMIT: what statements change is held back, read by those that follow, and applied as one batch.

    BEGIN
    INSERT INTO t VALUES (1, 'a')         held: t {(1, 'a'): 1}
    UPDATE t SET s = 'b' WHERE k = 1      reads t with (1, 'a'); held: t {(1, 'b'): 1}
    COMMIT                                a batch of one row

Every change is checked when it is made: a delete of an absent row, or a key that is there already, is refused then and
leaves what is held as it was. Views are maintained at COMMIT, and are not read before if they would be out of date.
SAVEPOINT names how far a transaction is, and ROLLBACK TO goes back to there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from viewlet.changes import Change, Changes, RowChange, did_you_mean
from viewlet.errors import SchemaError
from viewlet.hosts.catalogue import Catalogue
from viewlet.hosts.contract import Batch
from viewlet.types import Row


@dataclass(frozen=True, slots=True)
class Savepoint:
    """How many steps and declarations a transaction had."""

    name: str
    steps: int
    declared: int


class Transaction:
    """The changes of the statements since BEGIN, and the names of the tables and views that they declared."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.declared: list[str] = []
        self._catalogue = catalogue
        self._steps: list[Batch] = []
        self._tables: dict[str, _HeldRows] = {}
        self._counted: int | None = 0
        """The steps whose rows are in `_tables`; None while they are added, and after an exception in that."""
        self._savepoints: list[Savepoint] = []
        self._returns = 0

    @property
    def version(self) -> tuple[int, int]:
        """Another one after every change."""
        return self._returns, len(self._steps)

    def save(self, name: str) -> None:
        """SAVEPOINT: one of the same name is hidden until this one is released."""
        self._savepoints.append(Savepoint(name, len(self._steps), len(self.declared)))

    def release(self, name: str) -> None:
        """RELEASE: the savepoint and those after it are gone, what was changed stays."""
        del self._savepoints[self._place_of(name) :]

    def declared_since(self, name: str) -> list[str]:
        """What ROLLBACK TO drops."""
        return self.declared[self._savepoints[self._place_of(name)].declared :]

    def return_to(self, name: str) -> None:
        """ROLLBACK TO: the savepoint stays, those after it are gone."""
        at = self._place_of(name)
        self._counted, self._returns = None, self._returns + 1
        del self._savepoints[at + 1 :]
        del self._steps[self._savepoints[at].steps :], self.declared[self._savepoints[at].declared :]

    def _place_of(self, name: str) -> int:
        names = [each.name for each in self._savepoints]
        if name not in names:
            raise SchemaError(f"there is no savepoint {name!r}{did_you_mean(name, names)}")
        return len(names) - 1 - names[::-1].index(name)

    def hold(self, batch: Batch) -> None:
        """Adds the changes of one statement."""
        self._count()
        for name, change in batch.items():
            if change:
                held = self._tables.get(name)
                seen = change if held is None else held.seen_by(change)
                self._catalogue.tables[name].check(seen, partial(self._catalogue.readers, name))
        self._steps.append(dict(batch))

    def changes(self) -> dict[str, Change]:
        """What all statements together change."""
        if len(self._steps) == 1:
            return dict(self._steps[0])
        self._count()
        return {name: RowChange(held.rows) for name, held in self._tables.items()}

    def concerns(self, name: str) -> bool:
        """A view, which changes at COMMIT, reads a table that has been changed."""
        changed = tuple({table: None for step in self._steps for table, change in step.items() if change})
        view = self._catalogue.views.get(name)
        return view is not None and bool(changed) and view in self._catalogue.reach(changed).views

    def rows(self, name: str) -> Changes:
        """What is held of one table."""
        self._count()
        return self._tables[name].rows if name in self._tables else {}

    def rows_with_keys(self, name: str, keys: Sequence[Row]) -> Changes:
        """What is held of the rows with some primary keys."""
        self._count()
        return self._tables[name].with_keys(keys) if name in self._tables else {}

    def _count(self) -> None:
        """Brings the rows up to date with the steps."""
        if self._counted is None:
            self._tables, self._counted = {}, 0
        missing = self._steps[self._counted :]
        if not missing:
            return
        self._counted = None
        for step in missing:
            for name, change in step.items():
                if name not in self._tables:
                    schema = self._catalogue.tables[name].schema
                    self._tables[name] = _HeldRows(tuple(map(schema.column_names.index, schema.primary_key)))
                self._tables[name].add(change.rows())
        self._counted = len(self._steps)


@dataclass(slots=True)
class _HeldRows:
    """What is held of one table."""

    key: tuple[int, ...]
    rows: Changes = field(default_factory=dict)
    by_key: dict[Row, dict[Row, None]] = field(default_factory=dict)
    """Of a table with a primary key: the rows with each."""

    def add(self, rows: Changes) -> None:
        for row, weight in rows.items():
            total = self.rows.get(row, 0) + weight
            if total:
                self.rows[row] = total
            else:
                del self.rows[row]
            if self.key:
                alike = self.by_key.setdefault(self._key_of(row), {})
                if total:
                    alike[row] = None
                else:
                    alike.pop(row, None)

    def seen_by(self, change: Change) -> Change:
        """A change together with what is held of its rows, and of others with their keys."""
        found = dict(change.rows())
        near = self.with_keys([self._key_of(row) for row in found]) if self.key else self.rows
        for row in near if self.key else [row for row in found if row in near]:
            found[row] = found.get(row, 0) + near[row]
        return RowChange({row: weight for row, weight in found.items() if weight})

    def with_keys(self, keys: Sequence[Row]) -> Changes:
        return {row: self.rows[row] for key in dict.fromkeys(keys) for row in self.by_key.get(key, ())}

    def _key_of(self, row: Row) -> Row:
        return tuple(row[i] for i in self.key)
