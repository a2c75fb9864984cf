"""Definitions of stored views as SQL: an initial load asks the host for their contents instead of replaying rows.

    revenue[custkey].sum = Sum[custkey](orders(o, custkey) * lineitem(o, price) * price)

    WITH c1 AS (
    SELECT t1.custkey AS k0, CAST(COALESCE(SUM(t2.price), 0) AS DECIMAL(38,0)) AS a0
    FROM orders AS t1 JOIN lineitem AS t2 ON t1.o = t2.o
    GROUP BY t1.custkey
    )
    SELECT k0, a0 AS f0 FROM c1 WHERE a0 <> 0

A product is a join, read from left to right; a nested sum is a separate table, grouped by the variables it shares
with the product and joined to it. Where it reads a variable that none of its own rows bind (`price2 > price`), it
ranges over the distinct bindings around it first. Shared variables join NULL with NULL, as values of the calculus do; a
sum over no rows is 0, an extremum NULL.

What comes back is what a store holds. Keys k0, k1, ... are integers, units of decimals (1.25 of DECIMAL(6,2) is 125),
days, microseconds, doubles, booleans and strings. Fields f0, f1, ... are 64-bit counts of rows, exact sums of values
(38 digits; units of decimals and of their products) or doubles, as the host rounds their sums.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from viewlet.algebra.nodes import (
    ONE,
    Add,
    Cond,
    Const,
    Delta,
    Exists,
    Expr,
    Extreme,
    Extremum,
    Lift,
    Mul,
    Neg,
    Rel,
    Sum,
    Value,
    Var,
    View,
    factors_of,
    is_constant,
    neg,
)
from viewlet.algebra.scope import NONE, Vars, outputs
from viewlet.algebra.traverse import all_variables, walk
from viewlet.errors import InternalError
from viewlet.sqlgen.dialects import DIALECTS, Dialect, unsupported
from viewlet.sqlgen.numbers import Measure, Number, computed, is_computed, value_number
from viewlet.sqlgen.order import arranged
from viewlet.sqlgen.relations import Block, CommonTable, CommonTables, OuterBindings, Total
from viewlet.sqlgen.scalars import term_of
from viewlet.sqlgen.terms import Term, constant_term, equality, word
from viewlet.triggers.program import ProgramLayer, ViewDefinition
from viewlet.types import Column, Kind, Table, TableKind

Factors = tuple[Expr, ...]
MINUS = neg(ONE)
ONE_OF_ROW = "CAST(1 AS BIGINT)"
"""What a row adds to the number of rows."""


def definition_sql(
    view: ViewDefinition,
    tables: Mapping[str, Table],
    dialect: str = "spark",
    source: Callable[[str], str] | None = None,
    multiplicity: str | None = None,
    weighted: Collection[str] | None = None,
    layers: Iterable[ProgramLayer] = (),
) -> str:
    """A SELECT of the contents of a view: a row per key with a field that is not zero.

    `source` says how a base table is named in a FROM clause; its rows are a bag, or each has its number in the column
    `multiplicity`, in all tables or those that are `weighted`. What the view reads of `layers` is made of their views.
    A construct the dialect cannot express raises `UnsupportedError`.
    """
    written = DIALECTS[dialect]
    having = tables.keys() if weighted is None else weighted
    numbers = dict.fromkeys(having, written.quoted(multiplicity)) if multiplicity is not None else {}
    translation = _Translation(tables, written, source or written.quoted, numbers, layers)
    totals, measures = _totals(view, translation)
    return _select(totals, measures, translation.common, written)


@dataclass(frozen=True, slots=True)
class RowsQuery:
    """The rows that the groups of a view are made of: their keys, and what each row adds to the fields."""

    keys: tuple[str, ...]
    fields: tuple[str, ...]
    source: str
    """FROM ..."""
    where: tuple[str, ...]
    is_unique: bool
    """No two rows have the same keys."""

    @property
    def sql(self) -> str:
        return self._select(self.columns, self.where)

    @property
    def sql_of_keys(self) -> str:
        """Their keys alone, as a SELECT of columns k0, k1, ..."""
        return self._select(self.columns[: len(self.keys)], self.where)

    @property
    def sql_of_contents(self) -> str:
        """Those that a view has, if they are unique."""
        return self._select(self.columns, self.conditions)

    @property
    def columns(self) -> tuple[str, ...]:
        keys = (f"{text} AS k{i}" for i, text in enumerate(self.keys))
        return (*keys, *(f"{text} AS f{i}" for i, text in enumerate(self.fields)))

    @property
    def conditions(self) -> tuple[str, ...]:
        """Those of rows with a field that is not zero."""
        if ONE_OF_ROW in self.fields:
            return self.where
        return (*self.where, f"({' OR '.join(f'{text} <> 0' for text in self.fields)})")

    def _select(self, columns: Sequence[str], conditions: Sequence[str]) -> str:
        where = f"\nWHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {', '.join(columns)}\n{self.source}{where}"


def rows_sql(
    view: ViewDefinition, tables: Mapping[str, Table], dialect: str, source: Callable[[str], str]
) -> RowsQuery | None:
    """The contents of a view before equal keys are added up.

    None unless it adds up rows of one table, or of a join of tables with a row per key of the view. No sum of them
    overflows. Rows whose fields are all zero may be among them.
    """
    read = [[node for node in walk(field.definition) if isinstance(node, Rel)] for field in view.fields]
    written = DIALECTS[dialect]
    translation = _Translation(tables, written, source, {}, ())
    totals, measures = _totals(view, translation)
    table = totals[0].table
    if not view.keys or not translation.common.is_one or not table.adds_up_rows:
        return None
    is_unique = _has_row_per_key(view.keys, read[0], tables)
    if not is_unique and any(len(atoms) != 1 for atoms in read):
        return None
    return RowsQuery(
        tuple(word(key, written) for key in table.keys),
        tuple(_of_row(table, total, measure, written) for total, measure in zip(totals, measures, strict=True)),
        table.source,
        table.conditions,
        is_unique,
    )


def _of_row(table: CommonTable, total: Total, measure: Measure, dialect: Dialect) -> str:
    """What one row adds to a field."""
    adds = next(table.of_rows[aggregate] for aggregate in table.aggregates if table.column(aggregate) == total.column)
    return f"CAST({adds} AS {measure.type_name(dialect)})"


def _has_row_per_key(keys: Sequence[Var], joined: Sequence[Rel], tables: Mapping[str, Table]) -> bool:
    """Whether primary keys that tables keep determine a row of each of some joined tables, once `keys` are known."""
    known, left = _names(keys), list(joined)
    while left:
        found = next((atom for atom in left if _determines(known, atom, tables[atom.name])), None)
        if found is None:
            return False
        known |= _names(found.args)
        left.remove(found)
    return bool(joined)


def _determines(known: frozenset[str], atom: Rel, table: Table) -> bool:
    key = [arg.name for column, arg in zip(table.columns, atom.args, strict=True) if column.name in table.primary_key]
    return bool(key) and table.kind is not TableKind.STREAM and known.issuperset(key)


def _totals(view: ViewDefinition, translation: _Translation) -> tuple[list[Total], list[Measure]]:
    totals = [translation.summed(field.definition, view.keys, OuterBindings()) for field in view.fields]
    pairs = zip(view.fields, totals, strict=True)
    return totals, [Measure.DOUBLE if field.is_float else total.measure for field, total in pairs]


def _fields(table: CommonTable, totals: Sequence[Total], measures: Sequence[Measure], dialect: Dialect) -> str:
    """The keys and fields that come from a table; those of others are 0."""
    columns = [f"{word(table.key(i, 't1'), dialect)} AS k{i}" for i in range(len(table.keys))]
    for i, (total, measure) in enumerate(zip(totals, measures, strict=True)):
        value = f"t1.{total.column}" if total.table is table else "0"
        columns.append(f"CAST({value} AS {measure.type_name(dialect)}) AS f{i}")
    return ", ".join(columns)


def _select(totals: Sequence[Total], measures: Sequence[Measure], common: CommonTables, dialect: Dialect) -> str:
    """The fields side by side; those that come from different tables are stacked and added up."""
    parts: dict[str, CommonTable] = {total.table.name: total.table for total in totals}
    selects = [
        f"SELECT {_fields(table, totals, measures, dialect)}\nFROM {table.name} AS t1" for table in parts.values()
    ]
    if len(parts) == 1:
        return f"{common.text()}{selects[0]}\nWHERE {' OR '.join(f't1.{total.column} <> 0' for total in totals)}"
    stacked = common.plain("\nUNION ALL\n".join(selects))
    keys = [f"k{i}" for i in range(len(totals[0].table.keys))]
    sums = [f"CAST(SUM(f{i}) AS {measure.type_name(dialect)})" for i, measure in enumerate(measures)]
    columns = [*keys, *(f"{text} AS f{i}" for i, text in enumerate(sums))]
    groups = f"\nGROUP BY {', '.join(keys)}" if keys else ""
    present = " OR ".join(f"SUM(f{i}) <> 0" for i in range(len(sums)))
    return f"{common.text()}SELECT {', '.join(columns)}\nFROM {stacked}{groups}\nHAVING {present}"


class _Translation:
    def __init__(
        self,
        tables: Mapping[str, Table],
        dialect: Dialect,
        source: Callable[[str], str],
        multiplicities: Mapping[str, str],
        layers: Iterable[ProgramLayer],
    ) -> None:
        self._layers = {layer.table.name: layer for layer in layers}
        self._layer_views = {view.name: view for layer in self._layers.values() for view in layer.shown}
        self._made: dict[str, Total] = {}
        self._tables = {**tables, **{name: layer.table for name, layer in self._layers.items()}}
        self._dialect = dialect
        self._source = source
        self._multiplicities = multiplicities
        self.common = CommonTables(dialect)

    def summed(self, expr: Expr, keys: Sequence[Var], given: OuterBindings) -> Total:
        """Sum[keys](expr) as a column of a common table."""
        totals = [self._product(factors, keys, given) for factors in _products(expr)]
        if not totals:
            return self._nothing(keys)
        return totals[0] if len(totals) == 1 else self.common.union(totals)

    def _nothing(self, keys: Sequence[Var]) -> Total:
        """A sum without rows."""
        absent = {key.name: constant_term(Const(None, key.type), self._dialect) for key in keys}
        return self.common.total(Block(where=["1 = 0"], bound=absent), [key.name for key in keys])

    def _product(self, factors: Factors, keys: Sequence[Var], given: OuterBindings) -> Total:
        block = given.block()
        ordered = arranged(factors, block.bound, self._tables)
        if ordered is None:
            raise InternalError(f"no order binds every variable of {factors}")
        for i, factor in enumerate(ordered):
            needed = _names(keys).union(*(_names(all_variables(later)) for later in ordered[i + 1 :]))
            block = self._take(block, factor, needed)
        return self.common.total(block, [key.name for key in keys])

    def _take(self, block: Block, factor: Expr, needed: frozenset[str]) -> Block:
        """The block times one more factor; `needed` are the variables read later on."""
        if isinstance(factor, Add | Sum | Exists) and is_computed(factor):
            block.numbers.append(computed(factor, block.bound, self._dialect))
            return block
        match factor:
            case Value() if factor is MINUS:
                block.numbers.append(Number("(-1)"))
            case Value(scalar):
                block.numbers.append(value_number(scalar, block.bound, self._dialect))
            case Cond(scalar):
                block.where.append(term_of(scalar, block.bound, self._dialect).sql)
            case Rel(name, args) if name in self._layers:
                self._join_made(block, self._layer(name), args)
            case Rel():
                self._join_table(block, factor)
            case View(name, _, args) if name in self._layer_views:
                self._join_made(block, self._layer_view(factor), args)
            case Lift(var, Value(scalar)):
                self._bind(block, var, term_of(scalar, block.bound, self._dialect))
            case Lift(var, body) if is_computed(body):
                number = computed(body, block.bound, self._dialect)
                self._bind(block, var, self._lifted(number.sql, var))
            case Lift(var, body):
                return self._lift(block, var, body, needed)
            case Extremum():
                return self._extremum(block, factor, needed)
            case Exists(body):
                return self._exists(block, body, needed)
            case Sum() | Add():
                return self._nested_sum(block, factor, needed)
            case Neg() | Mul():
                raise InternalError("products are flat")
            case Delta() | View():
                raise unsupported("a definition that reads changes or other views")
            case _:
                assert_never(factor)
        return block

    def _bind(self, block: Block, var: Var, term: Term) -> None:
        if var.name in block.bound:
            block.where.append(equality(block.bound[var.name], term, self._dialect))
        else:
            block.bound[var.name] = term

    def _lifted(self, sql: str, var: Var, nullable: bool = False) -> Term:
        return Term(self._dialect.cast(sql, var.type), var.type, nullable)

    def _join_table(self, block: Block, atom: Rel) -> None:
        alias = block.next_alias()
        columns = [self._column(alias, column) for column in self._tables[atom.name].columns]
        bound = dict(block.bound)
        on = []
        for arg, term in zip(atom.args, columns, strict=True):
            if arg.name in bound:
                on.append(equality(bound[arg.name], term, self._dialect))
            else:
                bound[arg.name] = term
        block.join(self._source(atom.name), lambda _: on)
        block.bound = bound
        if atom.name in self._multiplicities:
            block.numbers.append(Number(f"{alias}.{self._multiplicities[atom.name]}"))

    def _layer(self, name: str) -> Total:
        """The rows of a layer with their numbers, made once."""
        if name not in self._made:
            layer = self._layers[name]
            columns = tuple(column.var for column in layer.query.columns)
            self._made[name] = self.summed(layer.rows, columns, OuterBindings())
        return self._made[name]

    def _layer_view(self, atom: View) -> Total:
        view = self._layer_views[atom.name]
        definition = next(each.definition for each in view.fields if each.name == atom.field)
        return self.summed(definition, view.keys, OuterBindings())

    def _join_made(self, block: Block, total: Total, args: Sequence[Var]) -> None:
        if len(set(args)) < len(args):
            raise unsupported("a layer whose columns are equal")
        alias = self._attach(block, total.table, args, keeps_left=False)
        block.numbers.append(total.number(alias))

    def _column(self, alias: str, column: Column) -> Term:
        text = self._dialect.column(f"{alias}.{self._dialect.quoted(column.name)}", column.type)
        return Term(text, column.type, column.type.nullable, is_native=column.type.kind is Kind.DECIMAL)

    # Nested aggregates

    def _lift(self, block: Block, var: Var, body: Expr, needed: frozenset[str]) -> Block:
        """(x := Sum[shared](body)): 0 where the sum has no rows."""
        block, given, shared = self._given(block, body, needed)
        total = self.summed(body, shared, given)
        alias = self._attach(block, total.table, shared, keeps_left=True)
        number = f"COALESCE({alias}.{total.column}, 0)" if shared else f"{alias}.{total.column}"
        self._bind(block, var, self._lifted(number, var))
        return block

    def _extremum(self, block: Block, factor: Extremum, needed: frozenset[str]) -> Block:
        """The smallest or largest value with a number other than zero, NULL where there is none."""
        block, given, shared = self._given(block, factor.body, needed, frozenset((factor.of,)))
        total = self.summed(factor.body, (*shared, factor.of), given)
        values = Block(where=[f"t1.{total.column} <> 0"])
        values.join(total.table)
        keys = tuple(total.table.key(i, "t1") for i in range(len(shared)))
        of = total.table.key(len(shared), "t1")
        table = self.common.grouped(keys, values)
        column = table.column(f"{'MIN' if factor.which is Extreme.MIN else 'MAX'}({of.sql})")
        alias = self._attach(block, table, shared, keeps_left=True)
        self._bind(block, factor.var, Term(f"{alias}.{column}", of.type, True, of.is_native))
        return block

    def _exists(self, block: Block, body: Expr, needed: frozenset[str]) -> Block:
        block, total, alias = self._joined_sum(block, body, needed)
        block.where.append(f"{alias}.{total.column} <> 0")
        return block

    def _nested_sum(self, block: Block, factor: Expr, needed: frozenset[str]) -> Block:
        block, total, alias = self._joined_sum(block, factor, needed)
        block.numbers.append(total.number(alias))
        return block

    def _joined_sum(self, block: Block, body: Expr, needed: frozenset[str]) -> tuple[Block, Total, str]:
        """Joins the sums of `body` per binding of its outputs."""
        block, given, shared = self._given(block, body, needed)
        own = [var for var in outputs(body) if var.name not in block.bound]
        keys = (*shared, *sorted(own, key=lambda var: var.name))
        total = self.summed(body, keys, given)
        return block, total, self._attach(block, total.table, keys, keeps_left=False)

    def _attach(self, block: Block, table: CommonTable, keys: Sequence[Var], keeps_left: bool) -> str:
        """Joins a table on the keys that are bound; the others are bound by it."""
        known = {i: block.bound[key.name] for i, key in enumerate(keys) if key.name in block.bound}

        def conditions(alias: str) -> list[str]:
            return [equality(term, table.key(i, alias), self._dialect) for i, term in known.items()]

        alias = block.join(table, conditions, keeps_left)
        block.bound.update({key.name: table.key(i, alias) for i, key in enumerate(keys) if i not in known})
        return alias

    def _given(
        self, block: Block, body: Expr, needed: frozenset[str], local: Vars = NONE
    ) -> tuple[Block, OuterBindings, tuple[Var, ...]]:
        """What a nested aggregate is given, and the variables it is grouped by and joined on.

        Constants are passed on. If its own rows bind the other variables it shares with the block, it is computed for
        all of their values. If not, the block becomes a table, and the aggregate starts from the bindings in it.
        """
        mentioned = sorted(all_variables(body) - local, key=lambda var: var.name)
        present = [var for var in mentioned if var.name in block.bound]
        constants = {var.name: term for var in present if (term := block.bound[var.name]).constant is not None}
        shared = tuple(var for var in present if var.name not in constants)
        products = _products(body)
        binds_all = all(_names(shared) <= _names(NONE.union(*map(outputs, factors))) for factors in products)
        if not shared or (binds_all and self._orderable(products, constants)):
            return block, OuterBindings(constants), shared
        if (domain := self._domain(block, shared)) is None:
            block = self._as_table(block, needed | _names(mentioned))
            domain = self._domain(block, shared)
        return block, OuterBindings(constants, domain, shared), shared

    def _orderable(self, products: Iterable[Factors], given: Mapping[str, Term]) -> bool:
        return all(arranged(factors, given, self._tables) is not None for factors in products)

    def _domain(self, block: Block, shared: Sequence[Var]) -> CommonTable | None:
        """The bindings of some variables, and maybe more, if all are columns of one common table in the block."""
        for item in block.items:
            positions = {key.sql: i for i, key in enumerate(item.keys())}
            found = [positions.get(block.bound[var.name].sql) for var in shared]
            if isinstance(item.source, CommonTable) and None not in found:
                alone = Block()
                alias = alone.join(item.source)
                keys = tuple(item.source.key(i, alias) for i in found if i is not None)
                return self.common.grouped(keys, alone)
        return None

    def _as_table(self, block: Block, needed: frozenset[str]) -> Block:
        """The same product, its rows so far added up to one per binding of the variables that are needed."""
        fixed = {name: term for name, term in block.bound.items() if term.constant is not None}
        kept = [name for name in block.bound if name in needed and name not in fixed]
        total = self.common.total(block, kept)
        made = Block(bound=fixed)
        alias = made.join(total.table)
        made.bound.update({name: total.table.key(i, alias) for i, name in enumerate(kept)})
        made.numbers.append(total.number(alias))
        return made


def _names(variables: Iterable[Var]) -> frozenset[str]:
    return frozenset(var.name for var in variables)


def _products(expr: Expr, negative: bool = False) -> list[Factors]:
    """The expression as a sum of flat products, none of them 0; a minus is a factor of its own."""
    match expr:
        case Add(terms):
            return [factors for term in terms for factors in _products(term, negative)]
        case Neg(body):
            return _products(body, not negative)
        case Sum(_, body):
            return _products(body, negative)
        case _:
            factors = _flat(factors_of(expr), negative)
            return [] if any(is_constant(factor, 0) for factor in factors) else [factors]


def _flat(factors: Factors, negative: bool) -> Factors:
    flat: list[Expr] = []
    for factor in factors:
        while isinstance(factor, Neg):
            factor, negative = factor.body, not negative
        flat += _flat(factor.factors, False) if isinstance(factor, Mul) else (factor,)
    return (*flat, MINUS) if negative else tuple(flat)
