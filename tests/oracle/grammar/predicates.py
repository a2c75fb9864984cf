"""Conditions of three-valued logic over the columns in scope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.oracle.grammar.choices import Choices, chance, pick, weighted
from tests.oracle.grammar.families import COMPARABLE, FAMILIES, LITERALS, NUMERIC, TEXTS, Scope

PATTERNS = ("'a%'", "'%b'", "'_'", "'%'", "'a_b'", "'%a%'", "''", "'B%'")
ESCAPED_PATTERNS = ("'a#_b' ESCAPE '#'", "'a!%%' ESCAPE '!'", "'%a' ESCAPE '$'")
COMPARISONS = ("=", "=", "=", "=", "<", ">", "<=", ">=", "<>")
"""Equalities are the most frequent: they are what variables are unified by."""
FORMS = (
    (8, "comparison"), (2, "null"), (2, "between"), (2, "in"), (2, "like"), (1, "bool"), (1, "moved"), (2, "distinct"),
    (1, "truth"), (1, "text"), (1, "literal"), (1, "common"), (1, "instant"), (1, "untyped"),
)  # fmt: skip


class Expressions(Protocol):
    """What a condition is made of; the expressions contain conditions in turn."""

    predicate_subquery: Callable[[Scope], str]

    def family(self, scope: Scope, options: tuple[str, ...]) -> str: ...

    def null(self, family: str) -> str: ...

    def leaf(self, scope: Scope, family: str) -> str: ...

    def expression(self, scope: Scope, family: str, depth: int = 2) -> str: ...

    def moved(self, scope: Scope, depth: int) -> str: ...


@dataclass(slots=True)
class Predicates:
    """Writes conditions."""

    choices: Choices
    scalars: Expressions

    def predicate(self, scope: Scope, depth: int = 2) -> str:
        """A condition of three-valued logic."""
        if scope.depth > 0 and chance(self.choices, 25):
            return self.scalars.predicate_subquery(scope)
        if depth > 0 and chance(self.choices, 30):
            left, right = self.predicate(scope, depth - 1), self.predicate(scope, depth - 1)
            return pick(self.choices, (f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"))
        form = weighted(self.choices, FORMS)
        negation = "NOT " if chance(self.choices, 35) else ""
        match form:
            case "comparison":
                return self.comparison(scope, depth)
            case "null":
                return f"{self.scalars.leaf(scope, self.scalars.family(scope, FAMILIES))} IS {negation}NULL"
            case "between":
                return self._between(scope, negation)
            case "in":
                return self._in_list(scope, negation)
            case "like":
                return self._like(scope, negation)
            case "bool":
                return f"{negation}{self.scalars.leaf(scope, 'bool')}"
            case "moved":
                left = self.scalars.leaf(scope, pick(self.choices, ("date", "ts")))
                return f"{left} {pick(self.choices, COMPARISONS)} {self.scalars.moved(scope, 0)}"
            case "common":
                return self._common(scope)
            case _:
                return self._rare(form, scope, negation)

    def _rare(self, form: str, scope: Scope, negation: str) -> str:
        match form:
            case "distinct":
                left, right = self._comparable_pair(scope, FAMILIES)
                other = pick(self.choices, (self.scalars.leaf(scope, right), "NULL"))
                return f"{self.scalars.expression(scope, left, 1)} IS {negation}DISTINCT FROM {other}"
            case "truth":
                test = pick(self.choices, ("TRUE", "FALSE"))
                condition = pick(self.choices, (self.scalars.leaf(scope, "bool"), f"({self.predicate(scope, 0)})"))
                return f"{condition} IS {negation}{test}"
            case "text":
                function = pick(self.choices, ("CONTAINS", "STARTS_WITH", "ENDS_WITH"))
                value, part = self.scalars.expression(scope, "str", 1), pick(self.choices, LITERALS["str"])
                return f"{negation}{function}({value}, {part})"
            case "untyped":
                condition = self.predicate(scope.without_subqueries(), 0)
                forms = (f"CASE WHEN {condition} THEN NULL ELSE NULL END", f"(SELECT NULL WHERE {condition})")
                value = pick(self.choices, (*forms, "(NULL + NULL)"))
                return f"{value} IS {negation}NULL"
            case "instant":
                moment = pick(self.choices, LITERALS["ts"])
                return f"{self.scalars.leaf(scope, 'date')} {pick(self.choices, COMPARISONS)} {moment}"
            case _:
                # A string literal beside another type is a literal of that type; a bare NULL has any type.
                family = self.scalars.family(scope, FAMILIES)
                large = ("3000000000", "9999999999999999999") if family == "int" else ()
                literal = pick(self.choices, (*TEXTS[family], "NULL", *large))
                left = self.scalars.leaf(scope, family)
                return f"{left} {pick(self.choices, COMPARISONS)} {literal}"

    def _like(self, scope: Scope, negation: str) -> str:
        value = self.scalars.expression(scope, "str", 1)
        if chance(self.choices, 20):
            return f"{value} {negation}LIKE {pick(self.choices, ESCAPED_PATTERNS)}"
        operator = pick(self.choices, ("LIKE", "LIKE", "ILIKE"))
        pattern = self.scalars.leaf(scope, "str") if chance(self.choices, 10) else pick(self.choices, PATTERNS)
        return f"{value} {negation}{operator} {pattern}"

    def _common(self, scope: Scope) -> str:
        """What both branches of an OR demand."""
        shared, first, second = (self.predicate(scope.without_subqueries(), 0) for _ in range(3))
        forms = (
            f"(({shared} AND {first}) OR ({shared} AND {second}))", f"({shared} OR ({shared} AND {first}))",
            f"(({shared} AND {first} AND {second}) OR ({first} AND {shared} AND NOT ({second})))",
            f"({shared} AND NULL)", f"(NULL OR {shared})",
        )  # fmt: skip
        return pick(self.choices, forms)

    def comparison(self, scope: Scope, depth: int = 1) -> str:
        left, right = self._comparable_pair(scope, FAMILIES)
        operator = pick(self.choices, COMPARISONS)
        if left == "bool":  # an unparenthesised condition would swallow the operator
            return f"{self.scalars.leaf(scope, 'bool')} {operator} {self.scalars.leaf(scope, 'bool')}"
        first, second = self.scalars.expression(scope, left, depth), self.scalars.expression(scope, right, depth)
        return f"{first} {operator} {second}"

    def equality(self, left: Scope, right: Scope) -> str:
        """An equality across two scopes: the usual join condition."""
        shared = Scope(tuple(field for field in left.fields if right.of(field.family)))
        family, other = self._comparable_pair(shared, COMPARABLE)
        return f"{self.scalars.leaf(left, family)} = {self.scalars.leaf(right, other)}"

    def _comparable_pair(self, scope: Scope, options: tuple[str, ...]) -> tuple[str, str]:
        family = "int" if scope.of("int") and chance(self.choices, 40) else self.scalars.family(scope, options)
        if not chance(self.choices, 25):
            return family, family
        if family in ("date", "ts"):
            return family, pick(self.choices, ("date", "ts"))
        return family, pick(self.choices, NUMERIC) if family in NUMERIC else family

    def _between(self, scope: Scope, negation: str) -> str:
        family = self.scalars.family(scope, COMPARABLE)
        subject = self.scalars.expression(scope, family, 1)
        low = pick(self.choices, TEXTS[family]) if chance(self.choices, 10) else self.scalars.leaf(scope, family)
        return f"{subject} {negation}BETWEEN {low} AND {self.scalars.leaf(scope, family)}"

    def _in_list(self, scope: Scope, negation: str) -> str:
        family = self.scalars.family(scope, FAMILIES)
        members = [pick(self.choices, LITERALS[family]) for _ in range(self.choices.integer(1, 5))]
        if chance(self.choices, 15):
            members.append("NULL")
        if chance(self.choices, 15):
            members.append(self.scalars.leaf(scope, family))
        return f"{self.scalars.expression(scope, family, 1)} {negation}IN ({', '.join(members)})"
