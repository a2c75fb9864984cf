"""What users hand in, as the change that engines take: products, columns or rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING, NamedTuple, Protocol

from viewlet.changes import Change, Changes, RowChange, to_changes
from viewlet.changes.product_change import Decomposed, Factor, ProductChange, products_in, to_product_change
from viewlet.engine.rows import net
from viewlet.types import Table, TableKind

if TYPE_CHECKING:
    from viewlet.runtime.dictionary import StringDictionary


class Wanted(NamedTuple):
    """Columns of a change, by position: whose words are read, and those of strings that stay strings."""

    words: frozenset[int]
    texts: frozenset[int] = frozenset()

    def is_whole(self, table: Table) -> bool:
        """All columns of a kept table are wanted: rows that agree in them are the same row."""
        return table.kind is not TableKind.STREAM and len(self.words | self.texts) == len(table.columns)


class Target(Protocol):
    """What changes are made for: a database."""

    @property
    def dictionary(self) -> StringDictionary: ...

    def columns_wanted(self, name: str, rows: int) -> Wanted | None:
        """Which columns of a change with so many rows are read, if it may come as columns."""


def rows_in(data: object) -> int:
    """How many rows the user hands in, if that can be told without reading them."""
    if type(data) is list:
        return len(data)
    if isinstance(data, Decomposed):
        data = data.rows
    rows = getattr(data, "num_rows", None)
    if not isinstance(rows, int):
        rows = len(data) if isinstance(data, Sized) and not isinstance(data, Mapping) else 0
    return rows


def change_of(
    target: Target, table: Table, data: object, sign: int, encoded: bool, takes_products: bool = True
) -> Change:
    """The change that some data describes: as products where they are given or looked for, as columns where all views
    take those and the types of the data allow it, else as rows."""
    products = products_in(data)
    if products is not None:
        change = to_product_change(table, products, sign, encoded)
        return change if takes_products else RowChange(change.rows())
    if isinstance(data, Decomposed):
        if not takes_products:
            return change_of(target, table, data.rows, sign, encoded, takes_products)
        return decomposed(table, to_changes(table, data.rows, sign, encoded))
    wanted = target.columns_wanted(table.name, rows_in(data))
    if wanted is not None:
        from viewlet.runtime.columns import to_columns

        columns = to_columns(
            table, data, wanted.words, target.dictionary, sign, encoded, net=wanted.is_whole(table), texts=wanted.texts
        )
        if columns is not None:
            return columns
    return RowChange(to_changes(table, data, sign, encoded))


def net_change(target: Target, table: Table, signed: Sequence[tuple[object, int]]) -> Change:
    """Several parts with their signs as one change: as columns if a kept table takes them, else as rows."""
    wanted = target.columns_wanted(table.name, sum(rows_in(data) for data, _ in signed))
    if wanted is not None and wanted.is_whole(table):
        from viewlet.runtime.columns import net_columns, to_columns

        columns = [
            to_columns(table, data, wanted.words, target.dictionary, sign, False, texts=wanted.texts)
            for data, sign in signed
        ]
        if all(part is not None for part in columns):
            return net_columns([part for part in columns if part is not None])
    rows = [to_changes(table, data, sign) for data, sign in signed]
    return RowChange(net(item for part in rows for item in part.items()))


def decomposed(table: Table, changes: Changes) -> ProductChange:
    """Rows as the products that splitting off one column at a time finds in them."""
    from viewlet.rings import INTEGER_RING
    from viewlet.viewtree.product_update import decompose

    place = {name: i for i, name in enumerate(table.column_names)}
    found = decompose(table.column_names, changes, INTEGER_RING) if changes else []
    return ProductChange(
        tuple(
            tuple(Factor(tuple(place[n] for n in factor.schema), dict(factor.entries)) for factor in each.factors)
            for each in found
        )
    )
