"""Functions of numbers as code: arithmetic within the range of its type, rounding, extremes, finished aggregates."""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.algebra.nodes import Call, Const
from viewlet.codegen.bounds import FAR_FROM_INFINITE, WORD, magnitude, reach
from viewlet.codegen.functions.writer import FunctionWriter, Support, perhaps, strict, total
from viewlet.codegen.word import Word, both, null_word
from viewlet.types import Kind, SqlType

_EXACT_DIGITS = 18
_DOUBLE_DIGITS = 300


def _arithmetic(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    a, b = words
    if call.type.is_float:
        code = f"({a.code} {call.op} {b.code})"
        return strict(_float(support, call, code), words, True)
    if not call.type.is_exact and call.type.kind is not Kind.DATE:
        return None
    bound = reach(call)
    if bound >= WORD:
        other = f"-({b.code})" if call.op == "-" else b.code
        code = f"checked_{'mul' if call.op == '*' else 'add'}({a.code}, {other}, {too_large(call.type)}, control)"
    else:
        code = f"({a.code} {call.op} {b.code})"
    return strict(support.within(code, call.type, bound), words)


def too_large(type: SqlType) -> str:
    """What an exact number beyond 64 bits is reported as: only the words are too narrow for one of a wide type."""
    return "TOO_WIDE" if type.is_wide else "OVERFLOW"


def _float(support: Support, call: Call, code: str) -> str:
    if call.type.kind is Kind.REAL:
        return support.single(code)
    return code if magnitude(call) < FAR_FROM_INFINITE else f"finite({code}, control)"


def _negative(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    (a,) = words
    if call.type.is_float:
        return strict(f"(-{a.code})", words, True)
    return strict(support.within(f"(-{a.code})", call.type, reach(call)), words)


def _absolute(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    (a,) = words
    if call.type.is_float:
        return strict(f"abs({a.code})", words, True)
    return strict(support.within(f"abs({a.code})", call.type, reach(call)), words)


def _quotient(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    a, b = words
    code = _float(support, call, f"({a.code} / {b.code})")
    return Word(code, both(a.present, b.present, f"({b.code} != 0.0)"), True)


def _whole_quotient(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    code, divisor = f"quotient({words[0].code}, {words[1].code})", call.args[1]
    if not (isinstance(divisor, Const) and isinstance(divisor.value, int) and divisor.value > 0):
        code = support.within(code, call.type, reach(call.args[0]))  # the least integer has no opposite
    return _divided(support, call, words, code)


def _remainder(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    function = "double_remainder" if call.type.is_float else "remainder"
    return _divided(support, call, words, f"{function}({words[0].code}, {words[1].code})")


def _divided(support: Support, call: Call, words: Sequence[Word], code: str) -> Word:
    divisor = call.args[1]
    if isinstance(divisor, Const) and divisor.value:
        return strict(code, words, call.type.is_float)
    return perhaps(support, code, words, call.type.is_float)


def _floor(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    if call.type.is_float:
        return strict(f"floor_double({words[0].code})", words, True)
    return strict(f"({words[0].code} // {10 ** call.args[0].type.scale})", words)


def _ceil(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    if call.type.is_float:
        return strict(f"ceil_double({words[0].code})", words, True)
    return strict(f"(-(-{words[0].code} // {10 ** call.args[0].type.scale}))", words)


def _round(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    (value, places), a = call.args, words[0]
    if not (isinstance(places, Const) and isinstance(places.value, int)):
        return None
    digits = places.value
    if value.type.is_float:
        if abs(digits) > _DOUBLE_DIGITS:
            return None
        return strict(f"round_double({a.code}, {10.0**digits!r})", words, True)
    scale = value.type.scale
    if digits >= scale:
        return strict(a.code, words)
    if scale - digits > _EXACT_DIGITS:
        return None
    unit = 10 ** (scale - digits)
    factor = 10 ** max(call.type.scale - digits, 0)
    code = f"round_to({a.code}, {unit}, {factor}, {support.asking(call, given=1)})"
    return strict(support.within(code, call.type, reach(value) * factor // unit + factor), words)


def _sign(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    return strict(f"sign_of({words[0].code})", words)


def _root(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    return strict(f"square_root({words[0].code}, {support.asking(call)})", words, True)


def _average(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    a, b = words
    unit = b.code if a.is_float else f"({b.code} * {10 ** call.args[0].type.scale})"
    return Word(f"({a.code} / {unit})", both(a.present, b.present, f"({b.code} != 0)"), True)


def _square(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    return strict(f"square({words[0].code}, control)", words, True)


def _square_error(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    return strict(f"square_error({words[0].code})", words, True)


def _variance(freedom: int, function: str = "") -> FunctionWriter:
    """Of doubles; those of exact numbers are quotients of integers beyond 64 bits, which Python computes."""

    def write(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
        if not call.args[1].type.is_float:
            return None
        code = f"variance({', '.join(word.code for word in words)}, {freedom})"
        return perhaps(support, f"{function}({code})" if function else code, words, True)

    return write


def _pairs(codes: list[str]) -> list[list[str]]:
    return [codes[start : start + 2] for start in range(0, len(codes), 2)]


def _extreme(function: str) -> FunctionWriter:
    def write(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
        if call.type.kind is Kind.VARCHAR:
            return None
        name = f"{function}_double" if call.type.is_float else function
        codes = [null_word(word) for word in words]
        while len(codes) > 1:  # by halves: Python reads 200 parentheses in each other
            codes = [f"{name}({', '.join(pair)})" if len(pair) > 1 else pair[0] for pair in _pairs(codes)]
        return total(support, codes[0], call.type)

    return write


def _only_row(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    rows, value = words
    code = f"only_row({rows.code}, {value.nullable_key}, {support.asking(call)})"
    return total(support, f"double_of({code})" if call.type.is_float else code, call.type)


NUMERIC: dict[str, FunctionWriter] = {
    "+": _arithmetic,
    "-": _arithmetic,
    "*": _arithmetic,
    "neg": _negative,
    "abs": _absolute,
    "/": _quotient,
    "//": _whole_quotient,
    "%": _remainder,
    "floor": _floor,
    "ceil": _ceil,
    "round": _round,
    "sign": _sign,
    "sqrt": _root,
    "square": _square,
    "square_error": _square_error,
    "avg": _average,
    "var_samp": _variance(1),
    "var_pop": _variance(0),
    "stddev_samp": _variance(1, "np.sqrt"),
    "stddev_pop": _variance(0, "np.sqrt"),
    "greatest": _extreme("greater"),
    "least": _extreme("lesser"),
    "only_row": _only_row,
}
