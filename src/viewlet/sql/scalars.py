"""Binding scalar expressions: names become variables, operators and functions become typed calls.

A subquery inside an expression becomes lifts, collected in `prelude`: factors that go before the condition or column
that uses them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlglot import exp

from viewlet.algebra.nodes import Const, Expr, Scalar
from viewlet.errors import DataError
from viewlet.sql import builtins, coerce
from viewlet.sql.context import Context
from viewlet.sql.datatypes import to_sql_type
from viewlet.sql.function_names import FUNCTION_NODES, UNSUPPORTED_NODES, arguments_of, other_arguments
from viewlet.sql.intervals import date_arithmetic, read_interval, shift
from viewlet.sql.parser import MISREAD
from viewlet.sql.scope import Scope, unknown
from viewlet.sql.source import MismatchError, Source, name_of, sql_of, whole_number
from viewlet.sql.subqueries import Want, exists_subquery, in_subquery, quantified, scalar_subquery
from viewlet.types import BOOLEAN, DOUBLE, MAX_DECIMAL_DIGITS, NULL, VARCHAR, Kind, decimal

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
}


class ScalarBinder:
    """Binds expressions in one scope; `forbidden` says why an aggregate may not stand here."""

    def __init__(
        self,
        context: Context,
        scope: Scope,
        forbidden: str = "here",
        aliases: dict[str, exp.Expr] | None = None,
        unseen: Collection[str] = (),
    ) -> None:
        self.context = context
        self.scope = scope
        self.forbidden = forbidden
        self.aliases = aliases or {}
        self.hiding = set[str]()
        """Aliases of columns that are bound: they hide the columns of the queries around this one."""
        self.unseen = unseen
        """Aliases of the block that have no meaning here."""
        self.prelude: list[Expr] = []

    def bind(self, node: exp.Expr, want: Want = Want.EXACT) -> Scalar:
        """The scalar of an expression. `want` says which outcome of a condition matters, the others may blur."""
        handler = HANDLERS.get(type(node))
        try:
            if handler is not None:
                return handler(self, node, want)
            if isinstance(node, exp.AggFunc):
                return self.aggregate(node)
            return self.function(node)
        except (MismatchError, DataError) as problem:
            raise self.context.source.error(str(problem), node) from None

    def condition(self, node: exp.Expr, want: Want = Want.TRUE) -> Scalar:
        scalar = self.bind(node, want)
        if scalar.type.kind is Kind.VARCHAR or scalar.type.kind not in (Kind.BOOLEAN, Kind.NULL):
            raise self.context.source.error(f"a condition is needed, not {scalar.type}", node)
        return builtins.is_boolean(scalar)

    def take_prelude(self) -> tuple[Expr, ...]:
        """The lifts collected since the last time."""
        taken = tuple(self.prelude)
        self.prelude = []
        return taken

    # Names, overridden where a block has been grouped

    def column(self, node: exp.Column) -> Scalar:
        source = self.context.source
        if node.args.get("db") or isinstance(node.this, exp.Star):
            raise source.unsupported(f"'{sql_of(node)}' in an expression", node)
        name, table = name_of(node.this), node.args.get("table")
        own = self.scope.own(node, source)
        if own is not None:
            return own
        if table is None and name in self.hiding & self.aliases.keys():
            return self._alias(name)
        around = self.scope.resolve(node, source)
        if around is not None and table is None and name in self.unseen:
            # DuckDB would take the alias, the standard and other databases the column.
            problem = f"'{name}' is an alias, which WHERE does not see, and a column of the query around this one"
            raise source.error(f"{problem}; write the column with its table, or the expression", node)
        if around is not None:
            return around
        if table is None and name in self.aliases:
            return self._alias(name)
        if table is not None and name_of(table) not in self.scope.tables():
            raise source.error(unknown("table", name_of(table), self.scope.tables()), node)
        raise source.error(unknown("column", name, self.scope.names() | set(self.aliases)), node)

    def _alias(self, name: str) -> Scalar:
        """An alias of the select list stands for its expression; inside it the alias itself is not known."""
        meaning = self.aliases.pop(name)
        try:
            return self.bind(meaning)
        finally:
            self.aliases[name] = meaning

    def aggregate(self, node: exp.Expr) -> Scalar:
        raise self.context.source.error(f"an aggregate is not allowed {self.forbidden}", node)

    def function(self, node: exp.Expr) -> Scalar:
        source = self.context.source
        if type(node) in UNSUPPORTED_NODES:
            raise source.unsupported(UNSUPPORTED_NODES[type(node)], node)
        if isinstance(node, exp.Anonymous):
            name, arguments = str(node.this).lower(), node.expressions
        elif type(node) in FUNCTION_NODES:
            name, keys = FUNCTION_NODES[type(node)]
            arguments = arguments_of(node, keys) + other_arguments(node, keys)
        else:
            raise source.unsupported(_title(node), node)
        if name not in builtins.FUNCTIONS:
            near = difflib.get_close_matches(name, self.context.aggregates, n=1)
            raise source.unsupported(f"function {name}()", node, f"did you mean {near[0]}()?" if near else "")
        least, most, build = builtins.FUNCTIONS[name]
        if not least <= len(arguments) <= most:
            wanted = (
                str(least)
                if least == most
                else f"{least} to {most}"
                if most < builtins.ANY_NUMBER
                else f"at least {least}"
            )
            raise source.error(f"{name}() takes {wanted} arguments, not {len(arguments)}", node)
        return build(*(self.bind(argument) for argument in arguments))


def _title(node: exp.Expr) -> str:
    if isinstance(node, exp.Func):
        return f"function {node.sql_name().lower()}()"
    return f"'{sql_of(node)}'"


Handler = Callable[[ScalarBinder, Any, Want], Scalar]


def _literal(binder: ScalarBinder, node: exp.Literal, want: Want) -> Scalar:
    text = str(node.this)
    if node.is_string:
        return coerce.constant(text, VARCHAR)
    if "e" in text.lower():
        return coerce.cast_to(coerce.constant(text, VARCHAR), DOUBLE)
    if "." in text:
        whole, _, fraction = text.partition(".")
        digits = len(whole.lstrip("0") or "0") + len(fraction)
        if digits > MAX_DECIMAL_DIGITS:
            return coerce.cast_to(coerce.constant(text, VARCHAR), DOUBLE)
        return coerce.cast_to(coerce.constant(text, VARCHAR), decimal(max(digits, 1), len(fraction)))
    number = whole_number(text)
    if number is None or number >= 10**MAX_DECIMAL_DIGITS:
        raise MismatchError(f"a whole number has at most {MAX_DECIMAL_DIGITS} digits, not {len(text)}")
    if number >= 1 << 63:
        return coerce.cast_to(coerce.constant(text, VARCHAR), decimal(len(str(number)), 0))
    return coerce.integer_constant(number)


def _column(binder: ScalarBinder, node: exp.Column, want: Want) -> Scalar:
    return binder.column(node)


def _paren(binder: ScalarBinder, node: exp.Paren, want: Want) -> Scalar:
    return binder.bind(node.this, want)


def _null(binder: ScalarBinder, node: exp.Null, want: Want) -> Scalar:
    return Const(None, NULL)


def _boolean(binder: ScalarBinder, node: exp.Boolean, want: Want) -> Scalar:
    return coerce.constant(bool(node.this), BOOLEAN)


def _and(binder: ScalarBinder, node: exp.And, want: Want) -> Scalar:
    return coerce.conjunction(*(binder.condition(part, want) for part in node.flatten()))


def _or(binder: ScalarBinder, node: exp.Or, want: Want) -> Scalar:
    return coerce.disjunction(*(binder.condition(part, want) for part in node.flatten()))


def _not(binder: ScalarBinder, node: exp.Not, want: Want) -> Scalar:
    return coerce.negation(binder.condition(node.this, want.negated()))


def _comparison(binder: ScalarBinder, node: exp.Binary, want: Want) -> Scalar:
    op, left, right = COMPARISONS[type(node)], node.this, node.expression
    if isinstance(left, exp.Any | exp.All):
        left, right, op = right, left, coerce.MIRRORED[op]
    if isinstance(right, exp.Any | exp.All):
        return quantified(binder, op, left, right, want)
    if isinstance(left, exp.Tuple) or isinstance(right, exp.Tuple):
        raise binder.context.source.unsupported("row comparison", node, "compare column by column")
    return coerce.comparison(op, binder.bind(left), binder.bind(right))


def _distinct_from(binder: ScalarBinder, node: exp.Binary, want: Want) -> Scalar:
    same = coerce.not_distinct(binder.bind(node.this), binder.bind(node.expression))
    return same if isinstance(node, exp.NullSafeEQ) else coerce.negation(same)


def _is(binder: ScalarBinder, node: exp.Is, want: Want) -> Scalar:
    test = node.expression
    if isinstance(test, exp.Null):
        return coerce.is_null(binder.bind(node.this))
    if isinstance(test, exp.Boolean):
        condition = binder.condition(node.this, Want.EXACT)
        wanted = condition if test.this else coerce.negation(condition)
        return wanted if not wanted.type.nullable else coerce.total("is_true", wanted, type=BOOLEAN)
    raise binder.context.source.unsupported(f"'{sql_of(node)}'", node)


def _between(binder: ScalarBinder, node: exp.Between, want: Want) -> Scalar:
    if node.args.get("symmetric"):
        raise binder.context.source.unsupported("BETWEEN SYMMETRIC", node)
    value = binder.bind(node.this)
    low, high = binder.bind(node.args["low"]), binder.bind(node.args["high"])
    return coerce.conjunction(coerce.comparison(">=", value, low), coerce.comparison("<=", value, high))


def _in(binder: ScalarBinder, node: exp.In, want: Want) -> Scalar:
    query = _members_query(node)
    if query is not None:
        return in_subquery(binder, node.this, query, want)
    if node.args.get("unnest") is not None or node.args.get("field") is not None or isinstance(node.this, exp.Tuple):
        raise binder.context.source.unsupported(f"'{sql_of(node)}'", node)
    value = binder.bind(node.this)
    return membership(value, [binder.bind(member) for member in node.expressions])


def _members_query(node: exp.In) -> exp.Expr | None:
    """The subquery or VALUES that IN looks into; VALUES comes as the only member of a list."""
    members = node.expressions
    if len(members) == 1 and isinstance(members[0], exp.Values):
        return members[0]
    query: exp.Expr | None = node.args.get("query")
    return query


def membership(value: Scalar, members: Sequence[Scalar]) -> Scalar:
    """x IN (a, b, ...): one set lookup for the constants, equalities for the rest."""
    equalities = [coerce.comparison("=", value, member) for member in members]
    pairs = [coerce.align(value, member) for member in members]
    simple = [right for left, right in pairs if left == value and isinstance(right, Const) and right.value is not None]
    if len(simple) < 3 or isinstance(value, Const):
        return coerce.disjunction(*equalities)
    constants = dict.fromkeys(simple)
    rest = [test for test, (_, right) in zip(equalities, pairs, strict=True) if right not in constants]
    lookup = coerce.strict("in", value, *constants, type=BOOLEAN)
    return coerce.disjunction(lookup, *rest) if rest else lookup


def _like(binder: ScalarBinder, node: exp.Expr, want: Want) -> Scalar:
    escape: list[Scalar] = []
    like = node
    if isinstance(node, exp.Escape):
        if not isinstance(node.this, exp.Like | exp.ILike):
            raise binder.context.source.unsupported(f"'{sql_of(node)}'", node, "ESCAPE goes with LIKE and ILIKE")
        like, escape = node.this, [builtins.text(binder.bind(node.expression))]
    if isinstance(like.expression, exp.Any | exp.All):
        raise binder.context.source.unsupported("LIKE ANY", node, "use OR")
    op = "ilike" if isinstance(like, exp.ILike) else "like"
    value, pattern = builtins.text(binder.bind(like.this)), builtins.text(binder.bind(like.expression))
    test = coerce.strict(op, value, pattern, *escape, type=BOOLEAN)
    return coerce.negation(test) if like.args.get("negate") else test


def _arithmetic(binder: ScalarBinder, node: exp.Binary, want: Want) -> Scalar:
    op = ARITHMETIC[type(node)]
    left, right = node.this, node.expression
    if isinstance(right, exp.Interval) and op in "+-":
        interval = read_interval(right, binder.bind)
        return shift(binder.bind(left), interval if op == "+" else interval.negated())
    if isinstance(left, exp.Interval) and op == "+":
        return shift(binder.bind(right), read_interval(left, binder.bind))
    a, b = binder.bind(left), binder.bind(right)
    if op == "//" and not (a.type.is_integer and b.type.is_integer) and _is_div(binder.context.source, left, right):
        hint = "it is defined for integers; write // for the division of DuckDB, or CAST to BIGINT"
        raise binder.context.source.unsupported(f"{a.type} DIV {b.type}", node, hint)
    dates = date_arithmetic(op, a, b)
    return dates if dates is not None else coerce.arithmetic(op, a, b)


def _is_div(source: Source, left: exp.Expr, right: exp.Expr) -> bool:
    """Whether an integer division was written as the word DIV, which databases other than DuckDB truncate."""
    before, after = source.span(left), source.span(right)
    if before is None or after is None:
        return False
    return "div" in re.split(r"\W+", source.script[before.end : after.start].lower())


def _date_shift(binder: ScalarBinder, node: exp.Expr, want: Want) -> Scalar:
    """DATE_ADD(d, INTERVAL ...) and DATE_SUB."""
    amount = node.expression
    if not isinstance(amount, exp.Interval):
        raise binder.context.source.unsupported(f"'{sql_of(node)}'", node, "add an INTERVAL")
    interval = read_interval(amount, binder.bind)
    return shift(binder.bind(node.this), interval if isinstance(node, exp.DateAdd) else interval.negated())


def _interval(binder: ScalarBinder, node: exp.Interval, want: Want) -> Scalar:
    raise binder.context.source.unsupported(
        "INTERVAL as a value", node, "add it to, or subtract it from, a DATE or TIMESTAMP"
    )


def _case(binder: ScalarBinder, node: exp.Case, want: Want) -> Scalar:
    operand = binder.bind(node.this) if node.this is not None else None
    conditions: list[Scalar] = []
    values: list[Scalar] = []
    for branch in node.args["ifs"]:
        if operand is None:
            conditions.append(binder.condition(branch.this, Want.TRUE))
        else:
            conditions.append(coerce.comparison("=", operand, binder.bind(branch.this)))
        values.append(binder.bind(branch.args["true"]))
    default = node.args.get("default")
    values.append(binder.bind(default) if default is not None else Const(None, NULL))
    values = list(coerce.unify(values))
    parts = [part for pair in zip(conditions, values, strict=False) for part in pair]
    return coerce.case(*parts, values[-1])


def _cast(binder: ScalarBinder, node: exp.Cast, want: Want) -> Scalar:
    if isinstance(node, exp.TryCast):
        raise binder.context.source.unsupported("TRY_CAST", node, "use CAST")
    return coerce.cast_to(binder.bind(node.this), to_sql_type(node.to, binder.context.source, node))


def _extract(binder: ScalarBinder, node: exp.Extract, want: Want) -> Scalar:
    return builtins.extract(str(node.this.name), binder.bind(node.expression))


def _date_trunc(binder: ScalarBinder, node: exp.Expr, want: Want) -> Scalar:
    return builtins.date_trunc(str(node.args["unit"].name), binder.bind(node.this))


def _date_diff(binder: ScalarBinder, node: exp.DateDiff, want: Want) -> Scalar:
    if node.meta.get(MISREAD):
        problem = "DATE_DIFF takes the unit in quotes, a start and an end"
        usage = "DATE_DIFF('month', start, end) counts the boundaries of months between them"
        raise binder.context.source.error(f"{problem}: {usage}", node)
    return builtins.date_diff(str(node.args["unit"].name), binder.bind(node.expression), binder.bind(node.this))


def _concatenate(binder: ScalarBinder, node: exp.DPipe, want: Want) -> Scalar:
    return builtins.concatenate(binder.bind(node.this), binder.bind(node.expression))


def _trim(binder: ScalarBinder, node: exp.Trim, want: Want) -> Scalar:
    position = str(node.args.get("position") or "").upper()
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(position, "trim")
    characters = [node.expression] if node.expression is not None else []
    _, _, build = builtins.FUNCTIONS[name]
    return build(*(binder.bind(part) for part in (node.this, *characters)))


def _subquery(binder: ScalarBinder, node: exp.Expr, want: Want) -> Scalar:
    return scalar_subquery(binder, node)


def _exists(binder: ScalarBinder, node: exp.Exists, want: Want) -> Scalar:
    return exists_subquery(binder, node)


def _aggregate(binder: ScalarBinder, node: exp.Expr, want: Want) -> Scalar:
    return binder.aggregate(node)


def _window(binder: ScalarBinder, node: exp.Window, want: Want) -> Scalar:
    raise binder.context.source.unsupported("window function", node, "aggregate with GROUP BY instead")


HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.Literal: _literal,
    exp.Column: _column,
    exp.Paren: _paren,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _not,
    **dict.fromkeys(COMPARISONS, _comparison),
    **dict.fromkeys(ARITHMETIC, _arithmetic),
    exp.NullSafeEQ: _distinct_from,
    exp.NullSafeNEQ: _distinct_from,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _like,
    exp.DateAdd: _date_shift,
    exp.DateSub: _date_shift,
    exp.Interval: _interval,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Extract: _extract,
    exp.TimestampTrunc: _date_trunc,
    exp.DateTrunc: _date_trunc,
    exp.DateDiff: _date_diff,
    exp.DPipe: _concatenate,
    exp.Trim: _trim,
    exp.Subquery: _subquery,
    exp.Select: _subquery,
    exp.Exists: _exists,
    exp.Filter: _aggregate,
    exp.Window: _window,
}
