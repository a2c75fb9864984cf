"""A small database of orders, in the shape and proportions of TPC-H, cut into batches of arriving and cancelled orders.

An order and its line items always travel in the same batch, so every batch touches two tables and is atomic. Tables and
stream are functions of the scale and the seed alone.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NATIONS = (
    *("ALGERIA", "ARGENTINA", "BRAZIL", "CANADA", "EGYPT", "ETHIOPIA", "FRANCE", "GERMANY", "INDIA"),
    *("INDONESIA", "IRAN", "IRAQ", "JAPAN", "JORDAN", "KENYA", "MOROCCO", "MOZAMBIQUE", "PERU", "CHINA"),
    *("ROMANIA", "SAUDI ARABIA", "VIETNAM", "RUSSIA", "UNITED KINGDOM", "UNITED STATES"),
)
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
CUSTOMERS, ORDERS = 150_000, 1_500_000
"""The rows of two tables at scale factor 1."""
FIRST_DAY, LAST_ORDER, STOCK_TAKING = (
    np.datetime64(day).astype(np.int64) for day in ("1992-01-01", "1998-08-02", "1995-06-17")
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Orders, by position in the generated table, that arrive and that are cancelled."""

    arriving: tuple[int, ...]
    cancelled: tuple[int, ...] = ()


class Database:
    """The generated tables; line items are addressed through the position of their order."""

    def __init__(self, tables: dict[str, Any]) -> None:
        self.tables = tables
        line_orders = tables["lineitem"]["l_orderkey"].to_pylist()
        order_keys = tables["orders"]["o_orderkey"].to_pylist()
        # Both tables are generated in the order of their keys: the lines of an order are one range.
        self._first_line = [bisect_left(line_orders, key) for key in order_keys] + [len(line_orders)]

    @property
    def order_count(self) -> int:
        return int(self.tables["orders"].num_rows)

    def changes(self, batch: Batch) -> dict[str, Any]:
        """The batch as `Connection.apply` takes it: one Arrow table per table, with multiplicities."""
        return {
            name: pa.concat_tables(
                [_weighted(self.rows(name, batch.arriving), 1), _weighted(self.rows(name, batch.cancelled), -1)]
            )
            for name in ("orders", "lineitem")
        }

    def rows(self, name: str, orders: tuple[int, ...]) -> Any:
        """The rows of table `orders` or `lineitem` that belong to these orders."""
        positions = orders if name == "orders" else [line for order in orders for line in self._lines(order)]
        return self.tables[name].take(pa.array(positions, pa.int64()))

    def _lines(self, order: int) -> range:
        return range(self._first_line[order], self._first_line[order + 1])


def generate(scale: float, seed: int = 42) -> Database:
    """Tables with the number of rows of TPC-H at this scale factor; a third of the customers never orders."""
    draw = np.random.default_rng(seed)
    customers, orders = max(3, round(CUSTOMERS * scale)), max(1, round(ORDERS * scale))
    customer = np.arange(1, customers + 1)
    order = np.arange(1, orders + 1)
    buyers = customer[customer % 3 != 0]
    ordered = draw.integers(FIRST_DAY, LAST_ORDER + 1, orders)
    lines = draw.integers(1, 8, orders)
    position = np.repeat(np.arange(orders), lines)
    number = np.arange(len(position)) - np.repeat(np.cumsum(lines) - lines, lines) + 1
    quantity = draw.integers(1, 51, len(position))
    price = quantity * draw.integers(90_000, 200_000, len(position))
    shipped = ordered[position] + draw.integers(1, 122, len(position))
    is_old = shipped <= STOCK_TAKING
    returned = np.where(is_old, draw.choice(["A", "R"], len(position)), "N")
    return Database(
        {
            "nation": pa.table({"n_nationkey": np.arange(len(NATIONS)), "n_name": NATIONS}),
            "customer": pa.table(
                {
                    "c_custkey": customer,
                    "c_name": [f"Customer#{key:09}" for key in customer],
                    "c_nationkey": draw.integers(0, len(NATIONS), customers),
                    "c_acctbal": _money(draw.integers(-99_999, 1_000_000, customers)),
                    "c_mktsegment": draw.choice(SEGMENTS, customers),
                }
            ),
            "orders": pa.table(
                {
                    "o_orderkey": order,
                    "o_custkey": draw.choice(buyers, orders),
                    "o_totalprice": _money(np.bincount(position, price).astype(np.int64)),
                    "o_orderdate": _dates(ordered),
                }
            ),
            "lineitem": pa.table(
                {
                    "l_orderkey": order[position],
                    "l_linenumber": number.astype(np.int32),
                    "l_quantity": _money(100 * quantity),
                    "l_extendedprice": _money(price),
                    "l_discount": _money(draw.integers(0, 11, len(position))),
                    "l_returnflag": returned,
                    "l_linestatus": np.where(is_old, "F", "O"),
                    "l_shipdate": _dates(shipped),
                }
            ),
        }
    )


def _money(cents: np.ndarray[Any, Any]) -> Any:
    """Hundredths as DECIMAL(15, 2)."""
    whole = pa.array(cents, pa.int64()).cast(pa.decimal128(19, 0))
    return pc.multiply(whole, pa.scalar(Decimal("0.01"), pa.decimal128(2, 2))).cast(pa.decimal128(15, 2))


def _dates(days: np.ndarray[Any, Any]) -> Any:
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def arrivals(database: Database, orders_per_batch: int, seed: int = 7) -> Iterator[Batch]:
    """Orders arrive in sequence; in every batch after the first a few earlier ones are cancelled."""
    randomness = random.Random(seed)
    alive: list[int] = []
    for start in range(0, database.order_count, orders_per_batch):
        cancelled = tuple(_pop_random(alive, randomness) for _ in range(min(len(alive), orders_per_batch // 20)))
        arriving = tuple(range(start, min(start + orders_per_batch, database.order_count)))
        alive.extend(arriving)
        yield Batch(arriving, cancelled)


def withdrawals(alive: list[int], share: float, orders_per_batch: int) -> Iterator[Batch]:
    """The oldest `share` of the living orders goes again."""
    leaving = alive[: int(len(alive) * share)]
    for start in range(0, len(leaving), orders_per_batch):
        yield Batch((), tuple(leaving[start : start + orders_per_batch]))


def _pop_random(items: list[int], randomness: random.Random) -> int:
    """Remove and return a random item in constant time; the order of the rest does not matter."""
    position = randomness.randrange(len(items))
    items[position], items[-1] = items[-1], items[position]
    return items.pop()


def _weighted(table: Any, multiplicity: int) -> Any:
    return table.append_column("_multiplicity", pa.array([multiplicity] * table.num_rows, pa.int64()))
