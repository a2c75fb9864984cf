"""Python identifiers for variables and stores of a generated module."""

from __future__ import annotations

import keyword
import re

from viewlet.algebra.nodes import Var


class Identifiers:
    def __init__(self) -> None:
        self._variables: dict[Var, str] = {}
        self._stores: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, var: Var) -> str:
        if var not in self._variables:
            stem = "new_" + var.name[1:] if var.name.startswith(":") else "x_" + var.name
            self._variables[var] = self._fresh(stem)
        return self._variables[var]

    def key_word(self, var: Var) -> str:
        """The variable as a word of a key; a computed -0.0 is the key 0.0, which it equals."""
        return f"bits_of({self.of(var)} + 0.0)" if var.type.is_float else self.of(var)

    def store(self, view: str) -> str:
        if view not in self._stores:
            self._stores[view] = self._fresh("v_" + view)
        return self._stores[view]

    def _fresh(self, stem: str) -> str:
        base = re.sub(r"\W", "_", stem)
        name, number = base, 1
        while name in self._taken or keyword.iskeyword(name):
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name
