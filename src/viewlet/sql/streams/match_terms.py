"""Expressions of MATCH_RECOGNIZE: what depends on rows alone stays SQL, what depends on a match becomes terms.

DEFINE B AS price < PREV(price)            a test of rows: "price" < LAG("price", 1) OVER near
DEFINE B AS price < 2 * FIRST(A.price)     Operation <, of the row's value and of an Operation over a Navigation
MEASURES LAST(B.price) - A.price AS rise   t0 - t1, with a Navigation for each
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewlet.sql.source import is_short_number
from viewlet.sql.split import RawStatement
from viewlet.sql.streams.match_clauses import MatchClauses, Range, closing, variable_name
from viewlet.sql.streams.parse import parse_term
from viewlet.sql.streams.statements import Reader
from viewlet.streams.matching.definition import (
    Aggregate,
    Condition,
    Constant,
    MatchNumber,
    Navigation,
    Operand,
    Operation,
    RowTest,
    RowValue,
    Term,
)

_OURS = "viewlet_"
_FUNCTIONS = ("FIRST", "LAST", "PREV", "NEXT", "CLASSIFIER", "MATCH_NUMBER")
_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Sum: "SUM",
    exp.Count: "COUNT",
    exp.Avg: "AVG",
    exp.Min: "MIN",
    exp.Max: "MAX",
}
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.And: "AND",
    exp.Or: "OR",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 604800}


class TermError(Exception):
    """An expression that a match does not have."""


def parse_expression(raw: RawStatement, words: Range) -> exp.Expr:
    """The syntax tree of an expression of a statement; our functions are named `viewlet_...` in it."""
    text = _marked(raw, words)
    start, end = raw.positions[words[0]][0], raw.positions[words[1] - 1][1]
    try:
        return parse_term(text)
    except SqlglotError as error:
        reason = str(error).splitlines()[0].split(". Line ")[0]
        raise raw.source.error_at(f"syntax error: {reason}", start, end) from None


def _marked(raw: RawStatement, words: Range) -> str:
    """The text of an expression with FINAL and RUNNING as functions, and our names for navigation."""
    pieces, closers, copied = [], dict[int, int](), raw.positions[words[0]][0]
    for at in range(*words):
        start, end = raw.positions[at]
        word, following = raw.words[at], raw.words[at + 1 : at + 3]
        pieces.append(raw.text[copied:start])
        if word in ("FINAL", "RUNNING") and following[1:] == ("(",):
            pieces.append(f"{_OURS}{word.lower()}(")
            last = closing(Reader(raw, at), at + 2)
            closers[last] = closers.get(last, 0) + 1
        elif word in _FUNCTIONS and following[:1] == ("(",):
            pieces.append(_OURS + word.lower())
        else:
            pieces.append(raw.text[start:end])
        pieces.append(")" * closers.get(at, 0))
        copied = end
    return "".join(pieces)


def _our_function(node: exp.Expr) -> str:
    """FIRST, LAST, PREV, NEXT, CLASSIFIER, MATCH_NUMBER, FINAL or RUNNING; empty for anything else."""
    if isinstance(node, exp.Anonymous) and str(node.this).startswith(_OURS):
        return str(node.this).removeprefix(_OURS).upper()
    return ""


class _NotRowError(Exception):
    """An expression that depends on the match."""


@dataclass(slots=True)
class TermBinder:
    """Binds the expressions of one MATCH_RECOGNIZE, and collects what has to be computed for every row."""

    clauses: MatchClauses
    values: dict[str, int] = field(default_factory=dict)
    tests: dict[str, int] = field(default_factory=dict)
    terms: dict[Term, int] = field(default_factory=dict)
    lookback: int = 0
    lookahead: int = 0

    @property
    def _all(self) -> tuple[int, ...]:
        return tuple(range(len(self.clauses.variables)))

    # -- terms ---------------------------------------------------------------------------------------------------------

    def _term(self, node: exp.Expr, is_final: bool = False) -> Term | None:
        """The term that a node is, if it is one."""
        if isinstance(node, exp.Column):
            column, variables = self._value(node)
            return Navigation(column, variables, is_final=is_final)
        if type(node) in _AGGREGATES:
            return self._aggregate(node, is_final)
        function = _our_function(node)
        if function in ("FINAL", "RUNNING"):
            inner = self._term(node.expressions[0], function == "FINAL")
            if not isinstance(inner, Navigation | Aggregate):
                raise TermError(f"{function} stands before FIRST, LAST and aggregates")
            return inner
        if function == "MATCH_NUMBER":
            if node.expressions:
                raise TermError("MATCH_NUMBER() has no argument")
            return MatchNumber()
        return self._navigation(node, is_final) if function else None

    def _navigation(self, node: exp.Expr, is_final: bool) -> Navigation:
        function = _our_function(node)
        if function == "CLASSIFIER":
            column, variables = self._value(node)
            return Navigation(column, variables, is_final=is_final)
        if not 1 <= len(node.expressions) <= 2:
            raise TermError(f"{function} has a value and, if wanted, a number of rows")
        inner, count = node.expressions[0], _offset(node, 1 if function in ("PREV", "NEXT") else 0)
        if function in ("PREV", "NEXT"):
            if _our_function(inner) in ("FIRST", "LAST", "FINAL", "RUNNING"):
                found = self._term(inner, is_final)
                assert isinstance(found, Navigation)
            else:
                column, variables = self._value(inner)
                found = Navigation(column, variables, is_final=is_final)
            shift = -count if function == "PREV" else count
            self.lookback, self.lookahead = max(self.lookback, -shift), max(self.lookahead, shift)
            return replace(found, physical=shift)
        column, variables = self._value(inner)
        return Navigation(column, variables, function == "FIRST", count, is_final=is_final)

    def _value(self, node: exp.Expr) -> tuple[int | None, tuple[int, ...]]:
        """The column of a value of rows, and the variables that the rows are bound to."""
        if not isinstance(node, exp.Expr):
            raise TermError("an expression is missing")
        if _our_function(node) == "CLASSIFIER":
            if len(node.expressions) > 1 or not all(isinstance(each, exp.Column) for each in node.expressions):
                raise TermError("CLASSIFIER has at most the name of a variable")
            return None, self._members(node.expressions[0].this) if node.expressions else self._all
        columns = list(node.find_all(exp.Column))
        sets = {self._members(each.args["table"]) if each.table else self._all for each in columns}
        if len(sets) > 1:
            raise TermError(f"'{_shown(node)}' reads rows of several variables: navigate to each of them")
        if any(_our_function(each) or type(each) in _AGGREGATES for each in node.walk()):
            raise TermError(f"'{_shown(node)}' navigates twice: only PREV and NEXT take FIRST and LAST")
        sql = _plain(node)
        return self.values.setdefault(sql, len(self.values)), sets.pop() if sets else self._all

    def _members(self, identifier: exp.Expr) -> tuple[int, ...]:
        quoted = identifier.args.get("quoted")
        name = str(identifier.this) if quoted else variable_name(str(identifier.this))
        members = self.clauses.members(name)
        if members is None:
            raise TermError(f"{name} is no variable of the pattern")
        return members

    def _aggregate(self, node: exp.Expr, is_final: bool) -> Aggregate:
        function, argument = _AGGREGATES[type(node)], node.this
        if not isinstance(argument, exp.Expr) or isinstance(argument, exp.Distinct) or node.expressions:
            raise TermError(f"'{_shown(node)}' is not supported: COUNT, SUM, AVG, MIN and MAX of one value are")
        if isinstance(argument, exp.Star):
            return Aggregate(function, None, self._all, is_final)
        if isinstance(argument, exp.Column) and isinstance(argument.this, exp.Star):
            return Aggregate(function, None, self._members(argument.args["table"]), is_final)
        column, variables = self._value(argument)
        if column is None:
            raise TermError(f"{function} of CLASSIFIER is not supported")
        return Aggregate(function, column, variables, is_final)

    # -- measures ------------------------------------------------------------------------------------------------------

    def measure(self, node: exp.Expr, is_final: bool) -> str:
        """A measure as SQL over the columns of terms; `is_final` says that they are read at the end of the match."""

        def rewrite(each: exp.Expr) -> exp.Expr:
            term = self._term(each)
            if term is None:
                _refuse(each)
                return each
            if is_final and not isinstance(term, MatchNumber):
                term = replace(term, is_final=True)
            return exp.column(f"t{self.terms.setdefault(term, len(self.terms))}")

        return _replaced(node, rewrite).sql("duckdb")

    # -- conditions ----------------------------------------------------------------------------------------------------

    def condition(self, node: exp.Expr, variable: int) -> Condition:
        """The condition of a variable."""
        try:
            sql = self._row_sql(node, variable)
        except _NotRowError:
            found = self._operand(node, variable)
            assert not isinstance(found, RowValue | Constant)
            return found
        return RowTest(self.tests.setdefault(sql, len(self.tests)))

    def _row_sql(self, node: exp.Expr, variable: int) -> str:
        """An expression that reads only the row that is tested and rows at fixed distances of it, as SQL."""

        def rewrite(each: exp.Expr) -> exp.Expr:
            if isinstance(each, exp.Column):
                if each.table and variable not in self._members(each.args["table"]):
                    raise _NotRowError
                return sqlglot.parse_one(_plain(each), read="duckdb")
            if type(each) in _AGGREGATES:
                raise _NotRowError
            if not _our_function(each):
                _refuse(each)
                return each
            return self._row_navigation(each, variable)

        return _replaced(node, rewrite).sql("duckdb")

    def _row_navigation(self, node: exp.Expr, variable: int) -> exp.Expr:
        """PREV and NEXT of the row that is tested, as LAG and LEAD."""
        known = dict(self.values)
        term = self._term(node)
        sqls = {number: sql for sql, number in self.values.items()}
        self.values = known
        is_near = isinstance(term, Navigation) and not term.is_first and not term.offset and variable in term.variables
        if not is_near or not isinstance(term, Navigation) or term.column is None:
            raise _NotRowError
        sql = sqls[term.column]
        if term.physical:
            sql = f"{'LAG' if term.physical < 0 else 'LEAD'}({sql}, {abs(term.physical)}) OVER near"
        return sqlglot.parse_one(sql, read="duckdb")

    def _operand(self, node: exp.Expr, variable: int) -> Operand:
        if isinstance(node, exp.Paren):
            return self._operand(node.this, variable)
        if isinstance(node, exp.Interval):
            return _interval(node)
        try:
            sql = self._row_sql(node, variable)
            return RowValue(self.values.setdefault(sql, len(self.values)))
        except _NotRowError:
            pass
        term = self._term(node)
        if term is not None:
            return term
        return self._operation(node, variable)

    def _operation(self, node: exp.Expr, variable: int) -> Operation:
        def operands(*nodes: exp.Expr) -> tuple[Operand, ...]:
            return tuple(self._operand(each, variable) for each in nodes)

        if type(node) in _OPERATORS:
            return Operation(_OPERATORS[type(node)], operands(node.this, node.expression))
        match node:
            case exp.Not():
                return Operation("NOT", operands(node.this))
            case exp.Neg():
                return Operation("NEGATE", operands(node.this))
            case exp.Abs():
                return Operation("ABS", operands(node.this))
            case exp.Coalesce():
                return Operation("COALESCE", operands(node.this, *node.expressions))
            case exp.Is() if isinstance(node.expression, exp.Null):
                return Operation("IS NULL", operands(node.this))
            case exp.Between():
                low = Operation(">=", operands(node.this, node.args["low"]))
                return Operation("AND", (low, Operation("<=", operands(node.this, node.args["high"]))))
            case exp.In() if node.expressions:
                (value,) = operands(node.this)
                return _disjunction([Operation("=", (value, each)) for each in operands(*node.expressions)])
            case exp.Case() if node.this is None:
                parts = [part for each in node.args["ifs"] for part in (each.this, each.args["true"])]
                return Operation("CASE", operands(*parts, node.args.get("default") or exp.Null()))
        raise TermError(
            f"'{_shown(node)}' reads other rows of the match: comparisons, arithmetic, AND, OR, NOT, IS NULL, BETWEEN, "
            "IN, CASE, COALESCE and ABS can"
        )


def _disjunction(operands: list[Operation]) -> Operation:
    return operands[0] if len(operands) == 1 else Operation("OR", tuple(operands))


def _replaced(node: exp.Expr, rewrite: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A tree with the uppermost nodes replaced for which `rewrite` returns another one."""
    found = rewrite(node)
    if found is not node:
        return found
    copy = node.copy()
    for mine, theirs in zip(list(node.iter_expressions()), list(copy.iter_expressions()), strict=True):
        theirs.replace(_replaced(mine, rewrite))
    return copy


