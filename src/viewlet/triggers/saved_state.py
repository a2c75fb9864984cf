"""How the state of an engine is saved: as named parts, each of them rows or an array of words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from viewlet.types import Row

Item = tuple[Row, tuple[Any, ...]]
"""A key and its payload."""


class StateWriter(Protocol):
    """Where an engine writes the parts of its state."""

    def rows(self, part: str, items: Iterable[Item], arity: int, width: int) -> None:
        """Keys of `arity` values with payloads of `width` values."""

    def words(self, part: str, words: Any) -> None:
        """An array whose words may be codes of strings in the dictionary of the connection."""


class StateReader(Protocol):
    """The parts that a `StateWriter` wrote."""

    def rows(self, part: str, arity: int) -> Iterable[Item]: ...

    def words(self, part: str) -> Any: ...
