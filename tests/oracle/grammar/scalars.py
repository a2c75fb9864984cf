"""Scalar expressions and predicates of SQL, each of a wanted type, over the columns in scope.

Types come in families: int, dec, dbl, str, date, bool. A double that may differ in its last digit between two correct
engines (an average, a deviation) is of the family `approx`: it is shown, but never compared, grouped or joined on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.oracle.grammar.choices import Choices, chance, pick, weighted

NUMERIC = ("int", "dec", "dbl")
COMPARABLE = ("int", "dec", "dbl", "str", "date")
FAMILIES = (*COMPARABLE, "bool")

LITERALS: dict[str, tuple[str, ...]] = {
    "int": ("0", "1", "2", "-1", "3"),
    "dec": ("0.25", "1.5", "0.00", "2.50"),
    "dbl": ("CAST(0.5 AS DOUBLE)", "1e0", "CAST(0 AS DOUBLE)", "2.5e-1"),
    "str": ("'a'", "''", "'ab'", "'b'", "'a_b'"),
    "date": ("DATE '2020-01-31'", "DATE '2020-02-29'", "CAST('2021-12-31' AS DATE)"),
    "bool": ("TRUE", "FALSE"),
}
NULLS: dict[str, str] = {
    "int": "CAST(NULL AS INTEGER)",
    "dec": "CAST(NULL AS DECIMAL(6,2))",
    "dbl": "CAST(NULL AS DOUBLE)",
    "str": "CAST(NULL AS VARCHAR)",
    "date": "CAST(NULL AS DATE)",
    "bool": "CAST(NULL AS BOOLEAN)",
}
PATTERNS = ("'a%'", "'%b'", "'_'", "'%'", "'a_b'", "'%a%'", "''")
COMPARISONS = ("=", "<", ">", "<=", ">=", "<>")


@dataclass(frozen=True, slots=True)
class Field:
    """A column in scope: how to write it, and its family."""

    text: str
    family: str


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns an expression may read: its own query's, and those of the queries around it.

    `depth` is how many more levels of subqueries are allowed.
    """

    fields: tuple[Field, ...]
    outer: tuple[Field, ...] = ()
    depth: int = 0

    def of(self, family: str) -> list[str]:
        return [field.text for field in self.fields if field.family == family]

    def outer_of(self, family: str) -> list[str]:
        return [field.text for field in self.outer if field.family == family]

    def without_subqueries(self) -> Scope:
        return replace(self, depth=0)

    def without_outer(self) -> Scope:
        return replace(self, outer=())


