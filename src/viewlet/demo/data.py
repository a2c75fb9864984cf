"""A small TPC-H database, cut into batches of arriving and cancelled orders.

An order and its line items always travel in the same batch, so every batch touches two tables and is atomic. The stream
is a function of the scale and the seed alone.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from viewlet.demo.views import SCHEMA
from viewlet.errors import DataError, MissingExtraError

COLUMNS = {
    "nation": ["n_nationkey", "n_name"],
    "customer": ["c_custkey", "c_name", "c_nationkey", "c_acctbal", "c_mktsegment"],
    "orders": ["o_orderkey", "o_custkey", "o_totalprice", "o_orderdate"],
    "lineitem": [
        "l_orderkey",
        "l_linenumber",
        "l_quantity",
        "l_extendedprice",
        "l_discount",
        "l_returnflag",
        "l_linestatus",
        "l_shipdate",
    ],
}


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


def generate(scale: float) -> Database:
    """Run the TPC-H generator at this scale factor and read what the demonstration needs."""
    program = _generator()
    with tempfile.TemporaryDirectory(prefix="viewlet-demo-") as directory:
        command = [program, "parquet", "-s", str(scale), f"--tables={','.join(SCHEMA)}", "-o", directory]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode:
            raise DataError(f"tpchgen-cli failed for scale {scale}: {finished.stderr.strip()}")
        return Database({name: _read(Path(directory) / f"{name}.parquet", COLUMNS[name]) for name in SCHEMA})


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


def _generator() -> str:
    beside_python = Path(sys.executable).with_name("tpchgen-cli")
    found = str(beside_python) if beside_python.exists() else shutil.which("tpchgen-cli")
    if found is None:
        raise MissingExtraError("the demo needs the data generator tpchgen-cli: pip install 'viewlet[demo]'")
    return found


def _read(path: Path, columns: list[str]) -> Any:
    table = pq.read_table(path, columns=columns)
    # The generator writes string views, which not every consumer of Arrow can take or filter.
    plain = [pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(plain)).combine_chunks()


def _weighted(table: Any, multiplicity: int) -> Any:
    return table.append_column("_multiplicity", pa.array([multiplicity] * table.num_rows, pa.int64()))
