"""The type of writers of scalar functions, and the services of the scalar writer that they may use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from viewlet.algebra.nodes import Call
from viewlet.codegen.word import ALWAYS, Word, both
from viewlet.types import SqlType


class Support(Protocol):
    def asking(self, call: Call, given: int | None = None) -> str:
        """The arguments by which code asks Python for a call, to raise its error: `calls, number, control`.

        The first `given` arguments of the call are handed over, or all of them; the others are constants.
        """

    def within(self, code: str, type: SqlType, reach: int) -> str:
        """The code of an exact value no larger than `reach`, checked against its type if it need not fit."""

    def single(self, code: str) -> str:
        """The code of a double, rounded to single precision."""

    def answer(self, code: str, is_float: bool) -> tuple[str, str]:
        """Code that may be NULL, as the code of the value and that of "is not NULL"."""


FunctionWriter = Callable[[Support, Call, Sequence[Word]], Word | None]


def strict(code: str, words: Sequence[Word], is_float: bool = False) -> Word:
    """The result of a function that is NULL where an argument is, and nowhere else."""
    return Word(code, both(*(word.present for word in words)), is_float)


def perhaps(support: Support, code: str, words: Sequence[Word], is_float: bool = False) -> Word:
    """The result of a strict function that may be NULL for other arguments too."""
    value, present = support.answer(code, is_float)
    return Word(value, both(*(word.present for word in words), present), is_float)


def total(support: Support, code: str, type: SqlType) -> Word:
    """The result of a function that decides itself about NULL, as its type says."""
    if not type.nullable:
        return Word(code, ALWAYS, type.is_float)
    value, present = support.answer(code, type.is_float)
    return Word(value, present, type.is_float)
