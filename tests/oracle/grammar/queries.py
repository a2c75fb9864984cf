"""Queries: FROM with every kind of join, grouping, aggregates, subqueries, set operations, CTEs, ORDER BY and LIMIT."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import count

from tests.oracle.grammar.choices import Choices, chance, pick, weighted
from tests.oracle.grammar.scalars import COMPARABLE, COMPARISONS, FAMILIES, NUMERIC, Field, Scalars, Scope
from tests.oracle.grammar.values import FAMILIES as COLUMN_FAMILIES
from tests.oracle.grammar.values import TABLE_COLUMNS

MOST_SUBQUERIES = 3
"""Levels of subqueries inside one another."""
VARIANCES = ("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP", "STDDEV", "VARIANCE")
WIDE = "DECIMAL(18,6)"
"""What a decimal sum is cast to before it meets other decimals: DuckDB would cut their digits to fit its 38."""
JOINS = ((3, "JOIN"), (4, "LEFT JOIN"), (2, "RIGHT JOIN"), (3, "FULL JOIN"), (1, "CROSS JOIN"))
UNREACHED = "0.3141"
"""No average of our values comes near it, so comparing with it does not depend on rounding."""


@dataclass(frozen=True, slots=True)
class Source:
    """Something to select from: a table, a CTE or a derived table, with the columns it offers."""

    text: str
    columns: tuple[tuple[str, str], ...]

    def fields(self, alias: str) -> tuple[Field, ...]:
        return tuple(Field(f"{alias}.{name}", family) for name, family in self.columns)


@dataclass(frozen=True, slots=True)
class From:
    text: str
    fields: tuple[Field, ...]


@dataclass(slots=True)
class Grammar:
    """Writes one query; every name it makes up is used once in it."""

    choices: Choices
    ctes: list[Source] = field(default_factory=list)
    scalars: Scalars = field(init=False)
    numbers: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.scalars = Scalars(self.choices, self.scalar_subquery, self.predicate_subquery)

    # The whole query.

    def query(self) -> tuple[str, tuple[int, ...]]:
        """A query, and the positions of the columns it is sorted by."""
        prefix = self._with_clause() if chance(self.choices, 20) else ""
        set_operation = chance(self.choices, 25)
        families = self._families(approximate=not set_operation)
        names = [self._name("c") for _ in families]
        if set_operation:
            body = self._set_operation(families, names)
        else:
            body = self.select(families, names, Scope((), depth=MOST_SUBQUERIES))
        suffix, order = self._order(families, names)
        return f"{prefix}{body}{suffix}", order

    def _families(self, approximate: bool = False) -> list[str]:
        options = (*FAMILIES, "approx") if approximate else FAMILIES
        return [pick(self.choices, options) for _ in range(self.choices.integer(1, 3))]

    def _name(self, prefix: str) -> str:
        return f"{prefix}{next(self.numbers)}"

    def _with_clause(self) -> str:
        families = self._families()
        names = [self._name("c") for _ in families]
        body = self.select(families, names, Scope((), depth=1))
        name = self._name("w")
        self.ctes.append(Source(name, tuple(zip(names, families, strict=True))))
        return f"WITH {name} AS ({body}) "

    def _set_operation(self, families: list[str], names: list[str]) -> str:
        operator = pick(self.choices, ("UNION", "EXCEPT", "INTERSECT"))
        everything = " ALL" if chance(self.choices, 50) else ""
        left = self.select(families, names, Scope((), depth=1))
        right = self.select(families, names, Scope((), depth=1))
        if chance(self.choices, 15):
            third = self.select(families, names, Scope((), depth=0))
            return f"(({left}) {operator}{everything} ({right})) UNION ALL ({third})"
        return f"({left}) {operator}{everything} ({right})"

    def _order(self, families: list[str], names: list[str]) -> tuple[str, tuple[int, ...]]:
        """Sort by every column, which leaves no ties; an approximate column would leave them to rounding."""
        if "approx" in families or not chance(self.choices, 20):
            return "", ()
        keys = [f"{name}{pick(self.choices, ('', ' DESC'))}{self._nulls()}" for name in names]
        limit = f" LIMIT {self.choices.integer(1, 4)}" if chance(self.choices, 70) else ""
        offset = " OFFSET 1" if limit and chance(self.choices, 15) else ""
        return f" ORDER BY {', '.join(keys)}{limit}{offset}", tuple(range(len(names)))

    def _nulls(self) -> str:
        return pick(self.choices, ("", " NULLS FIRST", " NULLS LAST"))

    # One SELECT.

    def select(self, families: list[str], names: list[str], scope: Scope) -> str:
        """A SELECT whose columns have these families and names; `scope` is that of the query around it."""
        source = self._from(scope)
        inner = Scope(source.fields, scope.outer, scope.depth)
        grouped = "approx" in families or chance(self.choices, 35)
        where = f" WHERE {self.scalars.predicate(inner)}" if chance(self.choices, 50) else ""
        if not grouped:
            columns = [self.scalars.expression(inner, family) for family in families]
            distinct = "DISTINCT " if chance(self.choices, 20) else ""
            return f"SELECT {distinct}{_list(columns, names)} FROM {source.text}{where}"
        return self._grouped(families, names, inner, source, where)

    def _grouped(self, families: list[str], names: list[str], inner: Scope, source: From, where: str) -> str:
        plain = inner.without_subqueries().without_outer()
        keys: list[str] = []
        columns: list[str] = []
        for family in families:
            if family != "approx" and plain.of(family) and chance(self.choices, 45):
                keys.append(self._group_key(plain, family))
                columns.append(keys[-1])
            elif family == "bool":
                columns.append(f"({self._aggregate_condition(plain)})")
            else:
                columns.append(self._aggregate_expression(plain, family, alone=inner.depth == MOST_SUBQUERIES))
        if chance(self.choices, 20) and plain.of("int"):
            keys.append(pick(self.choices, plain.of("int")))
        group = f" GROUP BY {', '.join(dict.fromkeys(keys))}" if keys else ""
        having = f" HAVING {self._having(plain, inner)}" if chance(self.choices, 20) else ""
        return f"SELECT {_list(columns, names)} FROM {source.text}{where}{group}{having}"

    def _group_key(self, scope: Scope, family: str) -> str:
        """Mostly a column; sometimes an expression, which never is a constant."""
        column = pick(self.choices, scope.of(family))
        if family in NUMERIC and chance(self.choices, 20):
            return f"({column} + {pick(self.choices, ('1', '2'))})"
        return column

    def _aggregate_expression(self, scope: Scope, family: str, alone: bool = False) -> str:
        aggregate = self.aggregate(scope, family, alone)
        if family in NUMERIC and chance(self.choices, 15):
            return f"({aggregate} {pick(self.choices, ('+', '-', '*'))} {pick(self.choices, ('1', '2'))})"
        return aggregate

    def aggregate(self, scope: Scope, family: str, alone: bool = False) -> str:
        """An aggregate whose result is of a family; its argument reads columns of its own query only.

        One that stands alone is an output of the whole query, and meets no other value.
        """
        distinct = "DISTINCT " if chance(self.choices, 25) else ""
        match family:
            case "approx":
                function = pick(self.choices, ("AVG", *VARIANCES))
                return f"{function}({self._argument(scope, self.scalars.family(scope, NUMERIC))})"
            case "int":
                return self._integer_aggregate(scope, distinct)
            case "dec" | "dbl":
                function = pick(self.choices, (f"SUM({distinct}", "MIN(", "MAX("))
                aggregate = f"{function}{self._argument(scope, family)})"
                return f"CAST({aggregate} AS {WIDE})" if family == "dec" and not alone else aggregate
            case _:
                return f"{pick(self.choices, ('MIN', 'MAX'))}({self._argument(scope, family)})"

    def _integer_aggregate(self, scope: Scope, distinct: str) -> str:
        form = pick(self.choices, ("COUNT(*)", "COUNT", "SUM", "MIN", "MAX"))
        if form == "COUNT(*)":
            return form
        if form == "COUNT":
            return f"COUNT({distinct}{self._argument(scope, self.scalars.family(scope, FAMILIES))})"
        return f"{form}({distinct if form == 'SUM' else ''}{self._argument(scope, 'int')})"

    def _argument(self, scope: Scope, family: str) -> str:
        return self.scalars.expression(scope.without_subqueries().without_outer(), family, 1)

    def _aggregate_condition(self, scope: Scope) -> str:
        if chance(self.choices, 25):
            return f"{self.aggregate(scope, 'approx')} > {UNREACHED}"
        family = self.scalars.family(scope, COMPARABLE)
        operator = pick(self.choices, COMPARISONS)
        return f"{self.aggregate(scope, family)} {operator} {self._constant_or_aggregate(scope, family)}"

    def _constant_or_aggregate(self, scope: Scope, family: str) -> str:
        if chance(self.choices, 40):
            return self.aggregate(scope, family)
        return self.scalars.leaf(Scope(()), family)

    def _having(self, scope: Scope, surroundings: Scope) -> str:
        if surroundings.depth > 0 and chance(self.choices, 25):
            outside = Scope((), surroundings.outer, surroundings.depth)
            family = self.scalars.family(scope, NUMERIC)
            operator = pick(self.choices, COMPARISONS)
            return f"{self.aggregate(scope, family)} {operator} {self.scalar_subquery(outside, family)}"
        return self._aggregate_condition(scope)

    # FROM.

    def _from(self, scope: Scope) -> From:
        if chance(self.choices, 15):
            return self._merged_join()
        items = [self._item(scope.depth) for _ in range(weighted(self.choices, [(4, 1), (5, 2), (1, 3)]))]
        if chance(self.choices, 30):
            return From(", ".join(item.text for item in items), sum((item.fields for item in items), ()))
        return reduce(self._joined, items)

    def _item(self, depth: int) -> From:
        source, alias = self._source(depth), self._name("q")
        return From(f"{source.text} AS {alias}", source.fields(alias))

    def _source(self, depth: int) -> Source:
        if self.ctes and chance(self.choices, 50):
            return pick(self.choices, self.ctes)
        if depth > 0 and chance(self.choices, 12):
            families = self._families(approximate=True)
            names = [self._name("c") for _ in families]
            body = self.select(families, names, Scope((), depth=depth - 1))
            return Source(f"({body})", tuple(zip(names, families, strict=True)))
        table = pick(self.choices, tuple(TABLE_COLUMNS))
        return Source(table, tuple((name, COLUMN_FAMILIES[name]) for name in TABLE_COLUMNS[table]))

    def _joined(self, left: From, right: From) -> From:
        kind = weighted(
            self.choices, [(3, "JOIN"), (4, "LEFT JOIN"), (2, "RIGHT JOIN"), (3, "FULL JOIN"), (1, "CROSS JOIN")]
        )
        condition = "" if kind == "CROSS JOIN" else f" ON {self._on(left, right)}"
        return From(f"{left.text} {kind} {right.text}{condition}", left.fields + right.fields)

    def _on(self, left: From, right: From) -> str:
        equality = self.scalars.equality(Scope(left.fields), Scope(right.fields))
        form = weighted(self.choices, [(5, "equality"), (3, "both"), (2, "any")])
        both = Scope(left.fields + right.fields)
        if form == "equality":
            return equality
        other = self.scalars.predicate(both, 1)
        return f"{equality} AND {other}" if form == "both" else other

    def _merged_join(self) -> From:
        """A NATURAL or USING join of two tables: shared columns are written without a table name."""
        left, right = pick(self.choices, (("r", "s"), ("r", "t"), ("s", "t"), ("s", "u"), ("r", "u")))
        left_alias, right_alias = self._name("q"), self._name("q")
        common = [name for name in TABLE_COLUMNS[left] if name in TABLE_COLUMNS[right]]
        kind = pick(self.choices, ("", "LEFT ", "RIGHT ", "FULL "))
        if chance(self.choices, 50):
            merged = common
            text = f"{left} AS {left_alias} NATURAL {kind}JOIN {right} AS {right_alias}"
        else:
            merged = common[: self.choices.integer(1, len(common))]
            text = f"{left} AS {left_alias} {kind}JOIN {right} AS {right_alias} USING ({', '.join(merged)})"
        fields = [Field(name, COLUMN_FAMILIES[name]) for name in merged]
        for alias, table in ((left_alias, left), (right_alias, right)):
            rest = (name for name in TABLE_COLUMNS[table] if name not in merged)
            fields += [Field(f"{alias}.{name}", COLUMN_FAMILIES[name]) for name in rest]
        return From(text, tuple(fields))

    # Subqueries.

    def _inside(self, scope: Scope) -> tuple[From, Scope, str]:
        """FROM, scope and WHERE of a subquery; it sees the qualified columns of the queries around it."""
        outer = tuple(field for field in scope.fields + scope.outer if "." in field.text)
        source = self._from(replace(scope, depth=scope.depth - 1))
        inner = Scope(source.fields, outer, scope.depth - 1)
        where = f" WHERE {self.scalars.predicate(inner, 1)}" if chance(self.choices, 75) else ""
        return source, inner, where

    def scalar_subquery(self, scope: Scope, family: str) -> str:
        """An aggregate without GROUP BY, which always gives one row."""
        source, inner, where = self._inside(scope)
        return f"(SELECT {self._aggregate_expression(inner, family)} FROM {source.text}{where})"

    def predicate_subquery(self, scope: Scope) -> str:
        form = weighted(self.choices, [(3, "exists"), (3, "in"), (2, "quantified"), (3, "scalar")])
        if form == "scalar":
            family = self.scalars.family(scope, COMPARABLE)
            left = self.scalars.leaf(scope, family)
            return f"{left} {pick(self.choices, COMPARISONS)} {self.scalar_subquery(scope, family)}"
        negation = "NOT " if chance(self.choices, 50) else ""
        if form == "exists":
            source, inner, where = self._inside(scope)
            having = f" HAVING {self._aggregate_condition(inner)}" if chance(self.choices, 10) else ""
            return f"{negation}EXISTS (SELECT {'COUNT(*)' if having else '*'} FROM {source.text}{where}{having})"
        family = self.scalars.family(scope, COMPARABLE)
        left, members = self.scalars.leaf(scope, family), self._members(scope, family)
        if form == "in":
            return f"{left} {negation}IN ({members})"
        return f"{left} {pick(self.choices, COMPARISONS)} {pick(self.choices, ('ANY', 'ALL'))} ({members})"

    def _members(self, scope: Scope, family: str) -> str:
        """A subquery of one column."""
        source, inner, where = self._inside(scope)
        plain = inner.without_subqueries().without_outer()
        if plain.of("int") and chance(self.choices, 25):
            key = pick(self.choices, plain.of("int"))
            return f"SELECT {self.aggregate(plain, family)} FROM {source.text}{where} GROUP BY {key}"
        return f"SELECT {self.scalars.expression(plain, family, 1)} FROM {source.text}{where}"


def _list(columns: list[str], names: list[str]) -> str:
    return ", ".join(f"{column} AS {name}" for column, name in zip(columns, names, strict=True))