@dataclass(slots=True)
class Scalars:
    """Writes expressions. `scalar_subquery` and `predicate_subquery` come from the query grammar above it."""

    choices: Choices
    scalar_subquery: Callable[[Scope, str], str]
    predicate_subquery: Callable[[Scope], str]

    def family(self, scope: Scope, options: tuple[str, ...]) -> str:
        """One of the families, mostly one that a column in scope has: comparing constants is no test."""
        present = tuple(option for option in options if scope.of(option))
        return pick(self.choices, present if present and not chance(self.choices, 10) else options)

    def leaf(self, scope: Scope, family: str) -> str:
        """A column, or where there is none a literal."""
        own, outer = scope.of(family), scope.outer_of(family)
        if outer and chance(self.choices, 45):
            return pick(self.choices, outer)
        if own and not chance(self.choices, 12):
            return pick(self.choices, own)
        return NULLS[family] if chance(self.choices, 12) else pick(self.choices, LITERALS[family])

    def expression(self, scope: Scope, family: str, depth: int = 2) -> str:
        if depth <= 0 or not chance(self.choices, 45):
            return self.leaf(scope, family)
        if scope.depth > 0 and family in COMPARABLE and chance(self.choices, 12):
            return self.scalar_subquery(scope, family)
        if chance(self.choices, 30):
            return self._conditional(scope, family, depth - 1)
        match family:
            case "int":
                return self._integer(scope, depth - 1)
            case "dec":
                return self._decimal(scope, depth - 1)
            case "dbl":
                return self._double(scope, depth - 1)
            case "str":
                return self._string(scope, depth - 1)
            case "date":
                return self._date(scope, depth - 1)
            case _:
                return f"({self.predicate(scope, depth - 1)})"

    def _conditional(self, scope: Scope, family: str, depth: int) -> str:
        first, second = self.expression(scope, family, depth), self.expression(scope, family, depth)
        if not chance(self.choices, 60):
            return f"COALESCE({first}, {second})"
        if family in ("int", "str") and chance(self.choices, 30):
            subject = self.leaf(scope, family)
            return f"CASE {subject} WHEN {pick(self.choices, LITERALS[family])} THEN {first} ELSE {second} END"
        otherwise = f" ELSE {second}" if chance(self.choices, 70) else ""
        return f"CASE WHEN {self.predicate(scope, depth)} THEN {first}{otherwise} END"

    def _integer(self, scope: Scope, depth: int) -> str:
        form = weighted(self.choices, [(6, "arithmetic"), (1, "negation"), (2, "extract"), (1, "cast"), (1, "modulo")])
        match form:
            case "arithmetic":
                return self._arithmetic(scope, "int", "int", depth)
            case "negation":
                return f"(- {self.expression(scope, 'int', depth)})"
            case "extract":
                part = pick(self.choices, ("YEAR", "MONTH", "DAY"))
                return f"EXTRACT({part} FROM {self.leaf(scope, 'date')})"
            case "modulo":
                return f"({self.expression(scope, 'int', depth)} % {pick(self.choices, ('2', '3', '0'))})"
            case _:
                source = weighted(self.choices, [(2, "int"), (1, "bool")])
                return f"CAST({self.leaf(scope, source)} AS {pick(self.choices, ('BIGINT', 'INTEGER', 'SMALLINT'))})"

    def _decimal(self, scope: Scope, depth: int) -> str:
        if not chance(self.choices, 25):
            return self._arithmetic(scope, "dec", pick(self.choices, ("dec", "int")), depth)
        target = pick(self.choices, ("DECIMAL(10,2)", "DECIMAL(12,4)", "DECIMAL(9,1)"))
        return f"CAST({self.leaf(scope, pick(self.choices, ('int', 'dec')))} AS {target})"

    def _double(self, scope: Scope, depth: int) -> str:
        form = weighted(self.choices, [(3, "arithmetic"), (2, "division"), (1, "cast")])
        if form == "arithmetic":
            return self._arithmetic(scope, "dbl", pick(self.choices, NUMERIC), depth)
        if form == "division":
            # Halves and quarters stay exact; a zero divisor makes the quotient NULL.
            divisor = pick(self.choices, ("2", "4", "0", "CAST(2 AS DOUBLE)", "0.5"))
            return f"({self.expression(scope, pick(self.choices, NUMERIC), depth)} / {divisor})"
        return f"CAST({self.leaf(scope, pick(self.choices, ('int', 'dec')))} AS DOUBLE)"

    def _arithmetic(self, scope: Scope, left: str, right: str, depth: int) -> str:
        operator = pick(self.choices, ("+", "-", "*"))
        return f"({self.expression(scope, left, depth)} {operator} {self.leaf(scope, right)})"

    def _string(self, scope: Scope, depth: int) -> str:
        source = self.expression(scope, "str", depth)
        forms = (
            f"SUBSTRING({source} FROM 1 FOR 1)",
            f"SUBSTRING({source}, 2)",
            f"SUBSTRING({source}, 1, 2)",
            f"CAST({self.leaf(scope, 'int')} AS VARCHAR)",
            f"CAST({self.leaf(scope, 'date')} AS VARCHAR)",
        )
        return pick(self.choices, forms)

    def _date(self, scope: Scope, depth: int) -> str:
        return f"CAST({self._moved_date(scope, depth)} AS DATE)"

    def _moved_date(self, scope: Scope, depth: int) -> str:
        step = pick(self.choices, ("'1' DAY", "'1' MONTH", "'1' YEAR", "'30' DAY"))
        return f"{self.expression(scope, 'date', depth)} {pick(self.choices, ('+', '-'))} INTERVAL {step}"

    def predicate(self, scope: Scope, depth: int = 2) -> str:
        """A condition of three-valued logic."""
        if scope.depth > 0 and chance(self.choices, 25):
            return self.predicate_subquery(scope)
        if depth > 0 and chance(self.choices, 30):
            left, right = self.predicate(scope, depth - 1), self.predicate(scope, depth - 1)
            return pick(self.choices, (f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"))
        form = weighted(
            self.choices,
            [(8, "comparison"), (2, "null"), (2, "between"), (2, "in"), (2, "like"), (1, "bool"), (1, "moved")],
        )
        negation = "NOT " if chance(self.choices, 35) else ""
        match form:
            case "comparison":
                return self.comparison(scope, depth)
            case "null":
                return f"{self.leaf(scope, self.family(scope, FAMILIES))} IS {negation}NULL"
            case "between":
                return self._between(scope, negation)
            case "in":
                return self._in_list(scope, negation)
            case "like":
                return f"{self.leaf(scope, 'str')} {negation}LIKE {pick(self.choices, PATTERNS)}"
            case "bool":
                return f"{negation}{self.leaf(scope, 'bool')}"
            case _:
                operator = pick(self.choices, COMPARISONS)
                return f"{self.leaf(scope, 'date')} {operator} {self._moved_date(scope, 0)}"

    def comparison(self, scope: Scope, depth: int = 1) -> str:
        left, right = self._comparable_pair(scope)
        operator = pick(self.choices, COMPARISONS)
        return f"{self.expression(scope, left, depth)} {operator} {self.expression(scope, right, depth)}"

    def equality(self, left: Scope, right: Scope) -> str:
        """An equality across two scopes: the usual join condition."""
        shared = Scope(tuple(field for field in left.fields if right.of(field.family)))
        family, other = self._comparable_pair(shared)
        return f"{self.leaf(left, family)} = {self.leaf(right, other)}"

    def _comparable_pair(self, scope: Scope) -> tuple[str, str]:
        family = "int" if scope.of("int") and chance(self.choices, 40) else self.family(scope, COMPARABLE)
        mixed = family in NUMERIC and chance(self.choices, 25)
        return family, pick(self.choices, NUMERIC) if mixed else family

    def _between(self, scope: Scope, negation: str) -> str:
        family = self.family(scope, COMPARABLE)
        subject = self.expression(scope, family, 1)
        return f"{subject} {negation}BETWEEN {self.leaf(scope, family)} AND {self.leaf(scope, family)}"

    def _in_list(self, scope: Scope, negation: str) -> str:
        family = self.family(scope, COMPARABLE)
        members = [pick(self.choices, LITERALS[family]) for _ in range(self.choices.integer(1, 3))]
        if chance(self.choices, 15):
            members.append("NULL")
        return f"{self.expression(scope, family, 1)} {negation}IN ({', '.join(members)})"
