"""Products of a tile of a matrix with thin factors, in vector registers: the inner loops of `rank_update`.

    forward    s[i, c] += Σ_j P[i, j] Q[c, j]          P X, where Q = X'
    backward   Q[c, j] += Σ_i P[i, j] s[i, c]          P' Y, where Q collects (P' Y)'
    update     P[i, j] += Σ_c s[i, c] Q[c, j]          P + U V', where Q = V'

Each function is made for one number of rows i and of factors c, whose numbers stay in registers while j runs over the
tile in steps of a register's width. The loops are written in LLVM's language: as Numba code they are not vectorised,
because the compiler cannot know that the rows of Q and P do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viewlet.runtime.intrinsics import intrinsic, ir, types


class _Tile:
    """The operands of one call: pointers, strides, and the vector type."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any, rows: int, factors: int) -> None:
        self.builder = builder
        self.rows = rows
        self.factors = factors
        kind = context.get_value_type(signature.args[0].dtype)
        width = 4 if signature.args[0].dtype == types.float64 else 8
        self.kind = kind
        self.vector = ir.VectorType(kind, width)
        self.width = width
        pointers = []
        for place in (0, 3, 6):
            array = context.make_array(signature.args[place])(context, builder, args[place])
            pointers.append(builder.gep(array.data, [args[place + 1]]))
        self.matrix, self.thin, self.small = pointers
        self.steps = args[2], args[5], args[8]
        self.count = args[9]

    def entry(self, base: Any, row: int, step: Any, column: Any) -> Any:
        """The address of entry (row, column)."""
        place = self.builder.mul(ir.Constant(ir.IntType(64), row), step)
        return self.builder.gep(base, [self.builder.add(place, column)])

    def load(self, address: Any) -> Any:
        """As many numbers as a register holds, from any address."""
        builder = self.builder
        return builder.load(builder.bitcast(address, self.vector.as_pointer()), align=self.kind_bytes)

    def store(self, value: Any, address: Any) -> None:
        """The numbers of a register, to any address."""
        builder = self.builder
        builder.store(value, builder.bitcast(address, self.vector.as_pointer()), align=self.kind_bytes)

    @property
    def kind_bytes(self) -> int:
        """The size of a number."""
        return 32 // self.width

    def spread(self, value: Any) -> Any:
        """A register that holds one number everywhere."""
        builder = self.builder
        zero = ir.Constant(ir.IntType(32), 0)
        first = builder.insert_element(ir.Constant(self.vector, ir.Undefined), value, zero)
        mask = ir.Constant(ir.VectorType(ir.IntType(32), self.width), [0] * self.width)
        return builder.shuffle_vector(first, ir.Constant(self.vector, ir.Undefined), mask)

    def multiply_add(self, left: Any, right: Any, total: Any) -> Any:
        """left * right + total, rounded once where the machine can."""
        builder = self.builder
        return builder.fadd(builder.fmul(left, right, flags=("contract",)), total, flags=("contract",))

    def zeros(self) -> Any:
        """A register of zeros."""
        return ir.Constant(self.vector, [0.0] * self.width)

    def total(self, value: Any) -> Any:
        """The sum of the numbers of a register, in the order of a tree."""
        builder = self.builder
        parts = [builder.extract_element(value, ir.Constant(ir.IntType(32), i)) for i in range(self.width)]
        while len(parts) > 1:
            parts = [builder.fadd(parts[i], parts[i + 1]) for i in range(0, len(parts), 2)]
        return parts[0]


