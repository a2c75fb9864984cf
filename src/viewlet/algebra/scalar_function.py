"""The type of the entries of the table of scalar functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from viewlet.types import SqlType

Implementation = Callable[..., Any]
Types = tuple[SqlType, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function; `build` picks the implementation from the argument types and the result type."""

    strict: bool
    build: Callable[[Types, SqlType], Implementation]


def simple(implementation: Implementation, strict: bool = True) -> Function:
    """One implementation for all types."""
    return Function(strict, lambda types, result: implementation)
