"""One SELECT block: FROM and WHERE make the body; grouping, aggregates and HAVING wrap it; the select list reads it.

SELECT g, SUM(v) FROM R GROUP BY g HAVING COUNT(*) > 1
=  Exists(Sum[g](R(g, v))) * (s := Sum[](R(g, v) * v)) * (n := Sum[](R(g, v))) * {n > 1}      columns g, s
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from viewlet.algebra.nodes import Exists, Expr, Extremum, Lift, Rel, Scalar, Var, mul, sum_over
from viewlet.algebra.scope import outputs
from viewlet.sql.aggregates import Aggregates, UserCall
from viewlet.sql.coerce import cast_to
from viewlet.sql.conditions import bind_conditions
from viewlet.sql.context import Context
from viewlet.sql.from_clause import translate_from
from viewlet.sql.scalars import ScalarBinder
from viewlet.sql.scope import GroupScope, Item, OutputField, Relation, Scope, unknown
from viewlet.sql.source import name_of, sql_of, whole_number
from viewlet.sql.subqueries import Want
from viewlet.types import VARCHAR, Kind

_UNSUPPORTED_CLAUSES = {
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "cluster": "CLUSTER BY",
    "sort": "SORT BY",
    "distribute": "DISTRIBUTE BY",
    "connect": "CONNECT BY",
    "match": "MATCH_RECOGNIZE",
    "sample": "USING SAMPLE",
    "into": "SELECT INTO",
    "locks": "FOR UPDATE",
    "kind": "SELECT AS STRUCT",
    "prewhere": "PREWHERE",
    "pivots": "PIVOT",
}


GROUPS = "groups"
"""What the rows of all groups are called, unless there is such a table."""


@dataclass(frozen=True, slots=True)
class SortKey:
    scalar: Scalar
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Grouping:
    """The groups of a block with user-defined aggregates: the block reads them as the rows of `table`."""

    table: Rel
    body: tuple[Expr, ...]
    keys: tuple[Var, ...]
    grouped: bool
    lifts: tuple[Lift | Extremum, ...]
    calls: tuple[UserCall, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A translated SELECT, with what its ORDER BY sorts by."""

    relation: Relation
    order: tuple[SortKey, ...] = field(default=())
    grouping: Grouping | None = None


class GroupedBinder(ScalarBinder):
    """Binds what stands after grouping: keys, aggregates, and expressions over them."""

    def __init__(
        self,
        context: Context,
        scope: GroupScope,
        aggregates: Aggregates,
        key_nodes: list[tuple[exp.Expr, Var]],
        aliases: dict[str, exp.Expr],
    ) -> None:
        super().__init__(context, scope, aliases=aliases)
        self.keys = scope.keys
        self.aggregates = aggregates
        self.key_nodes = key_nodes

    def bind(self, node: exp.Expr, want: Want = Want.EXACT) -> Scalar:
        for key_node, var in self.key_nodes:
            if node == key_node and not isinstance(node, exp.Null):
                return var
        if self._is_composite(node):
            plain = ScalarBinder(self.context, self.aggregates.scope).bind(node)
            if plain in self.keys:
                return self.keys[plain]
        return super().bind(node, want)

    def _is_composite(self, node: exp.Expr) -> bool:
        """It may be a key written differently: an expression over columns of the body."""
        if not self.key_nodes or isinstance(node, exp.Column | exp.Literal | exp.Paren | exp.Interval | exp.Query):
            return False
        inside = list(node.walk())
        if any(isinstance(part, exp.AggFunc | exp.Query | exp.Filter | exp.Window | exp.Interval) for part in inside):
            return False
        columns = [part for part in inside if isinstance(part, exp.Column)]
        own = Scope(self.scope.fields)
        return bool(columns) and all(own.own(column, self.context.source) is not None for column in columns)

    def aggregate(self, node: exp.Expr) -> Scalar:
        return self.aggregates.translate(node)


