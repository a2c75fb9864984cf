"""FROM: tables, derived tables, constant tables and CTEs, under every kind of join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce

from tests.oracle.grammar.choices import Choices, chance, pick, weighted
from tests.oracle.grammar.families import FAMILIES, LITERALS, NUMERIC, Field, Scope
from tests.oracle.grammar.predicates import Predicates
from tests.oracle.grammar.values import FAMILIES as COLUMN_FAMILIES
from tests.oracle.grammar.values import TABLE_COLUMNS

JOINS = (
    (3, "JOIN"), (4, "LEFT JOIN"), (2, "RIGHT JOIN"), (3, "FULL JOIN"), (1, "CROSS JOIN"), (1, "SEMI JOIN"),
    (1, "ANTI JOIN"), (1, "INNER JOIN"), (1, "LEFT OUTER JOIN"),
)  # fmt: skip
MERGED_PAIRS = (("r", "s"), ("r", "t"), ("s", "t"), ("s", "u"), ("r", "u"), ("t", "l"))


@dataclass(frozen=True, slots=True)
class Source:
    """Something to select from: a table, a CTE or a derived table, with the columns it offers."""

    text: str
    columns: tuple[tuple[str, str], ...]
    named: bool = False
    """Its alias lists the columns, as VALUES needs it."""

    def alias(self, name: str) -> str:
        return f"{name}({', '.join(column for column, _ in self.columns)})" if self.named else name

    def fields(self, alias: str) -> tuple[Field, ...]:
        return tuple(Field(f"{alias}.{name}", family) for name, family in self.columns)


@dataclass(frozen=True, slots=True)
class From:
    text: str
    fields: tuple[Field, ...]


@dataclass(slots=True)
class Sources:
    """Writes FROM clauses. `name` makes up names; `table_query` writes the query of a derived table."""

    choices: Choices
    predicates: Predicates
    name: Callable[[str], str]
    table_query: Callable[[list[str], list[str], Scope], str]
    ctes: list[Source] = field(default_factory=list)

    def clause(self, scope: Scope) -> From:
        if chance(self.choices, 15):
            return self._merged_join()
        items = [self._item(scope.depth) for _ in range(weighted(self.choices, [(8, 1), (9, 2), (2, 3)]))]
        if len(items) == 1 and chance(self.choices, 6):
            return self._bare_table()
        if chance(self.choices, 25):
            return From(", ".join(item.text for item in items), sum((item.fields for item in items), ()))
        if len(items) == 3 and chance(self.choices, 40):
            return self._nested(*items)
        return reduce(self._joined, items)

    def _bare_table(self) -> From:
        """A table without an alias, its columns written with and without its name."""
        table = pick(self.choices, tuple(TABLE_COLUMNS))
        prefix = pick(self.choices, ("", f"{table}."))
        return From(table, tuple(Field(f"{prefix}{name}", COLUMN_FAMILIES[name]) for name in TABLE_COLUMNS[table]))

    def _nested(self, first: From, second: From, third: From) -> From:
        """A join of two in parentheses joined to the third, or a comma before a join."""
        inner = self._joined(second, third)
        if chance(self.choices, 30):
            return From(f"{first.text}, {inner.text}", first.fields + inner.fields)
        return self._joined(first, From(f"({inner.text})", inner.fields))

    def _item(self, depth: int) -> From:
        source, alias = self.source(depth), self.name("q")
        if chance(self.choices, 8) and not source.named:
            renamed = Source(source.text, tuple((self.name("c"), family) for _, family in source.columns), True)
            return From(f"{renamed.text} AS {renamed.alias(alias)}", renamed.fields(alias))
        if source.text.startswith("(SELECT") and not source.named and chance(self.choices, 10):
            return From(source.text, tuple(Field(name, family) for name, family in source.columns))
        word = pick(self.choices, ("AS ", ""))
        return From(f"{source.text} {word}{source.alias(alias)}", source.fields(alias))

    def source(self, depth: int) -> Source:
        if self.ctes and chance(self.choices, 50):
            return pick(self.choices, self.ctes)
        if chance(self.choices, 10):
            return self.values()
        if depth > 0 and chance(self.choices, 14):
            families = self.families(approximate=True)
            names = [self.name("c") for _ in families]
            body = self.table_query(families, names, Scope((), depth=depth - 1))
            return Source(f"({body})", tuple(zip(names, families, strict=True)))
        if chance(self.choices, 4):
            return self._everything()
        table = pick(self.choices, tuple(TABLE_COLUMNS))
        return Source(table, tuple((name, COLUMN_FAMILIES[name]) for name in TABLE_COLUMNS[table]))

    def families(self, approximate: bool = False) -> list[str]:
        options = (*FAMILIES, "approx") if approximate else FAMILIES
        return [pick(self.choices, options) for _ in range(self.choices.integer(1, 3))]

    def values(self) -> Source:
        """A table of constants; a column of decimals may also have integers in it."""
        families = self.families()
        rows = [self.constant_row(families) for _ in range(self.choices.integer(1, 4))]
        columns = tuple((self.name("c"), family) for family in families)
        return Source(f"(VALUES {', '.join(rows)})", columns, named=True)

    def constant_row(self, families: list[str]) -> str:
        return f"({', '.join(self.constant(family) for family in families)})"

    def constant(self, family: str) -> str:
        """A constant of the family, written with its type."""
        literal = pick(self.choices, LITERALS[family])
        if chance(self.choices, 15):
            return self.predicates.scalars.null(family)
        if family in NUMERIC and chance(self.choices, 15):
            return f"({literal} + 1)"
        return literal

    def _everything(self) -> Source:
        """SELECT * over a join, its columns renamed."""
        joined = self._merged_join() if chance(self.choices, 50) else self._joined(self._item(0), self._item(0))
        columns = tuple((self.name("c"), each.family) for each in joined.fields)
        return Source(f"(SELECT * FROM {joined.text})", columns, named=True)

    # Joins

    def _joined(self, left: From, right: From) -> From:
        kind = weighted(self.choices, JOINS)
        if kind == "CROSS JOIN":
            return From(f"{left.text} {kind} {right.text}", left.fields + right.fields)
        fields = left.fields if kind in ("SEMI JOIN", "ANTI JOIN") else left.fields + right.fields
        return From(f"{left.text} {kind} {right.text} ON {self._on(left, right)}", fields)

    def _on(self, left: From, right: From) -> str:
        equality = self.predicates.equality(Scope(left.fields), Scope(right.fields))
        form = weighted(self.choices, [(5, "equality"), (3, "both"), (2, "any")])
        if form == "equality":
            return equality
        other = self.predicates.predicate(Scope(left.fields + right.fields), 1)
        return f"{equality} AND {other}" if form == "both" else other

    def _merged_join(self) -> From:
        """A NATURAL or USING join of two tables: shared columns are written without a table name."""
        left, right = pick(self.choices, MERGED_PAIRS)
        left_alias, right_alias = self.name("q"), self.name("q")
        common = [name for name in TABLE_COLUMNS[left] if name in TABLE_COLUMNS[right]]
        kind = pick(self.choices, ("", "LEFT ", "RIGHT ", "FULL "))
        if chance(self.choices, 50):
            merged = common
            text = f"{left} AS {left_alias} NATURAL {kind}JOIN {right} AS {right_alias}"
        else:
            merged = common[: self.choices.integer(1, len(common))]
            text = f"{left} AS {left_alias} {kind}JOIN {right} AS {right_alias} USING ({', '.join(merged)})"
        columns = TABLE_COLUMNS[left] + "".join(name for name in TABLE_COLUMNS[right] if name not in merged)
        fields = []
        for position, name in enumerate(columns):
            alias = left_alias if position < len(TABLE_COLUMNS[left]) else right_alias
            fields.append(Field(name if name in merged else f"{alias}.{name}", COLUMN_FAMILIES[name]))
        if merged == common and chance(self.choices, 15):
            alias = self.name("q")
            return From(
                f"({text}) AS {alias}", tuple(Field(f"{alias}.{name}", COLUMN_FAMILIES[name]) for name in columns)
            )
        if (left, right) == ("r", "s") and chance(self.choices, 30):
            return self._third_merged(text, fields)
        return From(text, tuple(fields))

    def _third_merged(self, text: str, fields: list[Field]) -> From:
        """A join of three, the third merged by a column that one of the first two has."""
        name, alias = pick(self.choices, ("b", "x", "c")), self.name("q")
        kind = pick(self.choices, ("", "LEFT ", "RIGHT ", "FULL "))
        own = [Field(f"{alias}.{each}", COLUMN_FAMILIES[each]) for each in TABLE_COLUMNS["t"] if each != name]
        merged = [Field(name, field.family) if field.text.endswith(f".{name}") else field for field in fields]
        return From(f"{text} {kind}JOIN t AS {alias} USING ({name})", (*merged, *own))
