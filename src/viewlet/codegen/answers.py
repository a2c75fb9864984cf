"""Callbacks from generated code: scalars without generated code, computed by the interpreter's functions.

Generated code calls back with the number of a formula and the words of its arguments (`runtime/functions.py`). An error
is stored here and raised when the generated code has returned.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from viewlet.algebra.functions import compile_scalar
from viewlet.codegen.encoding import decode, word_of
from viewlet.codegen.scalars import Formula
from viewlet.errors import DataError
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.functions import ADDRESS, AGAIN, ANSWER, ANSWERED, ARGUMENTS, FAILED, YES
from viewlet.runtime.moves import tick
from viewlet.types import Kind

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64)
_FEWEST, _MOST = 1 << 16, 1 << 20
"""Answers that a memo has room for: in the beginning, and at most. Places that are never used take no memory."""


class Answers:
    def __init__(self, formulas: Sequence[Formula], dictionary: StringDictionary) -> None:
        self._formulas = formulas
        self._closures = [compile_scalar(formula.scalar) for formula in formulas]
        self._dictionary = dictionary
        self.failure: BaseException | None = None
        """The first exception of a formula since `take_failure`."""
        self.version = 0
        """Changes when a memo has moved."""
        arguments = max((len(formula.parameters) for formula in formulas), default=0)
        self.calls = np.zeros(ARGUMENTS + arguments, np.int64)
        self._asked = [0] * len(formulas)
        self._memos = [self._empty(i, _FEWEST) for i in range(len(formulas))]
        if formulas:
            self._callback: Any = _CALLBACK(self._answer)
            self.calls[ADDRESS] = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def memo(self, number: int) -> Any:
        """The past answers of a formula."""
        return self._memos[number]

    def make_room(self) -> None:
        """Gives a memo more room that was asked more often than it has places."""
        for i, asked in enumerate(self._asked):
            places = len(self._memos[i]) // self._width(i)
            if asked > places and places < _MOST:
                self._memos[i] = self._empty(i, min(4 * places, _MOST))
                self._asked[i] = 0
                self.version += 1
                tick()

    def forget_texts(self) -> None:
        """Forgets past answers that depend on strings: other strings may have their codes."""
        for i, formula in enumerate(self._formulas):
            if any(each.type.kind is Kind.VARCHAR for each in (formula.scalar, *formula.parameters)):
                self._memos[i].fill(0)

    def take_failure(self) -> BaseException | None:
        """What went wrong first since this was asked last."""
        failure, self.failure = self.failure, None
        return failure

    def _empty(self, number: int, places: int) -> Any:
        return np.zeros(places * self._width(number), np.int64)

    def _width(self, number: int) -> int:
        return max(len(self._formulas[number].parameters), 1) + 2

    def _answer(self, number: int) -> None:
        """Called by generated code, through which no exception passes: it is told that there is one, or the answer."""
        if self.calls[ANSWERED] == AGAIN:
            self._fail(KeyboardInterrupt())
        while True:
            try:
                self._compute(number)
                return
            except (ArithmeticError, ValueError) as error:  # an argument that has overflowed
                self._fail(DataError(f"a number overflows its type: {error}"))
            except Exception as error:
                self._fail(error)
            except BaseException as error:
                self._fail(error)
                continue  # an interrupt: the answer stays what it is
            self.calls[ANSWERED] = FAILED
            return

    def _compute(self, number: int) -> None:
        formula = self._formulas[number]
        self._asked[number] += 1
        words = self.calls[ARGUMENTS : ARGUMENTS + len(formula.parameters)].tolist()
        values = {
            var.name: decode(word, var.type, self._dictionary)
            for word, var in zip(words, formula.parameters, strict=True)
        }
        self.calls[ANSWER] = word_of(self._closures[number](values), formula.scalar.type, self._dictionary)
        self.calls[ANSWERED] = YES

    def _fail(self, error: BaseException) -> None:
        """Remembers the first failure, or the first that is not the fault of the data."""
        if self.failure is None or (isinstance(self.failure, DataError) and not isinstance(error, DataError)):
            self.failure = error