def translate_select(select: exp.Select, scope: Scope, context: Context, order: exp.Expr | None = None) -> Block:
    """Translates a block in the scope around it."""
    _check_clauses(select, context)
    item = translate_from(select, scope, context)
    inner = Scope(item.fields, scope)
    body = item.factors
    outputs_written = expand_stars(select, item, context)
    aliases = {name_of(n.args["alias"]): n.this for n in outputs_written if isinstance(n, exp.Alias)}
    where = select.args.get("where")
    if where is not None:
        body += bind_conditions(ScalarBinder(context, inner, "in WHERE", unseen=aliases), where.this)
    if _is_grouped(select, outputs_written, order):
        return _grouped_block(select, inner, body, outputs_written, aliases, order, context)
    binder = ScalarBinder(context, inner, aliases=aliases)
    columns = _bind_columns(binder, outputs_written)
    single = not body and select.args.get("from_") is None
    return _finish(select, binder, body, columns, order, context, single)


def _check_clauses(select: exp.Select, context: Context) -> None:
    for clause, name in _UNSUPPORTED_CLAUSES.items():
        node = select.args.get(clause)
        if node:
            first = node[0] if isinstance(node, list) else node
            raise context.source.unsupported(name, first if isinstance(first, exp.Expr) else None)
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise context.source.unsupported("DISTINCT ON", distinct)
    if not select.expressions:
        raise context.source.error("SELECT has no columns", select)


# The select list


def expand_stars(select: exp.Select, item: Item, context: Context) -> list[exp.Expr]:
    """The select list with `*` and `t.*` written out."""
    written: list[exp.Expr] = []
    for node in select.expressions:
        star = node.this if isinstance(node, exp.Column) and isinstance(node.this, exp.Star) else node
        if not isinstance(star, exp.Star):
            written.append(node)
            continue
        for option in ("except_", "except", "replace", "rename"):
            if star.args.get(option):
                raise context.source.unsupported(f"* {option.strip('_').upper()}", star)
        written += _star_columns(node, item, context)
    return written


def _star_columns(node: exp.Expr, item: Item, context: Context) -> Iterator[exp.Expr]:
    table = name_of(node.args["table"]) if isinstance(node, exp.Column) else None
    if table is not None and table not in item.tables:
        raise context.source.error(unknown("table", table, item.tables), node)
    if not item.fields:
        raise context.source.error("* needs a FROM clause", node)
    for f in item.fields:
        if (table is None and not f.hidden) or (table is not None and f.table == table):
            column = exp.Column(this=exp.Identifier(this=f.name, quoted=True))
            if f.table is not None:
                column.set("table", exp.Identifier(this=f.table, quoted=True))
            for part in node.walk():
                if "start" in part.meta:
                    column.this.meta.update(part.meta)
            yield column


def output_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Alias):
        return name_of(node.args["alias"])
    if isinstance(node, exp.Column):
        return name_of(node.this)
    if isinstance(node, exp.Paren):
        return output_name(node.this)
    return sql_of(node).lower()


def _bind_columns(binder: ScalarBinder, written: list[exp.Expr]) -> tuple[OutputField, ...]:
    columns = []
    for node in written:
        if isinstance(node, exp.Aliases):
            raise binder.context.source.unsupported("a list of aliases", node)
        name = output_name(node)
        if isinstance(node, exp.Alias):
            meaning = binder.aliases.pop(name, None)  # it is not known inside its own expression
            columns.append(OutputField(name, binder.bind(node.this)))
            if meaning is not None:
                binder.aliases[name] = meaning
            binder.hiding.add(name)
        else:
            columns.append(OutputField(name, binder.bind(node)))
    return tuple(columns)


# Grouping