def _refuse(node: exp.Expr) -> None:
    if isinstance(node, exp.AggFunc):
        raise TermError(f"'{_shown(node)}' is not supported: COUNT, SUM, AVG, MIN and MAX are")
    if isinstance(node, exp.Subquery | exp.Select | exp.Window):
        raise TermError("subqueries and windows are not supported in MATCH_RECOGNIZE")


def _plain(node: exp.Expr) -> str:
    """An expression of one row without the names of variables."""

    def rewrite(each: exp.Expr) -> exp.Expr:
        return exp.column(each.this.copy()) if isinstance(each, exp.Column) else each

    return node.copy().transform(rewrite).sql("duckdb")


def _shown(node: exp.Expr) -> str:
    return node.sql("duckdb").replace(_OURS, "").replace(_OURS.upper(), "")


def _offset(node: exp.Expr, default: int) -> int:
    if len(node.expressions) == 1:
        return default
    given = node.expressions[1]
    if not isinstance(given, exp.Literal) or given.is_string or not is_short_number(given.name, 6):
        raise TermError(f"the number of rows in '{_shown(node)}' is a whole number")
    return int(given.name)


def _interval(node: exp.Interval) -> Constant:
    unit = str(node.args.get("unit") or "").upper().removesuffix("S")
    try:
        return Constant(timedelta(seconds=float(node.this.name) * _SECONDS[unit]), "INTERVAL")
    except (KeyError, ValueError, AttributeError, OverflowError):
        raise TermError("an interval is a number and SECOND, MINUTE, HOUR, DAY or WEEK") from None
