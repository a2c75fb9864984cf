"""A whole query: WITH, set operations, ORDER BY and LIMIT around blocks, and the final `Query`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from viewlet.algebra.aggregate_query import AggregateCall, AggregateQuery, CollectedQuery
from viewlet.algebra.layered_query import LayeredQuery
from viewlet.algebra.nodes import ONE, Const, Exists, Expr, Rel, Scalar, Var, factors_of, mul, sum_over
from viewlet.algebra.query import OrderKey, OutputColumn, Query
from viewlet.algebra.scope import outputs
from viewlet.algebra.traverse import all_variables, rebuild, relations, size
from viewlet.sql.context import Context
from viewlet.sql.layers import (
    LARGE_OPERAND,
    MANY_NODES,
    SIMPLE_OPERAND,
    SMALL_OPERAND,
    Extent,
    LargeAggregateError,
    LargeOperandError,
    Operands,
    has_large_changes,
    in_layers,
    multiplies_out,
)
from viewlet.sql.prune import prune
from viewlet.sql.scalars import ScalarBinder
from viewlet.sql.scope import Cte, OutputField, Relation, Scope
from viewlet.sql.select import Block, Grouping, group_factors, output_variables, sort_key, translate_select
from viewlet.sql.set_operations import translate_set_operation
from viewlet.sql.source import Source, name_of, whole_number
from viewlet.types import Column, Table, TableKind

if TYPE_CHECKING:
    from viewlet.aggregates import Aggregate


@dataclass(frozen=True, slots=True)
class Translation:
    """The query of a view, what defines it, and the names of the tables it reads."""

    query: Query
    definition: Query | AggregateQuery | LayeredQuery
    sources: frozenset[str]


def translate_to_query(
    node: exp.Expr,
    source: Source,
    catalog: Mapping[str, Table],
    names: Sequence[str] = (),
    aggregates: Mapping[str, Aggregate] | None = None,
    layered: bool = False,
) -> Translation:
    """The query of a view; `names` rename its first columns, `aggregates` are those that users defined.

    If it may be `layered`, it is where it would be too large in one piece.
    """

    def translated(operands: Operands) -> Translation:
        return _translated(node, names, Context(source, catalog, translate_nested, aggregates or {}, operands=operands))

    if not layered or node.find(exp.AnonymousAggFunc) is not None:
        return translated(Operands())

    def cut(operand: Extent) -> Translation:
        try:
            return translated(Operands(operand, layered=True))
        except LargeAggregateError:
            return translated(Operands(operand, layered=True, aggregates=True))

    operands = Operands(LARGE_OPERAND)
    try:
        found = translated(operands)
    except LargeOperandError:
        return cut(SMALL_OPERAND)
    if multiplies_out(found.query):
        return cut(SIMPLE_OPERAND)
    if operands.repeats and size(found.query.expr) > MANY_NODES:
        return cut(SMALL_OPERAND)
    if has_large_changes(found.query):
        return translated(Operands(SMALL_OPERAND, layered=True, aggregates=True))
    return found


def _translated(node: exp.Expr, names: Sequence[str], context: Context) -> Translation:
    node = _unwrap(node)
    scope = with_ctes(node, Scope(), context)
    block = _translate(node, scope, context, node.args.get("order"))
    if len(names) > len(block.relation.columns):
        raise context.source.error(f"{len(names)} column names for {len(block.relation.columns)} columns", node)
    block = replace(block, relation=block.relation.named(names))
    check_names(block.relation, node, context)
    limit, offset = _limits(node, context)
    query = _assemble(block, limit, offset, context)
    sources = frozenset(context.tables_read)
    if block.grouping is not None:
        return Translation(query, _aggregate_query(query, block.grouping, context), sources)
    if not context.operands.found:
        return Translation(query, query, sources)
    definition = in_layers(query, context.operands.found)
    return Translation(definition.result, definition, sources)


def translate_nested(node: exp.Expr, scope: Scope, context: Context) -> Relation:
    """A query inside another one: its order means nothing, and a limit has no place."""
    node = _unwrap(node)
    for clause in ("limit", "offset"):
        if node.args.get(clause) is not None:
            raise context.source.unsupported(
                "LIMIT in a subquery", node.args[clause], "LIMIT works on the outermost SELECT of a view"
            )
    block = _translate(node, with_ctes(node, scope, context), context, None)
    if block.grouping is not None:
        name = block.grouping.calls[0].aggregate.name
        call = next((each for each in node.find_all(exp.AnonymousAggFunc) if each.this == name), None)
        hint = "declare that SELECT as a view of its own, and read the view here"
        raise context.source.unsupported(f"{name}() inside a subquery, a CTE or a set operation", call, hint)
    return block.relation


def _unwrap(node: exp.Expr) -> exp.Expr:
    """The query inside parentheses that carry nothing of their own."""
    while isinstance(node, exp.Subquery | exp.Paren) and not any(
        node.args.get(key) for key in ("order", "limit", "offset", "with_")
    ):
        node = node.this
    return node


def with_ctes(node: exp.Expr, scope: Scope, context: Context) -> Scope:
    clause = node.args.get("with_")
    if clause is None:
        return scope
    if clause.args.get("recursive"):
        raise context.source.unsupported("WITH RECURSIVE", clause)
    defined: set[str] = set()
    for cte in clause.expressions:
        name = name_of(cte.args["alias"].this)
        columns = tuple(name_of(column) for column in cte.args["alias"].args.get("columns") or [])
        if not isinstance(cte.this, exp.Query):
            raise context.source.unsupported("a CTE that is not a query", cte)
        if name in defined:
            raise context.source.error(f"WITH defines '{name}' twice", cte.args["alias"])
        defined.add(name)
        scope = Scope((), scope, {name: Cte(cte.this, columns, scope, _uses(name, node))})
    return scope


def _uses(name: str, node: exp.Expr) -> int:
    """How often a query reads tables of a name."""
    read = (table.this for table in node.find_all(exp.Table))
    return sum(isinstance(each, exp.Identifier) and name_of(each) == name for each in read)


def _translate(node: exp.Expr, scope: Scope, context: Context, order: exp.Expr | None) -> Block:
    if isinstance(node, exp.Select):
        return translate_select(node, scope, context, order)
    if isinstance(node, exp.SetOperation):
        relation = translate_set_operation(node, scope, context)
    elif isinstance(node, exp.Values):
        relation = _values(node, scope, context)
    elif isinstance(node, exp.Subquery):
        relation = translate_nested(node.this, scope, context)
    else:
        raise context.source.error("a SELECT is expected", node)
    items = order.expressions if order is not None else []
    return Block(relation, tuple(sort_key(item, _column_of(item.this, relation, context)) for item in items))


def _column_of(node: exp.Expr, relation: Relation, context: Context) -> Scalar:
    """What ORDER BY names after a set operation: a column of the result."""
    fields = tuple(column.name for column in relation.columns)
    position = whole_number(str(node.this)) if isinstance(node, exp.Literal) and not node.is_string else None
    if position is not None and 1 <= position <= len(fields):
        return relation.columns[position - 1].scalar
    if isinstance(node, exp.Column) and name_of(node.this) in fields:
        return relation.columns[fields.index(name_of(node.this))].scalar
    raise context.source.error("ORDER BY after a set operation must name a column of the result", node)


def _values(node: exp.Values, scope: Scope, context: Context) -> Relation:
    """VALUES (...), (...) as a union of rows."""
    from sqlglot.expressions import union

    rows = []
    for row in node.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        rows.append(exp.Select(expressions=[_alias(cell, i) for i, cell in enumerate(cells)]))
    query = rows[0] if len(rows) == 1 else union(*rows, distinct=False, copy=False)
    return _translate(query, scope, context, None).relation


def _alias(cell: exp.Expr, position: int) -> exp.Expr:
    return exp.Alias(this=cell, alias=exp.Identifier(this=f"col{position}"))


def _limits(node: exp.Expr, context: Context) -> tuple[int | None, int]:
    limit, offset = node.args.get("limit"), node.args.get("offset")
    if limit is not None and limit.args.get("limit_options") is not None:
        options = limit.args["limit_options"]
        if options.args.get("percent") or options.args.get("with_ties"):
            raise context.source.unsupported("LIMIT with PERCENT or TIES", limit)
    amount = None if limit is None else limit.args.get("expression") or limit.args.get("count")
    return (
        None if amount is None else _row_count(amount, context),
        0 if offset is None else _row_count(offset.expression, context),
    )


def _row_count(node: exp.Expr, context: Context) -> int:
    scalar = ScalarBinder(context, Scope(), "in LIMIT").bind(node)
    if isinstance(scalar, Const) and scalar.type.is_integer and isinstance(scalar.value, int) and scalar.value >= 0:
        return scalar.value
    raise context.source.error("LIMIT and OFFSET take a whole number", node)


def check_names(relation: Relation, node: exp.Expr, context: Context) -> None:
    names = [column.name for column in relation.columns]
    for name in names:
        if names.count(name) > 1:
            where = [n for n in getattr(node, "selects", []) if n.output_name.lower() == name or n.is_star]
            raise context.source.error(
                f"two columns are called '{name}': give one an alias", where[-1] if where else node
            )


def _assemble(block: Block, limit: int | None, offset: int, context: Context) -> Query:
    """The product with a variable per column and sort key; unused variables are summed away."""
    relation = block.relation
    variables, lifts = output_variables(relation, context)
    by_scalar: dict[Scalar, Var] = {
        c.scalar: v for c, v in reversed(list(zip(relation.columns, variables, strict=True)))
    }
    bound = outputs(mul(*relation.factors))
    order: list[OrderKey] = []
    for key in block.order:
        if key.scalar not in by_scalar:
            if isinstance(key.scalar, Var) and key.scalar in bound:
                by_scalar[key.scalar] = key.scalar
            else:
                by_scalar[key.scalar], lift = context.bind("sort", key.scalar)
                lifts.append(lift)
        order.append(OrderKey(by_scalar[key.scalar], key.descending, key.nulls_first))
    columns = tuple(OutputColumn(c.name, v) for c, v in zip(relation.columns, variables, strict=True))
    product = mul(*relation.factors, *lifts)
    shape = Query(product, columns, tuple(order), limit, offset)
    expr = product if outputs(product) == frozenset(shape.output) else sum_over(shape.output, product)
    return Query(prune(expr), columns, tuple(order), limit, offset)


def _aggregate_query(result: Query, grouping: Grouping, context: Context) -> AggregateQuery:
    """The queries around the user-defined aggregates of a block, whose rest is `result`."""
    keys = tuple(OutputField(key.name, key) for key in grouping.keys)
    values = {value: OutputField(f"value_{i}", value) for i, value in enumerate(_values_read(grouping))}
    preludes = dict.fromkeys(factor for call in grouping.calls for factor in call.factors)
    rows = Relation((*grouping.body, *preludes), (*keys, *values.values()))
    places = {value: len(keys) + i for i, value in enumerate(values)}
    calls = tuple(
        AggregateCall(
            call.aggregate, tuple(places[value] for value in call.values), tuple(value.type for value in call.values)
        )
        for call in grouping.calls
    )
    built_in = tuple(OutputField(lift.var.name, lift.var) for lift in grouping.lifts)
    groups = Relation(group_factors(grouping), (*keys, *built_in))
    columns = tuple(Column(var.name, var.type) for var in grouping.table.args)
    return AggregateQuery(
        _assemble(Block(rows), None, 0, context),
        _assemble(Block(groups), None, 0, context) if grouping.lifts else None,
        result,
        Table(grouping.table.name, columns, TableKind.STREAM),
        calls,
        len(keys),
        grouping.grouped,
        _collected(grouping, (*keys, *values.values()), rows.factors, context),
    )


def _collected(
    grouping: Grouping, read: tuple[OutputField, ...], factors: tuple[Expr, ...], context: Context
) -> CollectedQuery | None:
    """The rows of the body with what every aggregate reads, and the built-in aggregates over them instead of the body.

    Sum[](body * x)  =  Sum[](values(keys, ..., x) * x)
    """
    body = factors_of(mul(*grouping.body))
    extra = dict.fromkeys(var for lift in grouping.lifts for var in sorted(_beyond(lift, body), key=_name))
    there = tuple(var for var in extra if var in outputs(mul(*body)) and var not in grouping.keys)
    columns = (*read, *(OutputField(var.name, var) for var in there))
    keys = grouping.keys
    arguments = (*keys, *(context.fresh(each.name, each.scalar.type) for each in read[len(keys) :]), *there)
    name = context.free_name("collected")
    rows = Rel(name, arguments)
    lifts = tuple(_over(lift, body, rows) for lift in grouping.lifts)
    if not body or any(relations(lift) != {name} for lift in lifts):
        return None
    exists = (Exists(sum_over(keys, rows)),) if grouping.grouped else ()
    shown = (*keys, *(lift.var for lift in grouping.lifts))
    groups = Relation((*exists, *lifts), tuple(OutputField(var.name, var) for var in shown))
    table = Table(name, tuple(Column(f"column_{i}", var.type) for i, var in enumerate(arguments)), TableKind.STREAM)
    collected = _assemble(Block(Relation(factors, columns)), None, 0, context)
    return CollectedQuery(collected, _assemble(Block(groups), None, 0, context) if lifts else None, table)


def _name(var: Var) -> str:
    return var.name


def _over(expr: Expr, body: tuple[Expr, ...], rows: Expr) -> Expr:
    """The expression with some rows in the place of the body."""
    factors = factors_of(expr)
    if factors[: len(body)] == body:
        return mul(rows, *(_over(factor, body, rows) for factor in factors[len(body) :]))
    return rebuild(expr, lambda child: _over(child, body, rows))


def _beyond(expr: Expr, body: tuple[Expr, ...]) -> frozenset[Var]:
    """The variables that an expression mentions outside the body."""
    return all_variables(_over(expr, body, ONE))


def _values_read(grouping: Grouping) -> tuple[Scalar, ...]:
    """The distinct arguments of all calls."""
    return tuple(dict.fromkeys(value for call in grouping.calls for value in call.values))
