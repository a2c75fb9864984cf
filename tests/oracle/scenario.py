"""A random query over random rows, followed through a few random batches on both sides."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb

import viewlet
from tests.oracle.grammar.choices import Choices, chance, pick
from tests.oracle.grammar.queries import Grammar
from tests.oracle.grammar.values import TABLE_COLUMNS, TABLES, random_batch, random_load, tables_of
from tests.oracle.oracle import Expectation, Oracle
from tests.oracle.play import STRATEGIES, changes_of
from workloads.streams import Batch, insertion

BATCHES = 3


class OracleError(Exception):
    """DuckDB itself cannot answer, say because of an overflow: there is nothing to compare with."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The batches are applied one after another; the view is declared after the first, or before it."""

    sql: str
    order: tuple[int, ...]
    strategy: str
    batches: tuple[Batch, ...]
    declared_first: bool = False

    def script(self) -> str:
        """What to type to see it fail, with the tables it reads only."""
        view = f"CREATE MATERIALIZED VIEW result WITH (strategy = '{self.strategy}') AS\n{self.sql};"
        lines = [f"{TABLES[table]};" for table in tables_of(self.sql)]
        lines += [f"-- batch {number}: {batch}" for number, batch in enumerate(self.batches)]
        lines.insert(len(lines) - len(self.batches) + (0 if self.declared_first else 1), view)
        return "\n".join(lines)


def random_scenario(choices: Choices) -> Scenario:
    sql, order = Grammar(choices).query()
    strategy = pick(choices, STRATEGIES)
    present = random_load(choices, tables_of(sql))
    load = insertion(present)
    batches = (load, *(random_batch(choices, present) for _ in range(BATCHES)))
    return Scenario(sql, order, strategy, batches, chance(choices, 25))


@cache
def shared_oracle() -> Oracle:
    """One DuckDB for all scenarios: opening one takes longer than asking it."""
    oracle = Oracle(optimized=False)
    for table, statement in TABLES.items():
        oracle.create(table, statement)
    return oracle


def expectations(scenario: Scenario) -> list[Expectation]:
    """DuckDB's answer after every batch."""
    oracle = shared_oracle()
    oracle.clear()
    found = []
    for batch in scenario.batches:
        oracle.apply(batch)
        try:
            answer = oracle.rows(scenario.sql)
        except (duckdb.FatalException, duckdb.InternalException) as error:
            shared_oracle.cache_clear()  # it answers no query any more
            raise OracleError(str(error)) from error
        except duckdb.Error as error:
            raise OracleError(str(error)) from error
        found.append(Expectation(answer, answer, scenario.order))
    return found


@dataclass(slots=True)
class Played:
    """What came of a scenario on one engine: the first difference, if any, and the processor time of CREATE VIEW."""

    objection: str | None
    declared_in: float


def play(scenario: Scenario, expected: list[Expectation], engine: str = "auto") -> Played:
    """Compares the view with the oracle after every batch; errors of the product are raised."""
    db: Any = viewlet.connect(engine=engine)
    for table in tables_of(scenario.sql):
        db.execute(TABLES[table])
    seconds = 0.0
    for number, batch in enumerate(scenario.batches):
        if number == 0 and scenario.declared_first:
            seconds = _declare(db, scenario)
        db.apply(changes_of(batch, TABLE_COLUMNS))
        if number == 0 and not scenario.declared_first:
            seconds = _declare(db, scenario)
        found = expected[number].objection(db.view("result").rows())
        if found is not None:
            return Played(f"after batch {number}: {found}", seconds)
    return Played(None, seconds)


def _declare(db: Any, scenario: Scenario) -> float:
    start = time.process_time()
    db.execute(f"CREATE MATERIALIZED VIEW result WITH (strategy = '{scenario.strategy}') AS {scenario.sql}")
    return time.process_time() - start


def objection(scenario: Scenario, expected: list[Expectation], engine: str = "auto") -> str | None:
    """The first difference between the view and the oracle; errors of the product are raised."""
    return play(scenario, expected, engine).objection
