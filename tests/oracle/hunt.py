"""A long hunt for differences: `VIEWLET_JIT=0 python -m tests.oracle.hunt --queries 5000`.

Random queries are played on the engines named with `--engines` and compared with DuckDB after every batch. Every
difference and error is printed with a script that shows it, and so is every view that took more than `--slow` seconds
of processor time to declare; a query that takes more than `--patience` of them is given up and counted as slow. The
last lines count what was compared, what DuckDB could not answer and what an engine refused, and why.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.oracle.grammar.choices import RandomChoices
from tests.oracle.grammar.values import COLUMN_TYPES, TABLE_COLUMNS, tables_of
from tests.oracle.scenario import OracleError, Scenario, expectations, play, random_scenario
from tests.patience import TooSlow, at_most
from viewlet.errors import DataError, InternalError, SqlError, UnsupportedError

BEYOND_WORDS = "does not fit the 64-bit words of the compiled engine"
"""What the compiled engine says of numbers that only the interpreter holds."""
PROGRESS = 100
"""Queries between two lines that say how far the hunt is."""


@dataclass(slots=True)
class Tally:
    """What the hunt has seen so far."""

    compared: Counter[str] = field(default_factory=Counter)
    differences: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    slow: int = 0

    def lines(self) -> Iterator[str]:
        yield f"compared: {dict(self.compared)}; differences: {dict(self.differences)}; slow to declare: {self.slow}"
        yield f"column types in the tables read: {dict(sorted(self.types.items()))}"
        for title, counter in (("refused", self.refused), ("unanswered by DuckDB", self.unanswered)):
            yield f"{title}: {sum(counter.values())}"
            yield from (f"    {count}  {reason}" for reason, count in counter.most_common(25))


def hunt(seeds: range, engines: tuple[str, ...], patience: float, tally: Tally, slow: float = 5.0) -> Iterator[str]:
    """Plays one scenario per seed; yields what is to be reported at once."""
    for seed in seeds:
        if seed % PROGRESS == 0 and seed != seeds.start:
            yield f"... seed {seed}: {dict(tally.compared)}"
        scenario = random_scenario(RandomChoices(seed))
        try:
            expected = expectations(scenario)
        except OracleError as error:
            tally.unanswered[str(error).splitlines()[0][:90]] += 1
            continue
        for table in tables_of(scenario.sql):
            tally.types.update(COLUMN_TYPES[column] for column in TABLE_COLUMNS[table])
        for engine in engines:
            try:
                with at_most(patience):
                    played = play(scenario, expected, engine)
            except TooSlow:
                tally.slow += 1
                yield f"SLOW seed {seed} on {engine}: given up after {patience:.0f} s\n{scenario.sql}"
                continue
            except UnsupportedError as error:
                tally.refused[f"{engine}: {error.construct}"[:90]] += 1
                continue
            except Exception as error:
                if _is_documented(error):
                    tally.refused[f"{engine}: {str(error).splitlines()[0]}"[:90]] += 1
                    continue
                tally.differences[engine] += 1
                kind = "internal error" if isinstance(error, InternalError) else type(error).__name__
                yield _report(seed, engine, f"{kind}: {error}", scenario)
                continue
            tally.compared[engine] += 1
            if played.objection is not None:
                tally.differences[engine] += 1
                yield _report(seed, engine, played.objection, scenario)
            if played.declared_in > slow:
                tally.slow += 1
                yield f"SLOW seed {seed} on {engine}: declared in {played.declared_in:.1f} s\n{scenario.sql}"


def _is_documented(error: Exception) -> bool:
    """A number beyond the words of the compiled engine, or a constant without a value: no view is declared with it."""
    if isinstance(error, SqlError):
        return "is out of range for" in str(error)
    return isinstance(error, DataError) and BEYOND_WORDS in str(error)


def _report(seed: int, engine: str, problem: str, scenario: Scenario) -> str:
    return f"DIFFERENCE seed {seed} on {engine}: {problem}\n{scenario.script()}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=60.0)
    parser.add_argument("--slow", type=float, default=5.0)
    parser.add_argument("--engines", default="interpreter,compiled")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    tally, start = Tally(), time.perf_counter()
    seeds = range(arguments.seed, arguments.seed + arguments.queries)
    for report in hunt(seeds, tuple(arguments.engines.split(",")), arguments.patience, tally, arguments.slow):
        print(report, flush=True)
    print(f"{len(seeds)} queries from seed {seeds.start} in {time.perf_counter() - start:.0f} s")
    print("\n".join(tally.lines()))


if __name__ == "__main__":
    main()
