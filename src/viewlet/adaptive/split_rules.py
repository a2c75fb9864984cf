"""Heavy/light maintenance as rules, for joins of more than three relations.

    program   ::= relation, ... ; split, ... ; view = body, ... ; rule, ...
    split     ::= which variables, and the relations in which the tuples of their values are counted
    rule      ::= on atom: target(variable, ...) += body
    body      ::= atom atom ...
    atom      ::= S(b:l, c)     tuples of S whose b is light, c being either
                | S:l(b, c, d)  the same where S has a split of its own
                | V(b, d)       a view           | #c(c)   the heavy values of a split

A relation is divided by the splits it takes part in: it has a part for each combination of heavy and light. The rules
of a relation run for a change of one tuple, and read the state before it; a body is evaluated from left to right, atom
by atom, so that its order is the plan of the join. Views are defined over parts, so that a tuple moves by leaving its
part and entering another. The target Q is the result, which moves do not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

HEAVY, LIGHT = "h", "l"
RESULT = "Q"
_ATOM = re.compile(r"(#?\w+)(?::([hl]))?\(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Split:
    """A division of values by their degrees: which variables, and the relations whose tuples count."""

    name: str
    variables: tuple[str, ...]
    relations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Atom:
    """A relation, a view or a domain over variables, with what it asks of splits: heavy or light."""

    name: str
    variables: tuple[str, ...]
    asked: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """What a change of some parts of a relation does to a view, or to the result."""

    on: Atom
    target: Atom
    body: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class SplitProgram:
    """How one shape of join is maintained, with thresholds N ** epsilon unless a user asks for another exponent."""

    name: str
    relations: Mapping[str, tuple[str, ...]]
    splits: tuple[Split, ...]
    views: tuple[tuple[Atom, tuple[Atom, ...]], ...]
    """Views with their definitions; a view may have several, for different parts, which add up."""
    rules: tuple[Rule, ...]
    epsilon: float

    def splits_of(self, relation: str) -> tuple[Split, ...]:
        """The splits that divide a relation."""
        return tuple(split for split in self.splits if relation in split.relations)

    def parts(self, atom: Atom) -> tuple[str, ...]:
        """The stores that an atom stands for: those of the parts that it may be in."""
        if atom.name not in self.relations:
            return (atom.name,)
        asked = dict(atom.asked)
        choices = [asked.get(split.name, HEAVY + LIGHT) for split in self.splits_of(atom.name)]
        return tuple(part_name(atom.name, statuses) for statuses in product(*choices))


def part_name(relation: str, statuses: Iterable[str]) -> str:
    """What a part of a relation is called."""
    return f"{relation} {''.join(statuses)}".strip()


def read_program(name: str, text: str, epsilon: float, turns: str = "") -> SplitProgram:
    """A program from its text. `turns` is a cycle of letters: what is said of one relation holds for all, turned."""
    relations: dict[str, tuple[str, ...]] = {}
    splits, views, rules = list[Split](), list[tuple[Atom, tuple[Atom, ...]]](), list[Rule]()
    for line in _turned(text, turns):
        head, _, rest = line.partition(" ")
        match head:
            case "relation":
                atom = _atoms(rest)[0]
                relations[atom.name] = atom.variables
            case "split":
                atom, counted = _atoms(rest)[0], rest.split(" in ")[1]
                splits.append(Split(atom.name, atom.variables, tuple(counted.split())))
            case "view":
                view, *body = _atoms(rest)
                views.append((view, tuple(body)))
            case _:
                on, target, *body = _atoms(rest)
                rules.append(Rule(on, target, tuple(body)))
    return SplitProgram(name, relations, tuple(splits), tuple(views), tuple(rules), epsilon)


def _turned(text: str, turns: str) -> Iterable[str]:
    """The lines of a text, and those that follow from them by turning the letters of each cycle."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    cycles = turns.split()
    for turn in range(len(cycles[0]) if cycles else 1):
        table = {ord(a): cycle[(i + turn) % len(cycle)] for cycle in cycles for i, a in enumerate(cycle)}
        for line in lines:
            head, _, rest = line.partition(" ")
            yield f"{head} {rest.translate(table)}"


def _atoms(text: str) -> list[Atom]:
    found = []
    for name, status, inside in _ATOM.findall(text):
        marked = [each.strip().partition(":") for each in inside.split(",") if each.strip()]
        asked = tuple((variable, mark) for variable, _, mark in marked if mark)
        found.append(
            Atom(name, tuple(variable for variable, _, _ in marked), asked or ((name, status),) * bool(status))
        )
    return found