def _own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an expression outside its subqueries."""
    yield from node.walk(prune=lambda part: isinstance(part, exp.Query) and part is not node)


def has_aggregate(node: exp.Expr) -> bool:
    windowed = {id(part.this) for part in _own_nodes(node) if isinstance(part, exp.Window)}
    return any(isinstance(part, exp.AggFunc) and id(part) not in windowed for part in _own_nodes(node))


def _is_grouped(select: exp.Select, written: list[exp.Expr], order: exp.Expr | None) -> bool:
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    return any(has_aggregate(node) for node in [*written, *(order.expressions if order is not None else [])])


def key_expressions(select: exp.Select, written: list[exp.Expr], scope: Scope, context: Context) -> list[exp.Expr]:
    """The expressions of GROUP BY; ordinals and aliases stand for columns of the select list."""
    group = select.args.get("group")
    if group is None:
        return []
    for kind, name in (
        ("grouping_sets", "GROUPING SETS"),
        ("rollup", "ROLLUP"),
        ("cube", "CUBE"),
        ("totals", "TOTALS"),
    ):
        if group.args.get(kind):
            raise context.source.unsupported(name, group)
    if group.args.get("all"):
        return [unaliased(node) for node in written if not has_aggregate(node)]
    keys = []
    for node in group.expressions:
        if isinstance(node, exp.Tuple) and not node.expressions:
            continue
        if isinstance(node, exp.GroupingSets | exp.Rollup | exp.Cube):
            raise context.source.unsupported(node.key.upper().replace("GROUPINGSETS", "GROUPING SETS"), node)
        keys.append(_meaning(node, written, scope, context, columns_first=True))
    return keys


def unaliased(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Alias) else node


def _meaning(node: exp.Expr, written: list[exp.Expr], scope: Scope, context: Context, columns_first: bool) -> exp.Expr:
    """What a GROUP BY or ORDER BY item refers to: a column of the select list by number or alias, or itself."""
    if isinstance(node, exp.Literal) and not node.is_string:
        position = whole_number(str(node.this)) or 0
        if not 1 <= position <= len(written):
            raise context.source.error(f"position {node.this} is not in the select list", node)
        return unaliased(written[position - 1])
    if isinstance(node, exp.Column) and node.args.get("table") is None:
        name = name_of(node.this)
        named = [n for n in written if isinstance(n, exp.Alias) and name_of(n.args["alias"]) == name]
        if named and not (columns_first and Scope(scope.fields).own(node, context.source) is not None):
            return unaliased(named[0])
    return node


def _grouped_block(
    select: exp.Select,
    scope: Scope,
    body: tuple[Expr, ...],
    written: list[exp.Expr],
    aliases: dict[str, exp.Expr],
    order: exp.Expr | None,
    context: Context,
) -> Block:
    key_nodes: list[tuple[exp.Expr, Var]] = []
    keys: dict[Scalar, Var] = {}
    for node in key_expressions(select, written, scope, context):
        if has_aggregate(node):
            raise context.source.error("an aggregate is not allowed in GROUP BY", node)
        binder = ScalarBinder(context, scope, "in GROUP BY")
        scalar = binder.bind(node)
        body += binder.take_prelude()
        if scalar not in keys:
            keys[scalar], lift = _key(scalar, node, body, set(keys.values()), context)
            body += lift
        key_nodes.append((node, keys[scalar]))
    grouped = bool(key_nodes)
    key_vars = tuple(dict.fromkeys(keys.values()))
    aggregates = Aggregates(context, scope, body, key_vars, grouped)
    after = GroupScope(scope.fields, scope.parent, scope.ctes, keys)
    binder = GroupedBinder(context, after, aggregates, key_nodes, aliases)
    columns = _bind_columns(binder, written)
    lifted = binder.take_prelude()
    having = select.args.get("having")
    conditions = bind_conditions(binder, having.this) if having is not None else ()
    single = not grouped and not conditions
    keys_order = _sort_keys(select, binder, written, columns, order, context)
    grouping = _grouping(aggregates, context)
    groups: tuple[Expr, ...] = group_factors(aggregates) if grouping is None else (grouping.table,)
    factors = (*groups, *conditions, *lifted, *binder.take_prelude())
    return _distinct(select, Block(Relation(factors, columns, single), keys_order, grouping), context)


def group_factors(grouping: Aggregates | Grouping) -> tuple[Expr, ...]:
    """The groups that have rows, and what is lifted for each of them."""
    there = (Exists(sum_over(grouping.keys, mul(*grouping.body))),) if grouping.grouped else ()
    return (*there, *grouping.lifts)


def _grouping(aggregates: Aggregates, context: Context) -> Grouping | None:
    """What takes the place of the groups, if there are user-defined aggregates among the aggregates of a block."""
    if not aggregates.calls:
        return None
    variables = (*aggregates.keys, *(lift.var for lift in aggregates.lifts), *(c.result for c in aggregates.calls))
    return Grouping(
        Rel(context.free_name(GROUPS), variables),
        aggregates.body,
        aggregates.keys,
        aggregates.grouped,
        tuple(aggregates.lifts),
        tuple(aggregates.calls),
    )


def _key(
    scalar: Scalar, node: exp.Expr, body: tuple[Expr, ...], taken: set[Var], context: Context
) -> tuple[Var, tuple[Expr, ...]]:
    """A variable for a grouping key: the column's own, or a fresh one bound inside the body."""
    if isinstance(scalar, Var) and scalar in outputs(mul(*body)) and scalar not in taken:
        return scalar, ()
    if scalar.type.kind is Kind.NULL:
        scalar = cast_to(scalar, VARCHAR)
    name = output_name(node) if isinstance(node, exp.Column) else "key"
    var, lift = context.bind(name, scalar)
    return var, (lift,)


