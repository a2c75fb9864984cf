"""Identifiers and comments of generated modules: the only way for names and texts of users into generated source.

An identifier consists of ASCII letters, digits and underscores, whatever it stands for: a prefix of ours that says what
it is, a hint made of the user's name, and a number where another name has the same hint.

    column "ﬁ", column "fi", view 'x"; import os'     ->     x__, x_fi, v_x___import_os

Local variables of generated functions do not begin with one of the prefixes (`s1`, `row`), and what is appended to the
name of a store (`_pool`, `_tree0`) has no underscore but its first: none of them can be another one.
"""

from __future__ import annotations

import re

from viewlet.algebra.nodes import Var

LONGEST_HINT = 48
LONGEST_COMMENT = 400
_GLYPHS = {"δ": "delta ", "Δ": "delta ", "∃": "some ", "⊕": "sum ", "⊗": "*"}
_SPELLED = {**_GLYPHS, "#": "count "}
_WORD = re.compile(r"[A-Za-z0-9_]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Identifiers:
    """The identifiers of one module, which are unique."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Var | str, int | None], str] = {}
        self._taken: set[str] = set()
        self._parameters: dict[Var, str] = {}

    def parameter(self, var: Var, column: str) -> None:
        """Declares a variable that stands for a column of the changed row."""
        if var not in self._parameters:
            self._parameters[var] = self._fresh(f"new_{hint(column)}")

    def of(self, var: Var) -> str:
        """A variable of the calculus."""
        return self._parameters.get(var) or self._name("x", var, var.name)

    def key_word(self, var: Var) -> str:
        """The variable as a word of a key; a computed -0.0 is the key 0.0, which it equals."""
        return f"bits_of({self.of(var)} + 0.0)" if var.type.is_float else self.of(var)

    def variable(self, name: str) -> str:
        """A variable of a view tree."""
        return self._name("x", name, name)

    def store(self, view: str) -> str:
        """What the names of the arrays of a store begin with."""
        return self._name("v", view, view)

    def function(self, verb: str, subject: str, number: int | None = None) -> str:
        """A function that does something with a table, a view or a plan, or with one of several parts of it."""
        return self._name(verb, subject, subject, number)

    def _name(self, prefix: str, what: Var | str, text: str, number: int | None = None) -> str:
        known = self._known.get((prefix, what, number))
        if known is None:
            parts = [prefix, hint(text), *([] if number is None else [str(number)])]
            known = self._known[prefix, what, number] = self._fresh("_".join(parts))
        return known

    def _fresh(self, base: str) -> str:
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


def hint(text: str) -> str:
    """The part of an identifier that reminds of a name.

    >>> hint("revenue per day"), hint('"; import os'), hint("ﬁ")
    ('revenue_per_day', '___import_os', '_')
    """
    plain = "".join(_SPELLED.get(character, character) for character in text[:LONGEST_HINT])
    return re.sub(r"[^A-Za-z0-9_]", "_", plain)[:LONGEST_HINT]


def comment(text: str) -> str:
    r"""A comment in one line of printable ASCII.

    >>> comment("name = 'a\nb' * ⊕x")
    "# name = 'a\\x0ab' * sum x"
    """
    plain = "".join(_GLYPHS.get(character, character) for character in text[:LONGEST_COMMENT])
    ascii_only = plain.encode("ascii", "backslashreplace").decode("ascii")
    return "# " + _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", ascii_only)[:LONGEST_COMMENT]


def words_in(source: str) -> list[str]:
    """The identifiers and numbers in the lines of some code, without those in its comments."""
    code = (line for line in source.split("\n") if not line.lstrip().startswith("# "))
    return [word for line in code for word in _WORD.findall(line)]
