"""Queries: SELECT with grouping and aggregates, subqueries, set operations, CTEs, ORDER BY and LIMIT."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count

from tests.oracle.grammar.aggregates import Aggregates
from tests.oracle.grammar.choices import Choices, chance, pick, weighted
from tests.oracle.grammar.equations import Equations
from tests.oracle.grammar.families import COMPARABLE, FAMILIES, NUMERIC, Field, Scope
from tests.oracle.grammar.predicates import COMPARISONS
from tests.oracle.grammar.scalars import Scalars
from tests.oracle.grammar.sources import From, Source, Sources

MOST_SUBQUERIES = 3
"""Levels of subqueries inside one another."""


@dataclass(slots=True)
class Grammar:
    """Writes one query; every name it makes up is used once in it."""

    choices: Choices
    scalars: Scalars = field(init=False)
    aggregates: Aggregates = field(init=False)
    sources: Sources = field(init=False)
    numbers: count[int] = field(default_factory=count)
    sort_keys: list[str] = field(default_factory=list)
    """What the SELECT that was written last can be sorted by, other than its columns."""

    def __post_init__(self) -> None:
        self.scalars = Scalars(self.choices, self.scalar_subquery, self.predicate_subquery)
        self.aggregates = Aggregates(self.choices, self.scalars)
        self.sources = Sources(self.choices, self.scalars.predicates, self._name, self._derived_query)

    def _name(self, prefix: str) -> str:
        return f"{prefix}{next(self.numbers)}"

    # The whole query.

    def query(self) -> tuple[str, tuple[int, ...]]:
        """A query, and the positions of the columns it is sorted by."""
        prefix = self._with_clause() if chance(self.choices, 20) else ""
        forms = [(74, "select"), (1, "stack"), (22, "set operation"), (2, "star"), (1, "values"), (20, "equations")]
        form = weighted(self.choices, forms)
        families = self.sources.families(approximate=form == "select")
        if form == "equations":
            return f"{prefix}{Equations(self.choices, self._name).query()}", ()
        if form == "values":
            rows = (self.sources.constant_row(families) for _ in range(self.choices.integer(1, 3)))
            return f"VALUES {', '.join(rows)}", ()
        names = [self._name("c") for _ in families]
        if form == "set operation":
            body = self._set_operation(families, names, 1)
        elif form == "star":
            body = self._star(families, names)
        elif form == "stack":
            body = self._stack(families, names)
        else:
            body = self.select(families, names, Scope((), depth=MOST_SUBQUERIES))
        suffix, order = self._order(families, names, self.sort_keys if form == "select" else [])
        if suffix and chance(self.choices, 8):
            body, suffix = f"({body})", self._order_by_columns(names)
        return f"{prefix}{body}{suffix}", order

    def _with_clause(self) -> str:
        """One CTE or two, the second of which may read the first; some list their columns."""
        written = []
        for _ in range(weighted(self.choices, [(3, 1), (1, 2)])):
            name = self._name("w")
            if chance(self.choices, 15):
                constants = self.sources.values()
                written.append(f"{constants.alias(name)} AS {constants.text}")
                self.sources.ctes.append(Source(name, constants.columns))
                continue
            families = self.sources.families()
            names, inner = [self._name("c") for _ in families], [self._name("c") for _ in families]
            listed = chance(self.choices, 25)
            body = self.select(families, inner if listed else names, Scope((), depth=1))
            source = Source(name, tuple(zip(names, families, strict=True)), listed)
            written.append(f"{source.alias(name)} AS ({body})")
            self.sources.ctes.append(replace(source, named=False))
        return f"WITH {', '.join(written)} "

    def _star(self, families: list[str], names: list[str]) -> str:
        body, alias = self.select(families, names, Scope((), depth=1)), self._name("q")
        star = pick(self.choices, ("*", f"{alias}.*"))
        return f"SELECT {pick(self.choices, ('', 'DISTINCT '))}{star} FROM ({body}) AS {alias}"

    def _stack(self, families: list[str], names: list[str]) -> str:
        """Aggregates of aggregates: every level groups the rows of the one below by some of their columns."""
        below = self.sources.families()
        columns = [self._name("c") for _ in below]
        body = self.select(below, columns, Scope((), depth=0))
        more = [self.sources.families() for _ in range(self.choices.integer(2, 5))]
        for wanted in (*more, families):
            alias = self._name("q")
            fields = tuple(Field(f"{alias}.{name}", each) for name, each in zip(columns, below, strict=True))
            columns = names if wanted is families else [self._name("c") for _ in wanted]
            body = self._grouped(wanted, columns, Scope(fields), From(f"({body}) AS {alias}", fields), "")
            below = wanted
        return body

    def _set_operation(self, families: list[str], names: list[str], depth: int) -> str:
        operator = pick(self.choices, ("UNION", "EXCEPT", "INTERSECT"))
        everything = " ALL" if chance(self.choices, 50) else ""
        left = self.select(families, names, Scope((), depth=depth))
        right = self._branch(families, names, depth)
        if chance(self.choices, 15):
            third = self._branch(families, names, 0)
            last = pick(self.choices, ("UNION ALL", "UNION"))
            return f"(({left}) {operator}{everything} ({right})) {last} ({third})"
        if chance(self.choices, 15):
            return f"{left} {operator}{everything} {right} {operator}{everything} {self._branch(families, names, 0)}"
        return f"({left}) {operator}{everything} ({right})"

    def _branch(self, families: list[str], names: list[str], depth: int) -> str:
        """A later branch of a set operation; its types may be narrower than those of the first."""
        form = weighted(self.choices, [(8, "select"), (1, "constant"), (1, "narrower")])
        if form == "constant":
            return f"SELECT {_list([self.sources.constant(family) for family in families], names)}"
        if form == "narrower":
            families = [{"dec": "int", "dbl": "real", "ts": "date"}.get(family, family) for family in families]
        return self.select(families, names, Scope((), depth=depth))

    def _derived_query(self, families: list[str], names: list[str], scope: Scope) -> str:
        """The query of a derived table: mostly a SELECT, also a set operation, constants, or one with a CTE."""
        forms = [(12, "select"), (2, "constant"), (2, "set operation"), (1, "with")]
        match weighted(self.choices, forms) if "approx" not in families else "select":
            case "constant":
                return f"SELECT {_list([self.sources.constant(family) for family in families], names)}"
            case "set operation":
                return self._set_operation(families, names, 0)
            case "with":
                outside = list(self.sources.ctes)
                body = f"{self._with_clause()}{self.select(families, names, scope)}"
                self.sources.ctes[:] = outside
                return body
            case _:
                return self.select(families, names, scope)

    def _order(self, families: list[str], names: list[str], hidden: list[str]) -> tuple[str, tuple[int, ...]]:
        """Sort by every column, which leaves no ties; an approximate column would leave them to rounding.

        Before them may come a key that is not shown.
        """
        if "approx" in families or not chance(self.choices, 20):
            return "", ()
        first = [pick(self.choices, hidden)] if hidden and chance(self.choices, 25) else []
        return self._order_by_columns(names, first), tuple(range(len(names)))

    def _order_by_columns(self, names: list[str], first: list[str] | None = None) -> str:
        form = pick(self.choices, ("name", "position"))
        keys = names if form == "name" else [str(number + 1) for number in range(len(names))]
        sorted_by = [
            f"{key}{pick(self.choices, ('', ' DESC', ' ASC'))}{self._nulls()}" for key in (*(first or ()), *keys)
        ]
        return f" ORDER BY {', '.join(sorted_by)}{self._limit()}"

    def _nulls(self) -> str:
        return pick(self.choices, ("", " NULLS FIRST", " NULLS LAST"))

    def _limit(self) -> str:
        rows = self.choices.integer(0, 4)
        return pick(
            self.choices,
            ("", f" LIMIT {rows}", f" LIMIT {rows}", f" LIMIT {rows} OFFSET 1", " OFFSET 2", f" LIMIT ({rows} + 1)",
             f" FETCH FIRST {rows} ROWS ONLY"),
        )  # fmt: skip

    # One SELECT.

    def select(self, families: list[str], names: list[str], scope: Scope) -> str:
        """A SELECT whose columns have these families and names; `scope` is that of the query around it."""
        if scope.depth < MOST_SUBQUERIES and "approx" not in families and chance(self.choices, 3):
            return f"SELECT {_list([self.scalars.expression(Scope(()), each, 1) for each in families], names)}"
        source = self.sources.clause(scope)
        inner = Scope(source.fields, scope.outer, scope.depth)
        grouped = chance(self.choices, 60 if "approx" in families else 35)
        where = f" WHERE {self.scalars.predicates.predicate(inner)}" if chance(self.choices, 50) else ""
        if grouped:
            return self._grouped(families, names, inner, source, where)
        columns: list[str] = []
        for position, family in enumerate(families):
            columns.append(self._column(inner, families[:position], names, family))
        distinct = "DISTINCT " if "approx" not in families and chance(self.choices, 20) else ""
        plain = inner.without_subqueries()
        self.sort_keys = [] if distinct else [self.scalars.expression(plain, pick(self.choices, COMPARABLE), 1)]
        return f"SELECT {distinct}{_list(columns, names)} FROM {source.text}{where}"

    def _column(self, scope: Scope, before: list[str], names: list[str], family: str) -> str:
        """A column of the select list; it may be made of an earlier one, by its alias."""
        if family == "approx":
            return self.scalars.approximate(scope.without_subqueries())
        if scope.depth == MOST_SUBQUERIES and chance(self.choices, 2):
            return "NULL"
        earlier = [name for name, each in zip(names, before, strict=False) if each == family]
        if earlier and family in NUMERIC and chance(self.choices, 15):
            return f"({pick(self.choices, earlier)} + 1)"
        return self.scalars.expression(scope, family)

    def _grouped(self, families: list[str], names: list[str], inner: Scope, source: From, where: str) -> str:
        plain = inner.without_subqueries().without_outer()
        keys: dict[str, str] = {}
        grouped: list[Field] = []
        columns: list[str] = []
        for name, family in zip(names, families, strict=True):
            if family != "approx" and plain.of(family) and chance(self.choices, 45):
                key = self._group_key(plain, family)
                keys.setdefault(key, name)
                grouped.append(Field(key, family))
                columns.append(self._shown_key(key, family) if keys[key] != name else key)
            elif keys and inner.depth > 0 and family in COMPARABLE and chance(self.choices, 12):
                columns.append(self.scalar_subquery(_keys_scope(keys, inner), family))
            elif family == "bool" and chance(self.choices, 60):
                columns.append(f"({self.aggregates.condition(plain, tuple(grouped))})")
            else:
                alone = inner.depth == MOST_SUBQUERIES
                columns.append(self.aggregates.expression(plain, family, alone=alone))
        having = f" HAVING {self._having(plain, inner, keys, tuple(grouped))}" if chance(self.choices, 35) else ""
        group = self._group_by(keys, names, plain)
        distinct = "DISTINCT " if "approx" not in families and chance(self.choices, 6) else ""
        self.sort_keys = [] if distinct else [self.aggregates.aggregate(plain, "int")]
        return f"SELECT {distinct}{_list(columns, names)} FROM {source.text}{where}{group}{having}"

    def _group_by(self, keys: dict[str, str], names: list[str], scope: Scope) -> str:
        """GROUP BY, its keys as written, by position, by alias or all of them."""
        if not keys and not chance(self.choices, 20):
            return pick(self.choices, ("", "", "", " GROUP BY ()"))
        if keys and chance(self.choices, 10):
            return " GROUP BY ALL"
        form = weighted(self.choices, [(5, "written"), (1, "position"), (1, "alias")])
        written = {
            "written": list(keys),
            "position": [str(names.index(name) + 1) for name in keys.values()],
            "alias": list(keys.values()),
        }[form]
        if scope.of("int") and chance(self.choices, 20):
            written.append(pick(self.choices, scope.of("int")))
        if written and chance(self.choices, 3):
            written.append("NULL")
        return f" GROUP BY {', '.join(written)}" if written else ""

    def _group_key(self, scope: Scope, family: str) -> str:
        """Mostly a column; sometimes an expression, which never is a constant."""
        column = pick(self.choices, scope.of(family))
        if family in NUMERIC and chance(self.choices, 20):
            return f"({column} + {pick(self.choices, ('1', '2'))})"
        if family == "str" and chance(self.choices, 15):
            return f"{pick(self.choices, ('UPPER', 'REVERSE'))}({column})"
        if family in ("date", "ts") and chance(self.choices, 20):
            return f"CAST(DATE_TRUNC('month', {column}) AS {'DATE' if family == 'date' else 'TIMESTAMP'})"
        return column

    def _shown_key(self, key: str, family: str) -> str:
        """An expression over a grouping key."""
        if family in NUMERIC:
            return pick(self.choices, (key, f"({key} * 2)", f"(- {key})"))
        return pick(self.choices, (key, f"COALESCE({key}, NULL)"))

    def _having(self, scope: Scope, surroundings: Scope, keys: dict[str, str], grouped: tuple[Field, ...]) -> str:
        if surroundings.depth > 0 and chance(self.choices, 25):
            outside = _keys_scope(keys, surroundings)
            family = self.scalars.family(scope, NUMERIC)
            operator = pick(self.choices, COMPARISONS)
            left = self.aggregates.aggregate(scope, family)
            return f"{left} {operator} {self.scalar_subquery(outside, family)}"
        if keys and chance(self.choices, 25):
            key = pick(self.choices, list(keys))
            return f"{key} IS NOT NULL AND {self.aggregates.condition(scope, grouped)}"
        return self.aggregates.condition(scope, grouped)

    # Subqueries.

    def _inside(self, scope: Scope) -> tuple[From, Scope, str]:
        """FROM, scope and WHERE of a subquery; it sees the qualified columns of the queries around it."""
        outer = tuple(each for each in scope.fields + scope.outer if "." in each.text)
        source = self.sources.clause(replace(scope, depth=scope.depth - 1))
        inner = Scope(source.fields, _visible(outer, source), scope.depth - 1)
        conditions = []
        if inner.outer and chance(self.choices, 40):
            conditions.append(self.scalars.predicates.equality(Scope(inner.outer), Scope(inner.fields)))
        if chance(self.choices, 50 if conditions else 75):
            conditions.append(self.scalars.predicates.predicate(inner, 1))
        return source, inner, f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def scalar_subquery(self, scope: Scope, family: str) -> str:
        """An aggregate without GROUP BY, which always gives one row, or with HAVING at most one."""
        if chance(self.choices, 6):
            where = pick(
                self.choices, ("", f" WHERE {self.scalars.predicates.predicate(scope.without_subqueries(), 0)}")
            )
            return f"(SELECT {self.sources.constant(family)}{where})"
        source, inner, where = self._inside(scope)
        value = self.aggregates.expression(inner, family)
        having = f" HAVING {self.aggregates.condition(inner)}" if chance(self.choices, 15) else ""
        return f"(SELECT {value} FROM {source.text}{where}{having})"

    def predicate_subquery(self, scope: Scope) -> str:
        form = weighted(self.choices, [(3, "exists"), (3, "in"), (2, "quantified"), (3, "scalar"), (1, "row")])
        negation = "NOT " if chance(self.choices, 50) else ""
        if form == "scalar":
            family = self.scalars.family(scope, COMPARABLE)
            left = self.scalars.leaf(scope, family)
            if chance(self.choices, 15):
                left = self.scalar_subquery(scope, family)
            return f"{left} {pick(self.choices, COMPARISONS)} {self.scalar_subquery(scope, family)}"
        if form == "exists":
            source, inner, where = self._inside(scope)
            having = f" HAVING {self.aggregates.condition(inner)}" if chance(self.choices, 10) else ""
            if having and inner.of("int") and chance(self.choices, 40):
                key = Field(pick(self.choices, inner.of("int")), "int")
                having = f" GROUP BY {key.text} HAVING {self.aggregates.condition(inner, (key,))}"
            shown = "COUNT(*)" if having else pick(self.choices, ("*", "1"))
            return f"{negation}EXISTS (SELECT {shown} FROM {source.text}{where}{having})"
        if form == "row":
            return self._row_in(scope, negation)
        family = self.scalars.family(scope, FAMILIES)
        left = self.scalars.leaf(scope, family)
        if form == "in":
            return f"{left} {negation}IN ({self._members(scope, family, constants=8)})"
        quantifier = pick(self.choices, ("ANY", "ALL"))
        members = self._members(scope, family, constants=0 if quantifier == "ALL" else 8)
        return f"{left} {pick(self.choices, COMPARISONS)} {quantifier} ({members})"

    def _members(self, scope: Scope, family: str, constants: int) -> str:
        """A subquery of one column, in so many percent of the cases VALUES."""
        if chance(self.choices, constants):
            rows = [f"({self.sources.constant(family)})" for _ in range(self.choices.integer(1, 3))]
            return f"VALUES {', '.join(rows)}"
        source, inner, where = self._inside(scope)
        plain = inner.without_subqueries().without_outer()
        if plain.of(family) and chance(self.choices, 12):
            key = pick(self.choices, plain.of(family))
            return f"SELECT {key} FROM {source.text}{where} GROUP BY {pick(self.choices, ('1', 'ALL', key))}"
        if plain.of("int") and chance(self.choices, 25):
            key = pick(self.choices, plain.of("int"))
            return f"SELECT {self.aggregates.aggregate(plain, family)} FROM {source.text}{where} GROUP BY {key}"
        return f"SELECT {self.scalars.expression(plain, family, 1)} FROM {source.text}{where}"

    def _row_in(self, scope: Scope, negation: str) -> str:
        """Rows looked up in a subquery; it is not correlated, which DuckDB would not answer."""
        families = [self.scalars.family(scope, COMPARABLE) for _ in range(2)]
        left = ", ".join(self.scalars.leaf(scope, family) for family in families)
        source, inner, where = self._inside(Scope((), depth=scope.depth))
        plain = inner.without_subqueries().without_outer()
        shown = ", ".join(self.scalars.leaf(plain, family) for family in families)
        return f"({left}) {negation}IN (SELECT {shown} FROM {source.text}{where})"


def _keys_scope(keys: dict[str, str], surroundings: Scope) -> Scope:
    """What a subquery beside aggregates sees of its block: the keys that are plain columns."""
    families = {field.text: field.family for field in surroundings.fields}
    fields = tuple(Field(key, families[key]) for key in keys if key in families)
    return Scope(fields, surroundings.outer, surroundings.depth)


def _visible(outer: tuple[Field, ...], source: From) -> tuple[Field, ...]:
    """The columns around a subquery that no table of its own hides: a table without an alias may stand in both."""
    own = {each.text.split(".")[0] for each in source.fields if "." in each.text} | {source.text}
    return tuple(each for each in outer if each.text.split(".")[0] not in own)


def _list(columns: list[str], names: list[str]) -> str:
    return ", ".join(f"{column} AS {name}" for column, name in zip(columns, names, strict=True))
