"""The compiled engine against the interpreter, through the API: the same rows after every batch.

Over tables the compiled engine starts from kept rows and is fed with rows; over streams it is fed with Arrow columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

import pytest

import viewlet
from tests.conformance import programs
from tests.conformance.engines import changes_in_order, schemas
from tests.oracle.comparison import difference
from tests.oracle.grammar.choices import RandomChoices
from tests.oracle.grammar.values import TABLES as RANDOM_TABLES
from tests.oracle.hunt import TooSlow, at_most
from tests.oracle.scenario import random_scenario
from viewlet.changes import Changes, rows_to_arrow
from viewlet.codegen import engine
from viewlet.runtime import ordered
from viewlet.types import Table
from workloads import finance, tpch
from workloads.query import NamedQuery
from workloads.streams import Batch, batches_of, mixed_batches

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


@pytest.fixture(autouse=True)
def whatever_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small results would be read in Python, and short ranges without an ordered index."""
    monkeypatch.setattr(engine, "READ_BY_CODE_FROM", 0)
    monkeypatch.setattr(ordered, "SHORT", 2)


SCENARIOS = range(60)
PATIENCE = 15.0
"""Seconds of processor time for one random query; a few of them are planned for longer."""
Batches = Sequence[Mapping[str, Changes]]


class Pair:
    """One database on each engine."""

    def __init__(self, tables: Mapping[str, str]) -> None:
        self.engines = {name: viewlet.connect(engine=name) for name in ("compiled", "interpreter")}
        self._tables = schemas(tables)
        for statement in tables.values():
            self.execute(statement)

    def execute(self, sql: str) -> None:
        for db in self.engines.values():
            db.execute(sql)

    def apply(self, batch: Mapping[str, Changes]) -> None:
        arrow = {
            name: rows_to_arrow(self._tables[name].columns, changes.items(), with_multiplicity=True)
            for name, changes in batch.items()
        }
        for db in self.engines.values():
            db.apply(arrow)

    def difference(self, view: str) -> str | None:
        expected, actual = (self.engines[name].view(view).rows() for name in ("interpreter", "compiled"))
        return difference(actual, expected)


def disagreement(query: NamedQuery, tables: Mapping[str, str], batches: Batches, declare_at: int = 0) -> str | None:
    """The first batch after which the engines differ."""
    pair = Pair(tables)
    for number, batch in enumerate(batches):
        if number == declare_at:
            pair.execute(f"CREATE MATERIALIZED VIEW {query.name} WITH (strategy = 'higher-order') AS {query.sql}")
            if (found := pair.difference(query.name)) is not None:
                return f"as declared: {found}"
        pair.apply(batch)
        if number >= declare_at and (found := pair.difference(query.name)) is not None:
            return f"batch {number}: {found}"
    return None


def as_streams(tables: Mapping[str, str]) -> dict[str, str]:
    return {name: text.replace("CREATE TABLE", "CREATE STREAM") for name, text in tables.items()}


def in_order(tables: dict[str, Table], batches: Sequence[Batch]) -> Batches:
    return changes_in_order(tables, batches)


@cache
def warehouse() -> Batches:
    first, rest = mixed_batches(tpch.small_database(6), tpch.KEY_POSITIONS, 20, 3, 6)
    return in_order(schemas(tpch.TABLES), [first, *rest])


@cache
def order_book() -> Batches:
    events = finance.OrderBook().events(finance.generated_messages(8, 1_000))
    return in_order(schemas(finance.TABLES), list(batches_of(islice(events, 60), 20)))


@pytest.mark.parametrize("query", tpch.QUERIES, ids=lambda query: query.name)
def test_warehouse_over_streams(query: NamedQuery) -> None:
    assert disagreement(query, as_streams(tpch.TABLES), warehouse()) is None


@pytest.mark.parametrize("query", finance.QUERIES, ids=lambda query: query.name)
def test_order_book_over_streams(query: NamedQuery) -> None:
    assert disagreement(query, as_streams(finance.TABLES), order_book()) is None


@pytest.mark.parametrize("query", programs.QUERIES, ids=lambda query: query.name)
@pytest.mark.parametrize("declare_at", [0, 6])
def test_small_queries(query: NamedQuery, declare_at: int) -> None:
    if declare_at and query.name == "streamed":
        pytest.skip("a view over a stream is declared before its first batch")
    batches = in_order(schemas(programs.TABLES), programs.batches(seed=11))
    try:
        assert disagreement(query, programs.TABLES, batches, declare_at) is None
    except viewlet.UnsupportedError as error:
        pytest.skip(str(error))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a random query on the compiled engine: a construct it refuses, or a difference it shows."""

    refused: str | None = None
    difference: str | None = None


@cache
def verdict(seed: int) -> Verdict:
    drawn = random_scenario(RandomChoices(seed))
    batches = in_order(schemas(RANDOM_TABLES), drawn.batches)
    try:
        with at_most(PATIENCE):
            found = disagreement(NamedQuery("result", drawn.sql), RANDOM_TABLES, batches, declare_at=1)
    except viewlet.UnsupportedError as error:
        return Verdict(refused=error.construct)
    except TooSlow:
        return Verdict(refused="a query that takes long to plan")
    return Verdict(difference=None if found is None else f"{found}\n{drawn.script()}")


@pytest.mark.parametrize("seed", SCENARIOS)
def test_random_queries(seed: int) -> None:
    found = verdict(seed)
    if found.refused is not None:
        pytest.skip(found.refused)
    assert found.difference is None, found.difference


def test_no_random_query_is_without_a_compiled_form() -> None:
    """Apart from those that there was no time to plan."""
    refused = {verdict(seed).refused for seed in SCENARIOS}
    assert refused <= {None, "a query that takes long to plan"}
