"""Common parts of generated modules: the imports, the arrays that functions open, and the calls that maintain indexes
and journals, which are inserted once all indexes are known."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from viewlet.codegen.names import Identifiers, words_in
from viewlet.codegen.products import ADD_COUNT, ARRANGE, TOUCH, WITHDRAW
from viewlet.codegen.scalars import Tables
from viewlet.runtime import functions, moments
from viewlet.runtime.flat import Layout

HEADER = '''"""Triggers of {name}. Generated; set VIEWLET_JIT=0 to step through them."""
import numpy as np

from viewlet.runtime.arithmetic import (
    NULL, checked_add, checked_mul, dd_add, dd_mul, dd_of_int, dd_of_wide, month_of, wide_size, year_of
)
from viewlet.runtime.control import FAILURE, FULL, NEEDED_ROWS, NEEDED_STORE, OVERFLOW, ROWS_DONE
from viewlet.runtime.jit import compiled, entry
from viewlet.runtime.ordered import (
    LEFT, NEGATIVES, RIGHT, ROOT, arrange, double_span, end_of, neighbour, ready, ready_for_chain, wide_span, withdraw
)
from viewlet.runtime.probe import (
    ALIVE, LONGEST_CHAIN, NEXT, ROOM, SIZE, add_count, clear, count_of, enter, find, find_head, leave, touch
)
from viewlet.runtime.state import chains, flags, floats, hashes, numbers, words
from viewlet.runtime.wide import LIMIT_HIGH, bits_of, double_of, wide_add, wide_mul, wide_product

NAN = np.nan
NULL = np.int64(NULL)

'''


def with_notes(text: str, layouts: Mapping[str, Layout]) -> str:
    """The code with the calls that keep the ordered indexes and the journals of the stores it changes."""
    lines: list[str] = []
    for line in text.split("\n")[:-1]:
        mark, _, rest = line.strip().partition("(")
        if mark not in (ADD_COUNT, TOUCH, ARRANGE, WITHDRAW):
            lines.append(line)
            continue
        store, slot = rest[:-1].split(", ", 1)
        layout = layouts[store]
        indent = line[: len(line) - len(line.lstrip())]
        if mark == ADD_COUNT:
            lines += [indent + code for code in _add_count(store, layout, *slot.split(", ", 1))]
        elif mark == TOUCH:
            lines += [indent + code for code in _touch(store, layout, slot)]
        else:
            calls = _orders(mark, store, layout, slot)
            if mark == ARRANGE and not calls:
                lines.pop()  # the `else` it stands under
            lines += [indent + code for code in calls]
    return "\n".join(lines) + "\n"


def without_unused(text: str) -> str:
    """The code without words that it reads from rows and never uses: each takes time to compile."""
    while True:
        uses = Counter(words_in(text))
        lines = text.split("\n")[:-1]
        kept = [line for line in lines if not ((read := _READ.match(line)) and uses[read.group(1)] == 1)]
        if len(kept) == len(lines):
            return _with_bodies(text)
        text = "\n".join(kept) + "\n"


def _with_bodies(text: str) -> str:
    """`pass` in blocks that are empty, as under a condition that never holds."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.lstrip().startswith("#"):
            _close(lines, _indent(line))
        lines.append(line)
    _close(lines, 0)
    return "".join(f"{line}\n" for line in lines)


def _close(lines: list[str], indent: int) -> None:
    opening = next((line for line in reversed(lines) if not line.lstrip().startswith("#")), "")
    if opening.endswith(":") and indent <= _indent(opening):
        lines.append(" " * (_indent(opening) + 4) + "pass")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


_READ = re.compile(r" *([xw]_?\w+) = \w+_pool\[[^\[\]]*\]$")


def _touch(store: str, layout: Layout, slot: str) -> list[str]:
    return [f"touch({store}_pool, {store}_before, {store}_touched, {slot})"] if layout.journaled else []


def _orders(mark: str, store: str, layout: Layout, slot: str) -> list[str]:
    return [f"{mark[1:]}({store}_pool, {store}_tree{j}, {store}_spec{j}, {slot})" for j in range(len(layout.ordered))]


