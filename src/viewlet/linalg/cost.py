"""The time of a trigger by a roofline: each step takes the longer of its arithmetic and its traffic with memory.

The two rates are measured once in a process, and for each type of number. Orders of growth (Table 2) do not tell which
of two ways is faster at a given size; bytes and operations do.
"""

from __future__ import annotations

from viewlet.linalg.associate import Sizes
from viewlet.linalg.expression import Expression, Inverse, Matrix, Product, Transpose, postorder, shape
from viewlet.linalg.machine import THIN, Machine
from viewlet.linalg.operations import operations, own_operations, update_operations
from viewlet.linalg.schedule import Assign, Compute, Recompute, Step, Sweep

SPARSE = 4.0
"""An entry of a sparse matrix takes so many times the time of one of an array: it has an index, and rows are apart."""


def seconds(steps: tuple[Step, ...], sizes: Sizes, machine: Machine) -> float:
    """The estimated time of the steps of a trigger."""
    return sum(_step(step, sizes, machine) for step in steps)


def counted(steps: tuple[Step, ...], sizes: Sizes) -> float:
    """The operations that the steps do when they run."""
    return sum(_operations(step, sizes) for step in steps)


def _operations(step: Step, sizes: Sizes) -> float:
    match step:
        case Compute():
            return own_operations(step.node).at(sizes)
        case Assign():
            return 0.0
        case Sweep():
            work = sum(own_operations(read.node).at(sizes) for read in step.reads)
            return work + (0.0 if step.update is None else update_operations(step.update).at(sizes))
        case Recompute():
            return operations([step.statement.body]).at(sizes)


def _step(step: Step, sizes: Sizes, machine: Machine) -> float:
    match step:
        case Compute():
            return _own(step.node, sizes, machine)
        case Assign():
            return 0.0
        case Sweep():
            return _sweep(step, sizes, machine)
        case Recompute():
            return evaluation(step.statement.body, sizes, machine)


def evaluation(body: Expression, sizes: Sizes, machine: Machine) -> float:
    """The estimated time to evaluate an expression over whole matrices."""
    nodes = [_own(node, sizes, machine) for node in postorder([body])]
    return sum(nodes) + machine.round_trip * sum(time > 0 for time in nodes)


def _own(node: Expression, sizes: Sizes, machine: Machine) -> float:
    work = own_operations(node).at(sizes)
    if not work:
        return 0.0
    rows, columns = (side.at(sizes) for side in shape(node))
    entries = 2 * rows * columns
    rate = machine.operations
    if isinstance(node, Product):
        inner = shape(node.left)[1].at(sizes)
        first, second = (_density(part, machine) for part in (node.left, node.right))
        entries = rows * inner * first + inner * columns * second + rows * columns
        work *= min(first, second)
        rate = _rate(min(rows, columns), machine)
    if isinstance(node, Inverse):
        work *= 2  # LAPACK's inverse runs at about half the rate of a product
    return max(work / rate, entries * machine.itemsize / machine.bandwidth) + machine.step


def _rate(width: float, machine: Machine) -> float:
    """The rate of a product whose result has so many rows or columns; a single one is bound by memory.

    It grows like w / (w + c), which is the measured one at `THIN`.
    """
    if machine.thin_operations is None or width <= 1:
        return machine.operations
    slack = THIN * max(0.0, machine.operations / machine.thin_operations - 1.0)
    return machine.operations * width / (width + slack)


def _density(node: Expression, machine: Machine) -> float:
    """The share of entries of a matrix that are stored, weighted by what an entry of a sparse matrix takes."""
    bare = node.body if isinstance(node, Transpose) else node
    found = machine.densities.get(bare.name) if isinstance(bare, Matrix) else None
    return 1.0 if found is None else min(1.0, SPARSE * found)


def _sweep(step: Sweep, sizes: Sizes, machine: Machine) -> float:
    rows, columns = step.matrix.rows.at(sizes), step.matrix.columns.at(sizes)
    density = _density(step.matrix, machine)
    work = _operations(step, sizes) * density
    entries = rows * columns * density * (1.0 if step.update is None else 2.0)
    rate = machine.pass_operations or machine.operations
    time = max(work / rate, entries * machine.itemsize / machine.bandwidth)
    return time + machine.step + machine.round_trip