def _loop(tile: _Tile, carried: list[Any], body: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
    """for j in range(0, count, width): carried = body(j, carried)."""
    builder = tile.builder
    word = ir.IntType(64)
    before = builder.block
    head, inside, behind = (builder.append_basic_block(name) for name in ("head", "inside", "behind"))
    builder.branch(head)
    builder.position_at_end(head)
    place = builder.phi(word)
    place.add_incoming(ir.Constant(word, 0), before)
    values = [builder.phi(tile.vector) for _ in carried]
    for value, start in zip(values, carried, strict=True):
        value.add_incoming(start, before)
    builder.cbranch(builder.icmp_signed("<", place, tile.count), inside, behind)
    builder.position_at_end(inside)
    found = body(place, values)
    following = builder.add(place, ir.Constant(word, tile.width))
    place.add_incoming(following, builder.block)
    for value, new in zip(values, found, strict=True):
        value.add_incoming(new, builder.block)
    builder.branch(head)
    builder.position_at_end(behind)
    return values


def _forward(tile: _Tile) -> None:
    def body(place: Any, sums: list[Any]) -> list[Any]:
        own = [tile.load(tile.entry(tile.matrix, row, tile.steps[0], place)) for row in range(tile.rows)]
        found = list(sums)
        for factor in range(tile.factors):
            thin = tile.load(tile.entry(tile.thin, factor, tile.steps[1], place))
            for row in range(tile.rows):
                at = row * tile.factors + factor
                found[at] = tile.multiply_add(own[row], thin, found[at])
        return found

    sums = _loop(tile, [tile.zeros()] * (tile.rows * tile.factors), body)
    zero = ir.Constant(ir.IntType(64), 0)
    for row in range(tile.rows):
        for factor in range(tile.factors):
            address = tile.builder.gep(tile.entry(tile.small, row, tile.steps[2], zero), [_word(factor)])
            total = tile.total(sums[row * tile.factors + factor])
            tile.builder.store(tile.builder.fadd(tile.builder.load(address), total), address)


def _coefficients(tile: _Tile) -> list[list[Any]]:
    zero = ir.Constant(ir.IntType(64), 0)
    return [
        [
            tile.spread(
                tile.builder.load(tile.builder.gep(tile.entry(tile.small, row, tile.steps[2], zero), [_word(c)]))
            )
            for c in range(tile.factors)
        ]
        for row in range(tile.rows)
    ]


def _backward(tile: _Tile) -> None:
    known = _coefficients(tile)

    def body(place: Any, _: list[Any]) -> list[Any]:
        own = [tile.load(tile.entry(tile.matrix, row, tile.steps[0], place)) for row in range(tile.rows)]
        for factor in range(tile.factors):
            address = tile.entry(tile.thin, factor, tile.steps[1], place)
            total = tile.load(address)
            for row in range(tile.rows):
                total = tile.multiply_add(own[row], known[row][factor], total)
            tile.store(total, address)
        return []

    _loop(tile, [], body)


def _update(tile: _Tile) -> None:
    known = _coefficients(tile)

    def body(place: Any, _: list[Any]) -> list[Any]:
        addresses = [tile.entry(tile.matrix, row, tile.steps[0], place) for row in range(tile.rows)]
        own = [tile.load(address) for address in addresses]
        for factor in range(tile.factors):
            thin = tile.load(tile.entry(tile.thin, factor, tile.steps[1], place))
            for row in range(tile.rows):
                own[row] = tile.multiply_add(known[row][factor], thin, own[row])
        for value, address in zip(own, addresses, strict=True):
            tile.store(value, address)
        return []

    _loop(tile, [], body)


def _word(value: int) -> Any:
    return ir.Constant(ir.IntType(64), value)


def _make(emit: Callable[[_Tile], None], rows: int, factors: int) -> Any:
    @intrinsic
    def tile_product(
        typing_context: Any,
        matrix: Any,
        matrix_at: Any,
        matrix_step: Any,
        thin: Any,
        thin_at: Any,
        thin_step: Any,
        small: Any,
        small_at: Any,
        small_step: Any,
        count: Any,
    ) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit(_Tile(context, builder, signature, args, rows, factors))
            return context.get_dummy_value()

        word = types.int64
        signature = types.void(matrix, word, word, thin, word, word, small, word, word, word)
        return signature, codegen

    return tile_product


forward_2_4, forward_2_2, forward_2_1 = (_make(_forward, 2, factors) for factors in (4, 2, 1))
forward_1_4, forward_1_2, forward_1_1 = (_make(_forward, 1, factors) for factors in (4, 2, 1))
backward_2_4, backward_2_2, backward_2_1 = (_make(_backward, 2, factors) for factors in (4, 2, 1))
backward_1_4, backward_1_2, backward_1_1 = (_make(_backward, 1, factors) for factors in (4, 2, 1))
update_2_4, update_2_2, update_2_1 = (_make(_update, 2, factors) for factors in (4, 2, 1))
update_1_4, update_1_2, update_1_1 = (_make(_update, 1, factors) for factors in (4, 2, 1))
