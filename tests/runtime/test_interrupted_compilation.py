"""Ctrl-C while Numba compiles: it waits for the function, and is always a KeyboardInterrupt."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from viewlet.runtime.jit import compiled_whole


class Dispatcher:
    """What Numba calls to compile a function, with Ctrl-C in the middle."""

    def __init__(self) -> None:
        self.is_compiled = False
        self._compile_for_args: Callable[..., Any] = self._interrupted

    def _interrupted(self, *args: object) -> int:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:  # what a callback of LLVM does with it
            return 0
        self.is_compiled = True
        return len(args)


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C does what it does by default: a process that a shell runs in the background would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_it_is_raised_when_the_function_is_compiled() -> None:
    dispatcher: Any = compiled_whole(Dispatcher())  # type: ignore[type-var]
    with pytest.raises(KeyboardInterrupt):
        dispatcher._compile_for_args(1, 2)
    assert dispatcher.is_compiled
