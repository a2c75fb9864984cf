"""The order in which a trigger runs: thin operations, and passes over the stored matrices.

    Compute(e)                       a thin expression from values that are there
    Sweep(P, reads, update)          one pass over P: the products P X and P' Y with the old P, then P += U V'
    Recompute(P := e)                over new values

All products with a matrix that are known at the same time share one pass, and the update joins the last of them: a step
of A^16 reads and writes every matrix once.
"""

from __future__ import annotations

from collections import Counter, deque
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
    """Runs what is ready: thin operations first, then a pass that is the last one over its matrix, if there is one."""

    def __init__(self, trigger: Trigger, sizes: Sizes) -> None:
        self.trigger = trigger
        self.sizes = sizes
        given = [each for pair in trigger.factors.values() for each in pair]
        self.bodies = {statement.target: statement.body for statement in trigger.assignments}
        self.variables = {*self.bodies, *given}
        self.updates = {update.view: update for update in trigger.updates}
        self.done: set[Expression] = set()
        self.needs: dict[Expression, int] = {}
        """How many operands of a node are not there yet."""
        self.readers: dict[Expression, list[Expression]] = {}
        self.uses: Counter[Matrix] = Counter()
        """How many nodes still read a stored matrix."""
        self.computable: deque[Expression] = deque()
        self.passes: dict[Matrix, list[Read]] = {}
        """Products that a pass over each matrix could make now."""
        self.found: list[Step] = []
        self._collect()
        for each in given:
            self._finish(each)

    def steps(self) -> tuple[Step, ...]:
        self._compute()
        while self.updates or self.passes:
            self._sweep()
            self._compute()
        if missing := [node for node, count in self.needs.items() if count and node not in self.done]:
            raise InternalError(f"a trigger waits for {[str(node) for node in missing[:3]]}")
        self.found += [Recompute(statement) for statement in self.trigger.recomputed]
        return tuple(self.found)

    def _collect(self) -> None:
        roots = [statement.body for statement in self.trigger.assignments]
        roots += [part for update in self.trigger.updates for part in (update.left, update.right)]
        nodes = dict.fromkeys([*(node for node in postorder(roots) if self._stored(node) is None), *self.bodies])
        given = {each for pair in self.trigger.factors.values() for each in pair}
        for node in nodes:
            if node in given:
                continue
            operands = set(self._operands(node))
            missing = [each for each in operands if self._stored(each) is None]
            self.needs[node] = len(missing)
            for each in missing:
                self.readers.setdefault(each, []).append(node)
            self.uses.update({bare for each in operands if (bare := self._stored(each)) is not None})
            if not missing:
                self._enable(node)

    def _operands(self, node: Expression) -> tuple[Expression, ...]:
        return (self.bodies[node],) if isinstance(node, Matrix) else children(node)

    def _enable(self, node: Expression) -> None:
        """All operands of a node are there: it can be computed, or wait for a pass."""
        found = self._read(node) if isinstance(node, Product) else None
        if found is None:
            self.computable.append(node)
        else:
            self.passes.setdefault(found[0], []).append(found[1])

    def _finish(self, node: Expression) -> None:
        self.done.add(node)
        if node in self.needs:
            self.uses.subtract({bare for each in self._operands(node) if (bare := self._stored(each)) is not None})
        for reader in self.readers.get(node, ()):
            self.needs[reader] -= 1
            if not self.needs[reader]:
                self._enable(reader)

    def _compute(self) -> None:
        while self.computable:
            node = self.computable.popleft()
            body = self.bodies.get(node) if isinstance(node, Matrix) else None
            self.found.append(Assign(node, body) if isinstance(node, Matrix) and body else Compute(node))
            self._finish(node)

    def _sweep(self) -> None:
        """One pass: over a matrix that needs no other one, if there is such a matrix."""
        finished = (each for each, update in self.updates.items() if not self.uses[each] and self._known(update))
        options = [*self.passes, *finished]
        if not options:
            raise InternalError(f"a trigger cannot update {', '.join(each.name for each in self.updates)}")
        best = next((each for each in options if self._is_last(each)), options[0])
        reads = tuple(self.passes.pop(best, ()))
        update = self.updates.pop(best, None) if self._is_last(best, len(reads)) else None
        self.found.append(Sweep(best, reads, update))
        for read in reads:
            self._finish(read.node)

    def _is_last(self, each: Matrix, reads: int | None = None) -> bool:
        """Whether a pass over the matrix can be its last one: it makes all products, and its update is known."""
        count = len(self.passes.get(each, ())) if reads is None else reads
        update = self.updates.get(each)
        return self.uses[each] == count and (update is None or self._known(update))

    def _known(self, update: Update) -> bool:
        return update.left in self.done and update.right in self.done

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
