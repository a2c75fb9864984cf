"""Scalars as Python expressions over words.

Each scalar becomes the code of its value, valid where it is not NULL, and the code of the condition under which it is
not NULL. Booleans become two conditions, is-true and is-false, so that three-valued logic needs no third value.
Anything that depends on one string column alone is looked up in a table indexed by the string's code, filled once per
distinct string.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from viewlet.algebra.nodes import Call, Const, Scalar, Var
from viewlet.algebra.traverse import scalar_variables
from viewlet.types import Kind, SqlType

NEVER, ALWAYS = "False", "True"


class NotCompilable(Exception):  # noqa: N818 - not an error: the interpreter takes over
    """Generated code cannot express this; the interpreter can."""


@dataclass(frozen=True, slots=True)
class Word:
    """A value as code: `code` is the value where `present` holds; doubles are floats, all else int64 words."""

    code: str
    present: str
    is_float: bool


@dataclass(slots=True)
class Tables:
    """What the generated code needs to know about strings at run time."""

    lookups: list[tuple[Scalar, Var]] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)

    def lookup(self, scalar: Scalar, var: Var) -> int:
        if (scalar, var) not in self.lookups:
            self.lookups.append((scalar, var))
        return self.lookups.index((scalar, var))

    def string(self, text: str) -> int:
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)


class ScalarWriter:
    def __init__(self, name_of: Callable[[Var], str], tables: Tables) -> None:
        self._name_of = name_of
        self._tables = tables

    def word(self, scalar: Scalar) -> Word:
        """Code for a value."""
        if isinstance(scalar, Call) and (table := self._table_of(scalar)) is not None:
            return table
        match scalar:
            case Var(_, type):
                name = self._name_of(scalar)
                return Word(name, _present(name, type), type.is_float)
            case Const(value, type):
                return self._constant(value, type)
            case Call(_, _, type) if type.kind is Kind.BOOLEAN:
                true, false = self.truth(scalar), self.falsity(scalar)
                present = ALWAYS if not type.nullable else either(true, false)
                return Word(f"(1 if {true} else 0)", present, False)
            case Call(op, args, type):
                return self._call(op, args, type)
        raise NotCompilable(str(scalar))

    def truth(self, scalar: Scalar) -> str:
        """Code for "is true"."""
        return self._logic(scalar, True)

    def falsity(self, scalar: Scalar) -> str:
        """Code for "is false"."""
        return self._logic(scalar, False)

    def _logic(self, scalar: Scalar, wanted: bool) -> str:
        match scalar:
            case Const(value, _):
                return ALWAYS if value is wanted else NEVER
            case Var():
                return f"({self._name_of(scalar)} == {int(wanted)})"
            case Call("and" | "or" as op, args, _):
                parts = [self._logic(arg, wanted) for arg in args]
                return both(*parts) if (op == "and") == wanted else either(*parts)
            case Call("not", (arg,), _):
                return self._logic(arg, not wanted)
            case Call("is_null" | "is_not_null" as op, (arg,), _):
                present = self.word(arg).present
                return present if (op == "is_not_null") == wanted else _not(present)
            case Call("is_true", (arg,), _):
                return self.truth(arg) if wanted else _not(self.truth(arg))
            case Call() if (table := self._table_of(scalar)) is not None:
                return f"({table.code} == {int(wanted)})"
            case Call(op, (left, right), _) if op in _COMPARISONS:
                return self._comparison(op if wanted else _OPPOSITE[op], left, right)
            case Call("in", (needle, *choices), _):
                return self._membership(needle, choices, wanted)
            case Call("is_not_distinct", (left, right), _):
                a, b = self.word(left), self.word(right)
                same = either(
                    both(a.present, b.present, f"({a.code} == {b.code})"), both(_not(a.present), _not(b.present))
                )
                return same if wanted else _not(same)
            case Call("case", args, _):
                return self._case(args, lambda arg: self._logic(arg, wanted))
        raise NotCompilable(f"condition {getattr(scalar, 'op', scalar)}")

    def _membership(self, needle: Scalar, choices: Sequence[Scalar], wanted: bool) -> str:
        word = self.word(needle)
        others = [self.word(choice) for choice in choices]
        if wanted:
            return both(word.present, either(*(both(o.present, f"({word.code} == {o.code})") for o in others)))
        return both(word.present, *(both(o.present, f"({word.code} != {o.code})") for o in others))

    def _comparison(self, op: str, left: Scalar, right: Scalar) -> str:
        a, b = self.word(left), self.word(right)
        if Kind.VARCHAR in (left.type.kind, right.type.kind) and op not in ("=", "<>"):
            raise NotCompilable("order of two string columns")
        return both(a.present, b.present, f"({a.code} {_COMPARISONS[op]} {b.code})")

    def _case(self, args: tuple[Scalar, ...], code: Callable[[Scalar], str]) -> str:
        *pairs, otherwise = args
        text = code(otherwise)
        for condition, value in reversed(list(zip(pairs[::2], pairs[1::2], strict=True))):
            text = f"({code(value)} if {self.truth(condition)} else {text})"
        return text

    def _call(self, op: str, args: tuple[Scalar, ...], type: SqlType) -> Word:
        match op:
            case "+" | "-" | "*" if type.is_numeric or type.kind is Kind.DATE:
                a, b = (self.word(arg) for arg in args)
                code = f"({a.code} {op} {b.code})"
                if not type.is_float and reach(Call(op, args, type)) >= _WORD:
                    negated = f"-({b.code})" if op == "-" else b.code
                    code = f"checked_{'mul' if op == '*' else 'add'}({a.code}, {negated}, control)"
                return Word(code, both(a.present, b.present), type.is_float)
            case "neg":
                a = self.word(args[0])
                return Word(f"(-{a.code})", a.present, type.is_float)
            case "/" if type.is_float and all(arg.type.is_float for arg in args):
                a, b = (self.word(arg) for arg in args)
                return Word(f"({a.code} / {b.code})", both(a.present, b.present, f"({b.code} != 0.0)"), True)
            case "avg":
                a, b = (self.word(arg) for arg in args)
                unit = f"{b.code}" if a.is_float else f"({b.code} * {10 ** args[0].type.scale})"
                return Word(f"({a.code} / {unit})", both(a.present, b.present, f"({b.code} != 0)"), True)
            case "case":
                code = self._case(args, lambda arg: self.word(arg).code)
                return Word(code, self._case(args, lambda arg: self.word(arg).present), type.is_float)
            case "coalesce":
                words = [self.word(arg) for arg in args]
                code = words[-1].code
                for word in reversed(words[:-1]):
                    code = f"({word.code} if {word.present} else {code})"
                return Word(code, either(*(word.present for word in words)), type.is_float)
            case "cast":
                return self._cast(args[0], type)
            case "extract_year" | "extract_month" if args[0].type.kind is Kind.DATE:
                a = self.word(args[0])
                return Word(f"{op.removeprefix('extract_')}_of({a.code})", a.present, False)
            case "add_days" if type.kind is Kind.DATE:
                a, b = (self.word(arg) for arg in args)
                return Word(f"({a.code} + {b.code})", both(a.present, b.present), False)
        raise NotCompilable(f"function {op}")

    def _cast(self, arg: Scalar, type: SqlType) -> Word:
        source, a = arg.type, self.word(arg)
        if source.same_representation(type) and not (source.is_integer and type.kind is not Kind.BIGINT):
            return a
        if source.is_exact and type.kind is Kind.DECIMAL and type.scale >= source.scale:
            factor = 10 ** (type.scale - source.scale)
            code = (
                f"({a.code} * {factor})" if reach(arg) * factor < _WORD else f"checked_mul({a.code}, {factor}, control)"
            )
            return Word(code, a.present, False)
        if source.is_exact and type.is_float:
            return Word(f"({a.code} / {float(10**source.scale)})", a.present, True)
        if source.kind is Kind.DATE and type.kind is Kind.TIMESTAMP:
            return Word(f"({a.code} * 86400000000)", a.present, False)
        if source.is_integer and type.is_integer and type.kind is Kind.BIGINT:
            return a
        raise NotCompilable(f"cast from {source} to {type}")

    def _constant(self, value: object, type: SqlType) -> Word:
        if value is None:
            return Word("0.0" if type.is_float else "0", NEVER, type.is_float)
        if isinstance(value, str):
            return Word(f"strings[{self._tables.string(value)}]", ALWAYS, False)
        if isinstance(value, int) and abs(value) >= 1 << 63:
            raise NotCompilable("a constant beyond 64 bits")
        return Word(repr(float(value) if type.is_float else int(value)), ALWAYS, type.is_float)  # type: ignore[arg-type, call-overload]

    def _table_of(self, scalar: Call) -> Word | None:
        """A function of one string column and constants, as a table look-up."""
        variables = set(scalar_variables(scalar))
        if len(variables) != 1:
            return None
        (var,) = variables
        if var.type.kind is not Kind.VARCHAR or scalar.type.is_float:
            return None
        name, number = self._name_of(var), self._tables.lookup(scalar, var)
        code = (
            f"lookup{number}[{name} + 1 if {name} >= 0 else 0]" if var.type.nullable else f"lookup{number}[{name} + 1]"
        )
        return Word(code, ALWAYS if not scalar.type.nullable else f"({code} != NULL)", False)


_WORD = 1 << 63


def reach(scalar: Scalar) -> int:
    """A bound of the absolute value of an exact scalar's word, from types and constants."""
    match scalar:
        case Const(value, _):
            return abs(value) if isinstance(value, int) else 0
        case Call("+" | "-", (left, right), _):
            return reach(left) + reach(right)
        case Call("*", (left, right), _):
            return reach(left) * reach(right)
        case Call("neg", (arg,), _):
            return reach(arg)
        case Call("case", args, _):
            return max(reach(arg) for arg in (*args[1::2], args[-1]))
        case Call("cast", (arg,), type) if (
            arg.type.is_exact and type.kind is Kind.DECIMAL and type.scale >= arg.type.scale
        ):
            return int(reach(arg) * 10 ** (type.scale - arg.type.scale))
        case _:
            kind = scalar.type.kind
            if kind is Kind.DECIMAL:
                return int(min(10**scalar.type.precision, _WORD))
            return {Kind.SMALLINT: 1 << 15, Kind.INTEGER: 1 << 31, Kind.DATE: 1 << 32, Kind.BOOLEAN: 1}.get(kind, _WORD)


_COMPARISONS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def both(*parts: str) -> str:
    kept = list(dict.fromkeys(part for part in parts if part != ALWAYS))
    if NEVER in kept:
        return NEVER
    return ALWAYS if not kept else kept[0] if len(kept) == 1 else "(" + " and ".join(kept) + ")"


def either(*parts: str) -> str:
    kept = list(dict.fromkeys(part for part in parts if part != NEVER))
    if ALWAYS in kept:
        return ALWAYS
    return NEVER if not kept else kept[0] if len(kept) == 1 else "(" + " or ".join(kept) + ")"


def _not(part: str) -> str:
    return {ALWAYS: NEVER, NEVER: ALWAYS}.get(part, f"(not {part})")


def _present(name: str, type: SqlType) -> str:
    if not type.nullable:
        return ALWAYS
    return f"({name} == {name})" if type.is_float else f"({name} != NULL)"
