"""The ways to interpret a program: the same results, and the same changes, after every batch."""

from __future__ import annotations

from functools import cache

import pytest

from tests.conformance.engines import FEWER_MODES, changes_in_order, disagreement, in_modes, schemas
from tests.conformance.programs import small as programs
from tests.conformance.workload import order_book, warehouse
from viewlet.changes import Changes
from viewlet.types import Table
from workloads import finance, tpch
from workloads.query import NamedQuery


@cache
def small() -> tuple[dict[str, Table], list[dict[str, Changes]]]:
    tables = schemas(programs.TABLES)
    return tables, changes_in_order(tables, programs.batches(seed=3))


@pytest.mark.parametrize("query", programs.QUERIES, ids=lambda query: query.name)
def test_small_queries(query: NamedQuery) -> None:
    tables, batches = small()
    assert disagreement(in_modes(query, tables), batches) is None


@pytest.mark.parametrize("query", tpch.QUERIES, ids=lambda query: query.name)
def test_warehouse(query: NamedQuery) -> None:
    tables, batches = warehouse().stream
    assert disagreement(in_modes(query, tables, FEWER_MODES), batches) is None


@pytest.mark.parametrize("query", finance.QUERIES, ids=lambda query: query.name)
def test_order_book(query: NamedQuery) -> None:
    tables, batches = order_book().stream
    assert disagreement(in_modes(query, tables), batches) is None
