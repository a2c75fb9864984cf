"""Casts between numbers, truth values and moments as code; those from and to strings go through Python."""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.algebra.calendar import MICROSECONDS_PER_DAY
from viewlet.algebra.nodes import Call
from viewlet.codegen.bounds import WORD, reach
from viewlet.codegen.functions.numeric import too_large
from viewlet.codegen.functions.writer import FunctionWriter, Support, strict
from viewlet.codegen.word import Word
from viewlet.types import INTEGER_BITS, Kind, SqlType

_EXACT_DIGITS = 18


def _cast(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    source, target = call.args[0].type, call.type
    if Kind.VARCHAR in (source.kind, target.kind):
        return words[0] if source.kind is target.kind else None
    if target.is_float:
        return _to_float(support, call, words)
    if target.is_exact:
        return _to_exact(support, call, words)
    if source.kind is target.kind:
        return words[0]
    if target.kind is Kind.BOOLEAN:
        return strict(f"(1 if {words[0].code} != 0 else 0)", words)
    if target.kind is Kind.TIMESTAMP:
        return strict(f"({words[0].code} * {MICROSECONDS_PER_DAY})", words)
    return strict(f"({words[0].code} // {MICROSECONDS_PER_DAY})", words)


def _to_float(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    source, (a,) = call.args[0].type, words
    if source.is_float:
        narrows = call.type.kind is Kind.REAL and source.kind is not Kind.REAL
        return strict(support.single(a.code), words, True) if narrows else a
    code = f"({a.code} / {float(10**source.scale)})"
    return strict(support.single(code) if call.type.kind is Kind.REAL else code, words, True)


def _to_exact(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    (arg,), (a,), target = call.args, words, call.type
    if arg.type.is_float:
        whole = target.is_integer
        if target.scale > _EXACT_DIGITS:
            return None
        code = (
            f"integer_of({a.code}, {support.asking(call)})"
            if whole
            else f"units_of({a.code}, {float(10**target.scale)}, {support.asking(call)})"
        )
        return strict(support.within(code, target, WORD), words)
    change = target.scale - arg.type.scale
    if change < 0:
        if -change > _EXACT_DIGITS:
            return None
        return strict(support.within(f"in_units({a.code}, {10**-change})", target, _rounded(arg.type, -change)), words)
    if arg.type.is_integer and target.is_integer and INTEGER_BITS[arg.type.kind] <= INTEGER_BITS[target.kind]:
        return a
    factor, bound = 10**change, reach(arg) * 10**change
    code = a.code
    if factor > 1:
        checked = f"checked_mul({code}, {factor}, {too_large(target)}, control)"
        code = f"({code} * {factor})" if bound < WORD else checked
    return strict(support.within(code, target, bound), words)


def _rounded(type: SqlType, digits: int) -> int:
    """How large a value of the type is without its last digits; 9.99 may become 10."""
    return int(min(10 ** max(type.precision - digits, 0) + 1, WORD))


CASTS: dict[str, FunctionWriter] = {"cast": _cast}
