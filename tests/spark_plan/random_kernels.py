"""Random queries on the two kernels of Spark, held against the interpreter after every batch.

python -m tests.spark_plan.random_kernels 0 1000        # seeds from 0, a thousand of them
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from functools import cache
from random import Random

from tests.conformance.engines import changes_in_order, schemas
from tests.oracle.grammar.choices import RandomChoices
from tests.oracle.grammar.values import TABLES
from tests.oracle.scenario import Scenario, random_scenario
from tests.patience import TooSlow, at_most
from tests.spark_plan.distributing import Reference, program_of
from tests.spark_plan.pipeline import Pipeline
from viewlet.codegen import compiled_result
from viewlet.errors import InternalError, ViewletError
from viewlet.spark.plan.compile import compile_distributed
from viewlet.spark.run.units.unit import AT_DRIVER, SPREAD
from viewlet.types import Row, Table
from workloads.query import NamedQuery

COUNT = int(os.environ.get("VIEWLET_RANDOM_SPARK", "20"))
"""Random queries for each kernel; a thousand take a while."""
STRATEGIES = ("auto", "higher-order", "first-order", "view-tree")
SLOW_SECONDS, PATIENCE_SECONDS = 10, 30
SAME, ONLY_REFERENCE, REFUSED, GIVEN_UP = "same", "no generated code", "refused", "given up"


@cache
def declared() -> dict[str, Table]:
    return schemas(TABLES)


def rounded(rows: dict[Row, int]) -> dict[Row, int]:
    """Rows with doubles as far as they count; rows that are equal then become one."""
    found: Counter[Row] = Counter()
    for row, count in rows.items():
        found[tuple(float(f"{value:.10g}") if isinstance(value, float) else value for value in row)] += count
    return dict(found)


def difference(before: dict[Row, int], after: dict[Row, int]) -> dict[Row, int]:
    return {row: n for row in before.keys() | after.keys() if (n := after.get(row, 0) - before.get(row, 0))}


def outcome(seed: int) -> str:
    """What comes of one scenario: `SAME`, `ONLY_REFERENCE`, `REFUSED`, or the difference."""
    scenario = random_scenario(RandomChoices(seed))
    try:
        return compared(seed, scenario, Random(seed).choice(STRATEGIES))
    except InternalError:
        raise
    except ViewletError:
        return REFUSED


def compared(seed: int, scenario: Scenario, strategy: str) -> str:
    random = Random(seed)
    program, sources = program_of(NamedQuery("result", scenario.sql), declared(), strategy)
    batches = changes_in_order(declared(), scenario.batches)
    plan = compile_distributed(program, sources)
    arrival, partitions = random.choice((AT_DRIVER, SPREAD)), random.choice((1, 2, 3, 7))
    reference = Reference(program, sources)
    kernels = {
        name: Pipeline(plan, sources, name == "generated", partitions, arrival) for name in ("reference", "generated")
    }
    shown: dict[str, dict[Row, int]] = {name: kernel.result() for name, kernel in kernels.items()}
    for number, batch in enumerate(batches):
        mine = {table: changes for table, changes in batch.items() if table in sources}
        expected = rounded(reference.apply(mine))  # type: ignore[arg-type]
        for name, kernel in kernels.items():
            kernel.apply(mine)
            before, shown[name] = shown[name], kernel.result()
            told = kernel.told()
            if told is not None and told != difference(before, shown[name]):
                where = f"seed {seed}, {name} kernel, {partitions} partitions, {arrival} changes, batch {number}"
                return f"{where}: told {told} from\n{before} to\n{shown[name]}\n{scenario.script()}"
            is_limited = program.query.limit is not None  # then only rows are read that can be among the first
            for rows in (shown[name], *([] if is_limited else [kernel.read()])):
                if (found := rounded(rows)) != expected:
                    where = f"seed {seed}, {name} kernel, {partitions} partitions, {arrival} changes, batch {number}"
                    return f"{where}:\n{found} instead of\n{expected}\n{scenario.script()}"
    return SAME if kernels["generated"].is_generated else ONLY_REFERENCE


def main(first: int, count: int) -> None:
    """Tells differences and failures as they are found, and how many there were of each outcome."""
    compiled_result.READ_BY_CODE_FROM = 0
    told, started = Counter[str](), time.process_time()
    for seed in range(first, first + count):
        before = time.process_time()
        try:
            with at_most(PATIENCE_SECONDS):
                found = outcome(seed)
        except TooSlow:
            found = GIVEN_UP
        except Exception as error:
            found = f"seed {seed}: {type(error).__name__}: {error}\n{random_scenario(RandomChoices(seed)).script()}"
        if (spent := time.process_time() - before) > SLOW_SECONDS:
            print(f"seed {seed} took {spent:.0f} s\n{random_scenario(RandomChoices(seed)).sql}\n", flush=True)
        if found not in (SAME, ONLY_REFERENCE, REFUSED, GIVEN_UP):
            print(found, "\n", flush=True)
            found = "DIFFERENT"
        told[found] += 1
        if (seed - first) % 50 == 49:
            print(f"{seed + 1}: {dict(told)}, {time.process_time() - started:.0f} s of CPU", flush=True)
    print(f"{dict(told)}, {time.process_time() - started:.0f} s of CPU", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
