"""Variable orders as text, the form of the option `variable_order`.

    A(B, C(D, E))       A above B and C, C above D and E
    A(B), C             two roots: the parts of a join that share nothing

A name that is no plain word stands in double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from viewlet.changes import did_you_mean
from viewlet.errors import SchemaError
from viewlet.viewtree.order import Branch, VariableOrder

_TOKEN = re.compile(r'\s*(?:(?P<name>[^\W\d][\w.#]*)|"(?P<quoted>[^"]+)"|(?P<mark>[(),]))')
_PLAIN = re.compile(r"[^\W\d][\w.#]*")


def read_order(text: str, relations: Mapping[str, Sequence[str]]) -> VariableOrder:
    """The order that a text describes, for the relations of a join.

    >>> read_order("A(B, C)", {"R": ("A", "B"), "S": ("A", "C")}).variables
    ('A', 'B', 'C')
    """
    tokens = list(_tokens(text))
    roots, end = _branches(text, tokens, 0)
    if end != len(tokens):
        raise SchemaError(f"variable_order {text!r}: {tokens[end]!r} is not expected; write it as 'A(B, C(D, E))'")
    known = dict.fromkeys(name for schema in relations.values() for name in schema)
    folded = {name.lower(): name for name in known}
    return VariableOrder(tuple(_spelled(root, known, folded) for root in roots), relations)


def write_order(order: VariableOrder) -> str:
    """An order as text that `read_order` understands."""
    return ", ".join(map(_write, order.roots))


def _write(branch: Branch) -> str:
    name = branch.variable if _PLAIN.fullmatch(branch.variable) else f'"{branch.variable}"'
    return f"{name}({', '.join(map(_write, branch.below))})" if branch.below else name


def _spelled(branch: Branch, known: Mapping[str, None], folded: Mapping[str, str]) -> Branch:
    """Names as the join has them; case does not matter."""
    name = branch.variable if branch.variable in known else folded.get(branch.variable.lower())
    if name is None:
        hint = did_you_mean(branch.variable, known) or f"; the variables are {', '.join(known)}"
        raise SchemaError(f"variable_order: no relation of the join has {branch.variable!r}{hint}")
    return Branch(name, tuple(_spelled(child, known, folded) for child in branch.below))


def _tokens(text: str) -> Iterator[str]:
    """Names, each behind a space so that they are told from marks."""
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise SchemaError(
                f"variable_order {text!r}: {text[at:].strip()[0]!r} cannot be read; write 'A(B, C(D, E))'"
            )
        yield found["mark"] or f" {found['name'] or found['quoted']}"
        at = found.end()


def _branches(text: str, tokens: Sequence[str], at: int) -> tuple[tuple[Branch, ...], int]:
    found: list[Branch] = []
    while True:
        if at >= len(tokens) or not tokens[at].startswith(" "):
            seen = "its end" if at >= len(tokens) else repr(tokens[at])
            raise SchemaError(f"variable_order {text!r}: a variable is expected before {seen}")
        name, at = tokens[at][1:], at + 1
        below: tuple[Branch, ...] = ()
        if at < len(tokens) and tokens[at] == "(":
            below, at = _branches(text, tokens, at + 1)
            if at >= len(tokens) or tokens[at] != ")":
                raise SchemaError(f"variable_order {text!r}: the parenthesis after {name!r} is not closed")
            at += 1
        found.append(Branch(name, below))
        if at >= len(tokens) or tokens[at] != ",":
            return tuple(found), at
        at += 1
