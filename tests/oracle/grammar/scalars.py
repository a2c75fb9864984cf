"""Scalar expressions of SQL, each of a wanted family, over the columns in scope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.oracle.grammar.choices import Choices, chance, pick, weighted
from tests.oracle.grammar.families import COMPARABLE, FAMILIES, LITERALS, NUMERIC, TEXTS, TYPE_NAMES, Scope
from tests.oracle.grammar.predicates import Predicates

DATE_PARTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "ISODOW", "DOY")
TIME_PARTS = ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
PART_FUNCTIONS = (
    "YEAR", "QUARTER", "MONTH", "WEEK", "WEEKOFYEAR", "DAY", "DAYOFMONTH", "DAYOFWEEK", "ISODOW", "DAYOFYEAR", "HOUR",
    "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND",
)  # fmt: skip
TRUNCATIONS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
INTERVALS = (
    "INTERVAL '1' DAY", "INTERVAL '1' MONTH", "INTERVAL 1 YEAR", "INTERVAL '30' DAY", "INTERVAL 2 WEEK",
    "INTERVAL '1' QUARTER", "INTERVAL 3 HOUR", "INTERVAL '90' MINUTE", "INTERVAL 1 SECOND", "INTERVAL 7 MICROSECOND",
    "INTERVAL '1 month 2 days'", "INTERVAL '-1 day'", "INTERVAL 0 DAY", "INTERVAL '500' MILLISECOND",
)  # fmt: skip


@dataclass(slots=True)
class Scalars:
    """Writes expressions. `scalar_subquery` and `predicate_subquery` come from the query grammar above it."""

    choices: Choices
    scalar_subquery: Callable[[Scope, str], str]
    predicate_subquery: Callable[[Scope], str]
    predicates: Predicates = field(init=False)

    def __post_init__(self) -> None:
        self.predicates = Predicates(self.choices, self)

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
        return self.null(family) if chance(self.choices, 12) else pick(self.choices, LITERALS[family])

    def null(self, family: str) -> str:
        return f"CAST(NULL AS {TYPE_NAMES[family][0]})"

    def expression(self, scope: Scope, family: str, depth: int = 2) -> str:
        if depth <= 0 or not chance(self.choices, 45):
            return self.leaf(scope, family)
        if scope.depth > 0 and family in COMPARABLE and chance(self.choices, 12):
            return self.scalar_subquery(scope, family)
        if chance(self.choices, 30):
            return self._conditional(scope, family, depth - 1)
        if chance(self.choices, 12):
            return self._cast(scope, family, depth - 1)
        match family:
            case "int":
                return self._integer(scope, depth - 1)
            case "dec":
                return self._decimal(scope, depth - 1)
            case "dbl":
                return self._double(scope, depth - 1)
            case "real":
                return self._real(scope, depth - 1)
            case "str":
                return self._string(scope, depth - 1)
            case "date":
                return self._date(scope, depth - 1)
            case "ts":
                return self.moved(scope, depth - 1)
            case _:
                return f"({self.predicates.predicate(scope, depth - 1)})"

    def approximate(self, scope: Scope, depth: int = 1) -> str:
        """A double whose last digits depend on who computed it."""
        value = self.expression(scope, pick(self.choices, ("int", "dec", "dbl")), depth)
        divisor = self.leaf(scope, pick(self.choices, ("int", "dec", "dbl")))
        forms = (
            f"SQRT(ABS({value}))", f"LN(ABS({value}) + 1)", f"LOG10(ABS({value}) + 0.5)", f"LOG(ABS({value}) + 1)",
            f"EXP(LEAST({value}, 2))", f"POWER({value}, 2)", f"({value} / 3)", f"({value} / {divisor})",
            f"ROUND(CAST({value} AS DOUBLE), 1)", f"({value} ** 3)", f"ROUND({self.leaf(scope, 'dbl')} / 7, 2)",
            f"LOG(2, ABS({value}) + 1)",
            f"(SQRT(ABS({value})) - {self.leaf(scope, 'dbl')})", "SQRT(NULL)",
        )  # fmt: skip
        return pick(self.choices, forms)

    def narrow(self, scope: Scope) -> str:
        """An integer between -2 and 2, whatever the columns hold."""
        return pick(self.choices, ("1", "-1", f"CAST({self.leaf(scope, 'int')} % 3 AS INTEGER)"))

    # Forms that every family has

    def _conditional(self, scope: Scope, family: str, depth: int) -> str:
        first, second = self.expression(scope, family, depth), self._compatible(scope, family, depth)
        form = weighted(
            self.choices, [(3, "coalesce"), (3, "case"), (2, "simple"), (1, "nullif"), (2, "extreme"), (1, "if")]
        )
        # Where the compatible value comes first, another one follows: alone, a string literal is not of the family.
        swapped = form != "nullif" and chance(self.choices, 20)
        if swapped:
            first, second = second, first
        match form:
            case "coalesce":
                others = pick(self.choices, (second, f"{second}, {self.leaf(scope, family)}", "NULL"))
                if swapped and others == "NULL":
                    others = second
                return f"COALESCE({first}, {others})"
            case "simple":
                subject = pick(self.choices, FAMILIES)
                tested = pick(self.choices, (*LITERALS[subject], TEXTS[subject][0], "NULL"))
                return f"CASE {self.leaf(scope, subject)} WHEN {tested} THEN {first} ELSE {second} END"
            case "nullif":
                return f"NULLIF({first}, {self.leaf(scope, family)})"
            case "extreme":
                others = pick(self.choices, (second, f"{second}, {self.leaf(scope, family)}", f"{second}, NULL"))
                return f"{pick(self.choices, ('LEAST', 'GREATEST'))}({first}, {others})"
            case "if":
                return f"IF({self.predicates.predicate(scope, depth)}, {first}, {second})"
            case _:
                more = f" WHEN {self.predicates.predicate(scope, 0)} THEN {second}" if chance(self.choices, 20) else ""
                otherwise = f" ELSE {second}" if chance(self.choices, 70) or (swapped and not more) else ""
                return f"CASE WHEN {self.predicates.predicate(scope, depth)} THEN {first}{more}{otherwise} END"

    def _compatible(self, scope: Scope, family: str, depth: int) -> str:
        """Something that CASE or COALESCE brings to the family: a narrower type, a string literal."""
        narrower = {"dec": ("int",), "dbl": NUMERIC, "real": ("int", "dec"), "ts": ("date",)}.get(family)
        if narrower is not None and chance(self.choices, 25):
            return self.expression(scope, pick(self.choices, narrower), depth)
        if family in ("date", "ts") and chance(self.choices, 10):
            return pick(self.choices, TEXTS[family])
        return self.expression(scope, family, depth)

    def _cast(self, scope: Scope, family: str, depth: int) -> str:
        """A CAST from any family that has values of this one."""
        target = pick(self.choices, TYPE_NAMES[family])
        if chance(self.choices, 10):
            return f"CAST({pick(self.choices, TEXTS[family])} AS {target})"
        sources = {
            "int": (*NUMERIC, "bool"), "dec": (*NUMERIC, "bool"), "dbl": (*NUMERIC, "bool"), "real": NUMERIC,
            "str": FAMILIES, "date": ("ts", "date"), "ts": ("date", "ts"), "bool": (*NUMERIC, "bool"),
        }  # fmt: skip
        source = pick(self.choices, sources[family])
        if family == "str" and source in ("dbl", "real"):
            # The sum makes +0 of a -0: equal keys, of which either may stand for the group, have different texts.
            return f"CAST(({self.leaf(scope, source)} + CAST(0 AS {TYPE_NAMES[source][0]})) AS {target})"
        value = self.leaf(scope, source) if family == "str" else self.expression(scope, source, depth)
        return f"({value})::{target}" if chance(self.choices, 15) else f"CAST({value} AS {target})"

    # Numbers

    def _integer(self, scope: Scope, depth: int) -> str:
        form = weighted(self.choices, [(5, "arithmetic"), (2, "number"), (3, "part"), (2, "text"), (2, "difference")])
        match form:
            case "arithmetic":
                return self._arithmetic(scope, "int", "int", depth)
            case "number":
                value = self.expression(scope, "int", depth)
                forms = (
                    f"(- {value})", f"({value} % {pick(self.choices, ('2', '3', '0', '-2'))})", f"ABS({value})",
                    f"({value} // {pick(self.choices, ('2', '-3', '0'))})", f"ROUND({value}, -1)", f"ROUND({value})",
                    f"SIGN({self.expression(scope, pick(self.choices, NUMERIC), depth)})", f"({value} + NULL)",
                )  # fmt: skip
                return pick(self.choices, forms)
            case "part":
                return self._part(scope, depth)
            case "text":
                value, part = self.expression(scope, "str", depth), self.leaf(scope, "str")
                forms = (f"LENGTH({value})", f"POSITION({part} IN {value})", f"STRPOS({value}, {part})")
                return pick(self.choices, forms)
            case _:
                return self._difference(scope, depth)

    def _part(self, scope: Scope, depth: int) -> str:
        """EXTRACT and its relatives; a date has a time of day too, which is midnight."""
        moment = self.expression(scope, pick(self.choices, ("date", "ts")), depth)
        part = pick(self.choices, DATE_PARTS + TIME_PARTS)
        forms = (
            f"EXTRACT({part} FROM {moment})",
            f"DATE_PART('{part.lower()}', {moment})",
            f"{pick(self.choices, PART_FUNCTIONS)}({moment})",
        )
        return pick(self.choices, forms)

    def _difference(self, scope: Scope, depth: int) -> str:
        if chance(self.choices, 50):
            return f"({self.expression(scope, 'date', depth)} - {self.leaf(scope, 'date')})"
        start, end = (self.leaf(scope, pick(self.choices, ("date", "ts"))) for _ in range(2))
        return f"{pick(self.choices, ('DATE_DIFF', 'DATEDIFF'))}('{pick(self.choices, TRUNCATIONS)}', {start}, {end})"

    def _decimal(self, scope: Scope, depth: int) -> str:
        if not chance(self.choices, 40):
            return self._arithmetic(scope, "dec", pick(self.choices, ("dec", "int")), depth)
        value = self.expression(scope, "dec", depth)
        forms = (
            f"ROUND({value}, {pick(self.choices, ('1', '0', '-1', '5'))})", f"ROUND({value})", f"FLOOR({value})",
            f"CEIL({value})", f"ABS({value})", f"(- {value})", f"({value} % {pick(self.choices, ('2', '0.75', '0'))})",
        )  # fmt: skip
        return pick(self.choices, forms)

    def _double(self, scope: Scope, depth: int) -> str:
        form = weighted(self.choices, [(3, "arithmetic"), (2, "division"), (2, "function")])
        if form == "arithmetic":
            return self._arithmetic(scope, "dbl", pick(self.choices, NUMERIC), depth)
        if form == "division":
            # Halves and quarters stay exact; a zero divisor makes the quotient NULL.
            divisor = pick(self.choices, ("2", "4", "0", "CAST(2 AS DOUBLE)", "0.5"))
            return f"({self.expression(scope, pick(self.choices, NUMERIC), depth)} / {divisor})"
        return self._float_function(scope, "dbl", depth)

    def _real(self, scope: Scope, depth: int) -> str:
        if chance(self.choices, 60):
            return self._arithmetic(scope, "real", pick(self.choices, ("real", "int", "dec")), depth)
        return self._float_function(scope, "real", depth)

    def _float_function(self, scope: Scope, family: str, depth: int) -> str:
        value = self.expression(scope, family, depth)
        integral = self.expression(scope, "int" if family == "dbl" else family, depth)
        forms = (
            f"ABS({value})", f"(- {value})", f"FLOOR({value})", f"CEIL({integral})", f"FLOOR({integral})",
            f"ROUND({value})", f"({value} % {pick(self.choices, ('2', '0', '-1'))})",
        )  # fmt: skip
        return pick(self.choices, forms)

    def _arithmetic(self, scope: Scope, left: str, right: str, depth: int) -> str:
        operator = pick(self.choices, ("+", "-", "*"))
        return f"({self.expression(scope, left, depth)} {operator} {self.leaf(scope, right)})"

    # Strings and moments

    def _string(self, scope: Scope, depth: int) -> str:
        source, other = self.expression(scope, "str", depth), self.leaf(scope, "str")
        side = pick(self.choices, ("BOTH", "LEADING", "TRAILING"))
        shown = self.leaf(scope, pick(self.choices, ("int", "dec", "date", "ts", "bool")))
        forms = (
            f"SUBSTRING({source} FROM 1 FOR 1)", f"SUBSTRING({source}, 2)", f"SUBSTRING({source}, 1, 2)",
            f"SUBSTRING({source}, -2, 1)", f"SUBSTRING({source}, 0, 2)", f"SUBSTRING({source}, {self.narrow(scope)})",
            f"UPPER({source})", f"LOWER({source})", f"TRIM({source})", f"TRIM({side} 'a' FROM {source})",
            f"LTRIM({source}, 'a')", f"RTRIM({source}, 'ab')", f"LTRIM({source})", f"RTRIM({source})",
            f"REVERSE({source})", f"REPLACE({source}, {pick(self.choices, LITERALS['str'])}, 'x')",
            f"REPLACE({source}, 'a', {other})", f"LEFT({source}, 1)", f"RIGHT({source}, {self.narrow(scope)})",
            f"LEFT({source}, {self.narrow(scope)})", f"({source} || {other})", f"({source} || {shown})",
            f"CONCAT({source}, {shown})", f"CONCAT({source}, {other}, NULL)", f"LEFT({source}, NULL)",
        )  # fmt: skip
        return pick(self.choices, forms)

    def _date(self, scope: Scope, depth: int) -> str:
        day = self.expression(scope, "date", depth)
        forms = (
            f"CAST({self.moved(scope, depth)} AS DATE)", f"({day} + {self.narrow(scope)})",
            f"({self.narrow(scope)} + {day})", f"({day} - {self.narrow(scope)})",
        )  # fmt: skip
        return pick(self.choices, forms)

    def moved(self, scope: Scope, depth: int) -> str:
        """A timestamp some interval away from a date or timestamp, or cut to a unit."""
        start = self.expression(scope, pick(self.choices, ("date", "ts")), depth)
        interval = pick(self.choices, (*INTERVALS, f"INTERVAL ({self.narrow(scope)}) DAY"))
        forms = (
            f"({start} + {interval})", f"({start} - {interval})", f"({interval} + {start})",
            f"DATE_ADD({start}, {interval})", f"DATE_TRUNC('{pick(self.choices, TRUNCATIONS)}', {start})",
        )  # fmt: skip
        return pick(self.choices, forms)
