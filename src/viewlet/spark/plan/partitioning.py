"""The location of each view (thesis, section 5.5, made to follow declared keys, access patterns and measured sizes).

A view is partitioned by the highest-ranking class of columns among its keys. A class identifies the rows of some table,
and its rank is their number. A view without such a key is partitioned by all its keys, unless they are known to have
few values: it lives at the driver then, or at all workers if they read it together with partitioned views. A snapshot
moves what has turned out to be large, or small. `PARTITION BY` overrides the choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from viewlet.algebra.nodes import Rel, Var, View
from viewlet.algebra.traverse import walk
from viewlet.errors import SchemaError
from viewlet.spark.plan.columns import Column, ColumnClasses, column_classes, key_columns
from viewlet.spark.plan.key_values import defined_values
from viewlet.spark.plan.locations import LOCAL, REPLICATED, Dist, ViewLocation
from viewlet.triggers.program import Program, ViewDefinition
from viewlet.triggers.shared_views import views_read
from viewlet.types import Table

SMALL_ROWS = 1_000.0
"""So many rows may be kept at every worker."""
DRIVER_ROWS = 100_000.0
"""So many rows may be kept at the driver."""
FEW_ROWS = DRIVER_ROWS / 4
"""Groups of a busy view in partitions may move to the driver: they are far from so many that they would move back."""
STATIC_ROWS = 100.0
"""The assumed rows of an unmeasured static table: such tables are usually look-up tables."""


class Spread(IntEnum):
    """Which views are partitioned by all their keys, as no class of columns is among them that ranks."""

    LARGE = 0
    """Those known to be large: the choice of earlier versions."""
    RESULTS = 1
    """Those too that no statement reads, unless they are known to be small."""
    ALL = 2
    """All that are not known to be small."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Known facts about the data of a program; `rows` are those of tables and views, and values of `table.column`."""

    program: Program
    tables: Mapping[str, Table]
    rows: Mapping[str, float]
    classes: ColumnClasses
    by_column: bool = True
    """A column has no more values than its table has rows; earlier versions knew that of primary keys only."""

    def table_rows(self, name: str) -> float | None:
        if name in self.rows:
            return self.rows[name]
        return None if self.tables[name].is_dynamic else STATIC_ROWS

    def class_rows(self, root: Column) -> float | None:
        """How many values the columns of a class can have: the rows of a table they identify."""
        known = [rows for name in self.classes.identified(root) if (rows := self.table_rows(name)) is not None]
        return min(known, default=None)

    def bound(self, view: ViewDefinition) -> float | None:
        """A view has no more rows than this; None if nothing limits them."""
        if view.name in self.rows:
            return self.rows[view.name]
        limits = [self._keys_bound(view), self._tables_bound(view)]
        return min((limit for limit in limits if limit is not None), default=None)

    def is_large(self, view: ViewDefinition) -> bool:
        """A view is known to have too many rows for the driver or, where they are unknown, a key too many values."""
        if view.name in self.rows:
            return self.rows[view.name] > DRIVER_ROWS
        columns = {column for each in key_columns(view).values() for column in each}
        return any((self._said_values(column) or 0.0) > DRIVER_ROWS for column in columns)

    def may_be_large(self, view: ViewDefinition) -> bool:
        """Nothing says that a view has few enough rows for the driver."""
        bound = self.bound(view)
        return bound is None or bound > DRIVER_ROWS

    def _keys_bound(self, view: ViewDefinition) -> float | None:
        """The product of what the keys can be; those that are columns of one table have no more values than it has."""
        defined = defined_values(view) if self.by_column else {}
        limits = {key: self._values(columns, defined.get(key)) for key, columns in key_columns(view).items()}
        total = 1.0
        for atom in self._measured_atoms(view) if self.by_column else ():
            mine = _product(limits.pop(key) for key in set(atom.args) & limits.keys())
            total *= min(self.table_rows(atom.name) or 0.0, mine)
        rest = _product(limits.values())
        return None if math.isinf(rest) else total * rest

    def _measured_atoms(self, view: ViewDefinition) -> list[Rel]:
        """The tables that a view reads, as often as it reads them, the smallest first."""
        atoms = {node for each in view.fields[:1] for node in walk(each.definition) if isinstance(node, Rel)}
        known = [(rows, str(atom), atom) for atom in atoms if (rows := self.table_rows(atom.name)) is not None]
        return [atom for *_, atom in sorted(known, key=lambda each: each[:2])]

    def _values(self, columns: Iterable[Column], defined: float | None) -> float | None:
        """How many values a key has at most that has those of some columns, or as many as its definition says."""
        limits = [defined, *(self.class_rows(self.classes.class_of(column)) for column in columns)]
        if self.by_column:
            limits += [limit for column in columns for limit in (self.table_rows(column[0]), self._said_values(column))]
        return min((limit for limit in limits if limit is not None), default=None)

    def _said_values(self, column: Column) -> float | None:
        """How many values a column is said to have."""
        table, position = column
        return self.rows.get(f"{table}.{self.tables[table].column_names[position]}")

    def _tables_bound(self, view: ViewDefinition) -> float | None:
        atoms = {node for each in view.fields[:1] for node in walk(each.definition) if isinstance(node, Rel)}
        total = 1.0
        for atom in atoms:
            rows = self.table_rows(atom.name)
            if rows is None:
                return None
            total *= rows
        return total


