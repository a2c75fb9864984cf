"""Relations under construction: blocks (FROM, WHERE, what is bound) and the common tables they are grouped into.

A common table is `SELECT keys, aggregates FROM ... WHERE ... GROUP BY keys`. Two sums over the same rows by the same
keys become two aggregates of one table, because its text is looked up before it is made: a SUM and the COUNT next to
it, or the fields of one view, read their tables once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from viewlet.algebra.nodes import Var
from viewlet.sqlgen.dialects import Dialect
from viewlet.sqlgen.numbers import Measure, Number, column_number, total
from viewlet.sqlgen.terms import Term, in_units

Conditions = Callable[[str], Sequence[str]]
"""The conditions of a join, once the new relation has an alias."""
ONE_ROW = "(SELECT 1 AS one)"


def unconditional(alias: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Item:
    """One relation of a FROM clause."""

    source: str | CommonTable
    alias: str
    on: tuple[str, ...] = ()
    keeps_left: bool = False

    def text(self) -> str:
        return f"{self.source if isinstance(self.source, str) else self.source.name} AS {self.alias}"

    def keys(self) -> list[Term]:
        """Its key columns, if it is a common table."""
        if isinstance(self.source, str):
            return []
        return [self.source.key(i, self.alias) for i in range(len(self.source.keys))]


@dataclass(slots=True)
class Block:
    """A product so far: the rows it ranges over, the variables they bind, and the numbers they contribute."""

    items: list[Item] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    bound: dict[str, Term] = field(default_factory=dict)
    numbers: list[Number] = field(default_factory=list)

    def next_alias(self) -> str:
        return f"t{len(self.items) + 1}"

    def join(self, source: str | CommonTable, conditions: Conditions = unconditional, keeps_left: bool = False) -> str:
        """Adds a relation under an alias, or finds it where it is kept on the right of the same LEFT JOIN already."""
        if keeps_left:
            for item in self.items:
                if item.keeps_left and item.source is source and item.on == tuple(conditions(item.alias)):
                    return item.alias
            if not self.items and conditions(self.next_alias()):
                self.items.append(Item(ONE_ROW, self.next_alias()))
        alias = self.next_alias()
        on = tuple(conditions(alias))
        self.items.append(Item(source, alias, on, keeps_left))
        return alias

    def text(self) -> str:
        """FROM ... WHERE ..."""
        return "\n".join([self.source(), *(["WHERE " + " AND ".join(found)] if (found := self.conditions()) else [])])

    def source(self) -> str:
        """FROM ..."""
        first, *others = self._items()
        lines = [f"FROM {first.text()}"]
        for item in others:
            kind = "CROSS JOIN" if not item.on else "LEFT JOIN" if item.keeps_left else "JOIN"
            condition = f" ON {' AND '.join(item.on)}" if item.on else ""
            lines.append(f"{kind} {item.text()}{condition}")
        return "\n".join(lines)

    def conditions(self) -> tuple[str, ...]:
        """What is behind WHERE, each once."""
        return tuple(dict.fromkeys((*self._items()[0].on, *self.where)))

    def _items(self) -> list[Item]:
        return self.items or [Item(ONE_ROW, "t1")]


@dataclass(slots=True)
class CommonTable:
    """Groups of rows: keys k0, k1, ... and aggregates a0, a1, ..."""

    name: str
    keys: tuple[Term, ...]
    body: str
    source: str
    conditions: tuple[str, ...]
    """The two parts of its body."""
    aggregates: list[str] = field(default_factory=list)
    of_rows: dict[str, str] = field(default_factory=dict)
    """What one row adds to each aggregate that is a sum."""

    def column(self, aggregate: str, of_row: str | None = None) -> str:
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        if of_row is not None:
            self.of_rows[aggregate] = of_row
        return f"a{self.aggregates.index(aggregate)}"

    def key(self, position: int, alias: str) -> Term:
        return self.keys[position].renamed(f"{alias}.k{position}")

    def text(self) -> str:
        columns = [f"{key.sql} AS k{i}" for i, key in enumerate(self.keys)]
        columns += [f"{aggregate} AS a{i}" for i, aggregate in enumerate(self.aggregates)]
        varying = [key.sql for key in self.keys if key.constant is None]
        groups = f"\nGROUP BY {', '.join(varying)}" if varying else "\nHAVING COUNT(*) > 0" if self.keys else ""
        return f"SELECT {', '.join(columns)}\n{self.body}{groups}"

    @property
    def adds_up_rows(self) -> bool:
        """All aggregates are sums, and what one row adds to each is known."""
        return self.of_rows.keys() == set(self.aggregates)


@dataclass(frozen=True, slots=True)
class Total:
    """A sum per key: one aggregate of a common table."""

    table: CommonTable
    column: str
    measure: Measure

    def number(self, alias: str) -> Number:
        return column_number(f"{alias}.{self.column}", self.measure)


class CommonTables:
    """The WITH clause; a table is listed after those it reads."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._groups: dict[tuple[tuple[str, ...], str], CommonTable] = {}
        self._definitions: dict[str, CommonTable | str] = {}
        self._names: dict[str, str] = {}

    def total(self, block: Block, keys: Sequence[str]) -> Total:
        """The numbers of a block added up per key."""
        table = self.grouped(tuple(block.bound[key] for key in keys), block)
        found = total(block.numbers, self._dialect)
        return Total(table, table.column(found.sql, found.of_row), found.measure)

    def grouped(self, keys: tuple[Term, ...], block: Block) -> CommonTable:
        body = block.text()
        identity = tuple(key.sql for key in keys), body
        if identity not in self._groups:
            table = CommonTable(self._new_name(), keys, body, block.source(), block.conditions())
            self._groups[identity] = self._definitions[table.name] = table
        return self._groups[identity]

    def plain(self, text: str) -> str:
        """The name of a table with this definition."""
        if text not in self._names:
            self._names[text] = name = self._new_name()
            self._definitions[name] = text
        return self._names[text]

    def union(self, parts: Sequence[Total]) -> Total:
        """Sums over different rows, added up per key."""
        measure = max(part.measure for part in parts)
        stacked = self.plain("\nUNION ALL\n".join(self._part(part, measure) for part in parts))
        columns = zip(*(part.table.keys for part in parts), strict=True)
        keys = [Term(f"t1.k{i}", same[0].type, any(key.nullable for key in same)) for i, same in enumerate(columns)]
        block = Block(bound={key.sql: key for key in keys}, numbers=[column_number("t1.a0", measure)])
        block.join(stacked)
        return self.total(block, [key.sql for key in keys])

    def _part(self, part: Total, measure: Measure) -> str:
        keys = [part.table.key(i, "t1") for i in range(len(part.table.keys))]
        columns = [f"{in_units(key, self._dialect)} AS k{i}" for i, key in enumerate(keys)]
        columns.append(f"CAST(t1.{part.column} AS {measure.type_name(self._dialect)}) AS a0")
        return f"SELECT {', '.join(columns)} FROM {part.table.name} AS t1"

    @property
    def is_one(self) -> bool:
        """There is one table, which reads no others."""
        return len(self._definitions) == 1

    def text(self) -> str:
        """WITH ..., or nothing."""
        tables = [
            f"{name} AS (\n{definition if isinstance(definition, str) else definition.text()}\n)"
            for name, definition in self._definitions.items()
        ]
        return f"WITH {', '.join(tables)}\n" if tables else ""

    def _new_name(self) -> str:
        return f"c{len(self._definitions) + 1}"


@dataclass(frozen=True, slots=True)
class OuterBindings:
    """What a nested aggregate knows of the rows around it: constants, and for the rest the bindings that occur."""

    constants: Mapping[str, Term] = field(default_factory=dict)
    domain: CommonTable | None = None
    variables: tuple[Var, ...] = ()

    def block(self) -> Block:
        """A block that starts from the domain."""
        block = Block(bound=dict(self.constants))
        if self.domain is not None:
            alias = block.join(self.domain)
            block.bound.update({var.name: self.domain.key(i, alias) for i, var in enumerate(self.variables)})
        return block
