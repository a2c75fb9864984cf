"""Names and texts that try to become code, or to be taken for another name."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

CANARY = "viewlet_canary"
"""A builtin that notes that somebody called it."""
CALL = f"{CANARY}()"

BREAKING_OUT = (
    f'x"""; {CALL}; """',
    f"x'''; {CALL}; '''",
    f"x\n{CALL}\n#",
    f"x\n        pass\n{CALL}\ndef f():\n    for row in range(1):\n        # ",
    f"x\r{CALL}\r#",
    f"x\x0c{CALL}",
    f"x\u2028{CALL}\u2029#",
    f"x\x85{CALL}",
    f"x\\\n{CALL}",
    f"{{{CALL}}}",
    f"'; {CALL}; '",
    f'"; {CALL}; "',
    f"x); {CALL}; (",
    "a\0b",
    "\\",
    "%s{name}{node}",
    "# coding: utf-7",
    "${env:HOME}",
)
TWINS = ("ﬁ", "fi", "ſ", "s", "K", "k", "é", "e\u0301", "Ⅳ", "iv", "x²", "x2")
"""Pairs that Python takes for one identifier, and pairs that only look alike."""
OURS = (
    "pool", "x_meta", "touch", "#touch(v_a", "state", "control", "row", "np", "s1", "t1", "w1", "n", "column0", "out0",
    "lookup0", "strings", "ranks", "multiplicity", ":multiplicity", "x_a", "v_t_pool", "others_at", "scratch 1", "δt",
    "Δt", "∃t", "#t", "V@a", "on_t", "peak0", "times", "values",
)  # fmt: skip
PYTHON = ("class", "None", "lambda", "__class__", "__import__", "__builtins__", "exec", "self", "match")
PATHS = (
    "..",
    "../../x",
    "a/b",
    "~",
    "C:\\x",
    "a" * 300,
    "n" * 5_000,
    "ü" * 200,
    "-",
    ".",
    "nul",
    "a\0b",
    "$(x)",
    "`x`",
)
ODD = (" ", "", "'", '"', "`", ";", "--", "/*", "a.b", "_", "1", "🙂", "a" * 47 + "1", "a" * 60 + "1", "a" * 60 + "2")
NAMES = tuple(dict.fromkeys((*BREAKING_OUT, *TWINS, *OURS, *PYTHON, *PATHS, *ODD)))


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def drawn(random: Random, count: int) -> list[str]:
    """Different names, also without regard to case: some of the list, and some put together of two."""
    found: dict[str, str] = {}
    while len(found) < count:
        name = random.choice(NAMES)
        if random.random() < 0.3:
            name += random.choice(NAMES)
        found.setdefault(name.lower(), name)
    return list(found.values())


@contextmanager
def nothing_called() -> Iterator[None]:
    """Fails if any code has called the canary."""
    calls: list[str] = []
    setattr(builtins, CANARY, lambda *given: calls.append("called"))
    try:
        yield
    finally:
        delattr(builtins, CANARY)
    assert not calls