def _product(limits: Iterable[float | None]) -> float:
    return math.prod(math.inf if limit is None else limit for limit in limits)


def facts_of(program: Program, tables: Mapping[str, Table], rows: Mapping[str, float], by_column: bool = True) -> Facts:
    return Facts(program, tables, rows, column_classes(program, tables), by_column)


def ranking(facts: Facts) -> list[Column]:
    """Classes to partition by, best first: of the largest tables, then of those that refer to the most others."""
    classes = facts.classes
    found = dict.fromkeys(
        classes.class_of(column)
        for view in facts.program.views
        for columns in key_columns(view).values()
        for column in columns
    )
    heights = {name: _height(name, facts, frozenset()) for name in facts.tables}

    def rank(root: Column) -> tuple[float, ...]:
        whole, part = classes.identified(root), classes.partly_identified(root)
        rows = max((facts.table_rows(name) or 0.0 for name in whole), default=0.0)
        height = max((heights[name] for name in whole), default=0)
        return (bool(whole), bool(part), rows, height, classes.is_joined(root))

    return sorted(
        (root for root in found if classes.partly_identified(root) or classes.is_joined(root)), key=rank, reverse=True
    )


def locations(
    facts: Facts, ranked: Sequence[Column], partition_by: Mapping[str, Sequence[str]], spread: Spread = Spread.ALL
) -> dict[str, ViewLocation]:
    """The location of every view, under a ranking of classes."""
    read = {name for statement in facts.program.statements for name in views_read(statement)}
    found: dict[str, ViewLocation | None] = {}
    for view in facts.program.views:
        asked = _asked_for(view, facts, partition_by)
        found[view.name] = asked or _partitioned(view, facts, ranked, view.name in read, spread)
    apart = {name for name, location in found.items() if isinstance(location, Dist)}
    together = _read_beside(facts.program, apart)
    return {
        name: location if location is not None else REPLICATED if name in together or _is_lookup(name, facts) else LOCAL
        for name, location in found.items()
    }


def _partitioned(
    view: ViewDefinition, facts: Facts, ranked: Sequence[Column], is_read: bool, spread: Spread
) -> ViewLocation | None:
    """A partitioning for a view that may be large; None for a small one."""
    bound = facts.bound(view)
    if bound is not None and bound <= SMALL_ROWS:
        return None
    columns = key_columns(view)
    keys = {facts.classes.class_of(column): key for key, found in columns.items() for column in sorted(found)}
    for root in ranked:
        if root in keys and (is_read or facts.classes.partly_identified(root)):
            rows = facts.class_rows(root)
            if rows is None or rows > SMALL_ROWS:
                return Dist((keys[root],))
    is_meant = spread is Spread.ALL or (spread is Spread.RESULTS and not is_read)
    is_spread = facts.is_large(view) or (is_meant and facts.may_be_large(view))
    return Dist(group_keys(view, facts.program)) if view.keys and is_spread else None


def group_keys(view: ViewDefinition, program: Program) -> tuple[Var, ...]:
    """The keys to spread a view by: what all views are grouped by that the result reads, else all keys.

    Each partition can then compute its rows of the result.
    """
    output = program.query.output
    atoms = [node for node in walk(program.result) if isinstance(node, View) and node.args]
    if not any(atom.name == view.name for atom in atoms):
        return view.keys
    common = set(output).intersection(*(atom.args for atom in atoms))
    mine = next(atom.args for atom in atoms if atom.name == view.name)
    return tuple(view.keys[mine.index(var)] for var in output if var in common) or view.keys


