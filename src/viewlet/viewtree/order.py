"""Variable orders: in which order a join solves its variables (Definition 3.1 of the paper).

    A ── B            R(A, B)       the view tree:   (R (S T))
     └── C ── D       T(C, D)       dep(D) = {C}
          └── E       S(A, C, E)    dep(E) = {A, C}

An order is a forest of variables in which the variables of each relation lie on one path from a root to a leaf. Below a
variable hang the relations whose lowest variable it is; every variable with more than one branch is a view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from viewlet.errors import SchemaError

Relations = Mapping[str, Sequence[str]]
"""The variables of each relation of a join."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A variable and what is below it."""

    variable: str
    below: tuple[Branch, ...] = ()


def chain(*variables: str, below: tuple[Branch, ...] = ()) -> Branch:
    """Variables one below the other, and what is below the last.

    >>> chain("A", "B")
    Branch(variable='A', below=(Branch(variable='B', below=()),))
    """
    for variable in reversed(variables):
        below = (Branch(variable, below),)
    return below[0]


@dataclass(frozen=True, slots=True)
class VariableOrder:
    """A valid order for a join; others are refused with the reason."""

    roots: tuple[Branch, ...]
    relations: Relations

    def __post_init__(self) -> None:
        counted = Counter(variable for root in self.roots for variable in _variables(root))
        wanted = dict.fromkeys(variable for schema in self.relations.values() for variable in schema)
        if repeated := [variable for variable, times in counted.items() if times > 1]:
            raise SchemaError(f"the variable order has {_listed(repeated)} more than once")
        if unknown := [variable for variable in counted if variable not in wanted]:
            raise SchemaError(f"the variable order has {_listed(unknown)}, which no relation of the join has")
        if missing := [variable for variable in wanted if variable not in counted]:
            raise SchemaError(f"the variable order lacks {_listed(missing)}")
        for name, schema in self.relations.items():
            self._check_path(name, schema)

    def _check_path(self, name: str, schema: Sequence[str]) -> None:
        lowest = self._lowest(schema)
        if apart := [variable for variable in schema if variable not in (*self.ancestors(lowest), lowest)]:
            raise SchemaError(
                f"the variables of relation {name!r} must lie on one path of the variable order: "
                f"{apart[0]!r} is on another branch than {lowest!r}; put one above the other"
            )

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables, those above before those below."""
        return tuple(variable for root in self.roots for variable in _variables(root))

    def lowest(self, relation: str) -> str:
        """The variable of a relation below all its others: where it hangs."""
        return self._lowest(self.relations[relation])

    def ancestors(self, variable: str) -> tuple[str, ...]:
        """The variables above one, from the root down."""
        return next(path[:-1] for root in self.roots for path in _paths(root) if path[-1] == variable)

    def dependencies(self, variable: str) -> frozenset[str]:
        """dep(X): the ancestors that share a relation with X or a variable below it; the keys of the view at X."""
        branch = next(found for root in self.roots for found in _branches(root) if found.variable == variable)
        below = set(_variables(branch))
        together = {other for schema in self.relations.values() if below & set(schema) for other in schema}
        return frozenset(self.ancestors(variable)) & together

    def _lowest(self, schema: Sequence[str]) -> str:
        return max(schema, key=lambda variable: len(self.ancestors(variable)))


def _variables(branch: Branch) -> Iterator[str]:
    return (found.variable for found in _branches(branch))


def _branches(branch: Branch) -> Iterator[Branch]:
    yield branch
    for child in branch.below:
        yield from _branches(child)


def _paths(branch: Branch, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    path = (*above, branch.variable)
    yield path
    for child in branch.below:
        yield from _paths(child, path)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
