"""What an update of a join of four tables costs as the database grows: counted steps of the interpreter.

Two databases for each shape: one with hubs, on which maintenance without parts is linear, and one on which an update
takes as many steps as its bound allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bench.graph_costs import exponent
from viewlet.adaptive.split_join import SplitJoin
from viewlet.adaptive.split_programs import CYCLE, LOOMIS_WHITNEY, PATH
from viewlet.adaptive.split_rules import SplitProgram
from viewlet.rings import INTEGER_RING

Rows = list[tuple[int, ...]]
Database = dict[str, Rows]
PLAIN = {PATH.name: 1.0, LOOMIS_WHITNEY.name: 1.0, CYCLE.name: 0.0}
"""An epsilon at which there are no parts."""


def hubs(program: SplitProgram, size: int) -> Database:
    """Hubs with `size` neighbours, and for paths and cycles a dense block beside them."""
    if program is LOOMIS_WHITNEY:
        ends = range(size)
        return {
            "R": [(d, 1, 1) for d in ends],
            "S": [(0, 0, d) for d in ends],
            "T": [(0, d, 0) for d in ends],
            "U": [(d, 0, 0) for d in ends],
        }
    side, fan = round(size**0.5), [(0, leaf) for leaf in range(1, size)]
    block = [(size + i, 2 * size + j) for i in range(side) for j in range(side)]
    back = [(y, x) for x, y in fan + block]
    if program is PATH:
        return {"R": [(0,), *((size + i,) for i in range(side))], "S": fan + block, "T": back, "U": [(0,)]}
    return {relation: [*fan, *block, *back] for relation in program.relations}


def tight(program: SplitProgram, size: int) -> Database:
    """A light value with as many tuples as it may have, in a database of about 4 * `size` tuples, and few else."""
    count = round((8 * size) ** program.epsilon / 3)
    others = range(10 * size, 11 * size)
    if program is LOOMIS_WHITNEY:
        hub = {"R": [(0, 0, 0)], "S": [(0, 0, d) for d in range(count)]}
        return {name: [*hub.get(name, []), *((i, i, i) for i in others)] for name in program.relations}
    fan = [(0, 1 + c) for c in range(count)]
    if program is PATH:
        return {"R": [(0,)], "S": [*fan, *((i, i) for i in others)], "T": [(i, i) for i in others], "U": [(0,)]}
    return {name: [*(fan if name == "S" else []), *((i, i + 1) for i in others)] for name in program.relations}


def steps(program: SplitProgram, held: Database, epsilon: float | None = None) -> float:
    """Steps of an update, on average over tuples of every relation that come and go."""
    state = SplitJoin(program, INTEGER_RING, epsilon)
    state.on_batch([(relation, row, 1) for relation, rows in held.items() for row in rows])
    updates = [(relation, rows[at]) for relation, rows in held.items() for at in (0, len(rows) // 2, -1)]
    updates += [(relation, (0,) * len(variables)) for relation, variables in program.relations.items()]
    before, count = state.work.steps - state.work.balancing, 0
    for relation, row in updates:
        for times in (1, -1):
            state.on_update(relation, row, times)
            count += 1
    return (state.work.steps - state.work.balancing - before) / count


def show_splits(sizes: Sequence[int]) -> Iterator[str]:
    yield "## Joins of four tables\n"
    yield "Counted steps per update on the interpreter, by the number of neighbours of a hub, and their exponent.\n"
    yield f"| join | database | {' | '.join(f'{size:,}' for size in sizes)} | exponent | bound |"
    yield "|---|---|" + "---|" * (len(sizes) + 2)
    for program in (PATH, LOOMIS_WHITNEY, CYCLE):
        yield _row(program, "hubs", hubs, sizes, len(sizes), None, f"{program.epsilon:.2f}")
        yield _row(program, "the worst for it", tight, sizes, len(sizes), None, f"{program.epsilon:.2f}")
        fit = 0 if program is CYCLE else 2  # the others outgrow patience
        yield _row(program, "hubs, without parts", hubs, sizes, fit, PLAIN[program.name], "1")
    yield ""


def _row(
    program: SplitProgram,
    name: str,
    database: Callable[[SplitProgram, int], Database],
    sizes: Sequence[int],
    fit: int,
    epsilon: float | None,
    bound: str,
) -> str:
    found = [steps(program, database(program, size), epsilon) for size in sizes[:fit]]
    cells = [f"{each:,.0f}" for each in found] + ["not run"] * (len(sizes) - fit)
    slope = f"{exponent(sizes[:fit], found):.2f}" if fit > 1 else "not fitted"
    return f"| {program.name} | {name} | {' | '.join(cells)} | {slope} | {bound} |"
