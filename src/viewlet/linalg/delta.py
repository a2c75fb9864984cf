"""Factored deltas: the change of an expression as a product of thin factors (sections 4.1 to 4.3).

    ΔE = L₁ R₁' + L₂ R₂' + ...        a block for every outer product; L and R are thin

    Δ(E F)   = ΔE F + E ΔF + ΔE ΔF    with ΔE = L R', ΔF = M S':   [L, E M + L (R' M)] [F' R, S]'
    Δ(E + F) = ΔE + ΔF        Δ(c E) = c ΔE        Δ(E') = (ΔE)'
    Δ(E⁻¹)   = -W L (I + R' W L)⁻¹ (W' R)'   with W = E⁻¹: one step of Woodbury's formula for all blocks together
    Δ(A^k)   = Σ A'^j u (A^(k-1-j)' v)'      the telescoped form

A full delta is a factored one with an identity as its right factor, so that one derivation serves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.errors import InternalError
from viewlet.linalg.expression import (
    Expression,
    Identity,
    Inverse,
    Matrix,
    Named,
    Product,
    Recurrence,
    Scale,
    Stack,
    Sum,
    Transpose,
    Zero,
    add,
    hstack,
    identity,
    inv,
    product,
    scale,
    shape,
    transpose,
    vstack,
    zero,
)
from viewlet.linalg.sizes import Size, size

Block = tuple[Expression, Expression]
"""Two thin factors L and R, which stand for L R'."""


@dataclass(frozen=True, slots=True)
class Delta:
    """The change of a matrix as a sum of blocks L R'; no blocks stand for no change."""

    blocks: tuple[Block, ...] = ()

    @property
    def rank(self) -> Size:
        """The number of outer products, an upper bound of the rank."""
        total = size(0)
        for left, _ in self.blocks:
            total = total + shape(left)[1]
        return total

    @property
    def left(self) -> Expression:
        """All left factors side by side."""
        return hstack(left for left, _ in self.blocks)

    @property
    def right(self) -> Expression:
        """All right factors side by side."""
        return hstack(right for _, right in self.blocks)


Deltas = Mapping[Matrix, Delta]
"""The changes of matrices; one that is missing does not change."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """Derives deltas of expressions from those of the matrices they read.

    Without `extract`, blocks with a factor in common are not merged: the ranks 3, 9, 27 of section 4.3.
    """

    deltas: Deltas
    extract: bool = True

    def of(self, node: Expression) -> Delta:
        """The delta of an expression over old values."""
        blocks = self._blocks(node)
        return Delta(tuple(_extract(blocks)) if self.extract else tuple(_plain(blocks)))

    def _blocks(self, node: Expression) -> list[Block]:
        match node:
            case Matrix():
                return list(self.deltas[node].blocks) if node in self.deltas else []
            case Identity() | Zero():
                return []
            case Scale():
                return [(scale(node.factor, left), right) for left, right in self._blocks(node.body)]
            case Sum():
                return [block for term in node.terms for block in self._blocks(term)]
            case Transpose():
                return [(right, left) for left, right in self._blocks(node.body)]
            case Product():
                return self._product(node.left, node.right)
            case Stack():
                return self._stack(node)
            case Recurrence():
                return self._telescope(node)
            case Inverse() | Named():
                raise InternalError(f"{node} is a statement of its own before deltas are derived")

    def _product(self, first: Expression, second: Expression) -> list[Block]:
        change = self.of(first)
        blocks = [(left, thin(transpose(second), right)) for left, right in change.blocks]
        for left, right in self.of(second).blocks:
            own = thin(first, left)
            both = [product(outer, product(transpose(inner), left)) for outer, inner in change.blocks]
            if self.extract:
                blocks.append((add((own, *both)), right))
            else:
                blocks += [(own, right), *((each, right) for each in both)]
        return blocks

    def _stack(self, node: Stack) -> list[Block]:
        blocks: list[Block] = []
        for place, part in enumerate(node.blocks):
            for left, right in self._blocks(part):
                if node.vertical:
                    blocks.append((_padded(left, node.blocks, place, 0), right))
                else:
                    blocks.append((left, _padded(right, node.blocks, place, 1)))
        return blocks

    def _telescope(self, node: Recurrence) -> list[Block]:
        (base,) = node.operands
        change = self.of(base)
        if not change.blocks:
            return []
        left, right = change.left, change.right
        lefts, rights = [left], [right]
        for _ in range(node.steps - 1):
            lefts.append(add((thin(base, lefts[-1]), product(left, product(transpose(right), lefts[-1])))))
            rights.append(thin(transpose(base), rights[-1]))
        return list(zip(lefts, reversed(rights), strict=True))


def thin(node: Expression, factor: Expression) -> Expression:
    """E x for a thin x, without forming E: (E + F) x = E x + F x, (E F) x = E (F x)."""
    match node:
        case Sum():
            return add(thin(term, factor) for term in node.terms)
        case Scale():
            return scale(node.factor, thin(node.body, factor))
        case Product():
            return thin(node.left, thin(node.right, factor))
        case _:
            return product(node, factor)


def collapse(delta: Delta, *, by_rows: bool) -> Delta:
    """The full delta: [L₁, L₂] [R₁, R₂]' = (L₁ R₁' + L₂ R₂') I, or I (R₁ L₁' + R₂ L₂')' where there are fewer rows."""
    if by_rows:
        change = add(product(right, transpose(left)) for left, right in delta.blocks)
        return Delta(((identity(shape(change)[1]), change),))
    change = add(product(left, transpose(right)) for left, right in delta.blocks)
    return Delta(((change, identity(shape(change)[1])),))


def woodbury(view: Matrix, ahead: Expression, right: Expression) -> Delta:
    """ΔW = -(W L) (I + R' (W L))⁻¹ (W' R)', where `ahead` is W L and `view` is W."""
    capacitance = add((identity(shape(ahead)[1]), product(transpose(right), ahead)))
    return Delta(((scale(-1.0, product(ahead, inv(capacitance))), product(transpose(view), right)),))


def _extract(blocks: list[Block]) -> list[Block]:
    """Common factors: L R' + M R' = (L + M) R', and L R' + L S' = L (R + S)'."""
    by_right: dict[Expression, list[Expression]] = {}
    for left, right in _plain(blocks):
        by_right.setdefault(right, []).append(left)
    by_left: dict[Expression, list[Expression]] = {}
    for right, lefts in by_right.items():
        if len({shape(left)[1] for left in lefts}) > 1:
            raise InternalError(f"blocks that share {right} differ in rank")
        left, factor = _unscaled(add(lefts))
        by_left.setdefault(left, []).append(scale(factor, right))
    return list(_plain([(left, add(rights)) for left, rights in by_left.items()]))


def _plain(blocks: list[Block]) -> list[Block]:
    """Blocks without zeros, with numbers moved to the left factor."""
    found: list[Block] = []
    for left, right in blocks:
        body, factor = _unscaled(right)
        if not isinstance(left, Zero) and not isinstance(body, Zero):
            found.append((scale(factor, left), body))
    return found


def _unscaled(node: Expression) -> tuple[Expression, float]:
    return (node.body, node.factor) if isinstance(node, Scale) else (node, 1.0)


def _padded(factor: Expression, blocks: tuple[Expression, ...], place: int, side: int) -> Expression:
    """A factor of one block, with zeros for the rows of the others."""
    rank = shape(factor)[1]
    return vstack(factor if i == place else zero(shape(block)[side], rank) for i, block in enumerate(blocks))
