"""Scalars as Python expressions over words.

Each scalar becomes the code of its value, valid where it is not NULL, and the code of the condition under which it is
not NULL. Booleans become two conditions, is-true and is-false, so that three-valued logic needs no third value.
Functions with generated code are in `functions/`. All others are computed by the interpreter's implementation. A scalar
of one string column is a table indexed by the code of the string, filled once per distinct string. Any other scalar has
a memo of past arguments and results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from viewlet.algebra.functions import FUNCTIONS
from viewlet.algebra.nodes import Call, Cond, Const, Expr, Scalar, Value, Var
from viewlet.algebra.text import TEXTUAL
from viewlet.algebra.traverse import variable_set, walk
from viewlet.codegen.arrays import OtherArray
from viewlet.codegen.bounds import limits
from viewlet.codegen.functions import WRITERS
from viewlet.codegen.functions.writer import strict, total
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.word import ALWAYS, NEVER, Word, both, either, negated, present_code
from viewlet.types import BIGINT, BOOLEAN, DOUBLE, MAX_DECIMAL_DIGITS, REAL, VARCHAR, Kind, SqlType, decimal

T = TypeVar("T")


STRINGS, RANKS, ANSWERS, CALLS = "strings", "ranks", "answers", "calls"
"""Arrays of generated code: the codes of constants, the ranks of codes in the order of their texts, values tested for
NULL, and the words of a callback."""


def lookup_name(number: int) -> str:
    return f"lookup{number}"


def memo_name(number: int) -> str:
    return f"memo{number}"


@dataclass(frozen=True, slots=True)
class Formula:
    """A scalar that Python computes for generated code, with its variables in the order of the arguments."""

    scalar: Scalar
    parameters: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A table of a scalar's values by the code of the one string it depends on.

    A lazy table is filled on demand: the scalar may fail, or make strings that are never used.
    """

    scalar: Scalar
    var: Var
    is_lazy: bool


@dataclass(slots=True)
class Tables:
    """Run-time requirements of generated code besides its stores: strings, tables of values, callbacks to Python."""

    makes_strings: bool = False
    """Whether the code itself makes strings: then those that it meets may be newer than any table."""
    lookups: list[Lookup] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    formulas: list[Formula] = field(default_factory=list)
    answers: int = 0
    """Values that are tested for NULL first and used then: how many places they need."""

    def arrays(self) -> tuple[OtherArray, ...]:
        """The arrays of the state that the code finds them in."""
        names = [*(lookup_name(i) for i in range(len(self.lookups))), STRINGS, RANKS]
        names += [ANSWERS] if self.answers else []
        names += [CALLS, *(memo_name(i) for i in range(len(self.formulas)))] if self.formulas else []
        return tuple(map(OtherArray, names))

    def lookup(self, lookup: Lookup) -> int:
        return _number(self.lookups, lookup)

    def string(self, text: str) -> int:
        return _number(self.strings, text)

    def formula(self, scalar: Scalar, parameters: Sequence[Var]) -> int:
        """Strings that it may choose have codes, and ranks, before it is asked for the first time."""
        if scalar.type.kind is Kind.VARCHAR:
            for text in _texts(scalar):
                self.string(text)
        return _number(self.formulas, Formula(scalar, tuple(parameters)))


def _texts(scalar: Scalar) -> Iterator[str]:
    """The constant strings in a scalar."""
    if isinstance(scalar, Const) and isinstance(scalar.value, str):
        yield scalar.value
    if isinstance(scalar, Call):
        for arg in scalar.args:
            yield from _texts(arg)


def _number(known: list[T], wanted: T) -> int:
    if wanted not in known:
        known.append(wanted)
    return known.index(wanted)


_CHOICES = frozenset(("case", "coalesce", "nullif", "greatest", "least", "only_row", "cast"))


def makes_strings(exprs: Iterable[Expr]) -> bool:
    """Whether a scalar in some expression makes strings that are not there yet."""

    def is_maker(scalar: Scalar) -> bool:
        if not isinstance(scalar, Call):
            return False
        if scalar.type.kind is Kind.VARCHAR and (
            scalar.op not in _CHOICES or (scalar.op == "cast" and scalar.args[0].type.kind is not Kind.VARCHAR)
        ):
            return True
        return any(is_maker(arg) for arg in scalar.args)

    return any(is_maker(node.scalar) for expr in exprs for node in walk(expr) if isinstance(node, Cond | Value))


