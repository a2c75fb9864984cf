"""A random query over random rows, followed through a few random batches on both sides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb

import viewlet
from tests.oracle.grammar.choices import Choices, pick
from tests.oracle.grammar.queries import Grammar
from tests.oracle.grammar.values import TABLE_COLUMNS, TABLES, random_batch, random_load
from tests.oracle.oracle import Expectation, Oracle
from tests.oracle.play import STRATEGIES, changes_of
from workloads.streams import Batch, insertion

BATCHES = 3


class OracleError(Exception):
    """DuckDB itself cannot answer, say because of an overflow: there is nothing to compare with."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The batches are applied one after another; the view is declared after the first."""

    sql: str
    order: tuple[int, ...]
    strategy: str
    batches: tuple[Batch, ...]

    def script(self) -> str:
        """What to type to see it fail, with the tables it reads only."""
        lines = [f"{TABLES[table]};" for table in TABLES if any(table in batch for batch in self.batches)]
        for number, batch in enumerate(self.batches):
            lines.append(f"-- batch {number}: {batch}")
            if number == 0:
                lines.append(f"CREATE MATERIALIZED VIEW result WITH (strategy = '{self.strategy}') AS\n{self.sql};")
        return "\n".join(lines)


def random_scenario(choices: Choices) -> Scenario:
    sql, order = Grammar(choices).query()
    strategy = pick(choices, STRATEGIES)
    present = random_load(choices, tuple(TABLES))
    load = insertion(present)
    return Scenario(sql, order, strategy, (load, *(random_batch(choices, present) for _ in range(BATCHES))))


@cache
def shared_oracle() -> Oracle:
    """One DuckDB for all scenarios: opening one takes longer than asking it."""
    oracle = Oracle()
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
        except duckdb.Error as error:
            raise OracleError(str(error)) from error
        found.append(Expectation(answer, answer, scenario.order))
    return found


def objection(scenario: Scenario, expected: list[Expectation]) -> str | None:
    """The first difference between the view and the oracle; errors of the product are raised."""
    db: Any = viewlet.connect()
    for statement in TABLES.values():
        db.execute(statement)
    for number, batch in enumerate(scenario.batches):
        db.apply(changes_of(batch, TABLE_COLUMNS))
        if number == 0:
            db.execute(f"CREATE MATERIALIZED VIEW result WITH (strategy = '{scenario.strategy}') AS {scenario.sql}")
        found = expected[number].objection(db.view("result").rows())
        if found is not None:
            return f"after batch {number}: {found}"
    return None
