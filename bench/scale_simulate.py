"""Batches on clusters that we do not have: a simulation of stages, transfers, stragglers, failures and re-scaling.

    python -m bench.scale_simulate

An event is a task that the driver sends, a task that ends, an executor that dies, and its loss being noticed. Costs are
those of `bench.scale_model`. The tables say where the time goes and what stops scaling; docs/scale.md explains them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Annotated

import typer

from bench.run import ROOT
from bench.scale_model import Machine, QueryCost, fitted, measurements

QUERIES = ("q01", "q03", "q05", "q18")
EXECUTORS = (10, 100, 1000)
BATCHES = (10_000, 1_000_000, 100_000_000)
TABLE_ROWS = 100_000_000
"""Rows of the tables per executor: the data grows with the cluster."""
TRIALS = 41
SEND, END, DEATH, LOSS = range(4)


@dataclass(slots=True)
class Account:
    """What a batch took."""

    seconds: float = 0.0
    network_bytes: float = 0.0
    driver_seconds: float = 0.0
    """Seconds in which everything waited for the driver."""
    puts: int = 0
    gets: int = 0


@dataclass(frozen=True, slots=True)
class Death:
    """An executor that dies so many seconds after the first stage has begun."""

    executor: int
    at: float


def simulate_batch(
    machine: Machine, query: QueryCost, rows: int, random: Random, death: Death | None = None, segments: bool = True
) -> Account:
    """One batch that arrives as a data frame: mappers where its rows are, then the stages of the program, then commit.

    Without `segments` all moves pass through the driver, whatever their size.
    """
    account = Account()
    stages = 1 + query.stages
    work = rows * query.worker_seconds / stages / machine.partitions
    moved = rows * query.moved_bytes / max(stages - 1, 1)
    for stage in range(stages):
        lasted = _stage(machine, query, work, random, death if stage == 0 else None)
        account.seconds += lasted
        sent = machine.partitions * machine.dispatch_seconds
        account.driver_seconds += sent
        if stage < stages - 1:
            _move(machine, account, moved, rows, segments)
        else:
            _collect(machine, account)
    account.puts += stages + 1
    account.seconds += 2 * machine.put_seconds
    return account


def _stage(machine: Machine, query: QueryCost, work: float, random: Random, death: Death | None) -> float:
    """Seconds until the last task of a stage has ended, played event by event."""
    events = [
        (machine.job_seconds + number * machine.dispatch_seconds, SEND, number, number // machine.cores)
        for number in range(machine.partitions)
    ]
    if death is not None:
        events.append((death.at, DEATH, -1, death.executor))
    heapq.heapify(events)
    done, lost, now, dead = set[int](), set[int](), 0.0, -1
    while len(done) < machine.partitions:
        now, kind, number, executor = heapq.heappop(events)
        if kind == DEATH:
            dead = executor
            first = executor * machine.cores
            lost = {each for each in range(first, first + machine.cores) if each not in done}
            heapq.heappush(events, (now + machine.lost_after, LOSS, -1, executor))
        elif kind == LOSS:
            others = max(machine.executors - 1, 1)
            for moved, each in enumerate(sorted(lost)):
                target = (executor + 1 + moved % others) % machine.executors
                ready = now + rebuild_seconds(machine, query) * (1 + moved // others)
                heapq.heappush(events, (ready + _duration(machine, work, random), END, each, target))
        elif executor == dead:
            continue  # it was running, or is sent to nobody; `lost` has it
        elif kind == SEND:
            heapq.heappush(events, (now + _duration(machine, work, random), END, number, executor))
        else:
            done.add(number)
    return now


def _duration(machine: Machine, work: float, random: Random) -> float:
    factor = math.exp(random.gauss(0.0, machine.straggle))
    if random.random() < 1.0 / machine.straggler_every:
        factor *= 10.0
    return (machine.task_seconds + work) * factor


def _move(machine: Machine, account: Account, moved: float, rows: int, segments: bool) -> None:
    """Rows go from all partitions to all partitions."""
    partitions, per_task = machine.partitions, moved / machine.partitions
    places = float(partitions) ** 2
    pieces = places * -math.expm1(-rows / places)  # rows are spread at random
    account.network_bytes += moved
    if not segments or moved <= machine.inline_bytes:
        seconds = 2 * moved / machine.driver_bytes + pieces * machine.piece_seconds
        account.driver_seconds += seconds
        account.seconds += seconds
        return
    ranges = pieces / partitions
    reading = math.ceil(ranges / machine.gets_at_once) * machine.get_seconds
    transfer = per_task * machine.cores / machine.network_bytes
    account.puts += partitions
    account.gets += int(pieces)
    account.network_bytes += moved
    listing = pieces * machine.piece_seconds  # the driver passes the places on
    account.driver_seconds += listing
    account.seconds += machine.put_seconds + reading + 2 * transfer + listing


def _collect(machine: Machine, account: Account) -> None:
    account.driver_seconds += machine.partitions * machine.piece_seconds
    account.seconds += machine.partitions * machine.piece_seconds


def state_bytes(machine: Machine, query: QueryCost) -> float:
    """All state, for tables that grow with the cluster."""
    return query.state_bytes * TABLE_ROWS * machine.executors


def rebuild_seconds(machine: Machine, query: QueryCost) -> float:
    """One partition on another executor: its share of the snapshot and of a log that is as long, read once."""
    share = state_bytes(machine, query) / machine.partitions
    replayed = share / max(query.moved_bytes, 1.0) * query.worker_seconds
    return 2 * machine.get_seconds + 2 * share / machine.network_bytes + replayed


def recover_seconds(machine: Machine, query: QueryCost) -> float:
    """From the death of an executor until its partitions are elsewhere."""
    rounds = math.ceil(machine.cores / max(machine.executors - 1, 1))
    return machine.lost_after + rebuild_seconds(machine, query) * rounds


def rescale_seconds(machine: Machine, query: QueryCost, executors: int) -> float:
    """To another number of executors, at a snapshot: written by the old ones, read by the new ones."""
    whole = state_bytes(machine, query)
    write = whole / machine.executors / machine.network_bytes + machine.put_seconds
    read = whole / executors / machine.network_bytes + machine.get_seconds
    return write + read


def trials(machine: Machine, query: QueryCost, rows: int, segments: bool = True) -> list[Account]:
    random = Random(7)
    return [simulate_batch(machine, query, rows, random, segments=segments) for _ in range(TRIALS)]


def main(
    measured: Annotated[Path, typer.Option(help="measurements")] = ROOT / "docs" / "benchmarks" / "spark.jsonl",
    out: Annotated[Path | None, typer.Option(help="a file for the tables")] = None,
) -> None:
    """Print what the simulation answers."""
    costs = [fitted(measurements(measured), query) for query in QUERIES]
    text = "\n".join([*calibration(measured, costs), "", *latencies(costs), "", *faults(costs)]) + "\n"
    print(text)
    if out is not None:
        out.write_text(text)


def calibration(measured: Path, costs: list[QueryCost]) -> Iterator[str]:
    """The simulation of what was measured, beside the measurement: this machine, changes at the driver."""
    here = Machine(executors=1, cores=2, put_seconds=0.001, straggle=0.0, straggler_every=1e12, driver_bytes=2e8)
    yield "| query | batch | measured, s | simulated, s |"
    yield "|---|---|---|---|"
    for cost in costs:
        for size in (1_000, 10_000, 100_000, 1_000_000):
            found = [
                r["seconds"]
                for r in measurements(measured)
                if r.get("query") == cost.query and r.get("batch") == size and r.get("mode") == "arrow"
            ]
            if found:
                at_driver = replace(cost, stages=max(cost.stages - 1, 0))
                seconds = simulate_batch(here, at_driver, size, Random(0), segments=False).seconds
                yield f"| {cost.query} | {size:,} | {median(found):.3f} | {seconds:.3f} |"


def latencies(costs: list[QueryCost]) -> Iterator[str]:
    yield (
        "| query | executors | changes | latency, s | 95th percentile | of it at the driver | changes/s | "
        "network, GB | requests | dollars per 1,000 batches |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for cost in costs:
        for executors in EXECUTORS:
            machine = Machine(executors=executors)
            for rows in BATCHES:
                runs = trials(machine, cost, rows)
                seconds = [run.seconds for run in runs]
                one = runs[0]
                dollars = 1000 * (one.puts * machine.put_dollars + one.gets * machine.get_dollars)
                yield (
                    f"| {cost.query} | {executors:,} | {rows:,} | {median(seconds):.2f} | "
                    f"{quantiles(seconds, n=20)[-1]:.2f} | {one.driver_seconds / one.seconds:.0%} | "
                    f"{rows / median(seconds):,.0f} | {one.network_bytes / 1e9:.2f} | {one.puts + one.gets:,} | "
                    f"{dollars:.2f} |"
                )


def faults(costs: list[QueryCost]) -> Iterator[str]:
    yield (
        "| query | executors | state, GB | a batch of 1,000,000 during which an executor dies, s | "
        "recovery of one executor, s | twice the executors, s |"
    )
    yield "|---|---|---|---|---|---|"
    for cost in costs:
        for executors in EXECUTORS:
            machine = Machine(executors=executors)
            dying = simulate_batch(machine, cost, 1_000_000, Random(7), Death(executors // 2, 0.05))
            yield (
                f"| {cost.query} | {executors:,} | {state_bytes(machine, cost) / 1e9:,.1f} | {dying.seconds:.1f} | "
                f"{recover_seconds(machine, cost):.1f} | {rescale_seconds(machine, cost, 2 * executors):.1f} |"
            )


if __name__ == "__main__":
    typer.run(main)
