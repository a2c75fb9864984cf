"""The arrays behind the state of a generated module: their order, and the code that opens them.

v_spend_at = np.int64(4)                                 # where the arrays of a store begin in the state
v_spend_pool = words(state, v_spend_at, v_spend_width)   # at the head of a function that uses them
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from viewlet.codegen.names import Identifiers, words_in
from viewlet.runtime.flat import POOL, Layout, Part, PartKind

Reader = Literal["words", "floats", "numbers", "hashes", "flags", "chains"]
"""The functions of `runtime.state` that make an array of the state."""

_READERS: Mapping[PartKind, Reader] = {
    "pool": "words",
    "index": "hashes",
    "meta": "numbers",
    "live": "flags",
    "heads": "hashes",
    "links": "chains",
    "tree": "words",
    "spec": "numbers",
    "before": "words",
    "touched": "numbers",
    "floats": "floats",
}


@dataclass(frozen=True, slots=True)
class StoreArray:
    """One array of a store."""

    store: str
    part: Part


@dataclass(frozen=True, slots=True)
class OtherArray:
    """An array that belongs to no store, under its name in generated code; one of rows has a width."""

    name: str
    reader: Reader = "numbers"
    width: int | None = None


StateArray = StoreArray | OtherArray


class Arrays:
    """The order of the arrays of a module: those of each store together, then the others."""

    def __init__(self, layouts: Mapping[str, Layout], names: Identifiers, others: Sequence[OtherArray]) -> None:
        self.layouts = {names.store(name): layout for name, layout in layouts.items()}
        """By what the names of their arrays begin with in the code."""
        self._others = others
        stored = [StoreArray(name, part) for name, layout in layouts.items() for part in layout.parts]
        self.order: tuple[StateArray, ...] = (*stored, *others)
        self._first = {array.store: i for i, array in enumerate(stored) if array.part == POOL}
        self._others_at = len(stored)

    def constants(self, used: Collection[str]) -> str:
        """The constants in use: where the arrays of each store begin, the words of its rows and of its slices.

        As NumPy integers they all have one type: Numba would compile a function again for each literal.
        """
        lines = [f"others_at = np.int64({self._others_at})\n"] if "others_at" in used else []
        for name, layout in self.layouts.items():
            numbers = {"at": self._first[layout.name], "width": layout.width, "arity": layout.arity}
            lines += [f"{name}_{what} = np.int64({number})\n" for what, number in numbers.items()]
            for j, positions in enumerate(layout.slices):
                words = "".join(f"np.int64({position}), " for position in positions)
                lines.append(f"{name}_slice{j} = ({words})\n")
        return "".join(line for line in lines if line.partition(" = ")[0] in used)

    def opening(self, text: str) -> str:
        """The lines that make the arrays a function body mentions."""
        found = set(words_in(text))
        return "".join(f"    {name} = {code}\n" for name, code in self._makers if name in found)

    @cached_property
    def _makers(self) -> tuple[tuple[str, str], ...]:
        """The arrays by their names in the code, each with what makes it."""
        return tuple(self._made())

    def _made(self) -> Iterator[tuple[str, str]]:
        for name, layout in self.layouts.items():
            for i, part in enumerate(layout.parts):
                at = f"{name}_at + {i}" if i else f"{name}_at"
                yield f"{name}_{part}", _make(_READERS[part.kind], at, _width(name, layout, part))
        for i, other in enumerate(self._others):
            width = "" if other.width is None else f"np.int64({other.width})"
            yield other.name, _make(other.reader, f"others_at + {i}", width)


def _make(reader: Reader, at: str, width: str) -> str:
    return f"{reader}(state, {at}, {width})" if width else f"{reader}(state, {at})"


def _width(name: str, layout: Layout, part: Part) -> str:
    match part.kind:
        case "tree":
            assert part.number is not None
            return f"np.int64({layout.tree_width(part.number)})"
        case "pool" | "before" | "floats":
            return f"{name}_width"
        case _:
            return ""
