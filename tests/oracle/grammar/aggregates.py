"""Aggregates of a wanted family, whose arguments read columns of their own query only."""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracle.grammar.choices import Choices, chance, pick
from tests.oracle.grammar.families import COMPARABLE, FAMILIES, NUMERIC, Field, Scope
from tests.oracle.grammar.predicates import COMPARISONS
from tests.oracle.grammar.scalars import Scalars

VARIANCES = ("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP", "STDDEV", "VARIANCE")
WIDE = "DECIMAL(18,6)"
"""What a decimal sum is cast to before it meets other decimals: DuckDB would cut their digits to fit its 38."""
UNREACHED = "0.3141"
"""No average of our values comes near it, so comparing with it does not depend on rounding."""


@dataclass(slots=True)
class Aggregates:
    """Writes aggregates and conditions over them."""

    choices: Choices
    scalars: Scalars

    def expression(self, scope: Scope, family: str, alone: bool = False) -> str:
        aggregate = self.aggregate(scope, family, alone)
        if family in NUMERIC and chance(self.choices, 15):
            return f"({aggregate} {pick(self.choices, ('+', '-', '*'))} {pick(self.choices, ('1', '2'))})"
        if family != "approx" and chance(self.choices, 6):
            return f"COALESCE({aggregate}, {self.scalars.leaf(Scope(()), family)})"
        return aggregate

    def aggregate(self, scope: Scope, family: str, alone: bool = False) -> str:
        """An aggregate whose result is of a family.

        One that stands alone is an output of the whole query, and meets no other value.
        """
        distinct = "DISTINCT " if chance(self.choices, 25) else ""
        match family:
            case "approx":
                return self._approximate(scope, distinct)
            case "int":
                return self._integer(scope, distinct)
            case "bool":
                if chance(self.choices, 5):
                    return "(MIN(NULL) IS NULL)"
                function = pick(self.choices, ("BOOL_AND", "BOOL_OR", "MIN", "MAX"))
                return f"{function}({self._argument(scope, 'bool')}){self._filter(scope)}"
            case "dec" | "dbl":
                function = pick(self.choices, (f"SUM({distinct}", "MIN(", "MAX("))
                source = pick(self.choices, ("dbl", "real")) if family == "dbl" else family
                aggregate = f"{function}{self._argument(scope, source)}){self._filter(scope)}"
                return f"CAST({aggregate} AS {WIDE})" if family == "dec" and not alone else aggregate
            case _:
                function = pick(self.choices, ("MIN(", "MAX(", "MIN(DISTINCT "))
                return f"{function}{self._argument(scope, family)}){self._filter(scope)}"

    def _approximate(self, scope: Scope, distinct: str) -> str:
        if chance(self.choices, 6):
            argument = self._argument(scope, pick(self.choices, ("int", "dbl")))
            return f"(AVG(DISTINCT {argument}) - SUM(DISTINCT {argument}))"
        if chance(self.choices, 30):
            function = pick(self.choices, ("SUM", "AVG", "MIN", "MAX"))
            return f"{function}({self.scalars.approximate(_plain(scope))}){self._filter(scope)}"
        function = pick(self.choices, (f"AVG({distinct}", "AVG(", *(f"{name}(" for name in VARIANCES)))
        return f"{function}{self._argument(scope, self.scalars.family(scope, NUMERIC))}){self._filter(scope)}"

    def _integer(self, scope: Scope, distinct: str) -> str:
        form = pick(self.choices, ("COUNT(*)", "COUNT", "SUM", "MIN", "MAX", "COUNT_IF", "COUNT()", "SUM(NULL)"))
        match form:
            case "COUNT(*)" | "COUNT()":
                return f"{form}{self._filter(scope)}"
            case "SUM(NULL)":
                return pick(self.choices, ("CAST(SUM(NULL) AS BIGINT)", "COUNT(NULL)"))
            case "COUNT":
                argument = self._argument(scope, self.scalars.family(scope, FAMILIES))
                return f"COUNT({distinct}{argument}){self._filter(scope)}"
            case "COUNT_IF":
                # Over no rows it is 0, as in Spark; in DuckDB, where it is a sum, it is NULL.
                return f"CAST(COALESCE(COUNT_IF({self._argument(scope, 'bool')}), 0) AS BIGINT)"
            case _:
                argument = self._argument(scope, "int")
                return f"{form}({distinct if form == 'SUM' else ''}{argument}){self._filter(scope)}"

    def _filter(self, scope: Scope) -> str:
        if not chance(self.choices, 12):
            return ""
        return f" FILTER (WHERE {self.scalars.predicates.predicate(_plain(scope), 0)})"

    def _argument(self, scope: Scope, family: str) -> str:
        return self.scalars.expression(_plain(scope), family, 1)

    def condition(self, scope: Scope, keys: tuple[Field, ...] = ()) -> str:
        """A condition over aggregates and what the query is grouped by."""
        if chance(self.choices, 35):
            equations = (self.equation(scope, keys) for _ in range(self.choices.integer(1, 2)))
            return f"({pick(self.choices, (' AND ', ' OR ')).join(equations)})"
        if chance(self.choices, 20):
            return f"{self.aggregate(scope, 'approx')} > {UNREACHED}"
        if chance(self.choices, 12):
            return self.aggregate(scope, "bool")
        family = self.scalars.family(scope, COMPARABLE)
        operator = pick(self.choices, COMPARISONS)
        return f"{self.aggregate(scope, family)} {operator} {self._constant_or_aggregate(scope, family)}"

    def equation(self, scope: Scope, keys: tuple[Field, ...]) -> str:
        """An aggregate equals another one, a key of its group, a column of a query around it, or a constant."""
        family = self.scalars.family(Scope(keys + scope.outer), COMPARABLE)
        other = pick(self.choices, NUMERIC) if family in NUMERIC and chance(self.choices, 25) else family
        sides = [self._side(scope, keys, family), self.aggregate(scope, other)]
        first, second = sides if chance(self.choices, 50) else reversed(sides)
        return f"{first} {pick(self.choices, ('=', '=', '=', 'IS NOT DISTINCT FROM'))} {second}"

    def _side(self, scope: Scope, keys: tuple[Field, ...], family: str) -> str:
        around = Scope(keys + scope.outer)
        if not around.of(family) or chance(self.choices, 15):
            return self._constant_or_aggregate(scope, family)
        column = pick(self.choices, around.of(family))
        return f"({column} + 1)" if family in NUMERIC and chance(self.choices, 15) else column

    def _constant_or_aggregate(self, scope: Scope, family: str) -> str:
        if chance(self.choices, 40):
            return self.aggregate(scope, family)
        return self.scalars.leaf(Scope(()), family)


def _plain(scope: Scope) -> Scope:
    return scope.without_subqueries().without_outer()