def _asked_for(view: ViewDefinition, facts: Facts, partition_by: Mapping[str, Sequence[str]]) -> ViewLocation | None:
    """What `PARTITION BY` says of the view, or of a table one of whose columns is among the view's keys.

    Tables that the view reads come before those whose columns are only joined with its keys.
    """
    if view.name in partition_by:
        names = {key.name: key for key in view.keys}
        wanted = partition_by[view.name]
        unknown = [name for name in wanted if name not in names]
        if unknown:
            known = ", ".join(names) or "none"
            raise SchemaError(f"PARTITION BY {', '.join(unknown)}: {view.name} has no such key; its keys are {known}")
        return Dist(tuple(names[name] for name in wanted)) if wanted else LOCAL
    columns = key_columns(view)
    own = {node.name for each in view.fields for node in walk(each.definition) if isinstance(node, Rel)}
    for table, wanted in sorted(partition_by.items(), key=lambda each: each[0] not in own):
        if table in facts.tables:
            roots = [facts.classes.class_of((table, _position(facts.tables[table], name))) for name in wanted]
            keys = [_key_of(columns, root, facts.classes) for root in roots]
            if keys and all(key is not None for key in keys):
                return Dist(tuple(key for key in keys if key is not None))
    return None


def outgrown(locations: Mapping[str, ViewLocation], rows: Mapping[str, float]) -> dict[str, float]:
    """The rows of views in one place that are too many for it."""
    kept = {name for name, at in locations.items() if not isinstance(at, Dist)}
    return {name: count for name, count in rows.items() if name in kept and count > DRIVER_ROWS}


def few_of_a_load(rows: Mapping[str, float]) -> float:
    """So many groups are few after a load: those of rows that are many times as many will hardly become more."""
    return max(SMALL_ROWS, min(FEW_ROWS, max(rows.values(), default=0.0) / 10))


def gatherable(locations: Mapping[str, ViewLocation], rows: Mapping[str, float], most: float) -> dict[str, float]:
    """The rows of views in partitions, where they are so few that they may be in one place."""
    found = {name: rows.get(name, 0) for name, at in locations.items() if isinstance(at, Dist)}
    return {name: count for name, count in found.items() if count <= most}


def result_partitioning(program: Program, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """What PARTITION BY columns of the result means for the views it is read from."""
    if not columns:
        return {}
    shown = {column.name: column.var for column in program.query.columns}
    wanted = [shown[name] for name in columns]
    found: dict[str, tuple[str, ...]] = {}
    for node in walk(program.result):
        if isinstance(node, View) and set(wanted) <= set(node.args):
            keys = program.view(node.name).keys
            by = tuple(keys[node.args.index(var)].name for var in wanted)
            found |= {node.name: by, f"{program.name}/{node.name}": by}
    if not found:
        raise SchemaError(
            f"PARTITION BY {', '.join(columns)}: nothing that is kept for {program.name} has these columns as keys; "
            "choose columns it groups by"
        )
    return found


def _position(table: Table, column: str) -> int:
    if column not in table.column_names:
        raise SchemaError(f"PARTITION BY {column}: table {table.name} has no such column")
    return table.column_names.index(column)


def _key_of(columns: Mapping[Var, Iterable[Column]], root: Column, classes: ColumnClasses) -> Var | None:
    return next((key for key, found in columns.items() if any(classes.class_of(c) == root for c in found)), None)


def _read_beside(program: Program, apart: set[str]) -> set[str]:
    """Views that some statement reads together with partitioned ones, or for a partitioned one."""
    found: set[str] = set()
    for statement in program.statements:
        read = views_read(statement)
        if statement.view in apart or not read.isdisjoint(apart):
            found |= read
    return found


def _is_lookup(name: str, facts: Facts) -> bool:
    """It never changes, and so it may be anywhere at no cost."""
    view = facts.program.view(name)
    atoms = [node for each in view.fields for node in walk(each.definition) if isinstance(node, Rel)]
    return bool(atoms) and not any(facts.tables[atom.name].is_dynamic for atom in atoms)


def _height(name: str, facts: Facts, above: frozenset[str]) -> int:
    """How many tables a table refers to, one after another, by columns that hold their keys."""
    if name in above:
        return 0
    table = facts.tables[name]
    referred = {
        other
        for i, column in enumerate(table.column_names)
        if table.primary_key != (column,)
        for other in facts.classes.identified(facts.classes.class_of((name, i)))
        if other != name
    }
    return 1 + max((_height(other, facts, above | {name}) for other in referred), default=-1)
