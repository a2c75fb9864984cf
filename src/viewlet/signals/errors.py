"""The error of signal queries."""

from __future__ import annotations

from viewlet.errors import ViewletError


class SignalError(ViewletError):
    """A signal query is wrong: an operator on the wrong form of signal, a bad argument, a function without a name."""


class MissingFunctionError(SignalError):
    """A query calls a function or class that this program does not have, or has not named."""
