"""The order in which a trigger runs: thin operations, and passes over the stored matrices.

    Compute(e)                       a thin expression from values that are there
    Sweep(P, reads, update)          one pass over P: the products P X and P' Y with the old P, then P += U V'
    Recompute(P := e)                over new values

All products with a matrix that are known at the same time share one pass, and the update joins the last of them: a step
of A^16 reads and writes every matrix once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from viewlet.errors import InternalError
from viewlet.linalg.associate import Sizes
from viewlet.linalg.expression import Expression, Matrix, Product, Transpose, children, postorder, shape
from viewlet.linalg.program import Statement
from viewlet.linalg.trigger import Trigger, Update


@dataclass(frozen=True, slots=True)
class Compute:
    """Computes a thin expression."""

    node: Expression


@dataclass(frozen=True, slots=True)
class Assign:
    """Gives a value that is there a second name."""

    variable: Matrix
    body: Expression


@dataclass(frozen=True, slots=True)
class Read:
    """A product with a stored matrix P: P x, or P' x if `transposed`.

    The operand is flipped before and the product after, where the program has x' P = (P' x)'.
    """

    node: Product
    operand: Expression
    transposed: bool
    flipped: bool


@dataclass(frozen=True, slots=True)
class Sweep:
    """One pass over a stored matrix: products with its old value, then its update."""

    matrix: Matrix
    reads: tuple[Read, ...]
    update: Update | None


@dataclass(frozen=True, slots=True)
class Recompute:
    """Evaluates a statement over new values."""

    statement: Statement


Step: TypeAlias = Compute | Assign | Sweep | Recompute


def schedule(trigger: Trigger, sizes: Sizes) -> tuple[Step, ...]:
    """The steps of a trigger."""
    return _Scheduler(trigger, sizes).steps()


class _Scheduler:
    """Runs what is ready: thin operations first, then the pass that leaves the fewest passes to do."""

    def __init__(self, trigger: Trigger, sizes: Sizes) -> None:
        self.trigger = trigger
        self.sizes = sizes
        self.variables = {statement.target for statement in trigger.assignments}
        self.variables |= {each for pair in trigger.factors.values() for each in pair}
        self.bodies = {statement.target: statement.body for statement in trigger.assignments}
        roots = [statement.body for statement in trigger.assignments]
        roots += [part for update in trigger.updates for part in (update.left, update.right)]
        self.nodes = [node for node in postorder(roots) if not self._stored(node)]
        self.reads: dict[Expression, tuple[Matrix, Read] | None] = {
            node: self._read(node) for node in self.nodes if isinstance(node, Product)
        }
        self.done: set[Expression] = {each for pair in trigger.factors.values() for each in pair}
        self.updates = {update.view: update for update in trigger.updates}
        self.found: list[Step] = []

    def steps(self) -> tuple[Step, ...]:
        waiting = [node for node in self.nodes if node not in self.done]
        waiting = self._compute(waiting)
        while waiting or self.updates:
            if not self._sweep(waiting):
                raise InternalError(f"a trigger waits for {[str(node) for node in waiting[:3]]}")
            waiting = self._compute([node for node in waiting if node not in self.done])
        self.found += [Recompute(statement) for statement in self.trigger.recomputed]
        return tuple(self.found)

    def _compute(self, waiting: list[Expression]) -> list[Expression]:
        """Everything that needs no pass; nodes are in an order in which one round is enough, but for variables."""
        progress = True
        while progress:
            progress, left = False, []
            for node in waiting:
                if self._ready(node) and self.reads.get(node) is None:
                    body = self.bodies.get(node) if isinstance(node, Matrix) else None
                    self.found.append(Assign(node, body) if isinstance(node, Matrix) and body else Compute(node))
                    self.done.add(node)
                    progress = True
                else:
                    left.append(node)
            waiting = left
        return waiting

    def _sweep(self, waiting: list[Expression]) -> bool:
        uses: dict[Matrix, int] = {}
        for node in waiting:
            for each in {bare for child in children(node) if (bare := self._stored(child)) is not None}:
                uses[each] = uses.get(each, 0) + 1
        ready: dict[Matrix, list[Read]] = {}
        for node in waiting:
            found = self.reads.get(node)
            if found is not None and self._is_there(found[1].operand):
                ready.setdefault(found[0], []).append(found[1])
        for each, update in self.updates.items():
            if not uses.get(each) and self._known(update):
                ready.setdefault(each, [])
        if not ready:
            return False
        best = max(ready, key=lambda each: self._last(each, len(ready[each]), uses))
        final = self._last(best, len(ready[best]), uses)
        self.found.append(Sweep(best, tuple(ready[best]), self.updates.pop(best, None) if final else None))
        self.done |= {read.node for read in ready[best]}
        return True

    def _last(self, each: Matrix, reads: int, uses: dict[Matrix, int]) -> bool:
        """Whether a pass over the matrix can be its last one: it makes all products, and its update is known."""
        update = self.updates.get(each)
        return uses.get(each, 0) == reads and (update is None or self._known(update))

    def _known(self, update: Update) -> bool:
        return all(part in self.done for part in (update.left, update.right))

    def _ready(self, node: Expression) -> bool:
        if isinstance(node, Matrix):
            return self._is_there(self.bodies[node])
        return all(self._is_there(child) for child in children(node))

    def _is_there(self, node: Expression) -> bool:
        return node in self.done or self._stored(node) is not None

    def _stored(self, node: Expression) -> Matrix | None:
        """The stored matrix that a node is, or is the transpose of."""
        bare = node.body if isinstance(node, Transpose) else node
        return bare if isinstance(bare, Matrix) and bare not in self.variables else None

    def _read(self, node: Product) -> tuple[Matrix, Read] | None:
        """The pass that a product is part of; of two stored matrices, the pass is over the larger one."""
        left, right = self._stored(node.left), self._stored(node.right)
        if left is not None and right is not None:
            if self._entries(left) >= self._entries(right):
                right = None
            else:
                left = None
        if left is not None:
            return left, Read(node, node.right, isinstance(node.left, Transpose), False)
        if right is not None:
            return right, Read(node, node.left, not isinstance(node.right, Transpose), True)
        return None

    def _entries(self, each: Matrix) -> float:
        rows, columns = shape(each)
        return rows.at(self.sizes) * columns.at(self.sizes)
