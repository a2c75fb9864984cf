"""Views over rings: `SELECT keys, COFACTOR(...) FROM a join GROUP BY keys` and `SELECT FACTORIZED ... FROM a join`.

    SELECT city, COFACTOR(units, CATEGORICAL(colour)) FROM sales NATURAL JOIN shops NATURAL JOIN items GROUP BY city

The join has to be one of equalities (NATURAL, USING, ON and WHERE); other conditions may use the columns of one table.
A row with NULL in a variable of COFACTOR is left out, as one with NULL in a column that it is joined on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewlet.algebra.nodes import Expr, Scalar, Var, mul, sum_over
from viewlet.algebra.query import OutputColumn, Query
from viewlet.algebra.ring_query import Category, CofactorPayload, FactorisedPayload, RingQuery
from viewlet.sql.coerce import cast_to
from viewlet.sql.conditions import bind_conditions
from viewlet.sql.context import Context
from viewlet.sql.from_clause import translate_from
from viewlet.sql.join_graph import JoinGraph
from viewlet.sql.query import check_names, translate_nested, with_ctes
from viewlet.sql.scalars import ScalarBinder
from viewlet.sql.scope import Item, OutputField, Relation, Scope
from viewlet.sql.select import expand_stars, has_aggregate, key_expressions, output_name, unaliased
from viewlet.sql.source import Source, name_of, sql_of, whole_number
from viewlet.types import COFACTOR, DOUBLE, Kind, SqlType, Table

COFACTOR_NAME, CATEGORICAL_NAME = "cofactor", "categorical"
LOWEST_DEGREE, HIGHEST_DEGREE = 2, 4
_CLAUSES = {"expressions", "from_", "joins", "where", "group", "with_"}


@dataclass(frozen=True, slots=True)
class BoundRing:
    """A view over a ring: the shape of its rows as a query, and what it keeps."""

    query: Query
    ring: RingQuery
    sources: frozenset[str]


def is_cofactor(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() == COFACTOR_NAME


def asks_for_cofactor(node: exp.Expr) -> bool:
    """A query with COFACTOR somewhere; where it may stand is checked when it is bound."""
    return any(is_cofactor(part) for part in node.walk())


def bind_ring_view(
    node: exp.Expr,
    source: Source,
    catalog: Mapping[str, Table],
    names: Sequence[str] = (),
    factorised: bool = False,
    order: str | None = None,
) -> BoundRing:
    """What a view over a ring asks for; `names` rename its first columns."""
    while isinstance(node, exp.Subquery | exp.Paren) and not node.args.get("alias"):
        node = node.this
    if not isinstance(node, exp.Select):
        raise source.unsupported(
            "COFACTOR and FACTORIZED under a set operation", node, "write one view for each SELECT"
        )
    context = Context(source, catalog, translate_nested)
    _check_clauses(node, factorised, source)
    outer = with_ctes(node, Scope(), context)
    item = translate_from(node, outer, context)
    if not item.fields:
        raise source.error("a view tree needs a FROM clause", node)
    scope = Scope(item.fields, outer)
    where = node.args.get("where")
    body = item.factors
    if where is not None:
        body += bind_conditions(ScalarBinder(context, scope, "in WHERE"), where.this)
    graph = JoinGraph(source, item.fields)
    graph.add_product(body)
    graph.join()
    binder = _Factorised if factorised else _Cofactor
    columns, ring = binder(node, item, scope, graph, context).bind(order)
    relation = Relation((), columns).named(names)
    if len(names) > len(columns):
        raise source.error(f"{len(names)} column names for {len(columns)} columns", node)
    check_names(relation, node, context)
    return BoundRing(_shape(relation, body), ring, frozenset(context.tables_read))


def _check_clauses(select: exp.Select, factorised: bool, source: Source) -> None:
    what = "FACTORIZED" if factorised else "COFACTOR"
    for clause, node in select.args.items():
        if node and clause not in _CLAUSES:
            first = node[0] if isinstance(node, list) else node
            title = clause.strip("_").upper().replace("ORDER", "ORDER BY")
            hint = "sort, limit and filter when you read the view" if clause in ("order", "limit", "having") else ""
            raise source.unsupported(f"{title} with {what}", first if isinstance(first, exp.Expr) else None, hint)
    if factorised and select.args.get("group") is not None:
        raise source.unsupported("GROUP BY with FACTORIZED", select.args["group"], "list the columns to keep")


def _shape(relation: Relation, body: Sequence[Expr]) -> Query:
    """The rows of the view, as `explain` and the catalogue see them: the join, and a variable per column."""
    columns = tuple(OutputColumn(column.name, Var(column.name, column.scalar.type)) for column in relation.columns)
    return Query(sum_over((), mul(*body)), columns)


@dataclass(slots=True)
class _Binder:
    select: exp.Select
    item: Item
    scope: Scope
    graph: JoinGraph
    context: Context

    def scalar(self, node: exp.Expr, where: str) -> Scalar:
        """An expression over the columns of one table."""
        binder = ScalarBinder(self.context, self.scope, where)
        scalar = binder.bind(node)
        source = self.context.source
        if binder.take_prelude():
            raise source.unsupported(f"a subquery {where}", node)
        owners = self.graph.owners(scalar)
        if not owners:
            raise source.error(f"'{sql_of(node)}' is a constant: a column is needed {where}", node)
        if len(owners) > 1:
            hint = "COFACTOR has the sums of products of its variables already: list them one by one"
            raise source.unsupported(f"'{sql_of(node)}', of columns of several tables, {where}", node, hint)
        return scalar

    def key(self, scalar: Scalar) -> int:
        """The variable of a kept column: its join variable, or a new one."""
        known = self.graph.shared(scalar)
        if known is None:
            known = self.graph.new(scalar, "", required=False)
        self.graph.ask(known, scalar)
        return known


class _Cofactor(_Binder):
    def bind(self, order: str | None) -> tuple[tuple[OutputField, ...], RingQuery]:
        source, written = self.context.source, expand_stars(self.select, self.item, self.context)
        calls = [node for node in written if is_cofactor(unaliased(node))]
        self._check_calls(written, calls)
        keys = self._keys(written)
        payload = self._payload(unaliased(calls[0]), set(keys.values()))
        shown: list[int | None] = []
        columns: list[OutputField] = []
        for node in written:
            if node is calls[0]:
                shown.append(None)
                name = output_name(node) if isinstance(node, exp.Alias) else COFACTOR_NAME
                columns.append(OutputField(name, Var(name, COFACTOR)))
                continue
            scalar = self.scalar(unaliased(node), "in the select list")
            if scalar not in keys:
                raise source.error(f"'{sql_of(node)}' must appear in GROUP BY", node)
            shown.append(list(keys).index(scalar))
            columns.append(OutputField(output_name(node), Var(output_name(node), scalar.type)))
        names = self.graph.names()
        ring = RingQuery(
            self.graph.relations(),
            tuple(names[variable] for variable in keys.values()),
            tuple(scalar.type for scalar in keys),
            payload(names),
            tuple(shown),
            order,
        )
        return tuple(columns), ring

    def _check_calls(self, written: list[exp.Expr], calls: list[exp.Expr]) -> None:
        source = self.context.source
        nested = next((node for node in written if asks_for_cofactor(node) and node not in calls), None)
        if nested is not None:
            raise source.unsupported("COFACTOR inside an expression", nested, "select it as a column of its own")
        if not calls:
            raise source.unsupported(
                "COFACTOR outside the select list", self.select, "select it as a column of its own"
            )
        others = [node for node in written if node is not calls[0] and (node in calls or has_aggregate(node))]
        if others:
            raise source.unsupported(
                f"'{sql_of(others[0])}' beside COFACTOR", others[0], "declare a second view for it"
            )

    def _keys(self, written: list[exp.Expr]) -> dict[Scalar, int]:
        keys: dict[Scalar, int] = {}
        group = self.select.args.get("group")
        if group is not None and group.args.get("all"):
            nodes = [unaliased(node) for node in written if not asks_for_cofactor(node)]
        else:
            nodes = key_expressions(self.select, written, self.scope, self.context)
        for node in nodes:
            if has_aggregate(node) or asks_for_cofactor(node):
                raise self.context.source.error("an aggregate is not allowed in GROUP BY", node)
            scalar = self.scalar(node, "in GROUP BY")
            if scalar not in keys:
                variable = self.key(scalar)
                if variable not in keys.values():
                    keys[scalar] = variable
        return keys

    def _payload(self, call: exp.Expr, keys: set[int]) -> _Lifted:
        arguments, options = list[exp.Expr](), dict[str, exp.Expr]()
        for argument in call.expressions:
            if isinstance(argument, exp.Kwarg | exp.PropertyEQ):
                if argument.this.name.lower() in options:
                    raise self.context.source.error(f"option '{argument.this.name}' is given twice", argument)
                options[argument.this.name.lower()] = argument
            else:
                arguments.append(argument)
        if not arguments:
            raise self.context.source.error("COFACTOR() needs at least one variable", call)
        lifted = _Lifted(self._degree(options.pop("degree", None)), self._flag(options.pop("exact", None)))
        for name, option in options.items():
            raise self.context.source.error(f"COFACTOR has no option '{name}': it has degree and exact", option)
        for argument in arguments:
            self._lift(argument, keys, lifted)
        return lifted

    def _lift(self, argument: exp.Expr, keys: set[int], lifted: _Lifted) -> None:
        source, alias = self.context.source, ""
        if isinstance(argument, exp.Alias):
            alias = name_of(argument.args["alias"])
            if alias in lifted.aliases:
                raise source.error(f"two variables of COFACTOR are called '{alias}'", argument)
            lifted.aliases.add(alias)
            argument = argument.this
        node = argument
        categorical = isinstance(argument, exp.Anonymous) and str(argument.this).lower() == CATEGORICAL_NAME
        if categorical:
            if len(argument.expressions) != 1:
                raise source.error("CATEGORICAL() takes 1 argument", argument)
            node = argument.expressions[0]
        scalar = self.scalar(node, "in COFACTOR")
        _check_type(scalar.type, categorical, node, source)
        known = self.graph.shared(scalar)
        meaning: object = scalar if known is None else known
        if meaning in lifted.meanings:
            raise source.error(f"'{sql_of(node)}' is a variable of COFACTOR twice", node)
        scaled = not categorical and scalar.type.kind is Kind.DECIMAL
        if known is None or known in keys or scaled or alias:
            own_column = known is None and not scaled and not alias and isinstance(node, exp.Column)
            value = cast_to(scalar, DOUBLE) if scaled else scalar
            known = self.graph.new(value, "" if own_column else alias or output_name(node), required=True)
        self.graph.show(known)
        self.graph.ask(known, scalar)
        lifted.meanings |= {meaning, known}
        (lifted.categorical if categorical else lifted.continuous).append((known, scalar.type))

    def _degree(self, option: exp.Expr | None) -> int:
        if option is None:
            return 2
        text = sql_of(option.expression)
        degree = whole_number(text)
        if degree is None or not LOWEST_DEGREE <= degree <= HIGHEST_DEGREE:
            raise self.context.source.error(f"degree is a number from 2 to {HIGHEST_DEGREE}, not {text}", option)
        return degree

    def _flag(self, option: exp.Expr | None) -> bool:
        if option is None:
            return False
        if not isinstance(option.expression, exp.Boolean):
            raise self.context.source.error("exact is true or false", option)
        return bool(option.expression.this)


@dataclass(slots=True)
class _Lifted:
    """The variables of a COFACTOR call while it is bound; their names are known once all are."""

    degree: int
    exact: bool
    continuous: list[tuple[int, SqlType]]
    categorical: list[tuple[int, SqlType]]
    meanings: set[object]
    aliases: set[str]

    def __init__(self, degree: int, exact: bool) -> None:
        self.degree, self.exact = degree, exact
        self.continuous, self.categorical, self.meanings, self.aliases = [], [], set(), set()

    def __call__(self, names: list[str]) -> CofactorPayload:
        return CofactorPayload(
            tuple(names[i] for i, _ in self.continuous),
            tuple(Category(names[i], type) for i, type in self.categorical),
            self.degree,
            self.exact,
        )


def _check_type(type: SqlType, categorical: bool, node: exp.Expr, source: Source) -> None:
    text = sql_of(node)
    if categorical and type.is_float:
        raise source.error(f"CATEGORICAL({text}): a {type} is no category; round or cast it to an integer first", node)
    if not categorical and not type.is_numeric:
        raise source.error(f"'{text}' is a {type}, not a number: write CATEGORICAL({text})", node)


class _Factorised(_Binder):
    def bind(self, order: str | None) -> tuple[tuple[OutputField, ...], RingQuery]:
        columns: list[OutputField] = []
        variables: list[int] = []
        for node in expand_stars(self.select, self.item, self.context):
            if has_aggregate(node) or asks_for_cofactor(node):
                hint = "the handle of the view has aggregate(), and sums of its rows need no view of their own"
                raise self.context.source.unsupported("an aggregate with FACTORIZED", node, hint)
            scalar = self.scalar(unaliased(node), "with FACTORIZED")
            variables.append(self.key(scalar))
            columns.append(OutputField(output_name(node), Var(output_name(node), scalar.type)))
        names = self.graph.names()
        listed = list(dict.fromkeys(variables))
        ring = RingQuery(
            self.graph.relations(),
            (),
            (),
            FactorisedPayload(tuple(names[i] for i in listed)),
            tuple(listed.index(variable) for variable in variables),
            order,
        )
        return tuple(columns), ring
