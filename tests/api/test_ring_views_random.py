"""Random joins under COFACTOR and FACTORIZED, cyclic ones among them, against NumPy and DuckDB on both engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

import viewlet
from tests.api.ring_oracle import Twin, assert_cofactor, multiset

NAMES = "abcdef"
VALUES: dict[str, tuple[Any, ...]] = {"BIGINT": (0, 1, 2), "VARCHAR": ("x", "y"), "DOUBLE": (0.5, 1.25, 2.0)}


@dataclass(frozen=True)
class Case:
    """A join of some tables by their common columns, and what is asked of it."""

    schema: str
    join: str
    make: dict[str, Callable[[Random], tuple[Any, ...]]]
    keys: list[str]
    continuous: list[str]
    categorical: list[str]
    listed: list[str]

    @property
    def cofactor(self) -> str:
        arguments = ", ".join([*self.continuous, *(f"CATEGORICAL({name})" for name in self.categorical)])
        keys = ", ".join(self.keys)
        columns = ", ".join([*self.keys, f"COFACTOR({arguments}) AS sums"])
        return f"SELECT {columns} FROM {self.join}" + (f" GROUP BY {keys}" if keys else "")

    def check(self, twin: Twin) -> None:
        lifted = [*self.continuous, *self.categorical]
        known = " AND ".join(f"{name} IS NOT NULL" for name in lifted)
        rows = twin.ask(f"SELECT {', '.join([*self.keys, *lifted])} FROM {self.join} WHERE {known}")
        groups: dict[Any, list[tuple[Any, ...]]] = {} if self.keys else {(): []}
        for row in rows:
            groups.setdefault(row[: len(self.keys)], []).append(row[len(self.keys) :])
        found = twin.db.view("m").cofactor()
        tables = (
            {key if isinstance(key, tuple) else (key,): t for key, t in found.items()} if self.keys else {(): found}
        )
        assert set(tables) == set(groups)
        for key, table in tables.items():
            assert_cofactor(table, groups[key], self.continuous, self.categorical)
        if "j" in twin.db.views:
            expected = multiset(twin.ask(f"SELECT {', '.join(self.listed)} FROM {self.join}"))
            assert multiset(twin.db.view("j").rows()) == expected
            assert len(twin.db.view("j")) == expected.total()


def case_of(random: Random) -> Case:
    kinds = {name: random.choice(list(VALUES)) for name in NAMES}
    tables: dict[str, list[str]] = {}
    used: list[str] = []
    for i in range(random.randrange(2, 5)):
        own = random.sample(NAMES, random.randrange(1, 4))
        if used and not set(own) & set(used):
            own.append(random.choice(used))
        used = sorted({*used, *own})
        tables[f"t{i}"] = own
    kind = random.choice(["TABLE", "STREAM"])
    schema = ";".join(
        f"CREATE {kind} {table} ({', '.join(f'{name} {kinds[name]}' for name in own)})" for table, own in tables.items()
    )
    lifted = random.sample(used, random.randrange(1, len(used) + 1))
    continuous = [n for n in lifted if kinds[n] == "DOUBLE" or (kinds[n] == "BIGINT" and random.random() < 0.5)]
    return Case(
        schema,
        " NATURAL JOIN ".join(tables),
        {table: _maker([kinds[name] for name in own]) for table, own in tables.items()},
        random.sample(used, random.randrange(min(3, len(used)))),
        continuous,
        [name for name in lifted if name not in continuous],
        random.choice([used, random.sample(used, random.randrange(1, len(used) + 1))]),
    )


def _maker(kinds: list[str]) -> Callable[[Random], tuple[Any, ...]]:
    return lambda r: tuple(None if r.random() < 0.1 else r.choice(VALUES[kind]) for kind in kinds)


@pytest.mark.parametrize("engine", ["interpreter", "compiled", "auto"])
@pytest.mark.parametrize("seed", range(8))
def test_random_joins(seed: int, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under `auto`, views move to generated code on the way, also over streams, which keep nothing to start from."""
    monkeypatch.setattr("viewlet.engine.chooser.COMPILE_AFTER_ROWS", 8)
    case = case_of(Random(seed))
    twin = Twin(case.schema, engine)
    twin.db.execute(f"CREATE MATERIALIZED VIEW m AS {case.cofactor}")
    try:
        columns = ", ".join(case.listed)
        twin.db.execute(f"CREATE MATERIALIZED VIEW j AS SELECT FACTORIZED {columns} FROM {case.join}")
    except viewlet.SchemaError as error:
        if "is not listed but is above" not in str(error):
            raise
    for _ in twin.churn(Random(seed), case.make, 3, 6):
        case.check(twin)
        twin.db.settle()
    engines = {twin.db.view(name).stats()["engine"] for name in twin.db.views}
    assert engines == {"compiled" if engine == "auto" else engine}
