"""The benchmark queries over streams and over tables: TPC-H, and an order book."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.conformance.program import Program, View
from tests.conformance.workload import MEASURED, order_book, warehouse
from workloads import finance, tpch
from workloads.query import NamedQuery


def as_streams(tables: Mapping[str, str]) -> dict[str, str]:
    return {name: text.replace("CREATE TABLE", "CREATE STREAM") for name, text in tables.items()}


def programs() -> Iterator[Program]:
    for name, tables, queries, batches in (
        ("tpch", tpch.TABLES, tpch.QUERIES, warehouse().batches),
        ("order book", finance.TABLES, finance.QUERIES, order_book().batches),
    ):
        sizes = MEASURED if tables is tpch.TABLES else {}
        streams = as_streams(tables)
        yield Program(f"{name} in streams", streams, _views(queries), batches, sizes, is_large=bool(sizes))
        yield Program(f"{name} in tables", tables, _views(queries, late=True), batches, sizes, is_large=bool(sizes))


def _views(queries: Sequence[NamedQuery], late: bool = False) -> tuple[View, ...]:
    """Of views over tables, every second one is declared over rows that are there."""
    return tuple(View(query, is_late=late and bool(number % 2)) for number, query in enumerate(queries))