# Order and DISTINCT


def _finish(
    select: exp.Select,
    binder: ScalarBinder,
    body: tuple[Expr, ...],
    columns: tuple[OutputField, ...],
    order: exp.Expr | None,
    context: Context,
    single: bool,
) -> Block:
    keys = _sort_keys(select, binder, select.expressions, columns, order, context)
    factors = body + binder.take_prelude()
    return _distinct(select, Block(Relation(factors, columns, single), keys), context)


def _sort_keys(
    select: exp.Select,
    binder: ScalarBinder,
    written: list[exp.Expr],
    columns: tuple[OutputField, ...],
    order: exp.Expr | None,
    context: Context,
) -> tuple[SortKey, ...]:
    keys = []
    for ordered in order.expressions if order is not None else []:
        scalar = _output_reference(ordered.this, columns, context)
        if scalar is None:
            scalar = binder.bind(ordered.this)
        if select.args.get("distinct") is not None and scalar not in [column.scalar for column in columns]:
            raise context.source.error("ORDER BY of SELECT DISTINCT must name a selected column", ordered)
        keys.append(sort_key(ordered, scalar))
    return tuple(keys)


def _output_reference(node: exp.Expr, columns: tuple[OutputField, ...], context: Context) -> Scalar | None:
    """The column of the result an ORDER BY item names by position or name."""
    if isinstance(node, exp.Literal) and not node.is_string:
        position = whole_number(str(node.this)) or 0
        if not 1 <= position <= len(columns):
            raise context.source.error(f"position {node.this} is not in the select list", node)
        return columns[position - 1].scalar
    if isinstance(node, exp.Column) and node.args.get("table") is None:
        found = [column.scalar for column in columns if column.name == name_of(node.this)]
        if len(set(found)) == 1:
            return found[0]
        if found:
            raise context.source.error(f"column '{node.name}' is ambiguous", node)
    return None


def sort_key(ordered: exp.Expr, scalar: Scalar) -> SortKey:
    """NULLs come last unless asked otherwise, as in DuckDB."""
    return SortKey(scalar, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")))


def _distinct(select: exp.Select, block: Block, context: Context) -> Block:
    if select.args.get("distinct") is None:
        return block
    relation, mapping = deduplicate(block.relation, context)
    order = tuple(SortKey(mapping[key.scalar], key.descending, key.nulls_first) for key in block.order)
    return replace(block, relation=relation, order=order)


def deduplicate(relation: Relation, context: Context) -> tuple[Relation, dict[Scalar, Var]]:
    """DISTINCT Q = Exists(Sum[columns](Q)); also says which variable each column became."""
    variables, lifts = output_variables(relation, context)
    body = mul(*relation.factors, *lifts)
    keys = tuple(dict.fromkeys(variables))
    mapping = {column.scalar: var for column, var in zip(relation.columns, variables, strict=True)}
    columns = tuple(OutputField(c.name, var) for c, var in zip(relation.columns, variables, strict=True))
    return Relation((Exists(sum_over(keys, body)),), columns), mapping


def output_variables(relation: Relation, context: Context) -> tuple[list[Var], list[Expr]]:
    """A variable per column: its own where it is one bound by the factors, else a fresh one and its lift."""
    bound = outputs(mul(*relation.factors))
    variables: list[Var] = []
    lifts: list[Expr] = []
    for column in relation.columns:
        scalar = column.scalar
        if isinstance(scalar, Var) and scalar in bound and scalar not in variables:
            variables.append(scalar)
            continue
        if scalar.type.kind is Kind.NULL:
            scalar = cast_to(scalar, VARCHAR)
        var, lift = context.bind(column.name, scalar)
        variables.append(var)
        lifts.append(lift)
    return variables, lifts
