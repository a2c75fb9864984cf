"""The simulation of clusters repeats what was measured on this machine, and its answers are consistent."""

from __future__ import annotations

from random import Random

import pytest

from bench.run import ROOT
from bench.scale_model import Machine, fitted, measurements
from bench.scale_simulate import QUERIES, Death, calibration, recover_seconds, simulate_batch, state_bytes

MEASURED = ROOT / "docs" / "benchmarks" / "spark.jsonl"
QUIET = {"straggle": 0.0, "straggler_every": 1e12}


def test_batches_with_stages_take_what_they_took() -> None:
    costs = [fitted(measurements(MEASURED), query) for query in QUERIES]
    lines = [line.split("|")[1:-1] for line in list(calibration(MEASURED, costs))[2:]]
    compared = [(float(seen), float(played)) for query, _, seen, played in lines if query.strip() != "q01"]
    assert len(compared) == 12
    assert all(0.5 < played / seen < 2.0 for seen, played in compared)


def test_an_executor_that_dies_costs_its_recovery_and_not_more() -> None:
    cost = fitted(measurements(MEASURED), "q03")
    machine = Machine(executors=4, **QUIET)
    alive = simulate_batch(machine, cost, 1_000_000, Random(1)).seconds
    dying = simulate_batch(machine, cost, 1_000_000, Random(1), Death(2, 0.05)).seconds
    assert dying - alive == pytest.approx(recover_seconds(machine, cost), rel=0.05)


def test_a_death_after_the_stage_changes_nothing() -> None:
    cost = fitted(measurements(MEASURED), "q18")
    machine = Machine(executors=2, **QUIET)
    alive = simulate_batch(machine, cost, 10_000, Random(1)).seconds
    assert simulate_batch(machine, cost, 10_000, Random(1), Death(1, 1e6)).seconds == alive


@pytest.mark.parametrize("query", QUERIES)
def test_large_batches_gain_from_executors_and_small_ones_lose(query: str) -> None:
    cost = fitted(measurements(MEASURED), query)
    few, many = (Machine(executors=n, **QUIET) for n in (1, 10))
    assert (
        simulate_batch(many, cost, 100_000_000, Random(1)).seconds
        < simulate_batch(few, cost, 100_000_000, Random(1)).seconds
    )
    assert simulate_batch(many, cost, 100, Random(1)).seconds > simulate_batch(few, cost, 100, Random(1)).seconds
    assert state_bytes(many, cost) == pytest.approx(10 * state_bytes(few, cost))


def test_segments_spare_the_driver() -> None:
    cost = fitted(measurements(MEASURED), "q05")
    machine = Machine(executors=10, **QUIET)
    through = simulate_batch(machine, cost, 100_000_000, Random(1), segments=False)
    beside = simulate_batch(machine, cost, 100_000_000, Random(1))
    assert beside.driver_seconds < through.driver_seconds / 10
    assert beside.seconds < through.seconds
    assert beside.puts > machine.partitions
