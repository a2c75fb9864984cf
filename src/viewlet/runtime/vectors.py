"""Vectorised sums of ranges of doubles, for payloads that are vectors.

Numba leaves loops of a dozen steps to one number at a time; these are written for such lengths. Without Numba they are
slices of arrays.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from viewlet.runtime.jit import ENABLED

_LANES = 4

if ENABLED:
    ir: Any = import_module("llvmlite.ir")
    cgutils: Any = import_module("numba.core.cgutils")
    types: Any = import_module("numba").types
    intrinsic: Any = import_module("numba.extending").intrinsic

    def _place(context: Any, builder: Any, kind: Any, array: Any, row: Any, column: Any) -> Any:
        """The address of one number of a two-dimensional array."""
        made = context.make_array(kind)(context, builder, array)
        width = builder.extract_value(made.shape, 1)
        return builder.gep(made.data, [builder.add(builder.mul(row, width), column)])

    def _in_chunks(builder: Any, length: Any, chunk: Any) -> None:
        """Calls `chunk(start, lanes)` for ranges of four, then at most one of two and one of one."""
        word = ir.IntType(64)
        with cgutils.for_range(builder, builder.lshr(length, ir.Constant(word, 2)), intp=word) as loop:
            chunk(builder.shl(loop.index, ir.Constant(word, 2)), _LANES)
        for lanes in (2, 1):
            with builder.if_then(builder.trunc(builder.lshr(length, ir.Constant(word, lanes // 2)), ir.IntType(1))):
                chunk(builder.and_(length, ir.Constant(word, -2 * lanes)), lanes)

    def _scaling(add: bool) -> Any:
        def scale(typing: Any, target: Any, t: Any, at: Any, source: Any, s: Any, start: Any, n: Any, w: Any) -> Any:
            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                to = _place(context, builder, signature.args[0], args[0], args[1], args[2])
                origin = _place(context, builder, signature.args[3], args[3], args[4], args[5])
                double = ir.DoubleType()

                def chunk(begin: Any, lanes: int) -> None:
                    vector = ir.VectorType(double, lanes)
                    one = ir.Constant(ir.VectorType(ir.IntType(32), lanes), None)
                    single = builder.insert_element(
                        ir.Constant(vector, ir.Undefined), args[7], ir.Constant(ir.IntType(32), 0)
                    )
                    factor = builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), one)
                    there = builder.bitcast(builder.gep(to, [begin]), ir.PointerType(vector))
                    here = builder.bitcast(builder.gep(origin, [begin]), ir.PointerType(vector))
                    found = builder.fmul(builder.load(here, align=8), factor)
                    if add:
                        found = builder.fadd(builder.load(there, align=8), found)
                    builder.store(found, there, align=8)

                _in_chunks(builder, args[6], chunk)
                return context.get_dummy_value()

            word = types.int64
            return types.void(target, word, word, source, word, word, word, types.float64), codegen

        return intrinsic(scale)

    add_scaled = _scaling(add=True)
    set_scaled = _scaling(add=False)

    def _expect(typing: Any, array: Any, i: Any) -> Any:
        """Tells the processor that row i of an array will be wanted soon."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            made = context.make_array(signature.args[0])(context, builder, args[0])
            row = args[1]
            if signature.args[0].ndim > 1:
                row = builder.mul(row, builder.extract_value(made.shape, 1))
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            place = builder.bitcast(builder.gep(made.data, [row]), byte)
            builder.call(call, [place, number(1), number(3), number(1)])
            return context.get_dummy_value()

        return types.void(array, types.int64), codegen

    expect = intrinsic(_expect)

else:

    def add_scaled(target: Any, t: int, at: int, source: Any, s: int, start: int, n: int, w: float) -> None:
        """target[t, at + i] += w * source[s, start + i] for i < n."""
        target[t, at : at + n] += w * source[s, start : start + n]

    def set_scaled(target: Any, t: int, at: int, source: Any, s: int, start: int, n: int, w: float) -> None:
        """target[t, at + i] = w * source[s, start + i] for i < n."""
        target[t, at : at + n] = w * source[s, start : start + n]

    def expect(array: Any, i: int) -> None:
        """Tells the processor that row i of an array will be wanted soon."""
