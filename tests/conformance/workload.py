"""The benchmarks as tests play them: tables, a short stream of batches, and rows to load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice

from tests.conformance.engines import changes_in_order, schemas
from viewlet.changes import Changes
from viewlet.types import Table
from workloads import finance, tpch
from workloads.streams import Batch, batches_of, insertion, mixed_batches

MEASURED = {
    "region": 5, "nation": 25, "supplier": 10_000, "part": 200_000, "partsupp": 800_000, "customer": 150_000,
    "orders": 1_500_000, "lineitem": 6_000_000,
}  # fmt: skip
"""Rows of the tables of TPC-H at scale 1."""
VALUES = {
    "lineitem.l_returnflag": 3, "lineitem.l_linestatus": 2, "orders.o_orderpriority": 5,
    "part.p_brand": 25, "part.p_type": 150,
}  # fmt: skip
"""How many values columns of TPC-H have by which few groups are made."""


@dataclass(frozen=True)
class Workload:
    """Tables as they are declared; `batches` come one after another, `rows` are there before a view is declared."""

    declarations: Mapping[str, str]
    batches: list[Batch]
    rows: list[Batch]

    @cached_property
    def tables(self) -> dict[str, Table]:
        return schemas(self.declarations)

    @cached_property
    def stream(self) -> tuple[dict[str, Table], list[dict[str, Changes]]]:
        """The tables, and the batches as engines take them."""
        return self.tables, changes_in_order(self.tables, self.batches)


@cache
def warehouse() -> Workload:
    """TPC-H: most of a small database, then mixed changes of all tables."""
    first, rest = mixed_batches(tpch.small_database(4), tpch.KEY_POSITIONS, 20, 3, 4)
    return Workload(tpch.TABLES, [first, *rest], [insertion(tpch.small_database(4))])


@cache
def order_book() -> Workload:
    """Orders that come and go."""
    events = list(islice(finance.OrderBook().events(finance.generated_messages(5, 1_000)), 120))
    return Workload(finance.TABLES, list(batches_of(events[:60], 15)), list(batches_of(events, 40)))
