"""Equalities of everything with everything: columns, keys of groups, aggregates, correlated aggregates, constants.

The queries are small and read columns of one family, so that what is equated is often equal, and often one variable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.oracle.grammar.choices import Choices, chance, pick, weighted
from tests.oracle.grammar.families import LITERALS, NUMERIC
from tests.oracle.grammar.values import FAMILIES, TABLE_COLUMNS

EQUATED = ((6, "int"), (1, "dec"), (1, "dbl"), (1, "real"), (1, "str"), (1, "date"), (1, "ts"))


@dataclass(slots=True)
class Equations:
    """Writes one query whose conditions are equalities."""

    choices: Choices
    name: Callable[[str], str]
    family: str = field(init=False)

    def __post_init__(self) -> None:
        self.family = weighted(self.choices, EQUATED)

    def query(self) -> str:
        if chance(self.choices, 15):
            operator = pick(self.choices, ("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL"))
            return f"({self._groups(1)}) {operator} ({pick(self.choices, (self._rows, self._groups))(1)})"
        return pick(self.choices, (self._groups, self._rows, self._rows, self._join))(2)

    def _groups(self, width: int) -> str:
        """Groups whose aggregates equal their keys, or one another."""
        source, columns = self._from()
        keys = self._some(columns, width)
        having = self._conditions((*keys, self._literal(), self._aggregate(columns)), lambda: self._aggregate(columns))
        shown = [*keys, self._aggregate(columns)][: width + 1 if width > 1 else 1]
        return f"SELECT {self._named(shown)} FROM {source} GROUP BY {', '.join(keys)} HAVING {having}"

    def _rows(self, width: int) -> str:
        """Rows that equal an aggregate of rows like them."""
        source, columns = self._from()
        where = self._condition(columns)
        if chance(self.choices, 30):
            where += f" {pick(self.choices, ('AND', 'OR'))} {self._condition(columns)}"
        if chance(self.choices, 20):
            where += f" AND {self._equality(pick(self.choices, columns), pick(self.choices, columns))}"
        shown = [self._correlated(columns) if chance(self.choices, 10) else each for each in self._some(columns, width)]
        return f"SELECT {self._named(shown)} FROM {source} WHERE {where}"

    def _condition(self, columns: Sequence[str]) -> str:
        negation = "NOT " if chance(self.choices, 25) else ""
        left = pick(self.choices, (pick(self.choices, columns), self._sum(columns), self._correlated(columns)))
        match weighted(self.choices, [(6, "scalar"), (2, "in"), (2, "exists"), (1, "any")]):
            case "in":
                return f"{pick(self.choices, columns)} {negation}IN {self._correlated(columns)}"
            case "exists":
                return f"{negation}EXISTS {self._correlated(columns, grouped=True)}"
            case "any":
                return f"{pick(self.choices, columns)} = ANY {self._correlated(columns)}"
            case _:
                return self._equality(left, self._correlated(columns))

    def _correlated(self, around: Sequence[str], grouped: bool = False) -> str:
        """An aggregate of the rows that have something in common with the row around them."""
        source, columns = self._from()
        where = self._conditions(around, lambda: pick(self.choices, columns))
        if chance(self.choices, 15):
            where += f" AND {self._equality(pick(self.choices, columns), pick(self.choices, columns))}"
        key = pick(self.choices, columns)
        tail = f" GROUP BY {key}" if grouped else ""
        if grouped or chance(self.choices, 10):
            known = (*around, *([key] if grouped else []), self._literal())
            tail += f" HAVING {self._conditions(known, lambda: self._aggregate(columns))}"
        return f"(SELECT {self._aggregate(columns)} FROM {source} WHERE {where}{tail})"

    def _join(self, width: int) -> str:
        """A table joined to groups by their key and by their aggregates at once."""
        source, columns = self._from()
        alias, names = self.name("q"), [self.name("c") for _ in range(3)]
        inner, inner_columns = self._from()
        key = pick(self.choices, inner_columns)
        shown = (key, self._aggregate(inner_columns), self._aggregate(inner_columns))
        listed = ", ".join(f"{value} AS {name}" for value, name in zip(shown, names, strict=True))
        groups = f"(SELECT {listed} FROM {inner} GROUP BY {key}) AS {alias}"
        fields = [f"{alias}.{name}" for name in names]
        kind = pick(self.choices, ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"))
        text = f"{source} {kind} {groups} ON {self._conditions(columns, lambda: pick(self.choices, fields))}"
        visible = columns if kind in ("SEMI JOIN", "ANTI JOIN") else (*columns, *fields)
        where = f" WHERE {self._conditions(visible, lambda: pick(self.choices, visible))}"
        return (
            f"SELECT {self._named(self._some(visible, width))} FROM {text}{where if chance(self.choices, 50) else ''}"
        )

    # What is equated

    def _from(self) -> tuple[str, tuple[str, ...]]:
        """A table or a join of two, and its columns of the family."""
        first, columns = self._table()
        if not chance(self.choices, 20):
            return first, columns
        second, others = self._table()
        on = self._equality(pick(self.choices, columns), pick(self.choices, others))
        return f"{first} {pick(self.choices, ('JOIN', 'LEFT JOIN'))} {second} ON {on}", columns + others

    def _table(self) -> tuple[str, tuple[str, ...]]:
        tables = [name for name, columns in TABLE_COLUMNS.items() if any(map(self._fits, columns))]
        table, alias = pick(self.choices, tables), self.name("q")
        return f"{table} AS {alias}", tuple(f"{alias}.{name}" for name in TABLE_COLUMNS[table] if self._fits(name))

    def _fits(self, column: str) -> bool:
        return FAMILIES[column] == self.family

    def _aggregate(self, columns: Sequence[str]) -> str:
        column = pick(self.choices, columns)
        functions = ["MIN(", "MAX("]
        if self.family == "int":
            functions += ["SUM(", "COUNT(", "AVG(", "COUNT(DISTINCT ", "SUM(DISTINCT "]
            if chance(self.choices, 10):
                return "COUNT(*)"
        return self._sum((f"{pick(self.choices, functions)}{column})",))

    def _sum(self, values: Sequence[str]) -> str:
        value = pick(self.choices, values)
        if self.family not in NUMERIC or not chance(self.choices, 15):
            return value
        return f"({value} {pick(self.choices, ('+', '-', '*'))} {pick(self.choices, ('1', '2', '0'))})"

    def _literal(self) -> str:
        return pick(self.choices, LITERALS[self.family])

    def _conditions(self, known: Sequence[str], other: Callable[[], str]) -> str:
        """One equality or two, of something known with something else."""
        count = self.choices.integer(1, 2)
        return " AND ".join(self._equality(pick(self.choices, known), other()) for _ in range(count))

    def _equality(self, first: str, second: str) -> str:
        operator = weighted(self.choices, [(12, "="), (1, "IS NOT DISTINCT FROM"), (1, "<="), (1, "<>")])
        return f"{second} {operator} {first}" if chance(self.choices, 50) else f"{first} {operator} {second}"

    def _some(self, columns: Sequence[str], most: int) -> list[str]:
        return list(dict.fromkeys(pick(self.choices, columns) for _ in range(most)))

    def _named(self, columns: Sequence[str]) -> str:
        return ", ".join(f"{column} AS {self.name('c')}" for column in columns)