class ScalarWriter:
    def __init__(self, name_of: Callable[[Var], str], tables: Tables) -> None:
        self._name_of = name_of
        self._tables = tables
        self._absent: set[Var] = set()

    def note_absent(self, var: Var) -> None:
        """The variable may be NULL here, whatever its type says, and no function may be given it then.

        An extreme is not NULL in a group that has rows, but triggers also compute it of groups that have none. A column
        that equals one without NULLs is written as that one, and its rows are read before they are compared.
        """
        if not var.type.nullable:
            self._absent.add(var)

    def may_be_absent(self, var: Var) -> bool:
        """It has been noted that the variable may be NULL, whatever its type says."""
        return var in self._absent

    def word(self, scalar: Scalar) -> Word:
        """Code for a value."""
        if isinstance(scalar, Call) and (table := self._table_of(scalar)) is not None:
            return table
        match scalar:
            case Var(_, type):
                name = self._name_of(scalar)
                return Word(name, present_code(name, self._seen_type(scalar, type)), type.is_float)
            case Const(value, type):
                return self._constant(value, type)
            case Call(_, _, type) if type.kind is Kind.BOOLEAN:
                true, false = self.truth(scalar), self.falsity(scalar)
                present = ALWAYS if not type.nullable else either(true, false)
                return Word(f"(1 if {true} else 0)", present, False)
            case Call():
                return self._call(scalar)
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
                return present if (op == "is_not_null") == wanted else negated(present)
            case Call("is_true", (arg,), _):
                return self.truth(arg) if wanted else negated(self.truth(arg))
            case Call() if (table := self._table_of(scalar)) is not None:
                return f"({table.code} == {int(wanted)})"
            case Call(op, (left, right), _) if op in _COMPARISONS:
                return self._comparison(op if wanted else _OPPOSITE[op], left, right)
            case Call("in", (needle, *choices), _):
                return self._membership(needle, choices, wanted)
            case Call("is_not_distinct", (left, right), _):
                a, b = self.word(left), self.word(right)
                same = either(
                    both(a.present, b.present, f"({a.code} == {b.code})"), both(negated(a.present), negated(b.present))
                )
                return same if wanted else negated(same)
            case Call("case", args, _):
                return self._case(args, lambda arg: self._logic(arg, wanted))
            case Call():
                word = self._call(scalar)
                return both(word.present, f"({word.code} == {int(wanted)})")

    def _membership(self, needle: Scalar, choices: Sequence[Scalar], wanted: bool) -> str:
        word = self.word(needle)
        if len(choices) > _MANY_MEMBERS and all(isinstance(choice, Const) for choice in choices):
            type = BOOLEAN.with_nullable(needle.type.nullable)
            found = self.recall(Call("in", (needle, *choices), type), (word,))
            return both(found.present, f"({found.code} == {int(wanted)})")
        others = [self.word(choice) for choice in choices]
        if wanted:
            return both(word.present, either(*(both(o.present, f"({word.code} == {o.code})") for o in others)))
        return both(word.present, *(both(o.present, f"({word.code} != {o.code})") for o in others))

    def _comparison(self, op: str, left: Scalar, right: Scalar) -> str:
        a, b = self.word(left), self.word(right)
        if left.type.kind is Kind.VARCHAR and op not in ("=", "<>"):
            first, second = (b.code, a.code) if op in (">", "<=") else (a.code, b.code)
            before = self.is_before(first, second)
            return both(a.present, b.present, before if op in ("<", ">") else negated(before))
        return both(a.present, b.present, f"({a.code} {_COMPARISONS[op]} {b.code})")

    def is_before(self, first: str, second: str) -> str:
        """Code for "one string comes before another", neither being NULL."""
        if not self._tables.makes_strings:
            return f"(ranks[{first}] < ranks[{second}])"
        text = VARCHAR.with_nullable(False)
        order = Call("<", (Var("0", text), Var("1", text)), BOOLEAN.with_nullable(False))
        return f"is_before(ranks, {first}, {second}, {self.asking(order)})"

    def _case(self, args: tuple[Scalar, ...], code: Callable[[Scalar], str]) -> str:
        *pairs, otherwise = args
        branches = [(code(value), self.truth(given)) for given, value in zip(pairs[::2], pairs[1::2], strict=True)]
        return _first_that_holds(branches, code(otherwise))

    def _call(self, call: Call) -> Word:
        match call.op:
            case "case":
                return self._choice(call)
            case "coalesce":
                words = [self.word(arg) for arg in call.args]
                code = _first_that_holds([(word.code, word.present) for word in words[:-1]], words[-1].code)
                return Word(code, either(*(word.present for word in words)), call.type.is_float)
        words = [self.word(arg) for arg in call.args]
        writer = WRITERS.get(call.op)
        written = writer(self, call, words) if writer is not None else None
        return written if written is not None else self.recall(call, words)

    def _choice(self, call: Call) -> Word:
        values = {id(arg): self.word(arg) for arg in (*call.args[1::2], call.args[-1])}
        code = self._case(call.args, lambda arg: values[id(arg)].code)
        return Word(code, self._case(call.args, lambda arg: values[id(arg)].present), call.type.is_float)

    # What functions need

    def recall(self, call: Call, words: Sequence[Word]) -> Word:
        """A call that Python computes, once per distinct arguments as long as they are remembered."""
        is_strict = FUNCTIONS[call.op].strict
        given = [i for i, arg in enumerate(call.args) if not isinstance(arg, Const)]
        number = self._formula(call, given)
        key = "".join((words[i].key if is_strict else words[i].nullable_key) + ", " for i in given)
        code = f"recall(memo{number}, calls, np.int64({number}), ({key or 'np.int64(0), '}), control)"
        if call.type.is_float:
            code = f"double_of({code})"
        if not is_strict:
            return total(self, code, call.type)
        if call.op not in _NULL_FOR_OTHERS:
            return strict(code, words, call.type.is_float)
        value, present = self.answer(code, call.type.is_float)
        return Word(value, both(*(word.present for word in words), present), call.type.is_float)

    def asking(self, call: Call, given: int | None = None) -> str:
        number = self._formula(call, range(len(call.args) if given is None else given))
        return f"calls, np.int64({number}), control"

    def _formula(self, call: Call, given: Sequence[int]) -> int:
        """The number of a call as a function of some of its arguments."""
        args = [Var(str(i), arg.type) if i in given else arg for i, arg in enumerate(call.args)]
        return self._tables.formula(
            Call(call.op, tuple(args), call.type), [arg for arg in args if isinstance(arg, Var)]
        )

    def within(self, code: str, type: SqlType, reach: int) -> str:
        limit = limits(type)
        if limit is None or reach <= (limit[1] if type.is_integer else limit[1] + 1):
            return code
        wide = BIGINT if type.is_integer else decimal(MAX_DECIMAL_DIGITS, type.scale)
        check = Call("cast", (Var("0", wide.with_nullable(False)),), type.with_nullable(False))
        return f"ranged({code}, {limit[0]}, {limit[1]}, {self.asking(check)})"

    def single(self, code: str) -> str:
        check = Call("cast", (Var("0", DOUBLE.with_nullable(False)),), REAL.with_nullable(False))
        return f"single({code}, {self.asking(check)})"

    def answer(self, code: str, is_float: bool) -> tuple[str, str]:
        place = self._tables.answers
        self._tables.answers += 1
        if is_float:
            return f"double_of(answers[{place}])", f"keep_double(answers, {place}, {code})"
        return f"answers[{place}]", f"keep(answers, {place}, {code})"

    def _constant(self, value: object, type: SqlType) -> Word:
        if value is None:
            return Word("0.0" if type.is_float else "0", NEVER, type.is_float)
        if isinstance(value, str):
            return Word(f"strings[{self._tables.string(value)}]", ALWAYS, False)
        if isinstance(value, int) and abs(value) >= 1 << 63:
            raise NotCompilable("a constant beyond 64 bits")
        if isinstance(value, float) and not math.isfinite(value):
            if math.isnan(value):
                raise NotCompilable("a constant that is not a number")
            return Word("np.inf" if value > 0 else "(-np.inf)", ALWAYS, True)
        return Word(repr(float(value) if type.is_float else int(value)), ALWAYS, type.is_float)  # type: ignore[arg-type, call-overload]

    def _seen_type(self, var: Var, type: SqlType) -> SqlType:
        """The type of something made of a variable, where the variable may be NULL."""
        return type.with_nullable(True) if var in self._absent else type

    def _table_of(self, scalar: Call) -> Word | None:
        """A function of one string column and constants, as a table look-up."""
        variables = variable_set(scalar)
        if len(variables) != 1:
            return None
        (var,) = variables
        if var.type.kind is not Kind.VARCHAR:
            return None
        name, type = self._name_of(var), self._seen_type(var, scalar.type)
        is_lazy = type.kind is Kind.VARCHAR or type.is_float or not _is_total(scalar)
        number = self._tables.lookup(Lookup(scalar, var, is_lazy))
        if is_lazy or self._tables.makes_strings:
            asked = self._tables.formula(scalar, (var,))
            code = f"look_up(lookup{number}, {name}, calls, np.int64({asked}), control)"
        else:
            may_be_null = self._seen_type(var, var.type).nullable
            place = f"{name} + 1 if {name} >= 0 else 0" if may_be_null else f"{name} + 1"
            code = f"lookup{number}[{place}]"
        if is_lazy and type.kind is not Kind.BOOLEAN:
            return total(self, f"double_of({code})" if type.is_float else code, type)
        return Word(code, f"({code} != NULL)" if type.nullable else ALWAYS, False)


_MANY_MEMBERS = 32
"""A longer list of constants is a set that Python looks into, once per distinct value."""

_NULL_FOR_OTHERS = frozenset(("/", "//", "%", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop"))
"""Strict functions that are NULL for some arguments that are not."""

_LOGIC = frozenset(
    ("and", "or", "not", "is_null", "is_not_null", "is_true", "is_not_distinct", "in", "case", "coalesce")
)


def _first_that_holds(branches: Sequence[tuple[str, str]], otherwise: str) -> str:
    """The value of the first condition that holds; not nested, because Python reads 200 parentheses in each other."""
    return f"({''.join(f'{value} if {condition} else ' for value, condition in branches)}{otherwise})"


def _is_total(scalar: Scalar) -> bool:
    """Whether it has a value for every string: comparisons and functions of strings never fail."""
    if not isinstance(scalar, Call):
        return True
    is_known = scalar.op in _LOGIC or scalar.op in _COMPARISONS or scalar.op in TEXTUAL
    escapes = scalar.op in ("like", "ilike") and len(scalar.args) > 2
    return is_known and not escapes and all(_is_total(arg) for arg in scalar.args)


_COMPARISONS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
