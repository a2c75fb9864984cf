"""The text of generated modules, of trigger programs, blocks and view trees alike: imports, constants, functions.

The calls that maintain indexes and journals are inserted here, once all indexes are known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from types import ModuleType

from viewlet.codegen.arrays import Arrays
from viewlet.codegen.names import words_in
from viewlet.codegen.products import ADD_COUNT, ARRANGE, TOUCH, WITHDRAW
from viewlet.runtime import functions, moments
from viewlet.runtime.flat import Layout

_RUNTIME = {
    "viewlet.runtime.arithmetic": (
        "NULL SMALL checked_add checked_mul dd_add dd_mul dd_of_int dd_of_wide large_sum month_of wide_size year_of"
    ),
    "viewlet.runtime.control": "BELOW FAILURE FAR FULL NEEDED_ROWS NEEDED_STORE NOT_FINITE OVERFLOW ROWS_DONE TOO_WIDE",
    "viewlet.runtime.jit": "compiled entry",
    "viewlet.runtime.ordered_index": (
        "LEFT NEGATIVES RIGHT ROOT arrange double_span end_of neighbour ready ready_for_chain wide_span withdraw"
    ),
    "viewlet.runtime.payloads": "add_factor add_values multiply raise_values",
    "viewlet.runtime.probe": (
        "ALIVE LONGEST_CHAIN NEXT ROOM SIZE add_count clear count_of enter find find_head leave touch"
    ),
    "viewlet.runtime.state": "chains flags floats hashes numbers words",
    "viewlet.runtime.vectors": "add_scaled set_scaled",
    "viewlet.runtime.wide": "LIMIT_HIGH bits_of double_of wide_add wide_mul wide_product",
}
"""What generated code may import, besides scalar functions."""

_CONSTANTS = {"NAN": "np.nan", "NULL": "np.int64(NULL)"}


def module_text(title: str, arrays: Arrays, functions: Sequence[str]) -> str:
    """A module of functions, with the imports and constants that they need."""
    used = set(words_in("\n".join(functions)))
    constants = arrays.constants(used)
    used.update(words_in(constants))
    head = [f'"""{title}. Generated; set VIEWLET_JIT=0 to step through them."""\nimport numpy as np\n']
    imports = [
        f"from {module} import {', '.join(sorted(used & names))}\n" for module, names in _IMPORTS if used & names
    ]
    made = [f"{name} = {code}\n" for name, code in _CONSTANTS.items() if name in used]
    head += ["".join(lines) for lines in (imports, made, [constants]) if lines and lines != [""]]
    return "\n\n".join(("\n".join(head), *functions))


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


def _defined_in(module: ModuleType) -> set[str]:
    return {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}


_IMPORTS = (
    *((module, set(names.split())) for module, names in _RUNTIME.items()),
    *((module.__name__, _defined_in(module)) for module in (functions, moments)),
)


def function_text(head: str, body: str, arrays: Arrays) -> str:
    """A function with the arrays it mentions."""
    text = without_unused(with_notes(body, arrays.layouts))
    return head + arrays.opening(text) + text
