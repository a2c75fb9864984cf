"""Patterns of rows as finite state machines (section 5.1.1, Algorithm 1).

    PATTERN [a, b+] WHERE a.x > 10 AND b.x > a.x

    0 --(new.x > 10)--> 1 --(new.x > before.x)--> 2 --()--> 2

State k: the last row was bound to variable k. A condition on one variable holds on every edge that binds a row to it,
the entering one and, of a variable with +, the self-edge. A condition on two neighbours holds where one follows the
other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

Condition = frozenset[str]
"""Conjuncts as SQL, over `r`, the new row, and `p`, what is known of the row before."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The states 1..n of a pattern; state 0 is the beginning, and state n accepts."""

    enters: tuple[Condition, ...]
    """When a row leads from state k to state k + 1."""
    stays: tuple[Condition | None, ...]
    """When a row leads from state k + 1 to itself; None without +."""
    remembered: tuple[str, ...]
    """The columns of the row before that conditions read."""

    @property
    def states(self) -> int:
        return len(self.enters)

    @property
    def ends_open(self) -> bool:
        """An accepted run can become longer."""
        return self.stays[-1] is not None

    def keeps_one_run(self) -> bool:
        """The run that began first is as good as all later ones, so that only it need be kept.

        True if runs do not branch, and each state does what every state before it does (it simulates it).
        """
        if any(stay is not None for stay in self.stays[:-1]):
            return False
        simulates = {(s, t) for s in range(1, self.states + 1) for t in range(1, s + 1)}
        wanted = set(simulates)
        while lost := {pair for pair in simulates if not self._simulates(*pair, simulates)}:
            simulates -= lost
        return simulates == wanted

    def _simulates(self, state: int, other: int, known: set[tuple[int, int]]) -> bool:
        if other == self.states and state != self.states:
            return False
        return all(
            any(have <= wanted and (target, reached) in known for have, target in self._edges(state))
            for wanted, reached in self._edges(other)
        )

    def _edges(self, state: int) -> list[tuple[Condition, int]]:
        found: list[tuple[Condition, int]] = []
        if state < self.states:
            found.append((self.enters[state], state + 1))
        stay = self.stays[state - 1]
        if stay is not None:
            found.append((stay, state))
        return found


class PatternError(Exception):
    """A condition that a pattern does not have; `node` is where it stands."""

    def __init__(self, message: str, node: exp.Expr) -> None:
        super().__init__(message)
        self.node = node


def make_machine(variables: Sequence[tuple[str, bool]], where: exp.Expr | None) -> Machine:
    """The machine of a pattern: variables with whether they have a +, and the condition over them."""
    names = [name for name, _ in variables]
    single: list[set[str]] = [set() for _ in names]
    pairs: list[set[str]] = [set() for _ in names]
    remembered: dict[str, None] = {}
    for each in _conjuncts(where):
        used = sorted({_variable(column, names) for column in each.find_all(exp.Column)})
        if len(used) == 1:
            single[used[0]].add(_rewritten(each, names, used[0]))
        elif len(used) == 2 and used[1] == used[0] + 1:
            pairs[used[1]].add(_rewritten(each, names, used[1]))
            for column in each.find_all(exp.Column):
                if _variable(column, names) == used[0]:
                    remembered[column.name.lower()] = None
        else:
            raise PatternError("a condition of a pattern reads one variable, or two that follow each other", each)
    enters = tuple(frozenset(single[k] | pairs[k]) for k in range(len(names)))
    stays = tuple(frozenset(single[k]) if plus else None for k, (_, plus) in enumerate(variables))
    return Machine(enters, stays, tuple(remembered))


def _conjuncts(where: exp.Expr | None) -> list[exp.Expr]:
    if where is None:
        return []
    if isinstance(where, exp.And):
        return [*_conjuncts(where.left), *_conjuncts(where.right)]
    return [where.unnest()] if isinstance(where, exp.Paren) and isinstance(where.unnest(), exp.And) else [where]


def _variable(column: exp.Column, names: Sequence[str]) -> int:
    if column.table.lower() not in names:
        raise PatternError(
            f"'{column.sql('duckdb')}' names no variable of the pattern: write for example {names[0]}.x", column
        )
    return names.index(column.table.lower())


def _rewritten(node: exp.Expr, names: Sequence[str], new: int) -> str:
    """A condition over the new row `r` and the remembered columns of the row before, in `p`."""

    def rewrite(each: exp.Expr) -> exp.Expr:
        if not isinstance(each, exp.Column):
            return each
        name = each.name.lower()
        if _variable(each, names) == new:
            return exp.column(f"c_{name}", "r", quoted=True)
        return exp.column(f"before_{name}", "p", quoted=True)

    return f"({node.copy().transform(rewrite).sql('duckdb')})"


def conjunction(condition: Condition) -> str:
    return " AND ".join(sorted(condition)) or "TRUE"
