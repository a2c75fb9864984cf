"""Lines of generated source, with indentation and fresh names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Lines:
    """Source under construction; lines `like` others share their supply of names."""

    def __init__(self, like: Lines | None = None, depth: int = 0) -> None:
        self._lines: list[str] = []
        self._depth = depth
        self._numbers: dict[str, int] = like._numbers if like is not None else {}

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """`opening:` and, indented below it, what is added inside; `pass` if that is nothing."""
        self.add(opening + ":")
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.add("pass")
        self._depth -= 1

    def open(self, opening: str) -> None:
        """Begins a block that `close_to` ends."""
        self.add(opening + ":")
        self._depth += 1

    @property
    def depth(self) -> int:
        return self._depth

    def close_to(self, depth: int) -> None:
        self._depth = depth

    def fresh(self, stem: str) -> str:
        self._numbers[stem] = self._numbers.get(stem, 0) + 1
        return f"{stem}{self._numbers[stem]}"

    def text(self, indent: int = 0) -> str:
        return "".join("    " * indent + line + "\n" for line in self._lines)