def _add_count(store: str, layout: Layout, number: str, key: str) -> list[str]:
    """A number added to the one field of a row that counts: a call, unless something has to be noted about the row."""
    if not layout.journaled and not layout.ordered:
        return [f"add_count(state, {store}_at, {store}_width, {key}, {number}, control)"]
    count = f"{store}_pool[s, {layout.arity}]"
    return [
        f"s = enter(state, {store}_at, {store}_width, {key})",
        "if s < 0:",
        "    control[FULL] = 1",
        "else:",
        *("    " + code for code in _touch(store, layout, "s")),
        f"    {count} += {number}",
        f"    if {count} == 0:",
        *("        " + code for code in _orders(WITHDRAW, store, layout, "s")),
        f"        leave(state, {store}_at, {store}_width, {store}_arity, s)",
        *(["    else:"] if layout.ordered else []),
        *("        " + code for code in _orders(ARRANGE, store, layout, "s")),
    ]


class Arrays:
    """The number of each array in the state."""

    def __init__(self, layouts: Mapping[str, Layout], names: Identifiers, tables: Tables) -> None:
        self._layouts, self._names = layouts, names
        order = [(layout.name, part) for layout in layouts.values() for part in layout.parts]
        others = [*(f"lookup{i}" for i in range(len(tables.lookups))), "strings", "ranks"]
        others += ["answers"] if tables.answers else []
        others += ["calls", *(f"memo{i}" for i in range(len(tables.formulas)))] if tables.formulas else []
        self._others = [("", name) for name in others]
        order += self._others
        self.order = tuple(order)
        self._number = {array: i for i, array in enumerate(order)}

    def constants(self) -> str:
        """Where the arrays of each store begin, the words of its rows and of its slices.

        As NumPy integers they all have one type: Numba would compile a function again for each literal.
        """
        lines = [f"others_at = np.int64({len(self.order) - len(self._others)})\n"]
        for layout in self._layouts.values():
            name = self._names.store(layout.name)
            lines.append(f"{name}_at = np.int64({self._number[layout.name, 'pool']})\n")
            lines.append(f"{name}_width = np.int64({layout.width})\n")
            lines.append(f"{name}_arity = np.int64({layout.arity})\n")
            for j, positions in enumerate(layout.slices):
                words = "".join(f"np.int64({position}), " for position in positions)
                lines.append(f"{name}_slice{j} = ({words})\n")
        return "".join(lines)

    def opening(self, text: str) -> str:
        """The lines that make the arrays a function body mentions."""
        found = set(words_in(text))
        made = [
            (f"{self._names.store(name)}_{part}", self._code(layout, part))
            for name, layout in self._layouts.items()
            for part in layout.parts
        ]
        made += [(name, f"numbers(state, others_at + {i})") for i, (_, name) in enumerate(self._others)]
        return "".join(f"    {name} = {code}\n" for name, code in made if name in found)

    def _code(self, layout: Layout, part: str) -> str:
        name = self._names.store(layout.name)
        number = f"{name}_at + {self._number[layout.name, part] - self._number[layout.name, 'pool']}"
        match part.rstrip("0123456789"):
            case "pool" | "before":
                return f"words(state, {number}, {name}_width)"
            case "floats":
                return f"floats(state, {number}, {name}_width)"
            case "tree":
                return f"words(state, {number}, np.int64({layout.tree_width(part)}))"
            case "meta" | "spec" | "touched":
                return f"numbers(state, {number})"
            case "live":
                return f"flags(state, {number})"
            case "links":
                return f"chains(state, {number})"
            case _:
                return f"hashes(state, {number})"


def with_imports(parts: Sequence[str]) -> str:
    """The parts of a module, the first being its head, with an import of the scalar functions they call."""
    found = set(words_in("\n".join(parts[1:])))
    imports = [
        f"from {module.__name__} import {', '.join(sorted(found & names))}\n"
        for module, names in _SCALAR_FUNCTIONS
        if found & names
    ]
    return "\n\n".join(("".join((parts[0], *imports)), *parts[1:]))


_SCALAR_FUNCTIONS = tuple(
    (module, {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__})
    for module in (functions, moments)
)


def function_text(head: str, body: str, arrays: Arrays, layouts: Mapping[str, Layout]) -> str:
    """A function with the arrays it mentions; `layouts` are by the names of the stores in the code."""
    text = without_unused(with_notes(body, layouts))
    return head + arrays.opening(text) + text
