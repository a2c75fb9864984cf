"""Changes that are products: every one of some shops gets every one of some items.

    product({"shop": [1, 2, 3]}, {"item": [10, 20], "units": [5, 7]})      3 x 2 rows from 3 + 2 values

Factors have different columns of one table; columns that none has are NULL. A list of products is their union. Views
over rings take a product as it is; engines that keep its rows multiply it out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations
from math import prod
from typing import TYPE_CHECKING, Any

from viewlet.changes import Change, Changes, ColumnChange, RowChange, match_columns, to_changes
from viewlet.changes.sources import open_source
from viewlet.errors import DataError
from viewlet.types import Row, Table
from viewlet.visible import described

if TYPE_CHECKING:
    from viewlet.changes.word_codec import Codes


@dataclass(frozen=True, slots=True, repr=False)
class Product:
    """A change as a user writes it; made by `product`."""

    factors: tuple[object, ...]
    multiplicity: int = 1

    def __repr__(self) -> str:
        return f"<product of {len(self.factors)} factors>"


@dataclass(frozen=True, slots=True, repr=False)
class Decomposed:
    """Rows in which products are to be looked for; made by `as_products`."""

    rows: object


def product(*factors: object, multiplicity: int = 1) -> Product:
    """The rows that combine every row of each factor, for `apply`, `insert` and `delete`.

    A factor is a dictionary of columns, `{"item": [1, 2], "units": [5, 7]}`, a list of dictionaries, or a data frame.
    In `apply`, a `multiplicity` of -1 deletes the rows; so does a factor's column `_multiplicity`, row by row.
    """
    if not factors:
        raise DataError("product() needs at least one factor, for example {'item': [1, 2]}")
    if not isinstance(multiplicity, int) or isinstance(multiplicity, bool):
        raise DataError(f"a multiplicity is an integer, not {described(multiplicity)}")
    return Product(factors, multiplicity)


def as_products(rows: object) -> Decomposed:
    """Rows given one by one, to be applied as the products that are found in them."""
    return Decomposed(rows)


def products_in(data: object) -> tuple[Product, ...] | None:
    """What was handed in, if it is a product or a union of products."""
    if isinstance(data, Product):
        return (data,)
    if isinstance(data, list | tuple) and data and any(isinstance(part, Product) for part in data):
        if wrong := [part for part in data if not isinstance(part, Product)]:
            raise DataError(f"a union of products has only products in it, not {wrong[0]!r:.60}")
        return tuple(data)
    return None


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor: rows over the columns at some positions of the table, with multiplicities."""

    positions: tuple[int, ...]
    rows: Changes


class ProductChange(Change):
    """A change given as a union of products; every product has every column once. Its length counts values."""

    __slots__ = ("_products", "_rows")

    def __init__(self, products: tuple[tuple[Factor, ...], ...]) -> None:
        self._products = products
        self._rows: RowChange | None = None
        """The rows, once they have been multiplied out."""

    @property
    def products(self) -> tuple[tuple[Factor, ...], ...]:
        return self._products

    def rows(self) -> Changes:
        return self._multiplied().rows()

    def columns(self, table: Table, positions: Collection[int], dictionary: Codes) -> ColumnChange:
        return self._multiplied().columns(table, positions, dictionary)

    def _multiplied(self) -> RowChange:
        if self._rows is None:
            self._rows = RowChange(_multiply_out(self._products))
        return self._rows

    def negated(self) -> ProductChange:
        return ProductChange(
            tuple(
                (replace(first, rows={row: -weight for row, weight in first.rows.items()}), *rest)
                for first, *rest in self._products
            )
        )

    def __len__(self) -> int:
        return sum(len(factor.rows) for factors in self._products for factor in factors)


def _multiply_out(products: Sequence[Sequence[Factor]]) -> Changes:
    found: Changes = {}
    for factors in products:
        places = [position for factor in factors for position in factor.positions]
        order = [places.index(position) for position in range(len(places))]
        for parts in combinations(*(factor.rows.items() for factor in factors)):
            values = [value for row, _ in parts for value in row]
            row = tuple(values[i] for i in order)
            found[row] = found.get(row, 0) + prod(weight for _, weight in parts)
    return {row: weight for row, weight in found.items() if weight}


def to_product_change(table: Table, products: Sequence[Product], sign: int = 1, encoded: bool = False) -> ProductChange:
    """The change of a table that some products describe."""
    found = [_factors(table, each, sign, encoded) for each in products]
    return ProductChange(tuple(factors for factors in found if all(factor.rows for factor in factors)))


def _factors(table: Table, given: Product, sign: int, encoded: bool) -> tuple[Factor, ...]:
    if given.multiplicity != 1 and not encoded:
        raise DataError(f"{table.name}: a product with a multiplicity is a change; hand it to apply()")
    weight, taken = sign * given.multiplicity, dict[str, int]()
    found: list[Factor] = []
    for number, data in enumerate(given.factors, start=1):
        factor = _factor(table, data, weight if number == 1 else 1, encoded)
        for position in factor.positions:
            name = table.columns[position].name
            if name in taken:
                raise DataError(f"{table.name}: column {name!r} is in factor {taken[name]} and in factor {number}")
            taken[name] = number
        found.append(factor)
    missing = tuple(i for i, column in enumerate(table.columns) if column.name not in taken)
    if missing:
        found.append(Factor(missing, to_changes(_part(table, missing), [{}])))
    return tuple(found)


def _factor(table: Table, data: Any, weight: int, encoded: bool) -> Factor:
    if isinstance(data, Mapping):
        lengths = {name: len(column) for name, column in data.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"{table.name}: the columns of a factor have different lengths: {lengths}")
        names: Sequence[str] | None = list(data)
        data = [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]
    else:
        names = None
    if isinstance(data, list) and data and not all(isinstance(row, Mapping) for row in data):
        raise DataError(f"{table.name}: a factor names its columns: {{'column': [values]}}, dictionaries or a frame")
    source = open_source(table, data)
    given = set(match_columns(table, source.names if names is None else names))
    positions = tuple(i for i, column in enumerate(table.columns) if column.name in given)
    rows = to_changes(_part(table, positions), data, weight, encoded) if source.length else {}
    return Factor(positions, rows)


def _part(table: Table, positions: Sequence[int]) -> Table:
    """The table with some of its columns; keys are checked where all columns are together."""
    columns = tuple(table.columns[i] for i in positions)
    names = {column.name for column in columns}
    return replace(
        table,
        columns=columns,
        primary_key=tuple(name for name in table.primary_key if name in names),
        non_negative=table.non_negative & names,
    )


def factor_rows(groups: Sequence[Factor]) -> tuple[tuple[int, ...], list[tuple[Row, int]]]:
    """Some factors as one: their positions, and their rows multiplied out."""
    positions = tuple(position for factor in groups for position in factor.positions)
    rows = [
        (tuple(value for row, _ in parts for value in row), prod(weight for _, weight in parts))
        for parts in combinations(*(factor.rows.items() for factor in groups))
    ]
    return positions, rows
